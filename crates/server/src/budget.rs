//! How much of what clients send may be in memory.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// Bytes that threads take before they bring a message, and that are given back when it is dealt with.
#[derive(Debug)]
pub(crate) struct Budget {
    left: Mutex<usize>,
    more: Condvar,
}

impl Budget {
    pub(crate) fn new(bytes: usize) -> Self {
        Self {
            left: Mutex::new(bytes),
            more: Condvar::new(),
        }
    }

    /// Waits until there are so many, and takes them.
    pub(crate) fn take(&self, bytes: usize) {
        // A number is whole whatever its last holder did.
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        while *left < bytes {
            left = self.more.wait(left).unwrap_or_else(PoisonError::into_inner);
        }
        *left -= bytes;
    }

    pub(crate) fn give(&self, bytes: usize) {
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) += bytes;
        self.more.notify_all();
    }
}

/// Bytes that wait for a thread.
#[derive(Debug, Default)]
pub(crate) struct Backlog(AtomicUsize);

impl Backlog {
    pub(crate) fn more(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn less(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
