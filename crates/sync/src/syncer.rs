//! The syncer: decides about calls that ask for durability, and about calls that may make changes which the commits
//! do not order; and has the commits made.
//!
//! It looks at the calling task and at nothing else. The relay process holds output back, by the epochs that both share.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags};
use surmise_supervisor::{Durability, Verdict};
use surmise_sys::seccomp::{Answer, Notification};
use surmise_syscalls::{Handler, Row, Syscall};

use crate::adaptive::{Adaptive, Way};
use crate::committer::Committer;
use crate::descriptors::Descriptors;
use crate::driver::Driver;
use crate::epochs::{Epochs, Promise, Trigger};
use crate::hazards::{Hazards, is_elsewhere, is_of_view, not_seen};
use crate::places::{self, Change};
use crate::reasons::{Reason, Reasons};
use crate::sockets::{self, Reach};
use crate::target::{Access, Target};

/// How a domain's syncs are put off.
#[derive(Clone, Debug)]
pub struct Options {
    /// How the file system is committed.
    pub driver: Arc<dyn Driver>,
    /// What output may rely on.
    pub promise: Promise,
    /// How long a promise may wait to be kept when nobody asks.
    pub interval: Duration,
    /// Whether each promise is to be kept at once, though nobody waits for it.
    pub eager: bool,
    /// What tasks may change besides what is committed.
    pub scope: Scope,
}

/// What the tasks of a domain may change besides what is committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Any file that their user may change.
    Anything,
    /// Nothing by name that is not below this directory, which is committed: they are kept from that. Calls that change
    /// something by its name are not heard, for they can be about the volume only.
    Below(PathBuf),
    /// Files of a view, which nobody outside sees. Calls that change something by its name are not heard either.
    View,
}

impl Scope {
    /// Whether all that is not committed is a view's.
    pub(crate) fn is_view(&self) -> bool {
        *self == Self::View
    }
}

/// The syncer of one domain.
#[derive(Debug)]
pub struct Syncer {
    options: Options,
    epochs: Epochs,
    committer: Committer,
    hazards: Hazards,
    descriptors: Descriptors,
    adaptive: Adaptive,
    reasons: Reasons,
    /// Whether something was changed that the driver does not commit.
    changes_elsewhere: bool,
}

impl Syncer {
    /// One whose commits begin now. The calling process may trace the tasks.
    ///
    /// # Errors
    /// As for starting a thread.
    pub fn new(options: Options, epochs: Epochs) -> io::Result<Self> {
        let driver = Arc::clone(&options.driver);
        Ok(Self {
            hazards: Hazards::new(options.driver.as_ref(), options.scope.is_view()),
            committer: Committer::start(epochs.clone(), driver, options.interval)?,
            options,
            epochs,
            descriptors: Descriptors::default(),
            adaptive: Adaptive::new(),
            reasons: Reasons::default(),
            changes_elsewhere: false,
        })
    }

    /// Why syncs were made at once: counted on, wherever the syncer is.
    pub fn reasons(&self) -> Reasons {
        self.reasons.clone()
    }

    /// A call that asks for durability.
    fn durability(&mut self, call: &Notification, row: &Row) -> Verdict {
        if self.is_of_view(call, row) {
            // Nobody outside sees it, and it becomes durable when it is committed.
            return Verdict::Now(Answer::Continue);
        }
        let lack = self.lack(call, row);
        let reason = lack.or_else(|| self.hazards.find(call.thread));
        let Some(reason) = reason.or_else(|| self.does_not_pay()) else {
            self.epochs.promise();
            if self.options.eager {
                self.epochs.want(Trigger::Eager);
            }
            return Verdict::Now(Answer::Value(0));
        };
        self.epochs.did_really();
        self.reasons.count(reason);
        // Something that is elsewhere must not become durable before.
        Verdict::OnceDurable(Answer::Continue)
    }

