//! The end of a process that has stood still at its exit, and of what its parent notices of that.

use std::io;

use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use surmise_linux::proc::{self, is_gone};
use surmise_sys::ptrace::{self, News, Queue, SignalInfo, call};

use crate::gate::Gate;
use crate::halted::{Halted, Traced};
use crate::rollback::send_again;
use crate::scratch::Scratch;

/// The bytes of a `struct rusage` of getrusage(2).
const BYTES: usize = size_of::<ptrace::Usage>();

/// What processes have used: `struct rusage` of getrusage(2).
pub type Usage = [u8; BYTES];

/// What a process has used, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// By itself and by the children that it has reaped, as wait4(2) tells it.
    pub usage: Usage,
    /// Its real user, by the number that the process knows.
    pub user: u32,
    /// By itself: its own time and the kernel's, in clock ticks.
    pub times: [i64; 2],
}

impl Halted<'_> {
    /// What the process, which has one thread, has used so far, and whose it is.
    ///
    /// # Errors
    /// As ptrace, and as for reading /proc.
    pub fn account(&mut self, gate: &mut dyn Gate) -> io::Result<Account> {
        let times = proc::Stat::of(self.process.pid)?.times();
        // A tracer is told what a process has used whenever it waits for it: so one call tells both.
        let (user, used) = self.hand(gate).call_and_account(call::GETUID)?;
        let mut usage = [0; BYTES];
        for (bytes, word) in usage.chunks_mut(size_of::<i64>()).zip(used) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        Ok(Account {
            usage,
            user: user as u32,
            times,
        })
    }

    /// Has a process that is about to exit close all that it has open.
    ///
    /// # Errors
    /// As ptrace.
    pub fn close_files(&mut self, gate: &mut dyn Gate) -> io::Result<()> {
        // Others that share its table of descriptors keep what they have.
        let arguments = [0, u32::MAX.into(), call::UNSHARE_FILES, 0, 0, 0];
        self.hand(gate).call(call::CLOSE_RANGE, arguments).map(drop)
    }

    /// Has a process with one thread exit with a status, and returns when it has ended. Its vessels must have been
    /// discarded.
    ///
    /// # Errors
    /// As ptrace; none if it was killed meanwhile.
    pub fn exit(mut self, status: u8, gate: &mut dyn Gate) -> io::Result<()> {
        let ended = self.try_to_exit(status, gate);
        match ended {
            Err(error) if self.process.has_ended_by(&error) => await_end(self.process.pid),
            ended => ended,
        }
    }

    fn try_to_exit(&mut self, status: u8, gate: &mut dyn Gate) -> io::Result<()> {
        self.reap(Traced::NoMore, gate)?;
        let thread = self.threads.pop().ok_or(Errno::SRCH)?;
        self.process.ended(thread.thread());
        let call = (call::EXIT_GROUP, [status.into(), 0, 0, 0, 0, 0]);
        thread.exit(call, self.instruction, gate).map(drop)
    }

    /// Has a signal wait for the process, as if somebody had sent it.
    ///
    /// # Errors
    /// As ptrace.
    pub fn send(&mut self, signal: &SignalInfo, gate: &mut dyn Gate) -> io::Result<()> {
        let own = self.inner(gate)?;
        let mut hand = self.first_hand(gate)?;
        let number = signal.number().cast_unsigned().into();
        let queueing = |place| (call::RT_SIGQUEUEINFO, [own, number, place, 0, 0, 0]);
        if hand.tell(&signal.bytes(), queueing)? {
            return Ok(());
        }
        let mut scratch = Scratch::default();
        send_again(&mut hand, signal, &mut scratch)?;
        scratch.unmap(&mut hand)
    }

    /// The process' number as it sees that itself.
    fn inner(&mut self, gate: &mut dyn Gate) -> io::Result<u64> {
        if let Some(inner) = self.process.inner {
            return Ok(inner);
        }
        let inner = self.hand(gate).call(call::GETPID, [0; 6])?;
        self.process.inner = Some(inner);
        Ok(inner)
    }

    /// Whether a signal of a kind waits for the process.
    ///
    /// # Errors
    /// As ptrace.
    pub fn has_waiting(&self, kind: Signal) -> io::Result<bool> {
        let queued = self.threads[0].stopped()?.queued(Queue::Process)?;
        Ok(queued.iter().any(|signal| signal.number() == kind.as_raw()))
    }

    /// Whether a signal of this number waits for the process or any of its threads.
    pub(crate) fn is_waiting(&self, number: u32) -> io::Result<bool> {
        let mut queued = self.threads[0].stopped()?.queued(Queue::Process)?;
        for held in &self.threads {
            queued.extend(held.stopped()?.queued(Queue::Thread)?);
        }
        let mut numbers = queued.iter().map(SignalInfo::number);
        Ok(numbers.any(|one| one.cast_unsigned() == number))
    }

    /// Has a thread take a signal when it goes on.
    pub fn give(&mut self, thread: Pid, signal: SignalInfo) {
        let mut threads = self.threads.iter_mut();
        if let Some(held) = threads.find(|held| held.thread() == thread) {
            held.give(signal);
        }
    }

    /// Has the process reap a child that has ended, by the number that the process knows.
    ///
    /// # Errors
    /// As ptrace.
    pub fn reap_child(&mut self, child: i32, gate: &mut dyn Gate) -> io::Result<()> {
        self.reap_one(child.unsigned_abs().into(), gate).map(drop)
    }

    /// How a child has ended, by the number that the process knows, and what it has used. `None` if it is none, or nobody can tell.
    /// The process has not reaped it.
    ///
    /// # Errors
    /// As ptrace.
    pub fn look_at_ended(
        &mut self,
        child: u64,
        gate: &mut dyn Gate,
    ) -> io::Result<Option<(SignalInfo, Usage)>> {
        /// P_PID of waitid(2).
        const ONE: u64 = 1;
        const INFO: usize = size_of::<SignalInfo>();
        let options = call::WAIT_LOOK_AT_ENDED;
        let asked = self.hand(gate).ask::<{ INFO + BYTES }>(|place| {
            let arguments = [ONE, child, place, options, place + INFO as u64, 0];
            (call::WAITID, arguments)
        })?;
        let Some(told) = asked else {
            return Ok(None);
        };
        let (info, usage) = told.split_at(INFO);
        let both = (info.try_into(), usage.try_into());
        let (Ok(info), Ok(usage)) = both else {
            return Ok(None);
        };
        let info = SignalInfo::of_bytes(info).filter(|info| info.is_of_end());
        Ok(info.map(|info| (info, usage)))
    }

    /// As [`Self::reap_child`]. False if the child is still there.
    pub(crate) fn reap_one(&mut self, child: u64, gate: &mut dyn Gate) -> io::Result<bool> {
        /// The process has reaped it, or the kernel has where the process does not wait for its children.
        const REAPED: i64 = -(Errno::CHILD.raw_os_error() as i64);
        let options = call::WAIT_ALL | call::NO_HANG;
        let arguments = [child, 0, options, 0, 0, 0];
        let reaped = self.hand(gate).call_raw(call::WAIT4, arguments)?;
        Ok(u64::try_from(reaped) == Ok(child) || reaped == REAPED)
    }

    /// Takes the signal back that tells the process of the end of a child, if it waits.
    ///
    /// # Errors
    /// As ptrace.
    pub fn forget_end(&mut self, child: i32) -> io::Result<()> {
        self.forget(Signal::CHILD, |signal| signal.child() == Some(child))
            .map(drop)
    }

    /// Takes away a signal of a kind, if one waits that is meant: of most kinds only one does. True if one did.
    pub(crate) fn forget(
        &mut self,
        kind: Signal,
        is_meant: impl Fn(&SignalInfo) -> bool,
    ) -> io::Result<bool> {
        let instruction = self.instruction;
        let mut has_waited = false;
        for held in &mut self.threads {
            has_waited |= held.forget(instruction, kind.as_raw(), &is_meant)?;
        }
        Ok(has_waited)
    }
}

/// Returns when a process has ended that was killed.
fn await_end(process: Pid) -> io::Result<()> {
    loop {
        match ptrace::wait(process) {
            Ok(News::Ended(_)) => return Ok(()),
            Ok(News::Stopped(stopped, _)) => drop(stopped.go_on()),
            Err(error) if is_gone(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}
