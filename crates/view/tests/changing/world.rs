//! A view, its model, and what is done to both.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::io;
use std::sync::Arc;

use rustix::io::Errno;
use surmise_lower::Memory;
use surmise_twins::new_node;
use surmise_view::{Entry, FileKind, NewNode, NodeId, RenameMode, SetAttributes, View, ViewConfig};
use tempfile::TempDir;

use crate::model::{Model, Picture};

/// What is done, inside or outside.
#[derive(Debug, Clone)]
pub enum Step {
    Create(String),
    MakeDirectory(String),
    Unlink(String),
    RemoveDirectory(String),
    Rename(String, String),
    Write(String, u64, Vec<u8>),
    Cut(String, u64),
    Permit(String, u16),
    WriteOutside(String, Vec<u8>),
    MakeDirectoryOutside(String),
    RemoveOutside(String),
    PermitOutside(String, u16),
    /// During the next step inside, a call of the lower side fails after so many.
    FailNext(u64),
    /// The kernel forgets all nodes.
    Forget,
    /// The view is closed, and opened again from its log.
    Reopen,
}

pub struct World {
    lower: Memory,
    state: TempDir,
    view: Option<View>,
    model: Model,
    /// What the kernel would count.
    lookups: RefCell<HashMap<NodeId, u64>>,
    fails_after: Option<u64>,
}

impl World {
    pub fn new() -> Self {
        let lower = Memory::new(7);
        let planted = lower.change(|tree| {
            tree.make_directory("a")?;
            tree.write("a/a", b"real a/a")?;
            tree.write("a/b", b"real a/b")?;
            tree.write("b", b"real b")
        });
        planted.unwrap();
        let mut world = Self {
            model: Model::new(lower.clone()),
            lower,
            state: TempDir::new().unwrap(),
            view: None,
            lookups: RefCell::default(),
            fails_after: None,
        };
        world.open();
        world
    }

    pub fn take(&mut self, step: &Step) {
        match step {
            Step::FailNext(calls) => self.fails_after = Some(*calls),
            Step::Forget => self.forget(),
            Step::Reopen => self.open(),
            Step::WriteOutside(..)
            | Step::MakeDirectoryOutside(_)
            | Step::RemoveOutside(_)
            | Step::PermitOutside(..) => self.outside(step),
            _ => self.inside(step),
        }
    }

    /// Everything is as in the model.
    pub fn compare(&self) {
        assert_eq!(self.picture(), self.model.picture());
    }

    fn inside(&mut self, step: &Step) {
        if let Step::Rename(from, to) = step
            && to.starts_with(from.as_str())
        {
            // Below itself: the kernel does not ask for that.
            return;
        }
        if matches!(step, Step::Write(path, ..) | Step::Cut(path, _) if !self.model.is_file(path)) {
            return;
        }
        let mut after = self.model.clone();
        let wanted = apply(&mut after, step);
        if let Some(calls) = self.fails_after {
            self.lower.fail_after(calls, Errno::IO);
        }
        let done = self.on_view(step).map_err(|error| {
            let errno = error.raw_os_error().expect("a number");
            Errno::from_raw_os_error(errno)
        });
        let is_expected = self.fails_after.take().is_some();
        let has_failed = is_expected && !self.lower.fail_no_more();
        if !has_failed || done.is_ok() {
            assert_eq!(done, wanted, "{step:?}");
            self.model = after;
            return self.compare();
        }
        // All or nothing; a call may fail when it comes to telling what it did.
        let picture = self.picture();
        if picture != self.model.picture() {
            assert_eq!(picture, after.picture(), "half of {step:?}");
            self.model = after;
        }
    }

    fn outside(&self, step: &Step) {
        if let Step::RemoveOutside(path) = step
            && (self.is_directory(path) || self.model.rests_on(&format!("/{path}")))
        {
            return;
        }
        // What is not possible does not happen.
        let _ = self.lower.change(|tree| match step {
            Step::WriteOutside(path, data) => tree.write(path, data),
            Step::MakeDirectoryOutside(path) => tree.make_directory(path),
            Step::RemoveOutside(path) => tree.remove(path),
            Step::PermitOutside(path, permissions) => tree.set_permissions(path, *permissions),
            _ => unreachable!("no step outside: {step:?}"),
        });
        self.compare();
    }

    fn on_view(&self, step: &Step) -> io::Result<()> {
        let view = self.view();
        match step {
            Step::Create(path) => self.create(path, FileKind::Regular),
            Step::MakeDirectory(path) => self.create(path, FileKind::Directory),
            Step::Unlink(path) => {
                let (parent, name) = self.parent(path)?;
                view.unlink(parent, name)
            }
            Step::RemoveDirectory(path) => {
                let (parent, name) = self.parent(path)?;
                view.remove_directory(parent, name)
            }
            Step::Rename(from, to) => {
                view.rename(self.parent(from)?, self.parent(to)?, RenameMode::Replace)
            }
            Step::Write(path, offset, data) => view.write(self.find(path)?, *offset, data, false),
            Step::Cut(path, size) => self.set(path, |set| set.size = Some(*size)),
            Step::Permit(path, permissions) => {
                self.set(path, |set| set.permissions = Some(*permissions))
            }
            _ => unreachable!("no step inside: {step:?}"),
        }
    }

