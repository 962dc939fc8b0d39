//! What tests of changes share: a real tree under a view, and a plain copy of it. What a command does to
//! the copy, the same command on the view must show, and a commit must do to the real tree.
#![forbid(unsafe_code)]

mod act;
pub mod model;
mod real;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use surmise_testkit::{Facets, TreeSnapshot, assert_same_tree};
use surmise_view::{FileKind, Map, NodeId, View, ViewConfig};
use tempfile::TempDir;

pub use act::{Act, new_node};

/// What must be equal: all but inode numbers and change times, which no two runs share.
const SAME: Facets = Facets {
    ctime: false,
    inode: false,
    ..Facets::EXACT
};

/// Two trees that were equal at first, and the view of one of them.
#[derive(Debug)]
pub struct Twins {
    scratch: TempDir,
    /// Holds the state directory.
    home: TempDir,
    /// Inodes of the copy and of the real tree, by the path that both had at first.
    inodes: HashMap<u64, u64>,
    /// Keeps the numbers of the copy's first inodes from coming back for new files.
    held: Vec<OwnedFd>,
}

impl Twins {
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
        let mut twins = Self {
            scratch: TempDir::new_in(trees).expect("a temporary directory"),
            home: TempDir::new_in(state).expect("a temporary directory"),
            inodes: HashMap::new(),
            held: Vec::new(),
        };
        for root in [twins.real(), twins.copy()] {
            fs::create_dir(&root).unwrap();
            plant(&root);
        }
        fs::create_dir(twins.state()).unwrap();
        let (real, copy) = (twins.real(), twins.copy());
        each_path(&copy, &mut |path| {
            let twin = real.join(path.strip_prefix(&copy).unwrap());
            let inode = |path: &Path| fs::symlink_metadata(path).unwrap().ino();
            twins.inodes.insert(inode(path), inode(&twin));
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let held = rustix::fs::open(path, flags, Mode::empty());
            twins.held.push(held.unwrap());
        });
        twins
    }

    /// Holds no file open any more. Nothing is to be acted on the trees after that.
    pub fn let_go(&mut self) {
        self.held.clear();
    }

    /// The tree under the view.
    pub fn real(&self) -> PathBuf {
        self.scratch.path().join("real")
    }

    /// The plain tree.
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

    /// The view of the real tree, opened anew.
    pub fn view(&self) -> View {
        let config = ViewConfig {
            descriptors: 16,
            ..ViewConfig::new(self.state(), self.real())
        };
        View::open(config).unwrap()
    }

    /// What the view changed so far.
    pub fn map(&self) -> Map {
        surmise_view::load(&self.state()).unwrap()
    }

    /// Expects the real tree to be the copy, with every inode that survived the same.
    #[track_caller]
    pub fn assert_same(&self) {
        let copy = TreeSnapshot::of(self.copy());
        assert_same_tree(&copy, &TreeSnapshot::of(self.real()), SAME);
        each_path(&self.copy(), &mut |path| {
            let twin = self.real().join(path.strip_prefix(self.copy()).unwrap());
            let inode = |path: &Path| fs::symlink_metadata(path).unwrap().ino();
            if let Some(wanted) = self.inodes.get(&inode(path)) {
                assert_eq!(inode(&twin), *wanted, "{twin:?} is another inode");
            }
        });
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

/// Acts on a plain tree, and says whether that went well.
pub fn real_takes(root: &Path, act: &Act) -> bool {
    real::act(root, act).is_ok()
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

/// Calls `each` with a path and every one below it.
pub fn each_path(root: &Path, each: &mut dyn FnMut(&Path)) {
    each(root);
    if fs::symlink_metadata(root).unwrap().is_dir() {
        for entry in fs::read_dir(root).unwrap() {
            each_path(&entry.unwrap().path(), each);
        }
    }
}

/// A name's parent and last part.
fn split(path: &str) -> (&str, &OsStr) {
    match path.rsplit_once('/') {
        Some((parent, name)) => (parent, OsStr::new(name)),
        None => ("", OsStr::new(path)),
    }
}
