//! The signal that tells a parent of an exit which is held, where the parent sleeps until a signal comes.
//!
//! A parent that asks for its children is told when it asks (`ends`). Another one sleeps until the signal comes, such as `make`
//! where all its jobs run, and asks only then. So the signal has to come before the exit is certain. The parent comes to depend on
//! the exit first, with an image of its own. A rollback to that image undoes that the signal came.

use super::Core;
use super::imaging::Gained;
use crate::error::{SupervisorError, fail};
use crate::objects::heed::{Heed, mask_of};
use crate::objects::wait::Tidings;
use crate::waits::Asked;
use crate::world::World;

impl<W: World> Core<W> {
    /// If a call sleeps until a signal comes, and the exit of a child is held of which its process has not heard, the signal
    /// comes. True if the call was answered, or will be made again.
    pub(super) fn announce(&mut self, asked: &Asked) -> Result<bool, SupervisorError> {
        let call = &asked.call;
        if self.members.is_empty() || mask_of(call).is_none() {
            return Ok(false);
        }
        let Some(parent) = self.caller(call)? else {
            return Ok(false);
        };
        let exits = &self.objects.exits;
        let (next, are_announced) = (exits.unknown_to(parent).next(), exits.are_announced(parent));
        // It could not be stopped for that.
        if next.is_none() && !are_announced || self.lendings.concern(parent) {
            return Ok(false);
        }
        let heed = self.world.heeds(call).map_err(fail("look at a parent"))?;
        let (object, tidings) = match (heed, next) {
            // It does not sleep: the kernel has it take the signal.
            (Heed::Waiting, _) if are_announced => return self.pass(asked).map(|()| true),
            (Heed::Interrupted, Some(object)) => (object, Tidings::Interrupted),
            (Heed::Within, Some(object)) => (object, Tidings::Queued),
            _ => return Ok(false),
        };
        if self.is_waited_for(parent)? || self.is_awaited(parent) {
            return Ok(false);
        }
        match self.gain(parent, call, object)? {
            Gained::Again => Ok(true),
            Gained::Refused => Ok(false),
            Gained::Depends => self.tell_exit(parent, call, object, &tidings),
        }
    }
}
