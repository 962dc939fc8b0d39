//! Files that the kernel reads and writes by itself.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use surmise_sys::passthrough;

/// A file that is registered with a session's kernel, until this is dropped. Files that were opened with
/// it stay open.
#[derive(Debug)]
pub struct Backing {
    device: Arc<OwnedFd>,
    id: BackingId,
}

/// What names a [`Backing`] in an [`OpenReply`](crate::OpenReply).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackingId(i32);

impl Backing {
    pub(crate) fn open(device: Arc<OwnedFd>, file: BorrowedFd<'_>) -> std::io::Result<Self> {
        let id = BackingId(passthrough::open_backing(&device, file)?);
        Ok(Self { device, id })
    }

    /// Its name.
    pub fn id(&self) -> BackingId {
        self.id
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        // Can only fail when the file system is unmounted, which gives all of them back.
        let _ = passthrough::close_backing(&self.device, self.id.0);
    }
}

impl BackingId {
    pub(crate) fn number(self) -> i32 {
        self.0
    }
}
