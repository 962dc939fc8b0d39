//! Removals of directories while something is undecided.
//!
//! The kernel would hold a directory dead for ever that was removed. So the view has it believe that the call was interrupted, and
//! the caller is told that the removal has succeeded.

use rustix::io::Errno;
use rustix::process::Pid;

use super::Core;
use crate::error::{SupervisorError, bug, fail};
use crate::waits::Asked;
use crate::world::World;

impl<W: World> Core<W> {
    /// A call of a member removes a directory, and the view knows whose change that is.
    pub(super) fn remove_directory(
        &mut self,
        process: Pid,
        asked: &Asked,
    ) -> Result<(), SupervisorError> {
        if !self.can_be_stopped(process) {
            return self.wait(process, asked);
        }
        self.gather()?;
        let call = &asked.call;
        let others = self.pending_calls(process);
        let conceals = self.objects.files.conceal(call.thread());
        if !conceals.map_err(fail("have a directory removed"))? {
            return self.wait(process, asked);
        }
        self.happens(call)?;
        let (Some(member), Some(log)) = (self.members.get_mut(&process), self.objects.files.log())
        else {
            return Err(fail("have a directory removed")(bug(
                "no member removes it",
            )));
        };
        let mut gave_up = false;
        let made = self
            .world
            .make(&mut member.process, call, &others, &mut |result| {
                let is_removed = log.concealed()?;
                gave_up = result == -i64::from(Errno::INTR.raw_os_error());
                match (is_removed, gave_up, result) {
                    (true, ..) => Ok(Some(0)),
                    (_, true, _) => Ok(None),
                    (.., 0) => Err(bug("the kernel knows of a removal that may be undone")),
                    (.., result) => Ok(Some(result)),
                }
            });
        let is_answered = made.map_err(fail("have a directory removed"))?;
        // The threads may not have stopped, or the process has been killed: nobody is told.
        let over = log.concealed();
        over.map_err(fail("have a directory removed"))?;
        self.objects.files.past(call.thread());
        self.forget_answered()?;
        if is_answered {
            return Ok(());
        }
        if gave_up {
            self.sources.be_truthful(call.thread());
        }
        self.without_call(process, asked)
    }
}
