//! The end of a process that has stood still at its exit, and of what its parent notices of that.

use std::io;

use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use surmise_linux::proc::is_gone;
use surmise_sys::memory;
use surmise_sys::ptrace::{self, News, Queue, SignalInfo, call};

use crate::gate::Gate;
use crate::halted::{Halted, Traced};
use crate::rollback::send_again;
use crate::scratch::Scratch;

/// `struct rusage` of getrusage(2): words, and their bytes.
const WORDS: usize = 18;
const BYTES: usize = WORDS * size_of::<i64>();
/// Where it has the largest resident set.
const LARGEST: usize = 4;
const MICROSECONDS: i64 = 1_000_000;

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

impl Account {
    fn of(own: &[i64; WORDS], children: &[i64; WORDS], user: u32) -> Self {
        const TICKS: i64 = 100;
        let both = both(own, children);
        let mut usage = [0; BYTES];
        for (bytes, word) in usage.chunks_mut(size_of::<i64>()).zip(both) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        let ticks = |at: usize| own[at] * TICKS + own[at + 1] * TICKS / MICROSECONDS;
        Self {
            usage,
            user,
            times: [ticks(0), ticks(2)],
        }
    }
}

/// What a process and its children have used.
fn both(own: &[i64; WORDS], children: &[i64; WORDS]) -> [i64; WORDS] {
    let mut both = [0; WORDS];
    for (at, word) in both.iter_mut().enumerate() {
        *word = match at {
            LARGEST => own[at].max(children[at]),
            _ => own[at] + children[at],
        };
    }
    for seconds in [0, 2] {
        both[seconds] += both[seconds + 1] / MICROSECONDS;
        both[seconds + 1] %= MICROSECONDS;
    }
    both
}

fn words(bytes: &[u8]) -> [i64; WORDS] {
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(size_of::<i64>())) {
        *word = i64::from_ne_bytes(bytes.try_into().expect("so many bytes"));
    }
    words
}

impl Halted<'_> {
    /// What the process has used so far, and whose it is.
    ///
    /// # Errors
    /// As ptrace.
    pub fn account(&mut self, gate: &mut dyn Gate) -> io::Result<Account> {
        const OWN: u64 = 0;
        const CHILDREN: u64 = -1_i64 as u64;
        let pid = self.process.pid;
        let mut scratch = Scratch::default();
        let mut hand = self.hand(gate);
        let place = scratch.write(&mut hand, &[0; BYTES])?;
        let mut used = [[0; BYTES]; 2];
        for (whose, bytes) in [OWN, CHILDREN].into_iter().zip(&mut used) {
            hand.call(call::GETRUSAGE, [whose, place, 0, 0, 0, 0])?;
            memory::read(pid, place, bytes)?;
        }
        let user = hand.call(call::GETUID, [0; 6])?;
        scratch.unmap(&mut hand)?;
        let [own, children] = used.map(|bytes| words(&bytes));
        Ok(Account::of(&own, &children, user as u32))
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
        let mut scratch = Scratch::default();
        let mut hand = self.first_hand(gate)?;
        send_again(&mut hand, signal, &mut scratch)?;
        scratch.unmap(&mut hand)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_used_what_it_and_its_children_have() {
        let (mut own, mut children) = ([1; WORDS], [2; WORDS]);
        (own[1], children[1]) = (700_000, 600_000);
        (own[LARGEST], children[LARGEST]) = (50, 40);
        let both = both(&own, &children);
        assert_eq!(both[..4], [4, 300_000, 3, 3]);
        assert_eq!((both[LARGEST], both[17]), (50, 3));
        let account = Account::of(&own, &children, 5);
        assert_eq!(account.times, [170, 100]);
        assert_eq!(words(&account.usage), both);
    }
}
