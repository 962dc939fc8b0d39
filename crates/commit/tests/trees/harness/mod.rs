//! A real tree under a view, and a plain copy of it: what a command does to the copy, the same
//! command and a commit must do to the real tree.

mod act;
mod real;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use surmise_commit::{
    Changes, Choice, CommitError, Conflict, ConflictKind, Progress, Report, Request, Resumed,
    Terms, Winner, commit, commit_on, pending, resume, undo,
};
use surmise_testkit::{Facets, TreeSnapshot, assert_same_tree};
use surmise_view::{FileKind, Map, NodeId, View, ViewConfig};
use tempfile::TempDir;

pub use act::Act;

/// What must be equal: all but inode numbers and change times, which no two runs share.
const SAME: Facets = Facets {
    ctime: false,
    inode: false,
    ..Facets::EXACT
};

pub struct World {
    scratch: TempDir,
    /// Holds the state directory.
    home: TempDir,
    /// Inodes of the copy and of the real tree, by the path that both had at first.
    twins: HashMap<u64, u64>,
    /// Keeps the numbers of the copy's first inodes from coming back for new files.
    held: Vec<OwnedFd>,
}

impl World {
    /// Two equal trees, made by `plant`.
    pub fn new(plant: impl Fn(&Path)) -> Self {
        Self::with_state_in(&std::env::temp_dir(), plant)
    }

    /// The same, with the state directory below `place`.
    pub fn with_state_in(place: &Path, plant: impl Fn(&Path)) -> Self {
        Self::between(&std::env::temp_dir(), place, plant)
    }

    /// The same, with the trees below `trees` and the state directory below `state`.
    pub fn between(trees: &Path, state: &Path, plant: impl Fn(&Path)) -> Self {
        let mut world = Self {
            scratch: TempDir::new_in(trees).expect("a temporary directory"),
            home: TempDir::new_in(state).expect("a temporary directory"),
            twins: HashMap::new(),
            held: Vec::new(),
        };
        for root in [world.real(), world.copy()] {
            fs::create_dir(&root).unwrap();
            plant(&root);
        }
        fs::create_dir(world.state()).unwrap();
        let (real, copy) = (world.real(), world.copy());
        each_path(&copy, &mut |path| {
            let twin = real.join(path.strip_prefix(&copy).unwrap());
            let inode = |path: &Path| fs::symlink_metadata(path).unwrap().ino();
            world.twins.insert(inode(path), inode(&twin));
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let held = rustix::fs::open(path, flags, Mode::empty());
            world.held.push(held.unwrap());
        });
        world
    }

    /// Holds no file open any more. Nothing is to be acted on the trees after that.
    pub fn let_go(&mut self) {
        self.held.clear();
    }

    pub fn real(&self) -> PathBuf {
        self.scratch.path().join("real")
    }

    pub fn copy(&self) -> PathBuf {
        self.scratch.path().join("copy")
    }

    /// The domain's state directory.
    pub fn state(&self) -> PathBuf {
        self.home.path().join("state")
    }

    /// Acts on the copy and, where that succeeds, on a view of the real tree. Then gives the copy
    /// the times that the view shows, since the two were not changed at the same moment.
    pub fn act(&self, acts: &[Act]) -> &Self {
        self.act_on(&self.view(), acts);
        self
    }

    /// The same on a view that is open.
    pub fn act_on(&self, view: &View, acts: &[Act]) {
        let before = TreeSnapshot::of(self.real());
        for act in acts {
            if real::act(&self.copy(), act).is_ok()
                && let Err(error) = act::on_view(view, act)
            {
                panic!("{act:?} failed on the view alone: {error}");
            }
        }
        adopt_times(view, NodeId::ROOT, &self.copy());
        assert_same_tree(&before, &TreeSnapshot::of(self.real()), Facets::EXACT);
    }

    /// Acts on the view alone, which takes what the real tree would not.
    pub fn act_on_view(&self, act: &Act) {
        act::on_view(&self.view(), act).unwrap();
    }

    pub fn view(&self) -> View {
        let config = ViewConfig {
            descriptors: 16,
            ..ViewConfig::new(self.state(), self.real())
        };
        View::open(config).unwrap()
    }

    pub fn map(&self) -> Map {
        surmise_view::load(&self.state()).unwrap()
    }

    pub fn lines(&self) -> Vec<String> {
        let changes = Changes::of(&self.map());
        changes
            .iter()
            .map(|change| change.line(Path::new("/")))
            .collect()
    }

    pub fn commit(&self) -> Result<Report, CommitError> {
        self.commit_with(None, &mut |_| ControlFlow::Continue(()))
    }

