//! The syncer: hears the calls of a domain that ask for durability, or that may change what the commits do
//! not order, and answers them; and makes the commits.
//!
//! It looks at the task that calls and at nothing else; who holds output back is the relay process, by the
//! epochs that both share.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags};
use rustix::time::Timespec;
use surmise_refusals::Observer;
use surmise_sys::seccomp::{Answer, Listener, Notification};
use surmise_syscalls::{Handler, Row, Syscall, row_numbered};

use crate::adaptive::{Adaptive, Way};
use crate::descriptors::Descriptors;
use crate::driver::Driver;
use crate::epochs::{Epochs, Promise, Stopped, Trigger};
use crate::hazards::{Hazards, is_elsewhere, not_seen};
use crate::places::{self, Change};
use crate::reasons::{Counted, Reason, Reasons};
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
    /// The only directory below which tasks change anything by name, if they are kept to one. Then calls that do
    /// are not heard: they can be about the volume only.
    pub confined: Option<PathBuf>,
}

/// Why the syncer could not go on.
#[derive(Debug, thiserror::Error)]
pub enum SyncerError {
    /// A commit failed: what was promised is not durable, and nobody knows what is.
    #[error("make durable what was promised: {0}")]
    Commit(#[source] io::Error),
    /// Calls could not be heard or answered.
    #[error("hear calls: {0}")]
    Hear(#[source] io::Error),
}

/// The syncer of one domain.
#[derive(Debug)]
pub struct Syncer {
    listener: Listener,
    options: Options,
    epochs: Epochs,
    hazards: Hazards,
    descriptors: Descriptors,
    adaptive: Adaptive,
    reasons: Reasons,
    /// Whether something was changed that the driver does not commit.
    changes_elsewhere: bool,
    /// Who counts what is refused, if that is to be told.
    observer: Option<Observer>,
}

impl Syncer {
    /// One that hears by `listener`. The calling process may trace the tasks. `observer`: answers calls that
    /// are refused; without it the filter does.
    pub fn new(
        listener: Listener,
        options: Options,
        epochs: Epochs,
        observer: Option<Observer>,
    ) -> Self {
        let hazards = Hazards::new(options.driver.as_ref());
        Self {
            listener,
            options,
            epochs,
            hazards,
            descriptors: Descriptors::default(),
            adaptive: Adaptive::new(),
            reasons: Reasons::default(),
            changes_elsewhere: false,
            observer,
        }
    }

    /// Hears and commits until `end` hangs up, and then commits once more. A thread of its own hears until
    /// there are no tasks, which on Linux before 6.11 it is not told: the caller's process should end soon.
    /// Returns why syncs were made at once.
    ///
    /// # Errors
    /// When a commit fails, or calls cannot be heard. Nothing that waits is released then.
    pub fn run(self, end: BorrowedFd<'_>) -> Result<Vec<Counted>, SyncerError> {
        let over = eventfd(0, EventfdFlags::CLOEXEC);
        let over = Arc::new(over.map_err(|errno| SyncerError::Hear(errno.into()))?);
        let (epochs, options) = (self.epochs.clone(), self.options.clone());
        let reasons = self.reasons.clone();
        let committer = spawn("committer", &over, {
            let epochs = epochs.clone();
            move || commit_until_end(&epochs, &options)
        })?;
        let (sender, heard) = mpsc::channel();
        spawn("listener", &over, move || {
            // The other end may have gone.
            let _ = sender.send(self.hear());
        })?;
        let result = await_end(end, &over, &epochs, &heard);
        if result.is_err() {
            epochs.stop();
        }
        epochs.want(Trigger::End);
        let committed = committer.join().expect("a committer does not panic");
        committed.map_err(SyncerError::Commit)?;
        result.map_err(SyncerError::Hear)?;
        Ok(reasons.counted())
    }

    /// Hears until no task is left, or nothing more is made durable.
    fn hear(mut self) -> io::Result<()> {
        loop {
            let Some(call) = self.listener.receive()? else {
                if self.is_alone()? {
                    return Ok(());
                }
                continue;
            };
            if self.take(&call)?.is_err() {
                return Ok(());
            }
        }
    }

    fn is_alone(&self) -> io::Result<bool> {
        let mut polled = [PollFd::new(&self.listener, PollFlags::IN)];
        match rustix::event::poll(&mut polled, Some(&Timespec::default())) {
            Ok(_) | Err(Errno::INTR) => Ok(polled[0].revents().contains(PollFlags::HUP)),
            Err(errno) => Err(errno.into()),
        }
    }

    fn take(&mut self, call: &Notification) -> io::Result<Result<(), Stopped>> {
        let refused = self
            .observer
            .as_ref()
            .and_then(|observer| observer.refuse(call));
        if let Some(refused) = refused {
            return self.listener.answer(call.id, refused).map(|_| Ok(()));
        }
        let answer = match row_numbered(call.number) {
            Some(row) => self.answer(call, row),
            // One that is newer than the table waits, as unknown calls do.
            None => self.barrier().map(|()| Answer::Continue),
        };
        match answer {
            Ok(answer) => {
                let answer = match (answer, &self.observer) {
                    (Answer::Continue, Some(observer)) => observer.answer(call),
                    (answer, _) => answer,
                };
                self.listener.answer(call.id, answer).map(|_| Ok(()))
            }
            // The task waits for its end.
            Err(stopped) => Ok(Err(stopped)),
        }
    }

    fn answer(&mut self, call: &Notification, row: &Row) -> Result<Answer, Stopped> {
        match row.handler() {
            Handler::Durability => self.durability(call, row),
            Handler::View => self.name(call, row),
            Handler::Memory => {
                self.map(call);
                Ok(Answer::Continue)
            }
            Handler::Network => self.socket(call, row),
            _ => self.barrier().map(|()| Answer::Continue),
        }
    }

    /// Waits until everything is durable that was promised so far.
    fn barrier(&self) -> Result<(), Stopped> {
        match self.epochs.of_output() {
            Some(epoch) => self.epochs.await_durable(epoch, Trigger::Barrier),
            None => Ok(()),
        }
    }

    /// A call that asks for durability.
    fn durability(&mut self, call: &Notification, row: &Row) -> Result<Answer, Stopped> {
        let lack = self.lack(call, row);
        let reason = lack.or_else(|| self.hazards.find(call.thread));
        let Some(reason) = reason.or_else(|| self.does_not_pay()) else {
            self.epochs.promise();
            if self.options.eager {
                self.epochs.want(Trigger::Eager);
            }
            return Ok(Answer::Value(0));
        };
        self.epochs.did_really();
        self.reasons.count(reason);
        // Something that is elsewhere must not become durable before.
        self.barrier()?;
        Ok(Answer::Continue)
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
    fn name(&mut self, call: &Notification, row: &Row) -> Result<Answer, Stopped> {
        match places::change_of(call, row, self.options.driver.device()) {
            Change::Ordered => {}
            Change::Elsewhere => {
                self.changes_elsewhere = true;
                self.barrier()?;
            }
            // Its writes would come before what was written earlier.
            Change::OpensElsewhere if self.options.promise == Promise::Write => {
                return Ok(Answer::Error(Errno::ROFS));
            }
            Change::OpensElsewhere => {
                self.changes_elsewhere = true;
                self.barrier()?;
                self.hazards.opens(call);
            }
        }
        Ok(Answer::Continue)
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
            Err(error) => self.hazards.maps_unseen(&error),
        }
    }

    /// A call that may reach somebody outside by the name of a socket.
    fn socket(&mut self, call: &Notification, row: &Row) -> Result<Answer, Stopped> {
        if row.name() == Syscall::Bind {
            let name = sockets::bound_name(call);
            if !matches!(name, Ok(None)) {
                self.barrier()?;
            }
            return Ok(Answer::Continue);
        }
        match sockets::reach(call, row.name()) {
            Reach::Inside => return Ok(Answer::Continue),
            Reach::Missing(errno) => return Ok(Answer::Error(errno)),
            Reach::Outside => {}
        }
        if self.options.promise == Promise::Write {
            return Ok(Answer::Error(Errno::CONNREFUSED));
        }
        self.barrier()?;
        self.hazards.connects(call);
        Ok(Answer::Continue)
    }
}

/// A thread that tells of its end, by which time its last word is said.
fn spawn<T: Send + 'static>(
    name: &str,
    over: &Arc<OwnedFd>,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, SyncerError> {
    let over = Arc::clone(over);
    let run = move || {
        let result = run();
        // It cannot be full.
        let _ = rustix::io::write(&*over, &1_u64.to_ne_bytes());
        result
    };
    let thread = thread::Builder::new().name(name.into()).spawn(run);
    thread.map_err(SyncerError::Hear)
}

/// Waits until `end` hangs up, a commit has failed, or calls cannot be heard, which is an error.
fn await_end(
    end: BorrowedFd<'_>,
    over: &OwnedFd,
    epochs: &Epochs,
    heard: &Receiver<io::Result<()>>,
) -> io::Result<()> {
    loop {
        let mut polled = [
            PollFd::from_borrowed_fd(end, PollFlags::IN),
            PollFd::new(over, PollFlags::IN),
        ];
        match rustix::event::poll(&mut polled, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
        }
        let [is_end, is_over] = polled.map(|polled| !polled.revents().is_empty());
        if is_over {
            let _ = rustix::io::read(over, &mut [0; 8]);
            if let Ok(Err(error)) = heard.try_recv() {
                return Err(error);
            }
        }
        if is_end || epochs.is_stopped() {
            return Ok(());
        }
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

/// Commits when that is wanted and now and then, and once more at the end.
fn commit_until_end(epochs: &Epochs, options: &Options) -> io::Result<()> {
    let driver = options.driver.as_ref();
    loop {
        let wanted = epochs.await_wish(options.interval);
        if epochs.is_stopped() {
            return Ok(());
        }
        let is_end = wanted.contains(&Trigger::End);
        match wanted.first() {
            _ if is_end => return epochs.commit(driver, Trigger::End),
            Some(&trigger) => epochs.commit(driver, trigger)?,
            None if epochs.is_clean() => {}
            None => epochs.commit(driver, Trigger::Interval)?,
        }
    }
}
