//! A process that stands still, and what is done with it meanwhile.

use std::io;

use rustix::process::{Pid, Signal};
use surmise_linux::proc::is_gone;
use surmise_sys::ptrace::{Registers, SignalInfo, call};

use crate::descriptors;
use crate::error::{RollbackError, restoring};
use crate::gate::Gate;
use crate::held::{Departure, Hand, Held};
use crate::process::{Process, UNKNOWN};
use crate::scratch::Scratch;
use crate::vessel::Vessel;

/// How many vessels that were killed may stay zombies of the process before it reaps them.
const ZOMBIES_MAX: usize = 16;

/// A process all of whose threads are stopped.
#[derive(Debug)]
#[must_use = "dropped, it stays stopped for ever"]
pub struct Halted<'a> {
    pub(crate) process: &'a mut Process,
    pub(crate) threads: Vec<Held>,
    pub(crate) instruction: u64,
}

/// How the threads of a process go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traced {
    /// As tracees.
    Still,
    /// As tracees, of which the process knows no more: they are let go when they have taken a signal.
    ForSignal,
    /// Nobody's tracees.
    NoMore,
}

/// The threads of a process that stays stopped while its supervisor does something else.
#[derive(Debug)]
#[must_use = "dropped, its process stays stopped for ever"]
pub struct Standing {
    threads: Vec<Held>,
    instruction: u64,
}

impl Standing {
    /// The process again, which these threads are of.
    pub fn of(self, process: &mut Process) -> Halted<'_> {
        Halted {
            process,
            threads: self.threads,
            instruction: self.instruction,
        }
    }
}

