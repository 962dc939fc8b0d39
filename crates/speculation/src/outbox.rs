//! Output that depends on something undecided.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use surmise_engine::HoldId;

/// A pipe that can be written to takes this much at once (PIPE_BUF).
const ATOMIC: usize = 4096;

/// One write that its task believes to have happened.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) to: OwnedFd,
    pub(crate) bytes: Vec<u8>,
}

/// Held output.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    held: HashMap<HoldId, Output>,
    next: u64,
}

impl Outbox {
    /// Keeps an output.
    pub(crate) fn hold(&mut self, output: Output) -> HoldId {
        self.next += 1;
        let id = HoldId(self.next);
        self.held.insert(id, output);
        id
    }

    /// Throws an output away, or takes it out.
    pub(crate) fn take(&mut self, id: HoldId) -> Option<Output> {
        self.held.remove(&id)
    }
}

impl Output {
    /// Writes it. A reader may be slow: then its task waits for it, as it would anyway, and so do others.
    ///
    /// # Errors
    /// As `poll`. A reader that is gone is none: its task will notice by its next write.
    pub(crate) fn deliver(&self) -> io::Result<()> {
        let mut rest = &self.bytes[..];
        while !rest.is_empty() {
            let mut events = [PollFd::new(&self.to, PollFlags::OUT)];
            match rustix::event::poll(&mut events, None) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            }
            match rustix::io::write(&self.to, &rest[..rest.len().min(ATOMIC)]) {
                Ok(written) => rest = &rest[written..],
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }
}
