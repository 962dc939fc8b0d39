//! One state of one file.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Dir, Mode, OFlags};
use rustix::io::Errno;
use surmise_changes::real::{link, look_at, open_inode};
use surmise_view::{Borrowed, FileKind, InodeKey, Map, Node, NodeId, ObjectId, ObjectStore};

use super::{Contents, FormError};

/// A file or link as git knows it.
pub(super) struct Side {
    /// `100644`, `100755` or `120000`.
    pub(super) mode: &'static str,
    pub(super) data: Vec<u8>,
}

/// Where a state is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// As the real file at this path is.
    Real(PathBuf),
    /// As the domain left this node, whose real data, if not its own, are at this path.
    Node(NodeId, PathBuf),
}

pub(super) struct Reader<'s> {
    pub(super) map: &'s Map,
    objects: ObjectStore,
    root: OwnedFd,
}

impl Side {
    pub(super) fn is_link(&self) -> bool {
        self.mode == "120000"
    }
}

impl<'s> Reader<'s> {
    pub(super) fn new(contents: &Contents<'s>) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self {
            map: contents.map,
            objects: ObjectStore::at(contents.directory),
            root: rustix::fs::openat(CWD, contents.root, flags, Mode::empty())?,
        })
    }

    /// The state, or the kind that git does not know.
    pub(super) fn read(&self, source: &Source) -> Result<Result<Side, FileKind>, FormError> {
        match source {
            Source::Real(path) => Ok(self.read_real(path, None)?),
            Source::Node(id, path) => {
                let node = self.map.node(*id).ok_or(io::Error::from(Errno::STALE))?;
                match (node.object, &node.origin, node.kind) {
                    (Some(object), _, _) => {
                        let borrowed = node.borrowed.as_deref();
                        Ok(Ok(Side {
                            mode: file_mode(node.permissions),
                            data: self.read_object(object, borrowed, path)?,
                        }))
                    }
                    (None, Some(_), _) => Ok(self.read_real(path, Some(node))?),
                    (None, None, FileKind::Symlink) => Ok(Ok(Side {
                        mode: "120000",
                        data: node.target.as_bytes().to_owned(),
                    })),
                    (None, None, FileKind::Regular) => Ok(Ok(Side {
                        mode: file_mode(node.permissions),
                        data: Vec::new(),
                    })),
                    (None, None, kind) => Ok(Err(kind)),
                }
            }
        }
    }

    /// The kind and inode of a real path; `None` when nothing is there.
    pub(super) fn look(&self, path: &Path) -> io::Result<Option<(FileKind, InodeKey)>> {
        let (parent, name) = match self.open_parent(path) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            opened => opened?,
        };
        let found = look_at(parent.as_fd(), &name)?;
        Ok(found.map(|found| (found.identity.kind, found.identity.key())))
    }

    /// The names in a real directory.
    pub(super) fn names(&self, path: &Path) -> io::Result<Vec<std::ffi::OsString>> {
        let (parent, name) = self.open_parent(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(&parent, name, flags, Mode::empty())?;
        let mut names = Vec::new();
        for entry in Dir::new(directory)? {
            let name = entry?.file_name().to_bytes().to_owned();
            if name != b"." && name != b".." {
                names.push(std::ffi::OsString::from_vec(name));
            }
        }
        names.sort();
        Ok(names)
    }

    /// An object's data; what it lacks is in the real file at `path`.
    fn read_object(
        &self,
        object: ObjectId,
        borrowed: Option<&Borrowed>,
        path: &Path,
    ) -> Result<Vec<u8>, FormError> {
        let mut file = self.objects.open(object)?;
        let mut data = Vec::new();
        let Some(borrowed) = borrowed else {
            file.read_to_end(&mut data)?;
            return Ok(data);
        };
        let (parent, name) = self.open_parent(path).map_err(io::Error::from)?;
        let (inode, _) = open_inode(parent.as_fd(), &name)?;
        let real = open_real(inode.as_fd())?;
        let size = file.metadata()?.len();
        data.resize(
            usize::try_from(size).map_err(|_| io::Error::from(Errno::FBIG))?,
            0,
        );
        let read = borrowed.read(&file, &real, 0, &mut data);
        let read = read.map_err(|error| match borrowed.check(&real) {
            Ok(()) => FormError::Io(error),
            Err(_) => FormError::Lost(path.to_owned()),
        })?;
        data.truncate(read);
        Ok(data)
    }

    fn read_real(&self, path: &Path, node: Option<&Node>) -> io::Result<Result<Side, FileKind>> {
        let (parent, name) = self.open_parent(path)?;
        let (inode, found) = open_inode(parent.as_fd(), &name)?;
        match found.identity.kind {
            FileKind::Regular => {
                let mut data = Vec::new();
                open_real(inode.as_fd())?.read_to_end(&mut data)?;
                Ok(Ok(Side {
                    mode: file_mode(node.map_or(found.permissions, |node| node.permissions)),
                    data,
                }))
            }
            FileKind::Symlink => Ok(Ok(Side {
                mode: "120000",
                data: rustix::fs::readlinkat(&inode, "", Vec::new())?.into_bytes(),
            })),
            kind => Ok(Err(kind)),
        }
    }

    /// The directory of a path, opened name by name and through no link, and the last name.
    fn open_parent(&self, path: &Path) -> rustix::io::Result<(OwnedFd, std::ffi::OsString)> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let name = path.file_name().ok_or(Errno::INVAL)?.to_owned();
        let mut at = rustix::fs::openat(&self.root, ".", flags, Mode::empty())?;
        for component in path.parent().into_iter().flat_map(Path::components) {
            if let Component::Normal(part) = component {
                at = rustix::fs::openat(&at, part, flags, Mode::empty())?;
            }
        }
        Ok((at, name))
    }
}

fn open_real(inode: BorrowedFd<'_>) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, link(inode), flags, Mode::empty())?.into())
}

/// git knows of permissions only whether the owner may execute.
fn file_mode(permissions: u16) -> &'static str {
    match permissions & 0o100 {
        0 => "100644",
        _ => "100755",
    }
}
