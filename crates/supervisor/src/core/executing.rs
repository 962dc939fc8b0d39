//! Members that execute programs.
//!
//! A member without an image is never restored: it was born while something was undecided, and is destroyed where it would not
//! have been born. A rollback of one that has images has it execute again what it executed then. Whether it could, from the
//! program that it is about to execute, the member's own thread finds out while it is stopped. Then it makes the call
//! again, which happens at once or waits, as was found out.

use rustix::process::Pid;
use surmise_checkpoint::Change;

use super::Core;
use crate::call::Call;
use crate::error::{SupervisorError, fail};
use crate::kind::Kind;
use crate::waits::Asked;
use crate::world::{Traced, World};

/// What was found out about the call by which a thread is about to execute a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Foreseen {
    thread: Pid,
    arguments: [u64; 6],
    /// Whether a rollback could undo it.
    can_be_undone: bool,
}

impl Foreseen {
    fn of(call: &Call, can_be_undone: bool) -> Self {
        Self {
            thread: call.thread(),
            arguments: *call.arguments(),
            can_be_undone,
        }
    }

    /// Whether a rollback could undo this call; `None` if that is another one.
    fn can_undo(self, call: &Call) -> Option<bool> {
        (self == Self::of(call, self.can_be_undone)).then_some(self.can_be_undone)
    }
}

impl<W: World> Core<W> {
    /// A member, which is one thread, executes a program.
    pub(super) fn execute(&mut self, process: Pid, asked: &Asked) -> Result<(), SupervisorError> {
        let Some(member) = self.members.get(&process) else {
            return self.pass(asked);
        };
        let can_be_undone = match member.images().len() {
            0 => Some(true),
            _ => self.foreseen.take(),
        };
        match can_be_undone {
            Some(true) => {
                self.note_execution(process);
                self.pass(asked)
            }
            Some(false) => self.wait(process, asked),
            None => self.foresee(process, asked),
        }
    }

    /// What was found out about a call that is attended to. It holds this once: by another time there may be another file.
    pub(super) fn take_foreseen(&mut self, call: &Call) -> Option<bool> {
        let process = self.member_of(call.thread())?;
        let foreseen = self.members.get_mut(&process)?.take_foreseen()?;
        foreseen.can_undo(call)
    }

    /// Looks at the program that a member is about to execute.
    fn foresee(&mut self, process: Pid, asked: &Asked) -> Result<(), SupervisorError> {
        if !self.can_be_stopped(process) {
            return self.wait(process, asked);
        }
        self.gather()?;
        let others = self.pending_calls(process);
        let call = &asked.call;
        let Some(member) = self.members.get_mut(&process) else {
            return self.pass(asked);
        };
        let found = self.world.can_come_back(&mut member.process, call, &others);
        let found = found.map_err(fail("look at a program"))?;
        self.forget_answered()?;
        let Some(can_be_undone) = found else {
            return self.without_call(process, asked);
        };
        if let Some(member) = self.members.get_mut(&process) {
            member.foresees(Foreseen::of(call, can_be_undone));
        }
        // Given a guess when the call is made again, it would be looked at again after that, and so on.
        self.sources.be_truthful(call.thread());
        Ok(())
    }

    /// A member executes a program, if the call does not fail.
    pub(super) fn note_execution(&mut self, process: Pid) {
        self.stats.met(Kind::Program);
        if let Some(member) = self.members.get_mut(&process) {
            member.note(&self.world, Change::Program);
            member.executes();
            self.world.executes(&mut member.process);
        }
    }

    /// Whether a member may come to be again what it was before it has executed a program.
    pub(crate) fn may_undo_execution(&self, process: Pid) -> bool {
        let member = self.members.get(&process);
        member.is_some_and(|member| member.images().len() > 0)
    }

    /// Withholds the signal from a member that tells of the end of what has held an image of it. That is for nobody to see. True if
    /// the signal was one.
    pub(super) fn withhold(
        &mut self,
        process: Pid,
        signal: &W::Signal,
    ) -> Result<bool, SupervisorError> {
        let Some(member) = self.members.get(&process) else {
            return Ok(false);
        };
        // Such a one cannot be stopped, and holds no image.
        if self.lendings.concern(process) {
            return Ok(false);
        }
        let told = self.world.is_of_vessel(&member.process, signal);
        told.map_err(fail("look at a signal"))
    }

    /// A member has stopped to take such a signal.
    pub(super) fn forget_vessels(&mut self, process: Pid) -> Result<(), SupervisorError> {
        if !self.stop(process)? {
            return Ok(());
        }
        let Some(member) = self.members.get_mut(&process) else {
            return Ok(());
        };
        let forgotten = self.world.forget_vessels(&mut member.process);
        forgotten.map_err(fail("take a signal back"))?;
        let resumed = self.world.resume(&mut member.process, Traced::Still);
        resumed.map_err(fail("let a process go on"))
    }
}
