//! FIFOs that are about to be opened.
//!
//! Opening a FIFO tells whether anybody has the other side open: the call waits for that, or fails. A process that depends on
//! something undecided opens none. So a process that is restored has no end that its image has not. But an image, or a process that
//! stands still at its exit, has ends open that its process may have closed. And the supervisor has both sides open of a FIFO on which
//! an act is undecided. Without speculation these ends would not exist. So a call that opens the FIFO waits while one of them may be
//! the only one on its side, also if its process depends on nothing.

use surmise_engine::Node;

use super::Core;
use super::attending::Way;
use crate::call::Call;
use crate::error::{SupervisorError, fail};
use crate::kind::Kind;
use crate::world::World;

impl<W: World> Core<W> {
    /// What a call finds before it that may open a FIFO.
    pub(super) fn at_fifo(&mut self, call: &Call) -> Result<Way, SupervisorError> {
        if self.objects.files.log().is_none() || !self.world.may_open_fifo(call) {
            return Ok(Way::Clear);
        }
        self.await_discarded()?;
        let still = self.still();
        let standing: Vec<_> = still.iter().map(|(still, _)| *still).collect();
        let kept = self.world.kept_fifos(&standing);
        let kept = kept.map_err(fail("look who has a FIFO open"))?;
        let held = self.objects.pipes.fifos(&self.world);
        // Only the view knows what a path leads to: it is not asked in vain.
        if kept.is_empty() && held.is_empty() {
            return Ok(Way::Clear);
        }
        let Some(process) = self.caller(call)? else {
            return Ok(Way::Clear);
        };
        let files = &self.objects.files;
        let keepers = files.keepers(&self.world, process, call, &kept);
        let keepers = keepers.map_err(fail("look up what a call opens"))?;
        let objects = files.keepers(&self.world, process, call, &held);
        let objects = objects.map_err(fail("look up what a call opens"))?;
        if let Some(&object) = objects.first() {
            return Ok(Way::Barred(Node::Object(object), Kind::Pipe));
        }
        let node = self.first_to_hold_on(&still, &keepers)?;
        Ok(node.map_or(Way::Clear, |node| Way::Barred(node, Kind::ShutPipe)))
    }
}
