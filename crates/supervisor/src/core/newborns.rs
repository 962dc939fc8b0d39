//! Processes that were born and have executed nothing yet. Most are about to, which costs a process with an image more than one
//! without. So they are given guesses only when they have gone on for a while.

use rustix::process::Pid;

use super::Core;
use crate::error::{SupervisorError, fail};
use crate::map::Map;
use crate::world::World;

/// How many calls of a newborn process might have been guessed until it is more likely to go on than to execute a program.
const GUESSABLE: u64 = 25;
/// Of how many processes it is known.
const KNOWN_MAX: usize = 4096;

/// Of processes that depend on nothing: how many calls of each are still left alone, since it may be about to execute a program.
#[derive(Debug, Default)]
pub(super) struct Newborns(Map<Pid, u64>);

impl Newborns {
    fn left(&mut self, process: Pid) -> &mut u64 {
        if self.0.len() >= KNOWN_MAX {
            // Of processes that have ended, too.
            self.0.clear();
        }
        self.0.entry(process).or_insert(GUESSABLE)
    }
}

impl<W: World> Core<W> {
    /// Whether a process was born lately, and may be about to execute a program. It needs no image for that unless it
    /// is given a guess before.
    pub(super) fn is_to_execute(&mut self, process: Pid) -> Result<bool, SupervisorError> {
        if let Some(member) = self.members.get(&process) {
            return Ok(member.may_execute());
        }
        let left = self.newborns.left(process);
        if *left == 0 {
            return Ok(false);
        }
        let executed = self.world.has_executed(process);
        let has_executed = executed.map_err(fail("look at a process"))?;
        *left = match has_executed {
            true => 0,
            false => *left - 1,
        };
        Ok(!has_executed)
    }
}
