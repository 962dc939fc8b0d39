//! A view and a plain directory, driven by the same calls.

mod plain;
mod running;
mod undo;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plain::{content, name_inodes, plain, plant, plant_in_memory, seen, set_time, walk};
use running::Held;
use surmise_lower::Memory;
use surmise_twins::new_node;
use surmise_view::{
    Entry, FileKind, MarkId, NewNode, NodeId, OpenHow, RenameMode, SetAttributes, Timestamp, View,
    ViewConfig,
};
use tempfile::TempDir;

/// A path from the root, by its parts.
pub type Parts = Vec<OsString>;

/// One call on both sides.
#[derive(Debug, Clone)]
pub enum Call {
    CreateFile(Parts),
    CreateDirectory(Parts),
    CreateSymlink(Parts, OsString),
    Unlink(Parts),
    RemoveDirectory(Parts),
    Rename(Parts, Parts),
    RenameNoReplace(Parts, Parts),
    Exchange(Parts, Parts),
    Link(Parts, Parts),
    Write(Parts, u64, Vec<u8>),
    Truncate(Parts, u64),
    Chmod(Parts, u16),
    SetModified(Parts, i64),
    /// Closes the view and opens it again from its log.
    Reopen,
    /// Keeps something open.
    Hold(Parts),
    /// Writes through what is open.
    WriteHeld(usize, u64, Vec<u8>),
    /// Has the kernel forget all that is not open.
    Forget,
    /// Commits, and goes on with the same view.
    Commit,
    /// What follows may be undone.
    Mark,
    /// Some of the oldest marks are settled.
    Keep(usize),
    /// Goes back to one of the marks.
    Undo(usize),
}

/// What a tree looks like from inside: by path, everything that must be equal on both sides.
type Picture = BTreeMap<PathBuf, Seen>;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    kind: FileKind,
    permissions: u16,
    links: u64,
    size: u64,
    content: Vec<u8>,
    /// Only where a call set it: other times are the clock's.
    modified: Option<i64>,
    /// The first path with the same inode.
    inode: PathBuf,
}

/// What lies under the view.
enum Under {
    /// A tree in memory, which nothing can be written to through its interface.
    Memory(Memory),
    Disk(TempDir),
}

pub struct Pair {
    lower: Under,
    plain: TempDir,
    state: TempDir,
    view: Option<View>,
    /// What the kernel would count.
    lookups: RefCell<HashMap<NodeId, u64>>,
    held: Vec<Held>,
    /// What was marked, oldest first, and the plain directory then.
    marks: Vec<(MarkId, TempDir)>,
}

impl Pair {
    /// Over a tree in memory.
    pub fn new() -> Self {
        let lower = Memory::new(7);
        lower.change(plant_in_memory).unwrap();
        Self::over(Under::Memory(lower), &std::env::temp_dir())
    }

    /// Over a real directory, with the state directory below `place`.
    pub fn on_disk(place: &Path) -> Self {
        let lower = TempDir::new().unwrap();
        plant(lower.path());
        Self::over(Under::Disk(lower), place)
    }

    fn over(lower: Under, place: &Path) -> Self {
        let plain = TempDir::new().unwrap();
        plant(plain.path());
        let mut pair = Self {
            lower,
            plain,
            state: TempDir::new_in(place).unwrap(),
            view: None,
            lookups: RefCell::default(),
            held: Vec::new(),
            marks: Vec::new(),
        };
        pair.open();
        pair
    }

    /// Names, times, owners and contents of the real tree below the view.
    pub fn lower_snapshot(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let Under::Disk(lower) = &self.lower else {
            return lines;
        };
        walk(lower.path(), &mut |path, metadata| {
            let times = (metadata.mtime(), metadata.mtime_nsec());
            let content = if metadata.is_file() {
                fs::read(path).unwrap()
            } else {
                Vec::new()
            };
            lines.push(format!(
                "{path:?} {:o} {} {times:?} {} {content:?}",
                metadata.mode(),
                metadata.ino(),
                metadata.nlink(),
            ));
        });
        lines.sort();
        lines
    }

    pub fn call(&mut self, call: &Call) {
        match call {
            Call::Reopen => {
                self.view = None;
                self.held.clear();
                self.forget_undecided();
                self.open();
            }
            Call::Hold(at) => self.hold(at),
            Call::WriteHeld(index, offset, bytes) => self.write_held(*index, *offset, bytes),
            Call::Forget => self.forget(),
            Call::Commit => self.commit(),
            Call::Mark => self.mark(),
            Call::Keep(index) => self.keep(*index),
            Call::Undo(index) => self.undo(*index),
            _ => self.call_both(call),
        }
    }

