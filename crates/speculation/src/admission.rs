//! Which processes may be given guesses: those that a rollback can restore, as far as memory lasts.

use rustix::process::Pid;
use surmise_checkpoint::Process;
use surmise_engine::TaskId;

use crate::deciding::Occasion;
use crate::member::Member;
use crate::speculator::{Speculator, SpeculatorError, fail, refused};
use crate::task;

/// How many images of one process there may be.
const IMAGES_MAX: usize = 8;
/// How many processes may have images at a time.
const MEMBERS_MAX: usize = 32;
/// Images may come to take so much of the machine's memory at most, should all pages be written to.
const MEMORY_SHARE: u64 = 4;

impl Speculator {
    /// Makes a process a member, if there is nothing about it that a rollback cannot undo.
    pub(crate) fn admit(&mut self, process: Pid) -> Result<bool, SpeculatorError> {
        if !self.has_memory_for(process) {
            return Ok(false);
        }
        if let Some(member) = self.members.get(&process) {
            return Ok(member.images() < IMAGES_MAX);
        }
        if self.members.len() >= MEMBERS_MAX {
            return Ok(false);
        }
        let obstructed = self.seen.obstructs(process);
        let supervised = match (obstructed, Process::new(process)) {
            (Ok(false), Ok(supervised)) => supervised,
            (Err(error), _) | (_, Err(error)) if !task::is_out_of_reach(&error) => {
                return Err(fail("look at a process")(error));
            }
            _ => return Ok(false),
        };
        let id = TaskId(process.as_raw_nonzero().get().cast_unsigned().into());
        let mut effects = Vec::new();
        let told = self.engine.spawn(None, id, &mut effects);
        let group = told.and_then(|()| self.engine.group(id));
        let group = group.map_err(refused("note a task"))?;
        self.members
            .insert(process, Member::new(supervised, id, group));
        Ok(true)
    }

    /// Whether one more image of a process would not take too much memory.
    fn has_memory_for(&self, process: Pid) -> bool {
        let held = self.members.values().map(|member| {
            let resident = task::resident(member.process.pid()).unwrap_or(0);
            (member.images() as u64, resident)
        });
        let one_more = (1, task::resident(process).unwrap_or(0));
        fit(held.chain([one_more]), task::memory())
    }

    /// Forgets a process that depends on nothing undecided.
    pub(crate) fn dismiss(&mut self, process: Pid) -> Result<(), SpeculatorError> {
        let Some(member) = self.members.get(&process) else {
            return Ok(());
        };
        let mut effects = Vec::new();
        let ended = self.engine.end(member.task, &mut effects);
        ended.map_err(refused("note the end of a task"))?;
        self.perform(effects, &mut Occasion::default())?;
        match self.members.remove(&process) {
            Some(member) => member.destroy().map_err(fail("destroy a vessel")),
            None => Ok(()),
        }
    }
}

/// Whether images take no more of a memory than they may: of each process how many, and how large it is.
fn fit(images: impl Iterator<Item = (u64, u64)>, memory: u64) -> bool {
    let sizes = images.map(|(images, resident)| images.saturating_mul(resident));
    sizes.fold(0, u64::saturating_add) <= memory / MEMORY_SHARE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_take_a_quarter_of_the_memory_at_most() {
        let fits = |images: &[(u64, u64)]| fit(images.iter().copied(), 400);
        assert!(fits(&[]));
        assert!(fits(&[(8, 10), (1, 20)]));
        assert!(!fits(&[(8, 10), (1, 21)]));
        assert!(!fits(&[(1, 101)]));
        assert!(!fits(&[(2, u64::MAX), (1, 1)]));
        assert!(fits(&[(0, u64::MAX), (1, 1)]), "it has no image");
    }
}
