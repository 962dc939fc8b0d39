//! The view, the model beside it, and processes whose changes they are.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command};

use surmise_fuse::Postponed;
use surmise_twins::new_node;
use surmise_view::{
    FileKind, MarkId, NewNode, NodeId, RenameMode, SetAttributes, Timestamp, View, ViewConfig,
};
use tempfile::TempDir;

use crate::model::{self, Cells, Change, FIRST, Fate, History, Ino, Made, ROOT, Tree};
use crate::touched;

/// What happens. A change is of a process, by its number.
#[derive(Debug, Clone)]
pub enum Step {
    Mark(usize),
    Make(usize, Vec<String>, bool),
    Write(usize, Vec<String>, Vec<u8>),
    Chmod(usize, Vec<String>, u16),
    Remove(usize, Vec<String>),
    Rename(usize, Vec<String>, Vec<String>),
    Link(usize, Vec<String>, Vec<String>),
    /// One of the marks, and all that it rests on.
    Settle(usize),
    /// One of the marks, and all that rests on it.
    Undo(usize),
}

pub struct World {
    lower: TempDir,
    state: TempDir,
    view: Option<View>,
    processes: Vec<Child>,
    history: History,
    /// The marks and their processes.
    marks: BTreeMap<usize, usize>,
    /// When each change was made.
    times: Vec<Timestamp>,
}

type Names = BTreeSet<(Ino, String)>;

/// A path to a change, and what it leads through.
struct Found {
    directory: Ino,
    name: String,
    ino: Option<Ino>,
    cells: Cells,
}

impl Drop for World {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn plant(root: &Path) {
    for directory in ["x", "y"] {
        fs::create_dir(root.join(directory)).unwrap();
        fs::set_permissions(root.join(directory), fs::Permissions::from_mode(0o755)).unwrap();
    }
    for (name, data) in [("a", "first"), ("b", "second")] {
        fs::write(root.join(name), data).unwrap();
        fs::set_permissions(root.join(name), fs::Permissions::from_mode(0o644)).unwrap();
    }
    fs::hard_link(root.join("b"), root.join("x/b")).unwrap();
    fs::set_permissions(root, fs::Permissions::from_mode(0o755)).unwrap();
}

impl World {
    pub fn new(processes: usize) -> Self {
        let (lower, state) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        plant(lower.path());
        // They only have to be there.
        let sleeper = |_| Command::new("sleep").arg("600").spawn().unwrap();
        let mut world = Self {
            view: None,
            processes: (0..processes).map(sleeper).collect(),
            history: History::default(),
            marks: BTreeMap::new(),
            times: Vec::new(),
            lower,
            state,
        };
        world.view = Some(world.open(world.state.path()));
        world
    }

    pub fn step(&mut self, step: &Step) {
        match step {
            Step::Mark(process) => {
                let number = self.processes[*process].id();
                let mark = self.view().mark(number, false).unwrap();
                self.marks
                    .insert(usize::try_from(mark.0).unwrap(), *process);
            }
            Step::Settle(index) => self.decide(*index, true),
            Step::Undo(index) => self.decide(*index, false),
            _ => self.change(step),
        }
    }

    /// Likewise, and a view that is opened on a log that ends within the step's bytes is what was decided before.
    pub fn step_and_cut(&mut self, step: &Step, at: impl Fn(usize) -> usize) {
        let before = TempDir::new().unwrap();
        copy(self.state.path(), before.path());
        let log = |place: &Path| fs::read(place.join("log")).unwrap_or_default();
        let decided = self.history.tree(|fate| fate == Fate::Decided);
        self.step(step);
        let (old, new) = (log(before.path()), log(self.state.path()));
        if new.len() > old.len() {
            let end = old.len() + at(new.len() - old.len());
            fs::write(before.path().join("log"), &new[..end]).unwrap();
            self.compare_with(&self.open(before.path()), &decided);
        }
        let after = TempDir::new().unwrap();
        copy(self.state.path(), after.path());
        let decided = self.history.tree(|fate| fate == Fate::Decided);
        self.compare_with(&self.open(after.path()), &decided);
    }

    /// Nobody decides any more.
    pub fn reopen(&mut self) {
        self.view = None;
        for made in &mut self.history.0 {
            if matches!(made.fate, Fate::Undecided(_)) {
                made.fate = Fate::Undone;
            }
        }
        self.marks.clear();
        self.view = Some(self.open(self.state.path()));
    }

    pub fn compare(&self) {
        let tree = self.history.tree(|fate| fate != Fate::Undone);
        self.compare_with(self.view(), &tree);
    }

    fn open(&self, state: &Path) -> View {
        let config = ViewConfig {
            descriptors: 16,
            speculates: true,
            ..ViewConfig::new(state, self.lower.path())
        };
        View::open(config).unwrap()
    }

