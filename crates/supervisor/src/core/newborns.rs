//! Processes that were born and have executed nothing yet. Most are about to, and an image from before would stand in the way of
//! that. So they are given guesses only when they have gone on for a while.

use rustix::process::Pid;

use super::Core;
use crate::error::{SupervisorError, fail};
use crate::map::Map;
use crate::world::World;

/// How many calls of a newborn process might have been guessed until it is more likely to go on than to execute a program.
const GUESSABLE: u64 = 25;
/// Of how many processes it is known.
const KNOWN_MAX: usize = 4096;

/// Of processes that depend on nothing: how many calls of them might still be made as they are, since they may be about to execute
/// a program.
#[derive(Debug, Default)]
pub(super) struct Newborns(Map<Pid, u64>);

impl Newborns {
    /// Takes note of a call of a process that might be guessed. Whether the process is to be left alone.
    fn has_called(&mut self, process: Pid, has_executed: impl FnOnce() -> bool) -> bool {
        if self.0.len() >= KNOWN_MAX {
            // Of processes that have ended, too.
            self.0.clear();
        }
        let left = self.0.entry(process).or_insert(GUESSABLE);
        *left = match left.checked_sub(1) {
            Some(left) if !has_executed() => left,
            _ => 0,
        };
        *left > 0
    }
}

impl<W: World> Core<W> {
    /// Whether a process was born lately, and may be about to execute a program. It needs no image for that unless it
    /// is given a guess before.
    pub(super) fn is_to_execute(&mut self, process: Pid) -> Result<bool, SupervisorError> {
        if let Some(member) = self.members.get(&process) {
            return Ok(member.may_execute());
        }
        let world = &self.world;
        let mut failed = Ok(());
        let is_newborn = self.newborns.has_called(process, || {
            let executed = world.has_executed(process);
            executed.unwrap_or_else(|error| {
                failed = Err(error);
                true
            })
        });
        failed.map_err(fail("look at a process"))?;
        Ok(is_newborn)
    }
}
