//! The interface of a lower side.

use std::ffi::{OsStr, OsString};
use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::types::{Attributes, FileKind};

/// A file system that a view shows and never writes.
pub trait Lower: Debug + Send + Sync {
    /// The directory that the view's root shows.
    ///
    /// # Errors
    /// Why it cannot be reached.
    fn root(&self) -> io::Result<Arc<dyn Directory>>;

    /// A new queue of changes that others make; `None` where none can be had.
    fn watcher(&self) -> Option<Arc<dyn Watcher>>;
}

/// An open directory. It stays the same inode, whatever becomes of its names.
///
/// Errors carry the number that a caller's system call shall fail with.
pub trait Directory: Debug + Send + Sync {
    /// What the directory itself is.
    ///
    /// # Errors
    /// As statx(2).
    fn attributes(&self) -> io::Result<Attributes>;

    /// What a name in it is, `None` where nothing bears it.
    ///
    /// # Errors
    /// As statx(2), but for `ENOENT`.
    fn lookup(&self, name: &OsStr) -> io::Result<Option<Attributes>>;

    /// Opens a directory in it. Takes no right to read that one.
    ///
    /// # Errors
    /// As openat(2).
    fn directory(&self, name: &OsStr) -> io::Result<Arc<dyn Directory>>;

    /// Opens a regular file in it for reading.
    ///
    /// # Errors
    /// As openat(2).
    fn open(&self, name: &OsStr) -> io::Result<Arc<dyn OpenFile>>;

    /// Keeps the number of an inode from being given to another.
    ///
    /// # Errors
    /// As openat(2) with `O_PATH`.
    fn hold(&self, name: &OsStr) -> io::Result<Box<dyn Hold>>;

    /// The names in it, without `.` and `..`.
    ///
    /// # Errors
    /// As getdents64(2), and where it may not be read.
    fn list(&self) -> io::Result<Vec<Listed>>;

    /// Where a symbolic link in it leads.
    ///
    /// # Errors
    /// As readlinkat(2).
    fn read_link(&self, name: &OsStr) -> io::Result<OsString>;

    /// The value of an extended attribute of what a name leads to; an empty name means the directory
    /// itself.
    ///
    /// # Errors
    /// As lgetxattr(2).
    fn xattr(&self, name: &OsStr, attribute: &OsStr) -> io::Result<Vec<u8>>;

    /// The names of the extended attributes, none where the file system has no such thing; an empty name
    /// means the directory itself.
    ///
    /// # Errors
    /// As llistxattr(2), but for `EOPNOTSUPP`.
    fn xattr_names(&self, name: &OsStr) -> io::Result<Vec<OsString>>;

    /// Space and limits of the file system that it is on.
    ///
    /// # Errors
    /// As fstatvfs(3).
    fn space(&self) -> io::Result<Space>;

    /// A descriptor of it, where it is one of this host's.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// A regular file that is open for reading. It stays the same inode, whatever becomes of its names.
pub trait OpenFile: Debug + Send + Sync {
    /// What it is now.
    ///
    /// # Errors
    /// As statx(2).
    fn attributes(&self) -> io::Result<Attributes>;

    /// Reads at `offset`; returns the bytes read, 0 at the file's end.
    ///
    /// # Errors
    /// As pread(2).
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Where the next data begin, at or behind `offset`; `None` where only a hole or nothing follows.
    ///
    /// # Errors
    /// As lseek(2).
    fn next_data(&self, offset: u64) -> io::Result<Option<u64>>;

    /// Where the next hole begins, at or behind `offset`; at latest where the file ends. `None` where
    /// `offset` is behind that.
    ///
    /// # Errors
    /// As lseek(2).
    fn next_hole(&self, offset: u64) -> io::Result<Option<u64>>;

    /// A descriptor of it, where it is one of this host's: the kernel may then copy from it, share its
    /// blocks, and read it without a message.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Keeps an inode's number from being given to another, for as long as it lives.
pub trait Hold: Debug + Send + Sync {}

/// A name that a directory holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The name.
    pub name: OsString,
    /// `st_ino` of what it leads to.
    pub inode: u64,
    /// `None` where the file system does not tell.
    pub kind: Option<FileKind>,
}

/// Space and limits of a file system, as statvfs(3) has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Space {
    /// Size, in fragments.
    pub blocks: u64,
    /// Free fragments.
    pub blocks_free: u64,
    /// Those of them that anybody may use.
    pub blocks_available: u64,
    /// Inodes.
    pub files: u64,
    /// Free inodes.
    pub files_free: u64,
    /// Preferred size of reads and writes, in bytes.
    pub block_size: u64,
    /// Size of a fragment, in bytes.
    pub fragment_size: u64,
    /// The longest name, in bytes.
    pub name_bytes_max: u64,
}

/// A queue of what others change in directories.
pub trait Watcher: Debug + Send + Sync {
    /// Watches a directory, if that can be. One inode has one watch, however often it is added.
    fn add(&self, directory: &dyn Directory) -> Option<WatchId>;

    /// A directory is of no interest any more.
    fn remove(&self, watch: WatchId);

    /// What has changed since the last call; an empty list where nothing has. The caller calls again when it has
    /// told the kernel of all changes that the last call returned. So a remote lower side may then give back the
    /// leases that were asked back for those changes.
    ///
    /// # Errors
    /// When changes may have been lost for good: nothing may be believed any more.
    fn changes(&self) -> io::Result<Vec<Change>>;

    /// Readable while there are changes.
    fn descriptor(&self) -> BorrowedFd<'_>;
}

/// One watched directory. A number that was given up may come again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WatchId(pub i32);

/// What others did, in a directory that `D` names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Change<D = WatchId> {
    /// To a name: made, removed or moved.
    Name(D, OsString),
    /// To the attributes of what a name leads to.
    Attributes(D, OsString),
    /// To its data.
    Data(D, OsString),
    /// To the directory's own attributes.
    Itself(D),
    /// The directory is gone, and so is its watch.
    Gone(D),
    /// So much that nobody has kept count.
    Everything,
}

impl Change {
    /// The watch that tells it, where one does.
    pub fn watch(&self) -> Option<WatchId> {
        match self {
            Self::Name(watch, _) | Self::Attributes(watch, _) | Self::Data(watch, _) => {
                Some(*watch)
            }
            Self::Itself(watch) | Self::Gone(watch) => Some(*watch),
            Self::Everything => None,
        }
    }

    /// The same of a directory by another name.
    pub fn of<D>(self, directory: D) -> Change<D> {
        match self {
            Self::Name(_, name) => Change::Name(directory, name),
            Self::Attributes(_, name) => Change::Attributes(directory, name),
            Self::Data(_, name) => Change::Data(directory, name),
            Self::Itself(_) => Change::Itself(directory),
            Self::Gone(_) => Change::Gone(directory),
            Self::Everything => Change::Everything,
        }
    }
}

/// Reads at `offset` until `buffer` is full or the file ends; returns the bytes read.
///
/// # Errors
/// As [`OpenFile::read_at`].
pub fn read_full(file: &dyn OpenFile, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(offset + done as u64, &mut buffer[done..]) {
            Ok(0) => break,
            Ok(length) => done += length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