    fn call_both(&self, call: &Call) {
        let plain = plain(self.plain.path(), call).map_err(|error| error.raw_os_error());
        let view = self.on_view(call).map_err(|error| error.raw_os_error());
        assert_eq!(view, plain, "{call:?}");
    }

    pub fn compare(&self) {
        let (mut view, mut plain) = (Picture::new(), Picture::new());
        self.picture_view(NodeId::ROOT, Path::new(""), &mut view);
        picture_tree(self.plain.path(), &mut plain);
        self.picture_held(&mut view, &mut plain);
        for picture in [&mut view, &mut plain] {
            name_inodes(picture);
        }
        assert_eq!(view, plain);
    }

    fn open(&mut self) {
        let config = ViewConfig {
            descriptors: 16,
            ..match &self.lower {
                Under::Memory(lower) => {
                    ViewConfig::over(self.state.path(), Arc::new(lower.clone()))
                }
                Under::Disk(lower) => ViewConfig::new(self.state.path(), lower.path()),
            }
        };
        self.view = Some(View::open(config).unwrap());
        self.lookups.borrow_mut().clear();
    }

    /// As the kernel counts.
    fn count(&self, entry: &Entry) {
        *self.lookups.borrow_mut().entry(entry.node).or_default() += 1;
    }

    fn view(&self) -> &View {
        self.view.as_ref().unwrap()
    }

