//! What the server tells the kernel unasked: that something which it remembers may have changed.

use std::ffi::OsStr;
use std::io::{self, IoSlice};
use std::iter;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::param::page_size;
use zerocopy::IntoBytes;

use crate::abi::{flags, notify, output};
use crate::postponed::Queue;
use crate::{Backing, FileSystem};

/// Tells the kernel of a [`Session`](crate::Session) that it must ask again. Cheap to clone, for any
/// thread.
///
/// *Deadlocks.* The kernel takes locks for what it is told: that of a directory for a name in it,
/// those of pages for data, which it may first have to write back. A request under way may hold the
/// same lock. So, but for what says otherwise, none of this may be called from a
/// [`FileSystem`](crate::FileSystem)'s methods, nor with a lock held that one of these methods takes, nor
/// before every request can be answered.
#[derive(Clone, Debug)]
pub struct Notifier {
    device: Arc<OwnedFd>,
    can_expire: Arc<AtomicBool>,
    postponed: Arc<Queue>,
}

impl Notifier {
    pub(crate) fn new(
        device: Arc<OwnedFd>,
        can_expire: Arc<AtomicBool>,
        postponed: Arc<Queue>,
    ) -> Self {
        Self {
            device,
            can_expire,
            postponed,
        }
    }

    /// Has the requests answered that were postponed, by the calling thread or by one that already does so.
    /// To be called whenever they might succeed, after [`FileSystem::may_resume`] has come to say so.
    ///
    /// # Errors
    /// As for writing to the device.
    pub fn resume<F: FileSystem + ?Sized>(&self, fs: &F) -> io::Result<()> {
        // Only what changes something is postponed, and such replies are short.
        let mut buffer = vec![0; page_size()];
        self.postponed.resume(fs, &mut buffer)
    }

    /// How many requests were postponed and answered, and how long they had waited altogether.
    pub fn answered_late(&self) -> (u64, Duration) {
        self.postponed.answered()
    }

    /// Whether any request is postponed.
    pub fn has_postponed(&self) -> bool {
        self.postponed.has_any()
    }

    /// Whether a name can expire and stay (Linux 6.2). Known when the session serves.
    pub fn can_expire(&self) -> bool {
        self.can_expire.load(Ordering::Relaxed)
    }

    /// Has the kernel ask for a node's attributes again, and returns whether the kernel knows the node. It does not know one
    /// before the caller that looked the node up has run, which may be after the answer was written; nothing expires then, and
    /// the kernel goes on with the attributes of that answer. For the node of the request under way it may be called from a
    /// [`FileSystem`](crate::FileSystem)'s method, too: that request holds the inode, and no lock is taken.
    ///
    /// # Errors
    /// What the kernel says, except that it does not know the node.
    pub fn expire_attributes(&self, node: u64) -> io::Result<bool> {
        self.invalidate(node, -1)
    }

    /// Has the kernel write back what it holds of a node's changed data, and drop the rest; its
    /// attributes, too. Returns when that is done.
    ///
    /// # Errors
    /// What the kernel says, except that it does not know the node.
    pub fn drop_data(&self, node: u64) -> io::Result<()> {
        self.invalidate(node, 0)?;
        Ok(())
    }

    /// Has the kernel ask what `name` leads to, even if it is nothing so far. Without
    /// [`can_expire`](Self::can_expire) the name is dropped, too: getcwd(2) below it fails then until
    /// it has been looked up again.
    ///
    /// # Errors
    /// What the kernel says, except that it does not know the name.
    pub fn expire_entry(&self, parent: u64, name: &OsStr) -> io::Result<()> {
        let body = output::NotifyInvalEntryOut {
            parent,
            namelen: u32::try_from(name.len()).map_err(io::Error::other)?,
            flags: if self.can_expire() {
                flags::EXPIRE_ONLY
            } else {
                0
            },
        };
        self.tell(
            notify::INVAL_ENTRY,
            &[body.as_bytes(), name.as_bytes(), &[0]],
        )?;
        Ok(())
    }

    /// Has the kernel look up every name again when it is next used, also where the answer to a look-up is on its way. Takes
    /// no lock, so that it may be called from anywhere. Only where [`Negotiated::has_epochs`](crate::Negotiated::has_epochs).
    ///
    /// # Errors
    /// What the kernel says.
    pub fn expire_all_entries(&self) -> io::Result<()> {
        self.tell(notify::INC_EPOCH, &[])?;
        Ok(())
    }

    /// Puts data into the kernel's cache of a node, from `offset` on.
    ///
    /// It waits for pages that a read under way has locked. So from a
    /// [`FileSystem`](crate::FileSystem)'s method it may be called as long as no such read can be under
    /// way: before the first open of the node is answered.
    ///
    /// # Errors
    /// What the kernel says; some of the data may be there then.
    pub fn store(&self, node: u64, offset: u64, data: &[u8]) -> io::Result<()> {
        let body = output::NotifyStoreOut {
            nodeid: node,
            offset,
            size: u32::try_from(data.len()).map_err(io::Error::other)?,
            padding: 0,
        };
        self.tell(notify::STORE, &[body.as_bytes(), data])?;
        Ok(())
    }

    /// Registers a file for the kernel to read and write by itself, with the rights of this process.
    /// Unlike the rest, this waits for nothing and may be called from anywhere.
    ///
    /// # Errors
    /// `EPERM` without `CAP_SYS_ADMIN` over the whole machine, `ELOOP` where the file's file system lies
    /// on others itself.
    pub fn register(&self, file: BorrowedFd<'_>) -> io::Result<Backing> {
        Backing::open(Arc::clone(&self.device), file)
    }

    fn invalidate(&self, node: u64, off: i64) -> io::Result<bool> {
        let body = output::NotifyInvalInodeOut {
            ino: node,
            off,
            len: 0,
        };
        self.tell(notify::INVAL_INODE, &[body.as_bytes()])
    }

    /// Whether the kernel knows what it is told of.
    fn tell(&self, code: i32, parts: &[&[u8]]) -> io::Result<bool> {
        let length = parts.iter().map(|part| part.len()).sum::<usize>();
        let header = output::OutHeader {
            len: u32::try_from(size_of::<output::OutHeader>() + length)
                .map_err(io::Error::other)?,
            error: code,
            unique: 0,
        };
        let parts = parts.iter().copied();
        let segments: Vec<_> = iter::once(header.as_bytes())
            .chain(parts)
            .map(IoSlice::new)
            .collect();
        match rustix::io::writev(self.device.as_fd(), &segments) {
            Ok(_) => Ok(true),
            // Not known, or not any more; unmounted.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::NODEV) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }
}
