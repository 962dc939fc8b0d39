//! Files that are kept open though no process that executes anything has them.
//!
//! An image has open what its process had open. A process that stands still at its exit does, too, and executes its program
//! still. And the supervisor keeps a file open whose position may have to be given back. But for speculation that would not be so.
//! A call that the kernel would refuse for that alone waits.

use rustix::process::Pid;
use surmise_engine::Node;

use super::Core;
use super::attending::Way;
use super::shutting::Keeper;
use crate::call::Call;
use crate::error::{SupervisorError, fail};
use crate::kind::Kind;
use crate::objects::files::Target;
use crate::world::{Claim, Still, World};

impl<W: World> Core<W> {
    /// What a call finds before it that executes a file, or opens one for writing.
    pub(super) fn at_kept_file(&mut self, call: &Call) -> Result<Way, SupervisorError> {
        let claim = match self.members.is_empty() {
            true => None,
            false => self.world.claim(call),
        };
        let Some(claim) = claim.filter(|_| self.objects.files.log().is_some()) else {
            return Ok(Way::Clear);
        };
        self.await_discarded()?;
        let still = self.still();
        let standing: Vec<_> = still.iter().map(|(still, _)| *still).collect();
        let denied = self.world.denied(claim, &standing);
        let denied = denied.map_err(fail("look who keeps a file"))?;
        let Some(process) = self.caller(call)? else {
            return Ok(Way::Clear);
        };
        let files = &self.objects.files;
        let keepers = files.keepers(&self.world, process, call, &denied);
        let keepers: Vec<Pid> = keepers.map_err(fail("look up what a call touches"))?;
        if let Some(node) = self.first_to_hold_on(&still, &keepers)? {
            return Ok(Way::Barred(node, Kind::Program));
        }
        if claim == Claim::Executes {
            return self.at_moved_file(process, call);
        }
        Ok(Way::Clear)
    }

    /// Returns when no process has anything open any more whose image was discarded.
    pub(super) fn await_discarded(&self) -> Result<(), SupervisorError> {
        for member in self.members.values() {
            let gone = self.world.await_discarded(&member.process);
            gone.map_err(fail("wait for what is discarded"))?;
        }
        Ok(())
    }

    /// What to wait for until the first of the keepers has closed its files that are among these processes.
    pub(super) fn first_to_hold_on(
        &self,
        still: &[(Still, Keeper)],
        keepers: &[Pid],
    ) -> Result<Option<Node>, SupervisorError> {
        for (one, keeper) in still {
            if keepers.contains(&one.process)
                && let Some(node) = self.holds_on(*keeper)?
            {
                return Ok(Some(node));
            }
        }
        Ok(None)
    }

    /// What to wait for until a keeper has closed its files.
    fn holds_on(&self, keeper: Keeper) -> Result<Option<Node>, SupervisorError> {
        match keeper {
            // The wait is over at once. Before the call is attended to again, the process has ended or has closed its files.
            Keeper::Exit(exit) if self.objects.exits.closes(exit) => Ok(Some(Node::Object(exit))),
            keeper => self.undecided(keeper),
        }
    }

    fn at_moved_file(&self, process: Pid, call: &Call) -> Result<Way, SupervisorError> {
        let written = self.objects.positions.written(&self.world);
        let written = written.map_err(fail("look at an open file"))?;
        let kept = written.into_iter();
        let kept: Vec<_> = kept
            .map(|(object, inode)| (object, Target::Inode(inode)))
            .collect();
        let keepers = self
            .objects
            .files
            .keepers(&self.world, process, call, &kept);
        let keepers = keepers.map_err(fail("look up what a call touches"))?;
        Ok(match keepers.first() {
            Some(&object) => Way::Barred(Node::Object(object), Kind::Program),
            None => Way::Clear,
        })
    }
}
