//! Processes that a process bears while its supervisor has checkpoints of it.
//!
//! The supervisor has the process make the call, so a child is known before it executes anything. It is a tracee from
//! its birth. In a rollback to before the birth the child must not be there any more ([`Process::end`]): its memory is
//! its parent's, page by page, as a vessel's is. Then the parent reaps it, and is not told of its end.

use std::io;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use surmise_linux::proc::{self, is_gone};
use surmise_sys::memory;
use surmise_sys::ptrace::{self, News, SignalInfo, call};

use crate::gate::Gate;
use crate::halted::{Halted, Traced};
use crate::held::{Departure, Held};
use crate::obstacles;
use crate::process::{Process, UNKNOWN, is_zombie};
use crate::rollback::send_again;
use crate::scratch::Scratch;
use crate::vessel::{self, Vessel};

/// What came of a call that bears a process.
#[derive(Debug)]
pub enum Birth {
    /// This process, a tracee, which goes on as its parent does.
    Child(Process),
    /// None that lives: the call has failed, or the child was killed at once.
    Childless,
    /// The call has not happened.
    Unmade,
}

/// A process that another has borne.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Borne {
    process: Pid,
    /// Its number as its parent sees it.
    inner: u64,
    /// How many vessels its parent had made before.
    order: u64,
}

impl Borne {
    pub(crate) fn new(process: Pid, inner: u64, order: u64) -> Self {
        Self {
            process,
            inner,
            order,
        }
    }
}

impl Halted<'_> {
    /// Has a thread make the call that it waits in, which bears a process with its own memory and a copy of its
    /// stack. Parent and child go on as tracees; the parent is told the child's number.
    ///
    /// # Errors
    /// As ptrace; a parent that was killed meanwhile is none.
    pub fn bear(
        mut self,
        thread: Pid,
        call: (i64, [u64; 6]),
        gate: &mut dyn Gate,
    ) -> io::Result<Birth> {
        let (answered, birth) = match self.try_to_bear(thread, call, gate) {
            Err(error) if self.process.has_ended_by(&error) => (None, Birth::Unmade),
            borne => borne?,
        };
        self.go_on(answered, Traced::Still, gate)?;
        Ok(birth)
    }

    /// Returns what the parent is to be told, too.
    fn try_to_bear(
        &mut self,
        thread: Pid,
        call: (i64, [u64; 6]),
        gate: &mut dyn Gate,
    ) -> io::Result<(Option<(Pid, i64)>, Birth)> {
        let instruction = self.instruction;
        let waits = |held: &&mut Held| held.thread() == thread && held.was_notifying();
        let parent = self.threads.iter_mut().find(waits);
        let Some(parent) = parent.filter(|_| instruction != UNKNOWN) else {
            return Ok((None, Birth::Unmade));
        };
        let (result, born) = match parent.bear(instruction, call, gate) {
            Err(error) if is_gone(&error) => return Ok((None, Birth::Unmade)),
            borne => borne?,
        };
        let child = match born {
            Some(child) => grow(child, parent, instruction)?,
            None => None,
        };
        if let (Ok(inner), Some(process)) = (u64::try_from(result), born) {
            let order = self.process.vessels;
            self.process.borne.push(Borne::new(process, inner, order));
        }
        let birth = child.map_or(Birth::Childless, Birth::Child);
        Ok((Some((thread, result)), birth))
    }

    /// Has the process reap the children that it has borne since a checkpoint, which have ended; it is not told of
    /// that.
    pub(crate) fn forget_children(
        &mut self,
        since: &Vessel,
        scratch: &mut Scratch,
        gate: &mut dyn Gate,
    ) -> io::Result<()> {
        let is_unborn = |borne: &Borne| borne.order > since.order();
        let borne = std::mem::take(&mut self.process.borne).into_iter();
        let (unborn, others): (Vec<_>, _) = borne.partition(is_unborn);
        self.process.borne = others;
        if unborn.is_empty() {
            return Ok(());
        }
        let before = self.ended_children()?;
        let mut may_hide_others = false;
        for child in &unborn {
            // From here on the kernel tells their parent.
            may_hide_others |= !matches!(ptrace::poll(child.process), Ok(Some(News::Ended(_))));
            if !self.reap_one(child.inner, gate)? {
                return Err(io::Error::other("a child lives that was never born"));
            }
        }
        let is_of_unborn = |signal: &SignalInfo| {
            let child = signal.child().and_then(|child| u64::try_from(child).ok());
            child.is_some_and(|child| unborn.iter().any(|unborn| unborn.inner == child))
        };
        let was_told = self.forget(Signal::CHILD, is_of_unborn)?;
        let mut after = self.ended_children()?.into_iter();
        may_hide_others |= after.any(|child| !before.contains(&child));
        match was_told && may_hide_others {
            true => self.tell_of_others(scratch, gate),
            false => Ok(()),
        }
    }

    /// The children that have ended and were not reaped, but for vessels.
    pub(crate) fn ended_children(&self) -> io::Result<Vec<Pid>> {
        let mut children = obstacles::children(self.process.pid)?;
        let killed = &self.process.killed;
        children.retain(|&child| {
            let is_vessel = killed.iter().any(|vessel| vessel.process() == child);
            !is_vessel && is_zombie(child, child)
        });
        Ok(children)
    }

    /// Of the ends of several children one signal tells, which is gone. So a new one tells of another child that the
    /// process has not waited for, if there is one.
    pub(crate) fn tell_of_others(
        &mut self,
        scratch: &mut Scratch,
        gate: &mut dyn Gate,
    ) -> io::Result<()> {
        /// P_ALL of waitid(2).
        const ANY: u64 = 0;
        const SIZE: usize = 128;
        let hand = &mut self.hand(gate);
        let place = scratch.write(hand, &[0; SIZE])?;
        let arguments = [ANY, 0, place, call::WAIT_LOOK, 0, 0];
        if hand.call_raw(call::WAITID, arguments)? < 0 {
            // It has no child.
            return Ok(());
        }
        let mut bytes = [0; SIZE];
        memory::read(hand.held.thread(), place, &mut bytes)?;
        match SignalInfo::of_bytes(bytes) {
            Some(signal) => send_again(&mut self.first_hand(gate)?, &signal, scratch),
            None => Ok(()),
        }
    }
}

