//! What a command may do to a tree.

use std::io;

use rustix::io::Errno;
use surmise_view::{
    FileKind, NewNode, NodeId, OpenHow, RenameMode, SetAttributes, Timestamp, View,
};

use super::split;

/// One act. Paths are relative to the root of the tree.
#[derive(Debug, Clone)]
pub enum Act {
    /// Makes an empty file.
    Create(String),
    /// Makes a directory.
    MakeDirectory(String),
    /// Makes a symbolic link: path, target.
    Symlink(String, String),
    /// Makes a FIFO.
    Fifo(String),
    /// Makes a socket.
    Socket(String),
    /// Makes a character device with this number.
    Device(String, u64),
    /// Removes a name that is no directory.
    Unlink(String),
    /// Removes a directory.
    RemoveDirectory(String),
    /// Moves the first to the second.
    Rename(String, String),
    /// Exchanges two names.
    Exchange(String, String),
    /// Gives the first a second name.
    Link(String, String),
    /// Writes data: path, offset, data.
    Write(String, u64, Vec<u8>),
    /// Sets the size.
    Truncate(String, u64),
    /// Sets permission bits.
    Chmod(String, u16),
    /// Sets user and group.
    Chown(String, u32, u32),
    /// Sets the modification time, in seconds.
    SetModified(String, i64),
    /// Sets an extended attribute, or removes it.
    SetXattr(String, String, Option<Vec<u8>>),
}

/// The act on a view. The kernel's own checks have passed on the plain copy.
pub(crate) fn on_view(view: &View, act: &Act) -> io::Result<()> {
    let place = |path| place(view, path);
    let node = |path| node(view, path);
    let create = |path, kind, special, target: &str| create(view, path, kind, special, target);
    match act {
        Act::Create(path) => create(path, FileKind::Regular, 0, ""),
        Act::MakeDirectory(path) => create(path, FileKind::Directory, 0, ""),
        Act::Symlink(path, target) => create(path, FileKind::Symlink, 0, target),
        Act::Fifo(path) => create(path, FileKind::Fifo, 0, ""),
        Act::Socket(path) => create(path, FileKind::Socket, 0, ""),
        Act::Device(path, device) => create(path, FileKind::CharacterDevice, *device, ""),
        Act::Unlink(path) => {
            let (parent, name) = place(path)?;
            view.unlink(parent, name)
        }
        Act::RemoveDirectory(path) => {
            let (parent, name) = place(path)?;
            view.remove_directory(parent, name)
        }
        // As the kernel has it: two names of one file are left alone.
        Act::Rename(from, to) if node(from).ok() == node(to).ok() => Ok(()),
        Act::Rename(from, to) => view.rename(place(from)?, place(to)?, RenameMode::Replace),
        Act::Exchange(from, to) if node(from)? == node(to)? => Ok(()),
        Act::Exchange(from, to) => view.rename(place(from)?, place(to)?, RenameMode::Exchange),
        Act::Link(from, to) => {
            let (parent, name) = place(to)?;
            view.link(node(from)?, parent, name).map(drop)
        }
        Act::Write(path, offset, data) => {
            let node = node(path)?;
            view.open_file(node, OpenHow::default())?;
            let clears = clears_set_id() && !data.is_empty();
            view.write(node, *offset, data, clears)
        }
        Act::Truncate(path, size) => {
            let size = Some(*size);
            set(view, path, |set| {
                set.size = size;
                set.drop_privileges = clears_set_id();
            })
        }
        Act::Chmod(path, mode) => set(view, path, |set| set.permissions = Some(*mode)),
        Act::Chown(path, uid, gid) => set(view, path, |set| {
            (set.uid, set.gid) = (Some(*uid), Some(*gid));
            set.drop_privileges = true;
        }),
        Act::SetModified(path, seconds) => {
            let time = Timestamp {
                seconds: *seconds,
                nanoseconds: 7,
            };
            set(view, path, |set| set.modified = Some(time))
        }
        Act::SetXattr(path, name, value) => match value {
            Some(value) => view.set_xattr(node(path)?, name.as_ref(), value, 0),
            None => view.remove_xattr(node(path)?, name.as_ref()),
        },
    }
}

/// Whether a write takes set-id bits away, as the kernel would ask for it.
fn clears_set_id() -> bool {
    !surmise_testkit::is_root()
}

fn place<'a>(view: &View, path: &'a str) -> io::Result<(NodeId, &'a std::ffi::OsStr)> {
    let (parent, name) = split(path);
    Ok((node(view, parent)?, name))
}

fn node(view: &View, path: &str) -> io::Result<NodeId> {
    let parts = path.split('/').filter(|part| !part.is_empty());
    parts.into_iter().try_fold(NodeId::ROOT, |node, part| {
        match view.lookup(node, part.as_ref())? {
            Ok(entry) => Ok(entry.node),
            Err(_) => Err(Errno::NOENT.into()),
        }
    })
}

fn create(view: &View, path: &str, kind: FileKind, special: u64, target: &str) -> io::Result<()> {
    let (parent, name) = place(view, path)?;
    let new = NewNode {
        special,
        target: target.into(),
        ..new_node(kind)
    };
    view.create(parent, name, new).map(drop)
}

/// What a process of this user makes under the usual mode mask.
pub fn new_node(kind: FileKind) -> NewNode {
    NewNode {
        kind,
        permissions: match kind {
            FileKind::Directory => 0o755,
            FileKind::Symlink => 0o777,
            _ => 0o644,
        },
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
        special: 0,
        target: "".into(),
    }
}

fn set(view: &View, path: &str, change: impl Fn(&mut SetAttributes)) -> io::Result<()> {
    let mut attributes = SetAttributes::default();
    change(&mut attributes);
    view.set_attributes(node(view, path)?, attributes).map(drop)
}