    fn create(&self, path: &str, kind: FileKind) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        let new = NewNode {
            permissions: 0o644,
            ..new_node(kind)
        };
        let made = self.view().create(parent, name, new)?;
        self.count(&made);
        Ok(())
    }

    fn set(&self, path: &str, change: impl FnOnce(&mut SetAttributes)) -> io::Result<()> {
        let mut set = SetAttributes::default();
        change(&mut set);
        self.view().set_attributes(self.find(path)?, set).map(drop)
    }

    fn picture(&self) -> Picture {
        let mut picture = Picture::new();
        self.add_to(&mut picture, "", NodeId::ROOT);
        picture
    }

    fn add_to(&self, picture: &mut Picture, above: &str, directory: NodeId) {
        let view = self.view();
        let opened = view.open_directory(directory).unwrap();
        let listed = view.read_directory(directory, opened.handle, true).unwrap();
        view.close_directory(opened.handle);
        let names: BTreeSet<_> = listed.iter().skip(2).map(|entry| &entry.name).collect();
        assert_eq!(names.len() + 2, listed.len(), "a name is there twice");
        for name in names {
            let path = format!("{above}/{}", name.to_str().unwrap());
            let entry = self.lookup(directory, name).unwrap();
            let attributes = entry.attributes;
            let mut data = None;
            match attributes.identity.kind {
                FileKind::Regular => data = Some(self.data(&entry)),
                FileKind::Directory => self.add_to(picture, &path, entry.node),
                kind => panic!("{path} is a {kind:?}"),
            }
            picture.insert(path, (attributes.permissions, data));
        }
    }

    fn data(&self, entry: &Entry) -> Vec<u8> {
        let mut data = vec![0; 4096];
        let length = self.view().read(entry.node, 0, &mut data).unwrap();
        data.truncate(length);
        assert_eq!(entry.attributes.identity.size, data.len() as u64);
        data
    }

    /// As the kernel walks.
    fn parent<'p>(&self, path: &'p str) -> io::Result<(NodeId, &'p OsStr)> {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parent = self.find(above)?;
        match self.view().attributes(parent)?.attributes.identity.kind {
            FileKind::Directory => Ok((parent, OsStr::new(name))),
            _ => Err(Errno::NOTDIR.into()),
        }
    }

    fn find(&self, path: &str) -> io::Result<NodeId> {
        let mut names = path.split('/').filter(|name| !name.is_empty());
        let mut is_directory = true;
        names.try_fold(NodeId::ROOT, |at, name| {
            if !is_directory {
                return Err(Errno::NOTDIR.into());
            }
            let entry = self.lookup(at, OsStr::new(name))?;
            is_directory = entry.attributes.identity.kind == FileKind::Directory;
            Ok(entry.node)
        })
    }

    fn lookup(&self, parent: NodeId, name: &OsStr) -> io::Result<Entry> {
        let entry = self.view().lookup(parent, name)?;
        let entry = entry.map_err(|_| io::Error::from(Errno::NOENT))?;
        self.count(&entry);
        Ok(entry)
    }

    fn count(&self, entry: &Entry) {
        *self.lookups.borrow_mut().entry(entry.node).or_default() += 1;
    }

    fn forget(&self) {
        for (node, count) in self.lookups.take() {
            self.view().forget(node, count);
        }
    }

    fn open(&mut self) {
        self.view = None;
        self.lookups.take();
        let lower = Arc::new(self.lower.clone());
        let config = ViewConfig {
            descriptors: 16,
            ..ViewConfig::over(self.state.path(), lower)
        };
        self.view = Some(View::open(config).unwrap());
    }

    fn view(&self) -> &View {
        self.view.as_ref().expect("it is open between steps")
    }

    fn is_directory(&self, path: &str) -> bool {
        self.model.is_real_directory(&format!("/{path}"))
    }
}

fn apply(model: &mut Model, step: &Step) -> Result<(), Errno> {
    match step {
        Step::Create(path) => model.create(path, FileKind::Regular),
        Step::MakeDirectory(path) => model.create(path, FileKind::Directory),
        Step::Unlink(path) => model.unlink(path, false),
        Step::RemoveDirectory(path) => model.unlink(path, true),
        Step::Rename(from, to) => model.rename(from, to),
        Step::Write(path, offset, data) => model.write(path, |old| {
            let start = usize::try_from(*offset).unwrap();
            let end = start + data.len();
            // An empty write makes no file longer.
            if old.len() < end && !data.is_empty() {
                old.resize(end, 0);
            }
            if !data.is_empty() {
                old[start..end].copy_from_slice(data);
            }
        }),
        Step::Cut(path, size) => {
            let size = usize::try_from(*size).unwrap();
            model.write(path, |old| old.resize(size, 0))
        }
        Step::Permit(path, permissions) => model.permit(path, *permissions),
        _ => unreachable!("no step inside: {step:?}"),
    }
}
