//! A tree in memory, for tests: what real trees do, with whatever goes wrong at the moment that a test
//! chooses.
//!
//! Its owner changes it by path, as somebody outside changes what lies under a view. Numbers of inodes that
//! nothing holds any more are given to the next ones, as ext4 does. Its clock steps with every change, so no
//! two states of an inode show the same times.

mod faults;
mod nodes;
mod tree;
mod watch;

use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::io::Errno;

use crate::interface::{Directory, Hold, Listed, Lower, OpenFile, Space, WatchId, Watcher};
use crate::types::{Attributes, FileKind, InodeKey};
use faults::Faults;
pub use faults::Hang;
use nodes::{Body, ROOT};
use tree::Tree;
use watch::MemoryWatcher;

/// Names and limits of its file system.
const NAME_BYTES_MAX: usize = 255;

/// A tree in memory. Clones are the same tree.
#[derive(Debug, Clone)]
pub struct Memory {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    tree: Mutex<Tree>,
    faults: Faults,
}

/// An inode that is held: open, or by [`Hold`].
#[derive(Debug)]
struct Held {
    shared: Arc<Shared>,
    number: u64,
}

impl Memory {
    /// A tree with nothing in its root, on a file system of this number.
    pub fn new(device: u64) -> Self {
        let shared = Shared {
            tree: Mutex::new(Tree::new(device)),
            faults: Faults::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Changes the tree.
    ///
    /// # Errors
    /// What `change` fails with.
    pub fn change<R>(
        &self,
        change: impl FnOnce(&mut Outside<'_>) -> io::Result<R>,
    ) -> io::Result<R> {
        change(&mut Outside {
            tree: self.shared.tree(),
        })
    }

    /// Which inode is at a path.
    ///
    /// # Errors
    /// `ENOENT` where there is none.
    pub fn key(&self, path: &str) -> io::Result<InodeKey> {
        let tree = self.shared.tree();
        let number = tree.find(path)?;
        Ok(tree.attributes(number)?.identity.key())
    }

    /// From now on every call that concerns the inode at a path waits, until what is returned is dropped.
    ///
    /// # Errors
    /// `ENOENT` where there is none.
    pub fn hang(&self, path: &str) -> io::Result<Hang> {
        self.hang_after(path, 0)
    }

    /// Likewise, after so many more calls that concern that inode.
    ///
    /// # Errors
    /// `ENOENT` where there is none.
    pub fn hang_after(&self, path: &str, calls: u64) -> io::Result<Hang> {
        let number = self.shared.tree().find(path)?;
        Ok(Faults::hang(&self.shared, number, calls))
    }

    /// After so many more calls, one fails.
    pub fn fail_after(&self, calls: u64, errno: Errno) {
        self.shared.faults.fail_after(calls, errno);
    }

    /// No call fails any more. Tells whether one was still to.
    pub fn fail_no_more(&self) -> bool {
        self.shared.faults.fail_no_more()
    }
}

impl Shared {
    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().expect("nothing panics while it changes")
    }
}

/// The tree, for a test that changes it from outside.
#[derive(Debug)]
pub struct Outside<'m> {
    tree: MutexGuard<'m, Tree>,
}

impl Outside<'_> {
    /// Makes an empty directory.
    ///
    /// # Errors
    /// As mkdir(2).
    pub fn make_directory(&mut self, path: &str) -> io::Result<()> {
        self.tree.make(path, Body::Directory(Default::default()))
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// As symlink(2).
    pub fn make_link(&mut self, path: &str, target: &str) -> io::Result<()> {
        self.tree.make(path, Body::Symlink(target.into()))
    }

    /// Makes a FIFO, a socket or a device node.
    ///
    /// # Errors
    /// As mknod(2).
    pub fn make_special(&mut self, path: &str, kind: FileKind) -> io::Result<()> {
        self.tree.make(path, Body::Special(kind))
    }

    /// Gives a regular file these data, and makes it first where there is none.
    ///
    /// # Errors
    /// As open(2).
    pub fn write(&mut self, path: &str, data: &[u8]) -> io::Result<()> {
        if self.tree.find(path).is_err() {
            self.tree.make(path, Body::Regular(Vec::new()))?;
        }
        self.tree.write(path, data)
    }

    /// Gives an inode one more name.
    ///
    /// # Errors
    /// As link(2).
    pub fn link(&mut self, old: &str, new: &str) -> io::Result<()> {
        self.tree.link(old, new)
    }

    /// Moves a name.
    ///
    /// # Errors
    /// As rename(2).
    pub fn rename(&mut self, old: &str, new: &str) -> io::Result<()> {
        self.tree.rename(old, new)
    }

    /// Removes a name, also that of an empty directory.
    ///
    /// # Errors
    /// As unlink(2) or rmdir(2).
    pub fn remove(&mut self, path: &str) -> io::Result<()> {
        self.tree.remove(path)
    }

    /// Sets permission bits.
    ///
    /// # Errors
    /// As chmod(2).
    pub fn set_permissions(&mut self, path: &str, permissions: u16) -> io::Result<()> {
        self.tree.set_permissions(path, permissions)
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// As lsetxattr(2).
    pub fn set_xattr(&mut self, path: &str, name: &str, value: &[u8]) -> io::Result<()> {
        self.tree.set_xattr(path, name, value)
    }
}

impl Lower for Memory {
    fn root(&self) -> io::Result<Arc<dyn Directory>> {
        Ok(Arc::new(Held::new(&self.shared, ROOT)))
    }

    fn watcher(&self) -> Option<Arc<dyn Watcher>> {
        let watcher = Arc::new(MemoryWatcher::new().ok()?);
        self.shared.tree().told.push(Arc::downgrade(&watcher));
        Some(watcher)
    }
}

impl Held {
    fn new(shared: &Arc<Shared>, number: u64) -> Self {
        shared.tree().hold(number);
        Self {
            shared: Arc::clone(shared),
            number,
        }
    }

    /// One call that concerns an inode.
    fn call<R>(
        &self,
        number: u64,
        answer: impl FnOnce(&mut Tree) -> io::Result<R>,
    ) -> io::Result<R> {
        self.shared.faults.meet(number)?;
        answer(&mut self.shared.tree())
    }

    /// One call that concerns what a name leads to.
    fn call_on<R>(
        &self,
        name: &OsStr,
        answer: impl FnOnce(&mut Tree, u64) -> io::Result<R>,
    ) -> io::Result<R> {
        let named = |tree: &Tree| match name.is_empty() {
            true => Ok(self.number),
            false => tree.child(self.number, name),
        };
        let before = named(&self.shared.tree())?;
        self.call(before, |tree| {
            // It may have waited long.
            let number = named(tree)?;
            answer(tree, number)
        })
    }

    fn opened(&self, name: &OsStr, kind: FileKind, otherwise: Errno) -> io::Result<Self> {
        let number = self.call_on(name, |tree, number| match tree.kind(number)? {
            found if found == kind => {
                tree.hold(number);
                Ok(number)
            }
            FileKind::Symlink => Err(Errno::LOOP.into()),
            _ => Err(otherwise.into()),
        })?;
        Ok(Self {
            shared: Arc::clone(&self.shared),
            number,
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shared.tree().release(self.number);
    }
}

impl Hold for Held {}

impl Directory for Held {
    fn attributes(&self) -> io::Result<Attributes> {
        self.call(self.number, |tree| tree.attributes(self.number))
    }

    fn lookup(&self, name: &OsStr) -> io::Result<Option<Attributes>> {
        if name.len() > NAME_BYTES_MAX {
            return Err(Errno::NAMETOOLONG.into());
        }
        let found = self.call_on(name, |tree, number| tree.attributes(number));
        match found {
            Err(error) if error.raw_os_error() == Some(Errno::NOENT.raw_os_error()) => Ok(None),
            found => found.map(Some),
        }
    }

    fn directory(&self, name: &OsStr) -> io::Result<Arc<dyn Directory>> {
        let opened = self.opened(name, FileKind::Directory, Errno::NOTDIR)?;
        Ok(Arc::new(opened))
    }

    fn open(&self, name: &OsStr) -> io::Result<Arc<dyn OpenFile>> {
        let opened = self.opened(name, FileKind::Regular, Errno::NXIO)?;
        Ok(Arc::new(opened))
    }

    fn hold(&self, name: &OsStr) -> io::Result<Box<dyn Hold>> {
        let number = self.call_on(name, |tree, number| {
            tree.hold(number);
            Ok(number)
        })?;
        Ok(Box::new(Self {
            shared: Arc::clone(&self.shared),
            number,
        }))
    }

    fn list(&self) -> io::Result<Vec<Listed>> {
        self.call(self.number, |tree| tree.list(self.number))
    }

    fn read_link(&self, name: &OsStr) -> io::Result<OsString> {
        self.call_on(name, |tree, number| tree.target(number))
    }

    fn xattr(&self, name: &OsStr, attribute: &OsStr) -> io::Result<Vec<u8>> {
        self.call_on(name, |tree, number| tree.xattr(number, attribute))
    }

    fn xattr_names(&self, name: &OsStr) -> io::Result<Vec<OsString>> {
        self.call_on(name, |tree, number| tree.xattr_names(number))
    }

    fn space(&self) -> io::Result<Space> {
        self.call(self.number, |_| {
            Ok(Space {
                block_size: 4096,
                fragment_size: 4096,
                name_bytes_max: NAME_BYTES_MAX as u64,
                ..Space::default()
            })
        })
    }
}

impl OpenFile for Held {
    fn attributes(&self) -> io::Result<Attributes> {
        Directory::attributes(self)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.call(self.number, |tree| {
            let data = tree.data(self.number)?;
            let start = usize::try_from(offset).unwrap_or(usize::MAX);
            let rest = data.get(start..).unwrap_or_default();
            let length = rest.len().min(buffer.len());
            buffer[..length].copy_from_slice(&rest[..length]);
            Ok(length)
        })
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        // It keeps no holes.
        let size = Directory::attributes(self)?.identity.size;
        Ok((offset < size).then_some(offset))
    }

    fn next_hole(&self, offset: u64) -> io::Result<Option<u64>> {
        let size = Directory::attributes(self)?.identity.size;
        Ok((offset < size).then_some(size))
    }
}

/// Which watch a change is told to.
type Told = (WatchId, Arc<MemoryWatcher>);
