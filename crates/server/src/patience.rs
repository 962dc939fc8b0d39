//! Failures that pass: a full disk, or a program that is executed. What was promised is tried again until they have.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;

const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Whether the server is to end, and so waits for nothing more.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ending(Arc<AtomicBool>);

impl Ending {
    pub(crate) fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The pauses between tries.
#[derive(Debug)]
pub(crate) struct Pauses {
    next: Duration,
    until: Instant,
}

impl Pauses {
    /// The first pause begins now.
    pub(crate) fn new() -> Self {
        Self {
            next: PAUSE_MIN * 2,
            until: Instant::now() + PAUSE_MIN,
        }
    }

    /// Another, longer one begins now.
    pub(crate) fn again(&mut self) {
        self.until = Instant::now() + self.next;
        self.next = (self.next * 2).min(PAUSE_MAX);
    }

    /// How much of it is left.
    pub(crate) fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

/// What is waited for after a failure that passes; `None` for any other.
pub(crate) fn awaited(error: &io::Error) -> Option<&'static str> {
    Some(match Errno::from_io_error(error)? {
        Errno::TXTBSY => "until it is not executed any more",
        // A lease of fcntl(2).
        Errno::AGAIN => "until another program lets go of it",
        Errno::NOSPC => "until the file system has space again",
        Errno::MFILE | Errno::NFILE => "until fewer files are open",
        Errno::DQUOT => "until its user's quota allows more",
        _ => return None,
    })
}

/// Whether there is not enough space.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NOSPC | Errno::DQUOT)
    )
}