    fn view(&self) -> &View {
        self.view.as_ref().unwrap()
    }

    fn decide(&mut self, index: usize, stays: bool) {
        let marks: Vec<usize> = self.marks.keys().copied().collect();
        let Some(&mark) = marks.get(index % marks.len().max(1)) else {
            return;
        };
        let process = |mark: usize| self.marks[&mark];
        let decided = self.history.closure(mark, &marks, process, stays);
        let mut ids: Vec<MarkId> = decided.iter().map(|mark| MarkId(*mark as u64)).collect();
        let fate = match stays {
            true => {
                self.view().settle(&ids).unwrap();
                Fate::Decided
            }
            false => {
                ids.reverse();
                self.view().undo(&ids).unwrap();
                Fate::Undone
            }
        };
        for made in &mut self.history.0 {
            if matches!(made.fate, Fate::Undecided(mark) if decided.contains(&mark)) {
                made.fate = fate;
            }
        }
        self.marks.retain(|mark, _| !decided.contains(mark));
    }

    fn find(&self, tree: &Tree, path: &[String]) -> Option<Found> {
        let (name, above) = path.split_last()?;
        let mut cells = Cells::default();
        let mut directory = ROOT;
        for part in above {
            cells.reads.insert((directory, part.clone()));
            directory = *tree[&directory].entries.get(part)?;
        }
        let there = &tree[&directory];
        cells.reads.insert((directory, name.clone()));
        there.is_directory.then(|| Found {
            directory,
            name: name.clone(),
            ino: there.entries.get(name).copied(),
            cells,
        })
    }

    /// Makes a change on both sides, if it can be made.
    fn change(&mut self, step: &Step) {
        let tree = self.history.tree(|fate| fate != Fate::Undone);
        touched::looks(self.view(), &self.history, &tree, step);
        let Some((process, change, reads)) = self.resolve(&tree, step) else {
            return;
        };
        let number = FIRST + self.history.0.len();
        let Some(mut cells) = model::cells(&tree, number, &change) else {
            return;
        };
        cells.reads = reads;
        touched::change(self.view(), &self.history, &tree, step, &cells);
        let mut marks = self.marks.iter().rev();
        let mark = marks.find(|(_, of)| **of == process).map(|(mark, _)| *mark);
        let undecided = || {
            let made = self.history.0.iter();
            made.filter(|made| matches!(made.fate, Fate::Undecided(_)))
        };
        let lies_on = mark.is_none() && undecided().any(|made| made.cells.is_below(&cells));
        if mark.is_none() && !lies_on && undecided().any(|made| made.cells.is_seen_by(&cells)) {
            // It would have to depend on that, which is not the view's to see.
            return;
        }
        self.wait_for_the_clock();
        self.view().serves(self.processes[process].id());
        let done = self.on_view(&change, step);
        if lies_on {
            let error = done.expect_err("it lies on what is undecided");
            let inner = error.get_ref();
            assert!(
                inner.is_some_and(|inner| inner.is::<Postponed>()),
                "{error}"
            );
            return;
        }
        self.times.push(done.unwrap());
        self.history.0.push(Made {
            change,
            cells,
            fate: mark.map_or(Fate::Decided, Fate::Undecided),
        });
    }

    fn resolve(&self, tree: &Tree, step: &Step) -> Option<(usize, Change, Names)> {
        let one = |path: &[String]| self.find(tree, path);
        Some(match step {
            Step::Make(process, at, is_directory) => {
                let at = one(at)?;
                let change = Change::Make(at.directory, at.name, *is_directory);
                (*process, change, at.cells.reads)
            }
            Step::Write(process, at, bytes) => {
                let at = one(at)?;
                (
                    *process,
                    Change::Write(at.ino?, bytes.clone()),
                    at.cells.reads,
                )
            }
            Step::Chmod(process, at, mode) => {
                let at = one(at)?;
                (*process, Change::Chmod(at.ino?, *mode), at.cells.reads)
            }
            Step::Remove(process, at) => {
                let at = one(at)?;
                (
                    *process,
                    Change::Remove(at.directory, at.name),
                    at.cells.reads,
                )
            }
            Step::Rename(process, from, to) | Step::Link(process, from, to) => {
                let (from, to) = (one(from)?, one(to)?);
                let mut reads = from.cells.reads;
                reads.extend(to.cells.reads);
                let target = (to.directory, to.name);
                let change = match step {
                    Step::Link(..) => Change::Link(from.ino?, target),
                    _ => Change::Rename((from.directory, from.name), target),
                };
                (*process, change, reads)
            }
            Step::Mark(_) | Step::Settle(_) | Step::Undo(_) => return None,
        })
    }

    /// Times tell changes apart.
    fn wait_for_the_clock(&self) {
        let before = self.view().now();
        while self.view().now() == before {
            std::thread::yield_now();
        }
    }

