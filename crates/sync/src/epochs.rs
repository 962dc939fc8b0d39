//! Epochs: what was promised to be durable, what is, and who waits for it.
//!
//! Promises are counted, and a commit keeps all promises that were made before it begins. So a dependency
//! is one number, the promises so far, and one comparison tells whether it is affirmed. The
//! numbers are in memory that the processes of a domain share. A thread that passes output on looks at them for
//! every piece, and asks nobody.
//!
//! The order of the steps makes this right. The syncer counts a promise before it answers the call, and so
//! before the task puts out anything afterwards. A relay thread reads the count after it has taken the output
//! from the task. So the count includes all promises that the output depends on. A commit reads the count
//! before it begins. So it keeps at least these promises.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::Timespec;
use surmise_sys::shared::SharedWords;

use crate::driver::Driver;
use crate::outlet::PutOff;
use crate::stats::{self, Stats};
use crate::tally::Tally;

/// What somebody outside may rely on when they see output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Promise {
    /// What a task asked to be durable before is durable (fsync(2)); and of the first output after a sync that was put
    /// off, whatever was changed until then.
    #[default]
    Fsync,
    /// Whatever a task wrote before is durable: what a program could rely on that had every write done
    /// synchronously. The paper's.
    Write,
}

/// Promises up to one; a later one includes the earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(u64);

impl Epoch {
    /// How many promises it includes.
    pub(crate) fn promises(self) -> u64 {
        self.0
    }
}

/// Why a commit is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// Output waits.
    Output,
    /// A call that cannot be tracked waits.
    Barrier,
    /// Enough time has passed.
    Interval,
    /// Commits are wanted at once.
    Eager,
    /// The command has ended.
    End,
}

/// No commit will come any more: one failed, or the process that makes them has ended. What waits is never released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nothing is made durable any more")]
pub struct Stopped;

/// The epochs of one domain, in this process and in those that are forked from it.
#[derive(Clone, Debug)]
pub struct Epochs {
    /// Promises, which other domains may make as well.
    tally: Arc<Tally>,
    /// What is this domain's own.
    words: Arc<SharedWords>,
    /// Written after a commit for which a poller waits.
    committed: Arc<OwnedFd>,
    promise: Promise,
}

/// Changes with every commit.
const GENERATION: usize = 0;
/// A bit for each reason why a commit is wanted.
const WISHES: usize = 1;
/// Whether a poller waits.
const POLLED: usize = 2;
const STOPPED: usize = 3;

/// How long [`Epochs::settle`] waits before it asks whether that is still wanted. Within this time it also notices a
/// commit by another domain, which wakes nobody here.
const SETTLING_STEP: Duration = Duration::from_millis(100);

impl Epochs {
    /// Of a domain that is alone on its file system.
    ///
    /// # Errors
    /// As mmap(2) and eventfd(2).
    pub fn new(promise: Promise) -> io::Result<Self> {
        Self::counted_by(Tally::alone()?, promise)
    }

    /// Of a domain that may have others of the same user beside it on the file system of a device. Output of
    /// each waits for what any of them was promised.
    ///
    /// # Errors
    /// Why they cannot count together.
    pub fn shared(device: u64, promise: Promise) -> io::Result<Self> {
        Self::counted_by(Tally::of_device(device)?, promise)
    }

