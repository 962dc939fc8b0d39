//! Locks of files: fcntl(2) and flock(2).
//!
//! The kernel keeps none of them. It tells of each descriptor that is closed, by which a process loses its locks of fcntl(2) on the
//! file, and of the end of each open file, by which all other locks go that were set through the file: those of flock(2), which the kernel
//! names, and those of open file descriptions (`F_OFD_SETLK`), which it does not.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::sync::{MutexGuard, PoisonError};

use rustix::fs::OFlags;
use rustix::io::Errno;
use surmise_fuse::{FileLock, LockKind, Postponed};
use surmise_remote::client::Response;
use surmise_remote::locks::{Api, Attempt, Hold, How};

use super::{CALLER, Far, error};

/// Who has set locks by fcntl(2), and through which open files.
#[derive(Debug, Default)]
pub(super) struct Lockers {
    /// The owners, by handle.
    by_handle: HashMap<u64, BTreeSet<u64>>,
    /// The handles, by node and owner.
    by_owner: BTreeMap<(u64, u64), BTreeSet<u64>>,
    /// The closes that wait for the server.
    closing: HashSet<u64>,
}

impl Lockers {
    fn add(&mut self, node: u64, handle: u64, owner: u64) {
        self.by_handle.entry(handle).or_default().insert(owner);
        self.by_owner
            .entry((node, owner))
            .or_default()
            .insert(handle);
    }

    /// Whether any process has locks on a node.
    fn has_any(&self, node: u64) -> bool {
        let mut owners = self.by_owner.range((node, 0)..=(node, u64::MAX));
        owners.next().is_some()
    }

    /// An owner has no locks on a node any more. Whether it may have had any.
    fn remove_owner(&mut self, node: u64, owner: u64) -> bool {
        let Some(handles) = self.by_owner.remove(&(node, owner)) else {
            return false;
        };
        for handle in handles {
            if let Some(owners) = self.by_handle.get_mut(&handle) {
                owners.remove(&owner);
                if owners.is_empty() {
                    self.by_handle.remove(&handle);
                }
            }
        }
        true
    }

    /// An open file is gone. Returns the owners that may still have locks, and have set them through no other open file.
    fn remove_handle(&mut self, node: u64, handle: u64) -> BTreeSet<u64> {
        let mut owners = self.by_handle.remove(&handle).unwrap_or_default();
        owners.retain(|owner| {
            let Some(handles) = self.by_owner.get_mut(&(node, *owner)) else {
                return false;
            };
            handles.remove(&handle);
            let is_last = handles.is_empty();
            if is_last {
                self.by_owner.remove(&(node, *owner));
            }
            is_last
        });
        owners
    }
}

impl Far {
    /// Whether the kernel is not to tell of each descriptor of an open file that is closed. That costs a message, and few
    /// programs lock what they only read. A lock that one of these sets goes when the open file is gone, unless the file had locks
    /// when it was opened.
    pub(super) fn closes_unsaid(&self, node: u64, flags: OFlags) -> bool {
        let is_read_only = flags.intersection(OFlags::RWMODE) == OFlags::RDONLY;
        is_read_only && !self.lockers().has_any(node)
    }

    pub(super) fn lock_in_the_way(&self, node: u64, lock: FileLock) -> io::Result<FileLock> {
        let attempt = attempt_of(lock, How::Test);
        let object = self.nodes.object(node);
        match self.shell.call_for_lock(object, attempt, CALLER.get()) {
            None => Err(Postponed.into()),
            Some(Ok(Response::Blocked(Some(found)))) => Ok(FileLock {
                first: found.first,
                last: found.last,
                kind: match found.hold {
                    Hold::Shared => LockKind::Shared,
                    Hold::Exclusive => LockKind::Exclusive,
                },
                process: found.process,
                ..lock
            }),
            Some(Ok(_)) => Ok(FileLock {
                kind: LockKind::None,
                ..lock
            }),
            Some(Err(errno)) => Err(error(errno)),
        }
    }

    pub(super) fn set_lock(
        &self,
        node: u64,
        handle: u64,
        lock: FileLock,
        waits: bool,
    ) -> io::Result<()> {
        let how = if waits { How::Wait } else { How::Try };
        self.lock(node, attempt_of(lock, how))?;
        // Before the caller hears of it. Another thread may have closed a descriptor meanwhile.
        if !lock.is_flock && lock.kind != LockKind::None {
            self.lockers().add(node, handle, lock.owner);
        }
        Ok(())
    }

    /// A process closes a descriptor, and so loses its locks on the file.
    pub(super) fn close_one(&self, node: u64, owner: u64) -> io::Result<()> {
        let request = CALLER.get().request;
        let mut lockers = self.lockers();
        // A close that is tried again is over with what was set before, not with what was set since.
        if !lockers.closing.contains(&request) && !lockers.remove_owner(node, owner) {
            return Ok(());
        }
        lockers.closing.insert(request);
        drop(lockers);
        match self.lock(node, all_of(Api::Fcntl, owner)) {
            Err(error) if Postponed::is(&error) => Err(error),
            lifted => {
                self.lockers().closing.remove(&request);
                lifted
            }
        }
    }

    /// An open file is gone.
    pub(super) fn close_last(&self, node: u64, handle: u64, flock_owner: Option<u64>) {
        let owners = self.lockers().remove_handle(node, handle);
        let records = owners.into_iter().map(|owner| all_of(Api::Fcntl, owner));
        let whole = flock_owner.map(|owner| all_of(Api::Flock, owner));
        for attempt in records.chain(whole) {
            self.shell.lift(self.nodes.object(node), attempt);
        }
    }

    fn lock(&self, node: u64, attempt: Attempt) -> io::Result<()> {
        let object = self.nodes.object(node);
        match self.shell.call_for_lock(object, attempt, CALLER.get()) {
            None => Err(Postponed.into()),
            Some(Ok(Response::Done)) => Ok(()),
            Some(Ok(_)) => Err(Errno::IO.into()),
            Some(Err(errno)) => Err(error(errno)),
        }
    }

    /// Has the requests answered that wait for locks, until the mount ends.
    pub fn answer_locks(&self) {
        while self.shell.await_lock_answers() {
            if let Some(kernel) = self.kernel.get() {
                // It fails where the mount has ended; then nobody waits.
                let _ = kernel.resume(self);
            }
        }
    }

    fn lockers(&self) -> MutexGuard<'_, Lockers> {
        self.lockers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn attempt_of(lock: FileLock, how: How) -> Attempt {
    Attempt {
        api: if lock.is_flock {
            Api::Flock
        } else {
            Api::Fcntl
        },
        owner: lock.owner,
        first: lock.first,
        last: lock.last,
        hold: match lock.kind {
            LockKind::Shared => Some(Hold::Shared),
            LockKind::Exclusive => Some(Hold::Exclusive),
            LockKind::None => None,
        },
        how,
        process: lock.process,
    }
}

/// What lifts all locks of an owner.
fn all_of(api: Api, owner: u64) -> Attempt {
    Attempt {
        api,
        owner,
        first: 0,
        last: u64::MAX,
        hold: None,
        how: How::Try,
        process: 0,
    }
}
