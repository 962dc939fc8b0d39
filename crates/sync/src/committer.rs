//! The thread that makes commits, and how the supervisor hears of each.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::process::Signal;
use surmise_sys::signals;

use crate::driver::Driver;
use crate::epochs::{Epochs, Trigger};

/// Commits when that is wanted and now and then, until there is to be a last commit.
#[derive(Debug)]
pub(crate) struct Committer {
    /// Readable after a commit, and after the last one there will be.
    committed: Arc<OwnedFd>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Committer {
    /// Starts the thread. `interval`: how long a promise may wait to be kept when nobody asks.
    pub(crate) fn start(
        epochs: Epochs,
        driver: Arc<dyn Driver>,
        interval: Duration,
    ) -> io::Result<Self> {
        let committed = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let committed = Arc::new(committed);
        let told = Arc::clone(&committed);
        let commit = move || {
            let tell = || {
                // It is full only if nobody has read it for ever.
                let _ = rustix::io::write(&*told, &1_u64.to_ne_bytes());
            };
            let ended = commit_until_end(&epochs, driver.as_ref(), interval, tell);
            tell();
            ended
        };
        // A thread begins with the mask of the one that starts it. This one must not take the signal that tells of a tracee: the
        // thread that traces would wait for that for ever.
        let before = signals::block(&[Signal::CHILD])?;
        let thread = thread::Builder::new()
            .name("committer".into())
            .spawn(commit);
        before.restore()?;
        let thread = thread?;
        Ok(Self {
            committed,
            thread: Some(thread),
        })
    }

    /// Takes the event of a commit.
    ///
    /// # Errors
    /// A commit has failed.
    pub(crate) fn hear(&mut self) -> io::Result<()> {
        match rustix::io::read(&*self.committed, &mut [0; 8]) {
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        match &self.thread {
            Some(thread) if thread.is_finished() => self.end(),
            _ => Ok(()),
        }
    }

    /// Waits for the last commit, which is to be wanted already.
    ///
    /// # Errors
    /// As [`Self::hear`].
    pub(crate) fn end(&mut self) -> io::Result<()> {
        match self.thread.take() {
            Some(thread) => thread.join().expect("a committer does not panic"),
            None => Ok(()),
        }
    }
}

impl AsFd for Committer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.committed.as_fd()
    }
}

/// Commits when that is wanted and now and then, and once more at the end.
fn commit_until_end(
    epochs: &Epochs,
    driver: &dyn Driver,
    interval: Duration,
    tell: impl Fn(),
) -> io::Result<()> {
    loop {
        let wanted = epochs.await_wish(interval);
        if epochs.is_stopped() {
            return Ok(());
        }
        let is_end = wanted.contains(&Trigger::End);
        match wanted.first() {
            _ if is_end => return epochs.commit(driver, Trigger::End),
            Some(&trigger) => epochs.commit(driver, trigger)?,
            None if epochs.is_clean() => continue,
            None => epochs.commit(driver, Trigger::Interval)?,
        }
        tell();
    }
}