    fn counted_by(tally: Tally, promise: Promise) -> io::Result<Self> {
        let committed = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            tally: Arc::new(tally),
            words: Arc::new(SharedWords::new()?),
            committed: Arc::new(committed),
            promise,
        })
    }

    /// A task is told that its changes are durable, which they are not: a promise. To be called before it is
    /// told.
    pub fn promise(&self) {
        self.tally.promise();
        stats::put_off(&self.words);
    }

    /// What output depends on that was taken from a task before; `None` if all of that is durable. After a
    /// stop that is what never will be: the domain is to end, and shows nothing more.
    pub fn of_output(&self) -> Option<Epoch> {
        self.awaited(false)
    }

    /// How many promises this domain's tasks were made.
    pub(crate) fn put_off(&self) -> PutOff {
        PutOff(stats::count_put_off(&self.words))
    }

    /// How many of them anybody has shown something after, for certain.
    pub(crate) fn shown(&self) -> PutOff {
        PutOff(stats::shown(&self.words))
    }

    /// Something was shown after so many.
    pub(crate) fn show(&self, put_off: PutOff) {
        stats::show(&self.words, put_off.0);
    }

    /// What has to be durable by now, if it is not: what was promised, or whatever was changed.
    pub(crate) fn awaited(&self, is_all: bool) -> Option<Epoch> {
        if self.is_stopped() {
            return Some(Epoch(u64::MAX));
        }
        // Nobody hears of writes, so there may always have been some.
        let epoch = match is_all || self.promise == Promise::Write {
            true => Epoch(self.tally.promise()),
            false => self.promised(),
        };
        (!self.is_durable(epoch)).then_some(epoch)
    }

    /// All promises so far.
    pub fn promised(&self) -> Epoch {
        Epoch(self.tally.promised())
    }

    /// Whether promises are kept.
    pub fn is_durable(&self, epoch: Epoch) -> bool {
        self.tally.durable() >= epoch.0
    }

    /// How many promises are kept.
    pub(crate) fn kept(&self) -> u64 {
        self.tally.durable()
    }

    /// Waits until all is durable that was promised so far, as long as that is wanted: `is_wanted` is asked now and
    /// then. Returns whether all is durable.
    ///
    /// # Errors
    /// When it never will be.
    pub fn settle(&self, is_wanted: impl Fn() -> bool) -> Result<bool, Stopped> {
        // Other domains may promise more meanwhile, which is not waited for.
        let Some(epoch) = self.of_output() else {
            return Ok(true);
        };
        while !self.await_durable_for(epoch, Trigger::Barrier, Some(SETTLING_STEP))? {
            if !is_wanted() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Wants a commit, and waits until promises are kept.
    ///
    /// # Errors
    /// When they never will be.
    pub(crate) fn await_durable(&self, epoch: Epoch, trigger: Trigger) -> Result<(), Stopped> {
        while !self.await_durable_for(epoch, trigger, None)? {}
        Ok(())
    }

    /// Wants a commit, and waits until promises are kept, or for `limit`. Returns whether they are kept.
    fn await_durable_for(
        &self,
        epoch: Epoch,
        trigger: Trigger,
        limit: Option<Duration>,
    ) -> Result<bool, Stopped> {
        let deadline = limit.map(|limit| Instant::now() + limit);
        loop {
            let generation = self.words.signals[GENERATION].load(SeqCst);
            // Looked at before, so that the last commit before a stop counts.
            let stopped = self.is_stopped();
            if self.is_durable(epoch) {
                return Ok(true);
            }
            if stopped {
                return Err(Stopped);
            }
            let rest = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            if rest.is_some_and(|rest| rest.is_zero()) {
                return Ok(false);
            }
            self.want(trigger);
            wait(&self.words.signals[GENERATION], generation, rest);
        }
    }

    /// Holds output that was taken from a task before, until what it depends on is durable.
    ///
    /// # Errors
    /// When that never will be.
    pub fn release(&self) -> Result<(), Stopped> {
        self.await_release(self.of_output())
    }

    /// Holds output that was just taken and depends on this.
    pub(crate) fn await_release(&self, epoch: Option<Epoch>) -> Result<(), Stopped> {
        epoch.map_or(Ok(()), |epoch| self.hold(epoch, Instant::now()))
    }

    /// Holds output that was taken from a task at `since`, until these promises are kept.
    ///
    /// # Errors
    /// When they never will be.
    pub fn hold(&self, epoch: Epoch, since: Instant) -> Result<(), Stopped> {
        self.await_durable(epoch, Trigger::Output)?;
        self.held(since.elapsed());
        Ok(())
    }

    /// As [`Self::hold`], but the wait is the caller's: for this to become readable, and then to ask again.
    /// False if the promises are kept by now. For one poller.
    pub fn await_event(&self, epoch: Epoch) -> bool {
        self.words.signals[POLLED].store(1, SeqCst);
        if self.is_durable(epoch) {
            return false;
        }
        self.want(Trigger::Output);
        true
    }

    /// Takes the event of [`Self::await_event`].
    pub fn take_event(&self) {
        let mut count = [0; 8];
        // None is there after all.
        let _ = rustix::io::read(&self.committed, &mut count);
    }

    /// Output was held for so long.
    pub fn held(&self, time: Duration) {
        stats::held(&self.words, time);
    }

    /// A call was let make durable what it asks for by itself.
    pub fn did_really(&self) {
        stats::did_really(&self.words);
    }

    /// Syncs are put off from now on, or are not.
    pub(crate) fn switched(&self) {
        stats::switched(&self.words);
    }

    /// How many commits there were because output waited.
    pub(crate) fn commits_for_output(&self) -> u64 {
        stats::commits(&self.words, Trigger::Output)
    }

    /// Has a commit made soon.
    pub fn want(&self, trigger: Trigger) {
        let wishes = &self.words.signals[WISHES];
        if wishes.fetch_or(trigger.bit(), SeqCst) & trigger.bit() == 0 {
            wake(wishes);
        }
    }

    /// Waits until a commit is wanted, or for `limit`.
    pub(crate) fn await_wish(&self, limit: Duration) -> Vec<Trigger> {
        let wishes = &self.words.signals[WISHES];
        let deadline = Instant::now() + limit;
        loop {
            let wanted = wishes.swap(0, SeqCst);
            let rest = deadline.saturating_duration_since(Instant::now());
            if wanted != 0 || rest.is_zero() {
                let all = [
                    Trigger::Output,
                    Trigger::Barrier,
                    Trigger::Eager,
                    Trigger::End,
                ];
                let is_wanted = |trigger: &Trigger| wanted & trigger.bit() != 0;
                return all.into_iter().filter(is_wanted).collect();
            }
            wait(wishes, 0, Some(rest));
        }
    }

    /// Whether a commit would change anything, as far as is known.
    pub(crate) fn is_clean(&self) -> bool {
        self.promise == Promise::Fsync && self.is_durable(self.promised())
    }

    /// Keeps all promises made so far.
    ///
    /// # Errors
    /// As the driver's commit. Nothing is released any more.
    pub fn commit(&self, driver: &dyn Driver, trigger: Trigger) -> io::Result<()> {
        let epoch = self.promised();
        if let Err(error) = driver.commit() {
            self.stop();
            return Err(error);
        }
        stats::committed(&self.words, trigger);
        self.tally.keep(epoch.0);
        self.tell();
        Ok(())
    }

    /// No commit will come any more: what waits fails.
    pub fn stop(&self) {
        self.words.signals[STOPPED].store(1, SeqCst);
        self.tell();
    }

    /// Whether no commit will come any more.
    pub fn is_stopped(&self) -> bool {
        self.words.signals[STOPPED].load(SeqCst) != 0
    }

    /// What was done so far.
    pub fn stats(&self) -> Stats {
        stats::of(&self.words)
    }

    fn tell(&self) {
        let generation = &self.words.signals[GENERATION];
        generation.fetch_add(1, SeqCst);
        wake(generation);
        if self.words.signals[POLLED].swap(0, SeqCst) != 0 {
            // It is full only if nobody has read it for ever.
            let _ = rustix::io::write(&self.committed, &1_u64.to_ne_bytes());
        }
    }
}

/// Readable after the commit for which [`Epochs::await_event`] waits.
impl AsFd for Epochs {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.committed.as_fd()
    }
}

impl Trigger {
    fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// Waits while `word` has this value. May return at any time.
fn wait(word: &AtomicU32, value: u32, limit: Option<Duration>) {
    let limit = limit.map(|limit| Timespec::try_from(limit).expect("a short wait"));
    match futex::wait(word, futex::Flags::empty(), value, limit.as_ref()) {
        Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
        Err(errno) => panic!("wait for a commit: {errno}"),
    }
}

fn wake(word: &AtomicU32) {
    // Fails only for what is no word.
    let _ = futex::wake(word, futex::Flags::empty(), i32::MAX.cast_unsigned());
}

#[cfg(test)]
mod tests;