/// Lets a process that was just born go on as its parent's copy. `None`: it was killed.
fn grow(child: Pid, parent: &Held, instruction: u64) -> io::Result<Option<Process>> {
    let grown = || {
        let Some(stopped) = vessel::born(child)? else {
            return Ok(None);
        };
        let held = Held::resting(stopped)?;
        let mut process = Process::new(child)?;
        process.born(child);
        process.is_copy(instruction);
        let departure = Departure {
            registers: parent.registers_returning(0),
            extended: None,
            mask: parent.mask(),
            traced: true,
        };
        held.release(&departure, instruction)?;
        Ok(Some(process))
    };
    match grown() {
        Err(error) if is_gone(&error) => Ok(None),
        grown => grown,
    }
}

impl Process {
    /// Kills it. True once it maps no memory, nor any vessel does that was killed before: all its threads have ended.
    /// False if that takes longer than `patience`. The first thread is not reaped by its tracer: from then on its
    /// parent would be told of the end ([`Halted::restore_for_good`] sees to that).
    ///
    /// # Errors
    /// As for a signal, and for ptrace.
    pub fn end(&mut self, patience: Duration) -> io::Result<bool> {
        match rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(errno) => return Err(errno.into()),
        }
        /// For how long it only gives way to others.
        const EAGER: Duration = Duration::from_millis(1);
        const NAP: Duration = Duration::from_micros(200);
        let begun = Instant::now();
        while !self.executes_nothing()? {
            match begun.elapsed() {
                waited if waited >= patience => return Ok(false),
                waited if waited < EAGER => std::thread::yield_now(),
                _ => std::thread::sleep(NAP),
            }
        }
        self.await_discarded()?;
        Ok(true)
    }

    /// Reaps its threads but the first. The kernel tells of the end of the first when all others were reaped.
    fn executes_nothing(&self) -> io::Result<bool> {
        // Where it is no more there are none.
        for thread in proc::threads(self.pid).unwrap_or_default() {
            if thread != self.pid
                && let Ok(Some(News::Stopped(stopped, _))) = ptrace::poll(thread)
            {
                // It was killed in this stop, or goes on to its end.
                drop(stopped.go_on());
            }
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        match rustix::process::waitid(WaitId::Pid(self.pid), options) {
            Ok(ended) => Ok(ended.is_some()),
            // A loop that waits for news of all tracees has heard of its end.
            Err(Errno::CHILD) => Ok(true),
            Err(Errno::INTR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }
}