    /// As the kernel walks: a lookup for each part but the last.
    fn parent<'a>(&self, parts: &'a Parts) -> io::Result<(NodeId, &'a OsStr)> {
        let (last, above) = parts.split_last().unwrap();
        let mut node = NodeId::ROOT;
        for part in above {
            node = self.lookup(node, part)?;
            let kind = self.view().attributes(node)?.attributes.identity.kind;
            if kind != FileKind::Directory {
                return Err(io::Error::from_raw_os_error(20));
            }
        }
        Ok((node, last))
    }

    fn lookup(&self, parent: NodeId, name: &OsStr) -> io::Result<NodeId> {
        match self.view().lookup(parent, name)? {
            Ok(entry) => {
                self.count(&entry);
                Ok(entry.node)
            }
            Err(_) => Err(io::Error::from_raw_os_error(2)),
        }
    }

    fn node(&self, parts: &Parts) -> io::Result<(NodeId, FileKind)> {
        let (parent, name) = self.parent(parts)?;
        let node = self.lookup(parent, name)?;
        Ok((node, self.view().attributes(node)?.attributes.identity.kind))
    }

    fn on_view(&self, call: &Call) -> io::Result<()> {
        let view = self.view();
        match call {
            Call::CreateFile(at) => self.create(at, FileKind::Regular, "".into()),
            Call::CreateDirectory(at) => self.create(at, FileKind::Directory, "".into()),
            Call::CreateSymlink(at, to) => self.create(at, FileKind::Symlink, to.clone()),
            Call::Unlink(at) => {
                let (parent, name) = self.parent(at)?;
                // As the kernel does, which then gives the node back.
                self.lookup(parent, name)?;
                view.unlink(parent, name)
            }
            Call::RemoveDirectory(at) => {
                let (parent, name) = self.parent(at)?;
                self.lookup(parent, name)?;
                view.remove_directory(parent, name)
            }
            Call::Rename(from, to) => self.rename(from, to, RenameMode::Replace),
            Call::RenameNoReplace(from, to) => self.rename(from, to, RenameMode::NoReplace),
            Call::Exchange(from, to) => self.rename(from, to, RenameMode::Exchange),
            Call::Link(from, to) => {
                let (node, kind) = self.node(from)?;
                let (parent, name) = self.parent(to)?;
                let taken = self.lookup(parent, name).is_ok();
                match (taken, kind) {
                    // The kernel's checks, in the kernel's order.
                    (true, _) => Err(io::Error::from_raw_os_error(17)),
                    (false, FileKind::Directory) => Err(io::Error::from_raw_os_error(1)),
                    (false, _) => {
                        let linked = view.link(node, parent, name);
                        linked.map(|entry| self.count(&entry))
                    }
                }
            }
            Call::Write(at, offset, bytes) => {
                let node = self.regular(at)?;
                view.open_file(node, OpenHow::default())?;
                view.write(node, *offset, bytes, false)
            }
            Call::Truncate(at, size) => self.set(
                at,
                true,
                SetAttributes {
                    size: Some(*size),
                    ..SetAttributes::default()
                },
            ),
            Call::Chmod(at, permissions) => self.set(
                at,
                false,
                SetAttributes {
                    permissions: Some(*permissions),
                    ..SetAttributes::default()
                },
            ),
            Call::SetModified(at, seconds) => self.set(
                at,
                false,
                SetAttributes {
                    modified: Some(Timestamp {
                        seconds: *seconds,
                        nanoseconds: 7,
                    }),
                    ..SetAttributes::default()
                },
            ),
            _ => unreachable!("not a call on a path"),
        }
    }

    fn create(&self, at: &Parts, kind: FileKind, target: OsString) -> io::Result<()> {
        let (parent, name) = self.parent(at)?;
        let new = NewNode {
            target,
            ..new_node(kind)
        };
        let created = self.view().create(parent, name, new);
        created.map(|entry| self.count(&entry))
    }

    fn rename(&self, from: &Parts, to: &Parts, mode: RenameMode) -> io::Result<()> {
        let (from_parent, to_parent) = (self.parent(from), self.parent(to));
        let (from_parent, to_parent) = (from_parent?, to_parent?);
        let errno = |code| Err(io::Error::from_raw_os_error(code));
        // The kernel's checks, in the kernel's order: the source must be there, neither may be the
        // other's ancestor.
        let source = self.lookup(from_parent.0, from_parent.1)?;
        let target = self.lookup(to_parent.0, to_parent.1).ok();
        match (mode, target) {
            (RenameMode::Exchange, None) => return errno(2),
            (RenameMode::NoReplace, Some(_)) => return errno(17),
            _ => {}
        }
        if to.len() > from.len() && to.starts_with(from) {
            return errno(22);
        }
        if from.len() > to.len() && from.starts_with(to) {
            return errno(if mode == RenameMode::Exchange { 22 } else { 39 });
        }
        if target == Some(source) {
            return Ok(());
        }
        self.view().rename(from_parent, to_parent, mode)
    }

    fn regular(&self, at: &Parts) -> io::Result<NodeId> {
        match self.node(at)? {
            (node, FileKind::Regular) => Ok(node),
            (_, FileKind::Directory) => Err(io::Error::from_raw_os_error(21)),
            _ => Err(io::Error::from_raw_os_error(40)),
        }
    }

    fn set(&self, at: &Parts, regular: bool, set: SetAttributes) -> io::Result<()> {
        let node = if regular {
            self.regular(at)?
        } else {
            match self.node(at)? {
                (_, FileKind::Symlink) => return Err(io::Error::from_raw_os_error(40)),
                (node, _) => node,
            }
        };
        self.view().set_attributes(node, set).map(drop)
    }

    /// What a node looks like.
    fn see(&self, entry: &Entry) -> Seen {
        let (view, attributes) = (self.view(), entry.attributes);
        let kind = attributes.identity.kind;
        let content = match kind {
            FileKind::Regular => {
                let mut content = vec![0; 100];
                let length = view.read(entry.node, 0, &mut content).unwrap();
                content.truncate(length);
                content
            }
            FileKind::Symlink => view.read_link(entry.node).unwrap().into_encoded_bytes(),
            _ => Vec::new(),
        };
        Seen {
            kind,
            permissions: attributes.permissions,
            links: attributes.links.into(),
            size: if kind == FileKind::Directory {
                0
            } else {
                attributes.identity.size
            },
            content,
            modified: set_time(attributes.identity.modified.seconds),
            inode: PathBuf::from(entry.inode.to_string()),
        }
    }

    fn picture_view(&self, node: NodeId, at: &Path, into: &mut Picture) {
        let view = self.view();
        let handle = view.open_directory(node).unwrap().handle;
        let listing = view.read_directory(node, handle, false).unwrap();
        view.close_directory(handle);
        for entry in listing.iter().skip(2) {
            let found = view.lookup(node, &entry.name).unwrap().unwrap();
            assert_eq!(found.inode, entry.inode, "{:?}", entry.name);
            self.count(&found);
            let kind = found.attributes.identity.kind;
            let path = at.join(&entry.name);
            let seen = self.see(&found);
            into.insert(path.clone(), seen);
            if kind == FileKind::Directory {
                self.picture_view(found.node, &path, into);
            }
        }
    }
}

fn picture_tree(root: &Path, into: &mut Picture) {
    walk(root, &mut |path, metadata| {
        let content = content(path, metadata);
        let path = path.strip_prefix(root).unwrap().to_owned();
        into.insert(path, seen(metadata, content));
    });
}
