//! Requests that are answered later.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;

use crate::dispatch::answer;
use crate::reply::Reply;
use crate::{Capabilities, FileSystem, Request};

/// What a [`FileSystem`]'s method fails with that cannot answer yet: nothing of it has happened, and it
/// is called again by [`Notifier::resume`](crate::Notifier::resume). Its caller sleeps until then, deaf
/// even to `SIGKILL`, and the kernel holds the locks of its call; no worker waits.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the request is postponed")]
pub struct Postponed;

impl From<Postponed> for io::Error {
    fn from(postponed: Postponed) -> Self {
        Self::other(postponed)
    }
}

impl Postponed {
    pub(crate) fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Self>())
    }
}

/// The requests that wait for an answer, as they came.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: Mutex<Vec<(Vec<u8>, Capabilities)>>,
}

impl Queue {
    pub(crate) fn add(&self, request: &[u8], capabilities: Capabilities) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push((request.to_vec(), capabilities));
    }

    /// Has them answered, in the order in which they came. Those that are postponed again wait again.
    pub(crate) fn resume<F: FileSystem + ?Sized>(
        &self,
        fs: &F,
        device: &OwnedFd,
        buffer: &mut [u8],
    ) -> io::Result<()> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let due = std::mem::take(&mut *waiting);
        drop(waiting);
        for (bytes, capabilities) in due {
            let request = Request::decode(&bytes, capabilities).map_err(io::Error::other)?;
            match answer(fs, request, buffer) {
                Some(reply) if reply.is_postponed() => self.add(&bytes, capabilities),
                Some(reply) => send(device, &reply)?,
                None => {}
            }
        }
        Ok(())
    }
}

/// Writes a reply to the device.
pub(crate) fn send(device: &OwnedFd, reply: &Reply<'_>) -> io::Result<()> {
    match rustix::io::writev(device.as_fd(), &reply.segments()) {
        // ENOENT: nobody waits any more. EINVAL: the reply is larger than what was asked for,
        // and the kernel has told the caller EIO. ENODEV: the next read ends the worker.
        Ok(_) | Err(Errno::NOENT | Errno::INVAL | Errno::NODEV) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
