//! The attributes that a name leads to, in the view and really.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use surmise_changes::real::{LOOK, XATTR_BYTES_MAX, link, look, xattr};
use surmise_changes::{Change, ChangeKind, Names};
use surmise_view::{FileKind, Map, Node, NodeId};

use super::{Note, compare};

/// File capabilities.
pub(super) const CAPABILITY: &str = "security.capability";

/// Labels that a security module gives to every file, and a file server's own form of permissions: a
/// file that takes the place of another gets them from its system, not from the domain.
const GIVEN: [&str; 3] = ["security.selinux", "security.SMACK64", "system.nfs4_acl"];

/// What of an inode decides who may do what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    pub(super) kind: FileKind,
    pub(super) permissions: u16,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// Device number, for device nodes.
    pub(super) special: u64,
    /// Where it leads, for symbolic links.
    pub(super) target: OsString,
    pub(super) xattrs: BTreeMap<OsString, Box<[u8]>>,
}

/// The states before and after changes. What cannot be read counts as absent, so that all of the
/// other side is told.
pub(crate) struct States<'m> {
    names: Names<'m>,
    root: OwnedFd,
    /// The user and group to whom new files belong.
    user: (u32, u32),
}

impl<'m> States<'m> {
    /// Those of the domain with this map, over the real directory `root`.
    pub(crate) fn new(map: &'m Map, root: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self {
            names: Names::of(map),
            root: rustix::fs::openat(CWD, root, flags, Mode::empty())?,
            user: (
                rustix::process::geteuid().as_raw(),
                rustix::process::getegid().as_raw(),
            ),
        })
    }

    /// What there is to say of a change.
    pub(crate) fn notes(&self, change: &Change) -> Vec<Note> {
        let node = change
            .node
            .and_then(|id| Some((id, self.names.map().node(id)?)));
        let Some((id, node)) = node else {
            return Vec::new();
        };
        let origin = self.origin(id);
        let is_by_inode = origin.is_some() && origin == change.old;
        if is_by_inode && has_only_other_data(node) {
            let state = State::of(node, None);
            return compare(Some(&state), &state, self.user);
        }
        let origin = origin.and_then(|path| self.real(&path));
        let new = State::of(node, origin.as_ref());
        if change.kind == ChangeKind::Renamed {
            // Whatever else changed has a line of its own.
            let mut notes = compare(Some(&new), &new, self.user);
            notes.retain(Note::gives_rights);
            return notes;
        }
        let old = match (is_by_inode, &change.old) {
            (true, _) => origin,
            (false, Some(path)) => self.real(path),
            (false, None) => None,
        };
        compare(old.as_ref(), &new, self.user)
    }

    /// Where an adopted node really is.
    fn origin(&self, id: NodeId) -> Option<PathBuf> {
        let (parent, name) = self.names.origin(id)?;
        Some(self.names.real_path(parent)?.join(name))
    }

    fn real(&self, path: &Path) -> Option<State> {
        let path = path.strip_prefix("/").unwrap_or(path);
        let path = match path.as_os_str().is_empty() {
            true => Path::new("."),
            false => path,
        };
        let within = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let inode = rustix::fs::openat2(&self.root, path, LOOK, Mode::empty(), within).ok()?;
        State::real(inode.as_fd()).ok()
    }
}

impl State {
    /// A node's, which shares with its real inode what the domain did not change.
    fn of(node: &Node, real: Option<&Self>) -> Self {
        let mut xattrs = real.map(|real| real.xattrs.clone()).unwrap_or_default();
        for (name, value) in node.xattrs.iter() {
            match value {
                Some(value) => xattrs.insert(name.to_owned(), value.clone()),
                None => xattrs.remove(name),
            };
        }
        Self {
            kind: node.kind,
            permissions: node.permissions,
            uid: node.uid,
            gid: node.gid,
            special: node.special,
            target: match real {
                Some(real) => real.target.clone(),
                None => (*node.target).to_owned(),
            },
            xattrs,
        }
    }

    fn real(inode: BorrowedFd<'_>) -> io::Result<Self> {
        let found = look(inode)?;
        let kind = found.identity.kind;
        let (target, xattrs) = match kind {
            FileKind::Symlink => {
                let target = rustix::fs::readlinkat(inode, "", Vec::new())?;
                (OsString::from_vec(target.into_bytes()), BTreeMap::new())
            }
            _ => (OsString::new(), xattrs(inode)?),
        };
        Ok(Self {
            kind,
            permissions: found.permissions,
            uid: found.uid,
            gid: found.gid,
            special: found.special,
            target,
            xattrs,
        })
    }
}

/// Whether nothing that a state has differs from the real inode's.
fn has_only_other_data(node: &Node) -> bool {
    !node.owns_permissions && !node.owns_owner && node.xattrs.is_empty()
}

/// The extended attributes of an inode, but for those that its system gives to each.
fn xattrs(inode: BorrowedFd<'_>) -> io::Result<BTreeMap<OsString, Box<[u8]>>> {
    let mut names = vec![0; XATTR_BYTES_MAX];
    let length = match rustix::fs::listxattr(link(inode), &mut names[..]) {
        Err(Errno::OPNOTSUPP) => 0,
        length => length?,
    };
    let mut xattrs = BTreeMap::new();
    for name in names[..length].split(|byte| *byte == 0) {
        let name = OsStr::from_bytes(name);
        if !name.is_empty() && GIVEN.iter().all(|given| name != *given) {
            let value = xattr(inode, name)?.unwrap_or_default();
            xattrs.insert(name.to_owned(), value.into());
        }
    }
    Ok(xattrs)
}
