//! A view and a plain directory, driven by the same calls.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, Timespec, Timestamps};
use surmise_view::{
    FileKind, NewNode, NodeId, RenameMode, SetAttributes, Timestamp, View, ViewConfig,
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

pub struct Pair {
    lower: TempDir,
    plain: TempDir,
    state: TempDir,
    view: Option<View>,
}

impl Pair {
    pub fn new() -> Self {
        let (lower, plain) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        for root in [lower.path(), plain.path()] {
            plant(root);
        }
        let mut pair = Self {
            lower,
            plain,
            state: TempDir::new().unwrap(),
            view: None,
        };
        pair.open();
        pair
    }

    /// Names, times, owners and contents of the real tree below the view.
    pub fn lower_snapshot(&self) -> Vec<String> {
        let mut lines = Vec::new();
        walk(self.lower.path(), &mut |path, metadata| {
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
        if matches!(call, Call::Reopen) {
            self.view = None;
            self.open();
            return;
        }
        let plain = plain(self.plain.path(), call).map_err(|error| error.raw_os_error());
        let view = self.on_view(call).map_err(|error| error.raw_os_error());
        assert_eq!(view, plain, "{call:?}");
    }

    pub fn compare(&self) {
        let (mut view, mut plain) = (Picture::new(), Picture::new());
        self.picture_view(NodeId::ROOT, Path::new(""), &mut view);
        walk(self.plain.path(), &mut |path, metadata| {
            let path = path.strip_prefix(self.plain.path()).unwrap().to_owned();
            let content = content(&self.plain.path().join(&path), metadata);
            plain.insert(path, seen(metadata, content));
        });
        for picture in [&mut view, &mut plain] {
            name_inodes(picture);
        }
        assert_eq!(view, plain);
    }

    fn open(&mut self) {
        let config = ViewConfig {
            directory: self.state.path().to_owned(),
            lower: self.lower.path().to_owned(),
            hidden: Vec::new(),
            foreign_groups: Vec::new(),
            own_group: 0,
            descriptors: 16,
        };
        self.view = Some(View::open(config).unwrap());
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
            Ok(entry) => Ok(entry.node),
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
                view.unlink(parent, name)
            }
            Call::RemoveDirectory(at) => {
                let (parent, name) = self.parent(at)?;
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
                    (false, _) => view.link(node, parent, name).map(drop),
                }
            }
            Call::Write(at, offset, bytes) => {
                let node = self.regular(at)?;
                view.open_file(node, false, false)?;
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
            Call::Reopen => unreachable!("not a call on a file"),
        }
    }

    fn create(&self, at: &Parts, kind: FileKind, target: OsString) -> io::Result<()> {
        let (parent, name) = self.parent(at)?;
        let new = NewNode {
            kind,
            permissions: match kind {
                FileKind::Regular => 0o644,
                FileKind::Directory => 0o755,
                _ => 0o777,
            },
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            special: 0,
            target,
        };
        self.view().create(parent, name, new).map(drop)
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

    fn picture_view(&self, node: NodeId, at: &Path, into: &mut Picture) {
        let view = self.view();
        let handle = view.open_directory(node).unwrap();
        let listing = view.read_directory(node, handle, false).unwrap();
        view.close_directory(handle);
        for entry in listing.iter().skip(2) {
            let found = view.lookup(node, &entry.name).unwrap().unwrap();
            assert_eq!(found.inode, entry.inode, "{:?}", entry.name);
            let attributes = found.attributes;
            let kind = attributes.identity.kind;
            let path = at.join(&entry.name);
            let content = match kind {
                FileKind::Regular => {
                    let mut content = vec![0; 100];
                    let length = view.read(found.node, 0, &mut content).unwrap();
                    content.truncate(length);
                    content
                }
                FileKind::Symlink => view.read_link(found.node).unwrap().into_encoded_bytes(),
                _ => Vec::new(),
            };
            let seen = Seen {
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
                inode: PathBuf::from(found.inode.to_string()),
            };
            into.insert(path.clone(), seen);
            if kind == FileKind::Directory {
                self.picture_view(found.node, &path, into);
            }
        }
    }
}

fn plant(root: &Path) {
    fs::write(root.join("a"), "first").unwrap();
    fs::hard_link(root.join("a"), root.join("b")).unwrap();
    fs::create_dir_all(root.join("c/a")).unwrap();
    fs::write(root.join("c/b"), "in c").unwrap();
    fs::write(root.join("c/a/d"), "deep").unwrap();
    fs::create_dir_all(root.join("d/b/a")).unwrap();
    std::os::unix::fs::symlink("a", root.join("d/c")).unwrap();
    fs::hard_link(root.join("c/b"), root.join("d/d")).unwrap();
}

/// The real path of `parts`, whose directories must be directories and not links to some.
fn at(root: &Path, parts: &Parts) -> io::Result<PathBuf> {
    let mut path = root.to_owned();
    for part in &parts[..parts.len() - 1] {
        path.push(part);
        if !fs::symlink_metadata(&path)?.is_dir() {
            return Err(io::Error::from_raw_os_error(20));
        }
    }
    Ok(path.join(&parts[parts.len() - 1]))
}

fn plain(root: &Path, call: &Call) -> io::Result<()> {
    let at = |parts: &Parts| at(root, parts);
    let rename = |from: &Parts, to: &Parts, flags| {
        let (from, to) = (at(from), at(to));
        Ok(rustix::fs::renameat_with(CWD, from?, CWD, to?, flags)?)
    };
    let open = |parts: &Parts| {
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW;
        let file = rustix::fs::open(at(parts)?, flags, Mode::empty())?;
        Ok::<_, io::Error>(fs::File::from(file))
    };
    match call {
        Call::CreateFile(parts) => fs::File::create_new(at(parts)?).map(drop),
        Call::CreateDirectory(parts) => fs::create_dir(at(parts)?),
        Call::CreateSymlink(parts, target) => std::os::unix::fs::symlink(target, at(parts)?),
        Call::Unlink(parts) => Ok(rustix::fs::unlinkat(CWD, at(parts)?, AtFlags::empty())?),
        Call::RemoveDirectory(parts) => fs::remove_dir(at(parts)?),
        Call::Rename(from, to) => rename(from, to, RenameFlags::empty()),
        Call::RenameNoReplace(from, to) => rename(from, to, RenameFlags::NOREPLACE),
        Call::Exchange(from, to) => rename(from, to, RenameFlags::EXCHANGE),
        Call::Link(from, to) => {
            let from = at(from)?;
            fs::symlink_metadata(&from)?;
            fs::hard_link(from, at(to)?)
        }
        Call::Write(parts, offset, bytes) => {
            use std::os::unix::fs::FileExt;
            open(parts)?.write_all_at(bytes, *offset)
        }
        Call::Truncate(parts, size) => open(parts)?.set_len(*size),
        Call::Chmod(parts, permissions) => {
            if at(parts)?.is_symlink() {
                return Err(io::Error::from_raw_os_error(40));
            }
            fs::set_permissions(
                at(parts)?,
                fs::Permissions::from_mode((*permissions).into()),
            )
        }
        Call::SetModified(parts, seconds) => {
            fs::symlink_metadata(at(parts)?)?;
            if at(parts)?.is_symlink() {
                return Err(io::Error::from_raw_os_error(40));
            }
            let times = Timestamps {
                last_access: Timespec {
                    tv_sec: 0,
                    tv_nsec: rustix::fs::UTIME_OMIT,
                },
                last_modification: Timespec {
                    tv_sec: *seconds,
                    tv_nsec: 7,
                },
            };
            Ok(rustix::fs::utimensat(
                CWD,
                at(parts)?,
                &times,
                AtFlags::empty(),
            )?)
        }
        Call::Reopen => Ok(()),
    }
}

fn content(path: &Path, metadata: &fs::Metadata) -> Vec<u8> {
    if metadata.is_file() {
        fs::read(path).unwrap()
    } else if metadata.is_symlink() {
        fs::read_link(path)
            .unwrap()
            .into_os_string()
            .into_encoded_bytes()
    } else {
        Vec::new()
    }
}

fn seen(metadata: &fs::Metadata, content: Vec<u8>) -> Seen {
    let kind = FileKind::of_mode(metadata.mode()).unwrap();
    Seen {
        kind,
        permissions: (metadata.mode() & 0o7777) as u16,
        links: metadata.nlink(),
        size: if kind == FileKind::Directory {
            0
        } else {
            metadata.len()
        },
        content,
        modified: set_time(metadata.mtime()),
        inode: PathBuf::from(metadata.ino().to_string()),
    }
}

/// A time that [`Call::SetModified`] set, rather than the clock.
fn set_time(seconds: i64) -> Option<i64> {
    (seconds < 1_000_000).then_some(seconds)
}

/// Replaces inode numbers by the first path that bears them.
fn name_inodes(picture: &mut Picture) {
    let mut first = BTreeMap::new();
    for (path, seen) in picture.iter_mut() {
        let name = first
            .entry(seen.inode.clone())
            .or_insert_with(|| path.clone());
        seen.inode = name.clone();
    }
}

fn walk(directory: &Path, each: &mut impl FnMut(&Path, &fs::Metadata)) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let metadata = fs::symlink_metadata(&path).unwrap();
        each(&path, &metadata);
        if metadata.is_dir() {
            walk(&path, each);
        }
    }
}