    /// Whether a call asks for a file of a view to be durable.
    fn is_of_view(&self, call: &Notification, row: &Row) -> bool {
        let has_descriptor = matches!(
            row.name(),
            Syscall::Fsync | Syscall::Fdatasync | Syscall::Syncfs | Syscall::SyncFileRange
        );
        let is_view = self.options.scope.is_view();
        is_view && has_descriptor && {
            let target = Target::of_descriptor(call.thread, call.arguments[0] as RawFd);
            target.is_err_and(|error| is_of_view(&error))
        }
    }

    /// What a call lacks to be put off, whatever goes on in the domain.
    fn lack(&mut self, call: &Notification, row: &Row) -> Option<Reason> {
        match row.name() {
            Syscall::Fsync | Syscall::Fdatasync => self.lack_of_order(call, Target::is_file),
            Syscall::Syncfs => self.lack_of_order(call, |_| true),
            Syscall::Sync => self.changes_elsewhere.then_some(Reason::ChangedElsewhere),
            // It promises nothing: to write early what will be committed whole costs time only.
            Syscall::SyncFileRange if !is_range(call) => Some(Reason::NotSyncable),
            Syscall::SyncFileRange => self.lack_of_order(call, Target::is_file),
            // Of a map, which no commit orders.
            _ => {
                let [address, length, ..] = call.arguments;
                let addresses = address..address.saturating_add(length);
                self.hazards.asks_for_map(call.thread, &addresses);
                Some(Reason::OfMap)
            }
        }
    }

    /// Whether to put a sync off does not pay, as far as those before tell.
    fn does_not_pay(&mut self) -> Option<Reason> {
        if self.options.promise == Promise::Write {
            // Output costs a commit each time, whatever syncs do.
            return None;
        }
        let (way, has_changed) = self.adaptive.next(self.epochs.commits_for_output());
        if has_changed {
            self.epochs.switched();
        }
        (way == Way::Real).then_some(Reason::DoesNotPay)
    }

    /// Whether a call's first argument does not lead to the volume, or not to what a call can be answered for that
    /// did not look at it.
    fn lack_of_order(
        &mut self,
        call: &Notification,
        suits: impl Fn(&Target) -> bool,
    ) -> Option<Reason> {
        let descriptor = call.arguments[0] as RawFd;
        let driver = &self.options.driver;
        let mut look = || -> io::Result<Option<Reason>> {
            let looked = self.descriptors.look(call.thread, descriptor)?;
            let fits = |(access, target): &(Access, Target)| {
                (access.reads || access.writes) && suits(target)
            };
            let Some((_, target)) = looked.filter(fits) else {
                return Ok(Some(Reason::NotSyncable));
            };
            if target.device() != driver.device() {
                return Ok(Some(Reason::NotOfVolume));
            }
            self.hazards.asks_for(&target);
            let is_covered = driver.covers_all()
                || driver.covers(descriptor_of(call.thread, descriptor)?.as_fd())?;
            Ok((!is_covered).then_some(Reason::NotOrdered))
        };
        // What cannot be looked at is not promised.
        look().unwrap_or_else(|error| Some(not_seen(&error)))
    }

    /// A call that changes something by its name.
    fn name(&mut self, call: &Notification, row: &Row) -> Verdict {
        match places::change_of(call, row, self.options.driver.device()) {
            Change::Ordered => Verdict::Now(Answer::Continue),
            Change::Elsewhere => {
                self.changes_elsewhere = true;
                Verdict::OnceDurable(Answer::Continue)
            }
            // Its writes would come before what was written earlier.
            Change::OpensElsewhere if self.options.promise == Promise::Write => {
                Verdict::Now(Answer::Error(Errno::ROFS))
            }
            Change::OpensElsewhere => {
                self.changes_elsewhere = true;
                self.hazards.opens(call);
                Verdict::OnceDurable(Answer::Continue)
            }
        }
    }

