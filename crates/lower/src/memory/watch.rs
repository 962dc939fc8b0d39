//! Watches on a tree in memory.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard};

use rustix::event::{EventfdFlags, eventfd};

use crate::interface::{Change, Directory, WatchId, Watcher};

#[derive(Debug)]
pub(super) struct MemoryWatcher {
    /// Counts changes until they are taken.
    told: OwnedFd,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    watches: HashMap<u64, WatchId>,
    last: i32,
    changes: Vec<Change>,
}

impl MemoryWatcher {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            told: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            queue: Mutex::default(),
        })
    }

    /// The watch on an inode, if there is one.
    pub(super) fn watch(&self, number: u64) -> Option<WatchId> {
        self.queue().watches.get(&number).copied()
    }

    pub(super) fn push(&self, number: u64, change: Change) {
        let mut queue = self.queue();
        if matches!(change, Change::Gone(_)) {
            queue.watches.remove(&number);
        }
        queue.changes.push(change);
        // Fails when it is full, and then it is readable anyway.
        let _ = rustix::io::write(&self.told, &1_u64.to_ne_bytes());
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("nothing panics with it")
    }
}

impl Watcher for MemoryWatcher {
    fn add(&self, directory: &dyn Directory) -> Option<WatchId> {
        let number = directory.attributes().ok()?.identity.inode;
        let mut queue = self.queue();
        if let Some(watch) = queue.watches.get(&number) {
            return Some(*watch);
        }
        queue.last += 1;
        let watch = WatchId(queue.last);
        queue.watches.insert(number, watch);
        Some(watch)
    }

    fn remove(&self, watch: WatchId) {
        self.queue().watches.retain(|_, one| *one != watch);
    }

    fn changes(&self) -> io::Result<Vec<Change>> {
        let mut queue = self.queue();
        // Fails when there are none.
        let _ = rustix::io::read(&self.told, &mut [0; 8]);
        Ok(std::mem::take(&mut queue.changes))
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.told.as_fd()
    }
}