    fn node(&self, path: &[String]) -> io::Result<NodeId> {
        let mut node = NodeId::ROOT;
        for part in path {
            let found = self.view().lookup(node, OsStr::new(part))?;
            node = found.map_err(|_| io::ErrorKind::NotFound)?.node;
        }
        Ok(node)
    }

    /// Makes a change on the view, and tells when.
    fn on_view(&self, change: &Change, step: &Step) -> io::Result<Timestamp> {
        let view = self.view();
        let above = |path: &[String]| self.node(&path[..path.len() - 1]);
        let last = |path: &[String]| path.last().unwrap().clone();
        let directory = match (change, step) {
            (_, Step::Make(_, at, is_directory)) => {
                let kind = match is_directory {
                    true => FileKind::Directory,
                    false => FileKind::Regular,
                };
                let new = NewNode {
                    permissions: 0o700,
                    ..new_node(kind)
                };
                let directory = above(at)?;
                view.create(directory, OsStr::new(&last(at)), new)?;
                directory
            }
            (_, Step::Write(_, at, bytes)) => {
                view.write(self.node(at)?, 0, bytes, false)?;
                NodeId::ROOT
            }
            (_, Step::Chmod(_, at, mode)) => {
                let set = SetAttributes {
                    permissions: Some(*mode),
                    ..SetAttributes::default()
                };
                view.set_attributes(self.node(at)?, set)?;
                NodeId::ROOT
            }
            (_, Step::Remove(_, at)) => {
                let directory = above(at)?;
                let node = self.node(at)?;
                let kind = view.attributes(node)?.attributes.identity.kind;
                match kind {
                    FileKind::Directory => {
                        view.remove_directory(directory, OsStr::new(&last(at)))?
                    }
                    _ => view.unlink(directory, OsStr::new(&last(at)))?,
                }
                directory
            }
            (_, Step::Rename(_, from, to)) => {
                let (old, new) = (last(from), last(to));
                let to = above(to)?;
                let from = (above(from)?, OsStr::new(&old));
                view.rename(from, (to, OsStr::new(&new)), RenameMode::Replace)?;
                to
            }
            (_, Step::Link(_, from, to)) => {
                let directory = above(to)?;
                view.link(self.node(from)?, directory, OsStr::new(&last(to)))?;
                directory
            }
            _ => unreachable!("no change"),
        };
        Ok(view.attributes(directory)?.attributes.identity.modified)
    }

    /// All names, and what they lead to.
    fn compare_with(&self, view: &View, tree: &Tree) {
        let mut links: BTreeMap<Ino, u32> = BTreeMap::new();
        for inode in tree.values() {
            for ino in inode.entries.values() {
                *links.entry(*ino).or_default() += 1;
            }
        }
        self.compare_directory(view, tree, &links, (ROOT, NodeId::ROOT));
    }

    fn compare_directory(
        &self,
        view: &View,
        tree: &Tree,
        links: &BTreeMap<Ino, u32>,
        (ino, node): (Ino, NodeId),
    ) {
        let directory = &tree[&ino];
        let handle = view.open_directory(node).unwrap().handle;
        let listing = view.read_directory(node, handle, false).unwrap();
        view.close_directory(handle);
        let mut names: Vec<_> = listing[2..].iter().map(|entry| &*entry.name).collect();
        names.sort_unstable();
        let wanted: Vec<_> = directory.entries.keys().map(OsStr::new).collect();
        assert_eq!(names, wanted, "in {ino}");
        let shown = view.attributes(node).unwrap().attributes;
        if let Some(number) = directory.modified {
            assert_eq!(
                shown.identity.modified,
                self.times[number - FIRST],
                "of {ino}"
            );
        }
        let is_directory = |ino: &&Ino| tree[*ino].is_directory;
        let below = directory.entries.values().filter(is_directory).count();
        assert_eq!(shown.links as usize, 2 + below, "of {ino}");
        for (name, &ino) in &directory.entries {
            let entry = view.lookup(node, OsStr::new(name)).unwrap().unwrap();
            let (shown, inode) = (entry.attributes, &tree[&ino]);
            assert_eq!(shown.permissions, inode.mode, "of {ino}");
            if inode.is_directory {
                self.compare_directory(view, tree, links, (ino, entry.node));
                continue;
            }
            assert_eq!(shown.links, links[&ino], "of {ino}");
            let mut data = vec![0; 20];
            let length = view.read(entry.node, 0, &mut data).unwrap();
            assert_eq!(&data[..length], &inode.data[..], "of {ino}");
        }
    }
}

/// A state directory is a few files.
fn copy(from: &Path, to: &Path) {
    let mut copying = Command::new("cp");
    let copying = copying.arg("-aT").arg(from).arg(to);
    assert!(copying.status().unwrap().success());
}