impl Halted<'_> {
    /// Leaves the process stopped.
    pub fn stand(self) -> Standing {
        Standing {
            threads: self.threads,
            instruction: self.instruction,
        }
    }

    /// The process' number, as the supervisor sees it.
    pub fn pid(&self) -> Pid {
        self.process.pid
    }

    /// Whether the process was killed since it stands still: it has ended, or does so at once.
    pub fn was_killed(&self) -> bool {
        let leaves = self.threads.iter().any(Held::was_killed);
        self.process.has_ended() || leaves && self.process.ends_soon()
    }

    /// Has what threads did that caused signals never happened: they do not take them. Other signals they
    /// take.
    pub(crate) fn forget_faults(&mut self) {
        self.threads.iter_mut().for_each(Held::forget_faults);
    }

    /// Has a thread make a call, for a guess that is the truth. Returns the result, an error number where
    /// that is negative.
    ///
    /// # Errors
    /// As ptrace.
    pub fn call(
        &mut self,
        thread: Pid,
        (number, arguments): (i64, [u64; 6]),
        gate: &mut dyn Gate,
    ) -> io::Result<i64> {
        let found = self.threads.iter_mut().find(|held| held.thread() == thread);
        let held = found.ok_or(rustix::io::Errno::SRCH)?;
        let instruction = self.instruction;
        Hand {
            held,
            instruction,
            gate,
        }
        .call_raw(number, arguments)
    }

    /// Has a thread make a vessel, or a deputy: by these flags of clone(2).
    pub(crate) fn vessel(&mut self, flags: u64, gate: &mut dyn Gate) -> io::Result<Vessel> {
        let mut maker = Hand {
            held: &mut self.threads[0],
            instruction: self.instruction,
            gate,
        };
        let process = &mut *self.process;
        let vessel = Vessel::make(flags, &mut maker, &mut process.children, process.vessels)?;
        process.vessels += 1;
        Ok(vessel)
    }

    /// Has another process make a call, which has the memory and the handlers of signals of this one, and ends then. Returns
    /// the result, an error number where that is negative.
    ///
    /// The kernel takes away what waits of a signal, from the process that comes to ignore the signal: not from others that
    /// have the same handlers. So a rollback finds it there.
    ///
    /// # Errors
    /// There can be no such process, and no call was made.
    pub fn depute(
        &mut self,
        (number, arguments): (i64, [u64; 6]),
        gate: &mut dyn Gate,
    ) -> io::Result<i64> {
        let mut deputy = self.vessel(call::CLONE_DEPUTY, gate)?;
        let instruction = self.instruction;
        let done = deputy.held().and_then(|held| {
            let mut hand = Hand {
                held,
                instruction,
                gate,
            };
            hand.call_raw(number, arguments)
        });
        // Nobody may find the process sharing its memory.
        let ended = deputy.kill().and_then(|()| deputy.await_end());
        self.process.killed.push(deputy);
        ended.and(done)
    }

    /// Has the kernel ask how long the files are that the process has open: a file system has undone what was written to them.
    /// The process would append where the kernel believes the end to be.
    ///
    /// # Errors
    /// As ptrace, and as for reading /proc.
    pub fn learn_sizes(&mut self, gate: &mut dyn Gate) -> Result<(), RollbackError> {
        let process = self.process.pid;
        let learnt = descriptors::learn_sizes(&mut self.hand(gate), process);
        match learnt {
            Err(_) if self.was_killed() => Err(RollbackError::Ended { process }),
            learnt => learnt.map_err(restoring("learn how long files are")),
        }
    }

    /// Any thread: what it does is the process'.
    pub(crate) fn hand<'h>(&'h mut self, gate: &'h mut dyn Gate) -> Hand<'h> {
        Hand {
            held: &mut self.threads[0],
            instruction: self.instruction,
            gate,
        }
    }

    /// The first thread: it alone may send its process any signal, as if somebody else had
    /// (rt_sigqueueinfo(2)).
    pub(crate) fn first_hand<'h>(&'h mut self, gate: &'h mut dyn Gate) -> io::Result<Hand<'h>> {
        let pid = self.process.pid;
        let found = self.threads.iter_mut().find(|held| held.thread() == pid);
        Ok(Hand {
            held: found.ok_or(rustix::io::Errno::SRCH)?,
            instruction: self.instruction,
            gate,
        })
    }

    /// Lets all threads go on; `answered`, which waited in a call that notified, with that result, the
    /// others as if they had not been stopped.
    ///
    /// # Errors
    /// As ptrace; a thread that was killed meanwhile is none.
    pub fn go_on(
        mut self,
        answered: Option<(Pid, i64)>,
        traced: Traced,
        gate: &mut dyn Gate,
    ) -> io::Result<()> {
        match self.release_all(answered, traced, gate) {
            Err(error) if self.process.has_ended_by(&error) => Ok(()),
            released => released,
        }
    }

    /// As [`Self::go_on`]; that the process was killed may be an error.
    fn release_all(
        &mut self,
        answered: Option<(Pid, i64)>,
        traced: Traced,
        gate: &mut dyn Gate,
    ) -> io::Result<()> {
        self.reap(traced, gate)?;
        for thread in std::mem::take(&mut self.threads) {
            let registers = match answered {
                Some((answered, result)) if answered == thread.thread() => {
                    thread.registers_returning(result)
                }
                _ => thread.registers_undisturbed(),
            };
            self.release(thread, registers, None, traced)?;
        }
        Ok(())
    }

    pub(crate) fn release(
        &mut self,
        thread: Held,
        registers: Registers,
        state: Option<(&[u8], u64)>,
        traced: Traced,
    ) -> io::Result<()> {
        let number = thread.thread();
        let departure = Departure {
            registers,
            extended: state.map(|(extended, _)| extended),
            mask: state.map_or(thread.mask(), |(_, mask)| mask),
            traced: traced != Traced::NoMore,
        };
        if traced != Traced::Still {
            self.process.traced.remove(&number);
        }
        match thread.release(&departure, self.instruction) {
            Err(error) if is_gone(&error) => Ok(()),
            result => result,
        }
    }

    /// Has the process reap the vessels that were killed, if there are many, or no later chance.
    pub(crate) fn reap(&mut self, traced: Traced, gate: &mut dyn Gate) -> io::Result<()> {
        let are_few = traced == Traced::Still && self.process.killed.len() < ZOMBIES_MAX;
        if are_few || self.instruction == UNKNOWN {
            return Ok(());
        }
        for vessel in &self.process.killed {
            vessel.await_end()?;
        }
        self.forget_vessels(gate)?;
        for vessel in std::mem::take(&mut self.process.killed) {
            if !self.reap_one(vessel.inner(), gate)? {
                return Err(io::Error::other("a vessel lives that has ended"));
            }
        }
        Ok(())
    }

    /// Takes the signal back that tells the process of the end of a vessel, if one waits. If it has hidden the end of a child, a new
    /// one tells of that.
    ///
    /// # Errors
    /// As ptrace.
    pub fn forget_vessels(&mut self, gate: &mut dyn Gate) -> io::Result<()> {
        if !self.process.has_executed {
            return Ok(());
        }
        let killed = self.process.killed.iter().map(Vessel::inner);
        let killed: Vec<_> = killed.collect();
        let is_of_vessel = |signal: &SignalInfo| {
            let child = signal.child().and_then(|child| u64::try_from(child).ok());
            child.is_some_and(|child| killed.contains(&child))
        };
        if self.forget(Signal::CHILD, is_of_vessel)? && !self.ended_children()?.is_empty() {
            let mut scratch = Scratch::default();
            self.tell_of_others(&mut scratch, gate)?;
            scratch.unmap(&mut self.hand(gate))?;
        }
        Ok(())
    }
}