    /// A map that is shared: stores into it are in no order with writes.
    fn map(&mut self, call: &Notification) {
        let descriptor = call.arguments[4] as RawFd;
        let look = || -> io::Result<Option<Target>> {
            let writes = Access::of(call.thread, descriptor)?.is_some_and(|access| access.writes);
            let target = Target::of_descriptor(call.thread, descriptor)?;
            Ok(target.filter(|_| writes))
        };
        let volume = self.options.driver.device();
        match look() {
            Ok(None) => {}
            Ok(Some(target)) if target.device() == volume => self.hazards.opens(call),
            Ok(Some(target)) if !is_elsewhere(&target, volume) => {}
            Ok(Some(_)) => self.hazards.maps_elsewhere(call, descriptor),
            Err(error) if self.options.scope.is_view() && is_of_view(&error) => {}
            Err(error) => self.hazards.maps_unseen(&error),
        }
    }

    /// A call that may reach somebody outside by the name of a socket.
    fn socket(&mut self, call: &Notification, row: &Row) -> Verdict {
        if row.name() == Syscall::Bind {
            let name = sockets::bound_name(call);
            return match matches!(name, Ok(None)) {
                true => Verdict::Now(Answer::Continue),
                false => Verdict::OnceDurable(Answer::Continue),
            };
        }
        match sockets::reach(call, row.name(), self.options.scope.is_view()) {
            Reach::Inside => return Verdict::Now(Answer::Continue),
            Reach::Missing(errno) => return Verdict::Now(Answer::Error(errno)),
            Reach::Outside => {}
        }
        if self.options.promise == Promise::Write {
            return Verdict::Now(Answer::Error(Errno::CONNREFUSED));
        }
        self.hazards.connects(call);
        Verdict::OnceDurable(Answer::Continue)
    }
}

impl Durability for Syncer {
    fn meet(&mut self, call: &Notification, row: &Row) -> Verdict {
        match row.handler() {
            Handler::Durability => self.durability(call, row),
            Handler::View => self.name(call, row),
            Handler::Memory => {
                self.map(call);
                Verdict::Now(Answer::Continue)
            }
            Handler::Network => self.socket(call, row),
            _ => Verdict::OnceDurable(Answer::Continue),
        }
    }

    fn outstanding(&mut self) -> Option<u64> {
        let epoch = self.epochs.of_output()?;
        self.epochs.want(Trigger::Barrier);
        Some(epoch.promises())
    }

    fn kept(&self) -> u64 {
        self.epochs.kept()
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.committer.as_fd()
    }

    fn hear(&mut self) -> io::Result<bool> {
        self.committer.hear()?;
        Ok(!self.epochs.is_stopped())
    }

    fn end(&mut self) -> io::Result<()> {
        self.epochs.want(Trigger::End);
        self.committer.end()
    }
}

/// Whether the arguments of a `sync_file_range` besides its descriptor are such as the kernel takes.
fn is_range(call: &Notification) -> bool {
    /// SYNC_FILE_RANGE_WAIT_BEFORE, _WRITE and _WAIT_AFTER.
    const FLAGS: u32 = 0x7;
    let [_, offset, length, flags, ..] = call.arguments;
    let end = offset.wrapping_add(length);
    flags as u32 & !FLAGS == 0 && offset <= end && end <= i64::MAX as u64
}

/// A copy of a task's descriptor.
fn descriptor_of(thread: Pid, descriptor: RawFd) -> io::Result<OwnedFd> {
    let pidfd = rustix::process::pidfd_open(thread, PidfdFlags::from_bits_retain(PIDFD_THREAD))?;
    Ok(rustix::process::pidfd_getfd(
        pidfd,
        descriptor,
        PidfdGetfdFlags::empty(),
    )?)
}

/// `PIDFD_THREAD` (Linux 6.9): of a thread that need not be its process' first.
const PIDFD_THREAD: u32 = 0o200;