    pub fn commit_with(
        &self,
        keep: Option<&Path>,
        on_progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Report, CommitError> {
        self.request(keep, |request| commit(request, on_progress))
    }

    fn request<R>(&self, keep: Option<&Path>, ask: impl FnOnce(&Request<'_>) -> R) -> R {
        let (map, directory, root) = (self.map(), self.state(), self.real());
        ask(&Request {
            name: "t",
            directory: &directory,
            map: &map,
            root: &root,
            keep,
        })
    }

    /// Expects these conflicts, by their paths in the tree.
    #[track_caller]
    pub fn assert_conflicts(&self, found: Vec<Conflict>, wanted: &[(&str, ConflictKind)]) {
        let found = found.into_iter().map(|conflict| {
            let path = conflict.path.strip_prefix(self.real()).unwrap();
            (path.to_owned(), conflict.what)
        });
        let wanted = wanted.iter();
        let wanted = wanted.map(|(path, what)| (PathBuf::from(path), *what));
        assert_eq!(found.collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
    }

    /// Commits, and expects the real tree to become the copy.
    #[track_caller]
    pub fn assert_commits(&self) {
        let report = self.commit().unwrap_or_else(|error| failed(&error));
        assert_eq!(report, Report::default());
        self.assert_same();
    }

    /// Expects the real tree to be the copy, with every inode that survived the same.
    #[track_caller]
    pub fn assert_same(&self) {
        let copy = TreeSnapshot::of(self.copy());
        assert_same_tree(&copy, &TreeSnapshot::of(self.real()), SAME);
        each_path(&self.copy(), &mut |path| {
            let twin = self.real().join(path.strip_prefix(self.copy()).unwrap());
            let inode = |path: &Path| fs::symlink_metadata(path).unwrap().ino();
            if let Some(wanted) = self.twins.get(&inode(path)) {
                assert_eq!(inode(&twin), *wanted, "{twin:?} is another inode");
            }
        });
    }

    /// Commits, but stops as a kill would before the step `stop`; `None` when there are fewer steps.
    pub fn commit_until(&self, stop: usize) -> Option<()> {
        match self.commit_with(None, &mut stop_after(stop)) {
            Err(CommitError::Stopped) => Some(()),
            Ok(_) => None,
            Err(error) => failed(&error),
        }
    }

    /// Resumes until the end, stopping on the way before each of the steps `stops`.
    pub fn resume(&self, stops: &[usize]) -> Resumed {
        for stop in stops {
            match resume(&self.state(), &mut stop_after(*stop)) {
                Err(CommitError::Stopped) => {}
                Ok(resumed) => return resumed,
                Err(error) => failed(&error),
            }
        }
        let resumed = resume(&self.state(), &mut |_| ControlFlow::Continue(()));
        resumed.unwrap_or_else(|error| failed(&error))
    }
}

/// Files in a tree of three levels.
pub fn plant_files(root: &Path) {
    for name in ["a", "b", "c"] {
        fs::write(root.join(name), name).unwrap();
    }
    fs::create_dir_all(root.join("d/e")).unwrap();
    fs::write(root.join("d/f"), "f").unwrap();
    fs::write(root.join("d/e/g"), "g").unwrap();
}

impl World {
    /// Commits with every conflict at and below `path` settled for `winner`.
    pub fn commit_for(&self, winner: Winner, paths: &[&str]) -> Result<Report, CommitError> {
        let choices = paths.iter().map(|path| Choice {
            path: match path.is_empty() {
                true => self.real(),
                false => self.real().join(path),
            },
            winner,
        });
        let choices: Vec<_> = choices.collect();
        self.commit_on(Terms {
            choices: &choices,
            is_strict: false,
        })
    }

    /// Commits on these terms.
    pub fn commit_on(&self, terms: Terms<'_>) -> Result<Report, CommitError> {
        self.request(None, |request| {
            commit_on(request, terms, &mut |_| ControlFlow::Continue(()))
        })
    }

    /// Takes back a commit that was cut short, stopping on the way before each of the steps `stops`, as
    /// kills would. `false` when it is too late for that, and nothing has been done.
    #[track_caller]
    pub fn undo(&self, stops: &[usize]) -> bool {
        for stop in stops {
            match undo(&self.state(), &mut stop_after(*stop)) {
                Err(CommitError::Stopped) => {}
                Err(CommitError::TooLate) => return false,
                Ok(()) => return true,
                Err(error) => failed(&error),
            }
        }
        match undo(&self.state(), &mut |_| ControlFlow::Continue(())) {
            Err(CommitError::TooLate) => false,
            Ok(()) => true,
            Err(error) => failed(&error),
        }
    }

    /// Expects the real tree to be as it was, and the domain to be ready for another commit.
    #[track_caller]
    pub fn assert_undone(&self, before: &TreeSnapshot) {
        let untouched = Facets {
            ctime: false,
            ..Facets::EXACT
        };
        assert_same_tree(before, &TreeSnapshot::of(self.real()), untouched);
        assert_eq!(pending(&self.state()).unwrap(), None);
        assert!(!self.state().join("commit.undo").exists());
    }
}

/// Acts on a plain tree, and says whether that went well.
pub fn real_takes(root: &Path, act: &Act) -> bool {
    real::act(root, act).is_ok()
}

/// Shows an error with everything in it.
#[track_caller]
fn failed<T>(error: &CommitError) -> T {
    panic!("{error}: {error:?}")
}

fn stop_after(steps: usize) -> impl FnMut(Progress) -> ControlFlow<()> {
    let mut left = steps;
    move |_| match left {
        0 => ControlFlow::Break(()),
        _ => {
            left -= 1;
            ControlFlow::Continue(())
        }
    }
}

/// Gives a plain tree the modification times that a view shows.
fn adopt_times(view: &View, node: NodeId, path: &Path) {
    let attributes = view.attributes(node).unwrap().attributes;
    if attributes.identity.kind == FileKind::Directory {
        for entry in fs::read_dir(path).unwrap() {
            let name = entry.unwrap().file_name();
            let found = view.lookup(node, &name).unwrap();
            let found = found.unwrap_or_else(|_| panic!("the view has no {path:?}/{name:?}"));
            adopt_times(view, found.node, &path.join(&name));
        }
    }
    real::set_modified(path, attributes.identity.modified).unwrap();
}

pub fn each_path(root: &Path, each: &mut dyn FnMut(&Path)) {
    each(root);
    if fs::symlink_metadata(root).unwrap().is_dir() {
        for entry in fs::read_dir(root).unwrap() {
            each_path(&entry.unwrap().path(), each);
        }
    }
}

/// A name's parent and last part.
pub fn split(path: &str) -> (&str, &OsStr) {
    match path.rsplit_once('/') {
        Some((parent, name)) => (parent, OsStr::new(name)),
        None => ("", OsStr::new(path)),
    }
}
