//! Decisions, and what the engine says follows from them.

use rustix::process::Pid;
use surmise_engine::{CkptId, Decision, Effect, Id, Node};

use super::Core;
use crate::error::{SupervisorError, fail, refused};
use crate::world::{Traced, World};

impl<W: World> Core<W> {
    /// Makes all decisions that are due.
    pub(super) fn decide_due(&mut self) -> Result<(), SupervisorError> {
        // Most calls come when nothing is undecided: the clock need not be read for them.
        while self.sources.have_undecided()
            && let Some((id, decision)) = self.sources.due(self.world.now())
        {
            self.tell(id, decision)?;
        }
        Ok(())
    }

    /// Somebody waits for a node: what it depends on is decided as far as its owners decide now.
    pub(super) fn hurry(&mut self, node: Node) -> Result<(), SupervisorError> {
        while self.is_there(node) {
            let deps = self.engine.deps(node);
            let wanted = deps.map_err(refused("look at a node"))?.predictions;
            match self.sources.force(&wanted) {
                Some((id, decision)) => self.tell(id, decision)?,
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// A task may have been destroyed by a decision about it.
    fn is_there(&self, node: Node) -> bool {
        match node {
            Node::Task(task) => self.members.values().any(|member| member.task == task),
            Node::Object(_) => true,
        }
    }

    fn tell(&mut self, id: Id, decision: Decision) -> Result<(), SupervisorError> {
        let mut effects = Vec::new();
        let told = self.engine.decide(id, decision, &mut effects);
        told.map_err(refused("decide a prediction"))?;
        self.may_dismiss = true;
        self.perform(effects)
    }

    /// Does what the engine says, in its order.
    pub(super) fn perform(&mut self, effects: Vec<Effect>) -> Result<(), SupervisorError> {
        let mut effects = effects.into_iter().peekable();
        while let Some(effect) = effects.next() {
            match effect {
                Effect::Release(hold) => self.objects.streams.release(hold),
                Effect::Drop(hold) => self.objects.streams.discard(hold),
                Effect::Withdrawn(id) | Effect::DeniedForCycle(id) => self.sources.withdrawn(id),
                Effect::DiscardCheckpoint(ckpt) => self.discard(ckpt)?,
                Effect::Plan(plan) => self.carry_out(&plan)?,
                Effect::DiscardUndo(record) => {
                    let mut records = vec![record];
                    // Those of one decision may lie between one another.
                    while let Some(Effect::DiscardUndo(next)) =
                        effects.next_if(|next| matches!(next, Effect::DiscardUndo(_)))
                    {
                        records.push(next);
                    }
                    let released = self.objects.release(&mut self.world, &records);
                    released.map_err(fail("let records go"))?;
                }
                // Whether the wait is over because all is decided or because its task is undone: it is attended to,
                // unless its task has been made to make its call again.
                Effect::Wake { waiter, .. } => {
                    if let Some(waited) = self.waits.wake(waiter) {
                        self.note_wait(waited)?;
                    }
                }
                // They tell of consents, and this engine has none.
                Effect::Stalled { .. } | Effect::Unstalled => {}
            }
        }
        self.flush()?;
        self.forget_idle()
    }

    /// Has the engine forget the objects that nothing depends on any more.
    pub(super) fn forget_idle(&mut self) -> Result<(), SupervisorError> {
        let mut effects = Vec::new();
        for object in self.objects.take_idle() {
            self.engine.forget(object, &mut effects);
        }
        match effects.is_empty() {
            true => Ok(()),
            false => self.perform(effects),
        }
    }

    fn discard(&mut self, ckpt: CkptId) -> Result<(), SupervisorError> {
        for member in self.members.values_mut() {
            let discarded = member.discard(&mut self.world, ckpt);
            discarded.map_err(fail("destroy a vessel"))?;
        }
        Ok(())
    }

    /// Lets the processes go on untraced that depend on nothing undecided any more.
    pub(super) fn dismiss_free(&mut self) -> Result<(), SupervisorError> {
        if !std::mem::take(&mut self.may_dismiss) {
            return Ok(());
        }
        let members: Vec<_> = self.members.keys().copied().collect();
        for process in members {
            self.dismiss_if_free(process)?;
        }
        Ok(())
    }

    fn dismiss_if_free(&mut self, process: Pid) -> Result<(), SupervisorError> {
        if !self.may_go(process)? {
            return Ok(());
        }
        let Some(member) = self.members.get(&process) else {
            return Ok(());
        };
        if !member.has_perished()
            && self.world.is_traced(&member.process)
            && self.stop(process)?
            && let Some(member) = self.members.get_mut(&process)
        {
            let resumed = self.world.resume(&mut member.process, Traced::NoMore);
            resumed.map_err(fail("let a process go on"))?;
        }
        self.dismiss(process)
    }

    /// Whether a member depends on nothing undecided, and has no part in an exit that is held, nor a child to
    /// reap. The engine alone knows what it depends on: a member's images tell only of the guesses that it was given itself.
    pub(super) fn is_free(&self, process: Pid) -> Result<bool, SupervisorError> {
        let Some(member) = self.members.get(&process) else {
            return Ok(false);
        };
        let speculates = self.engine.speculates(Node::Task(member.task));
        let speculates = speculates.map_err(refused("look at a task"))?;
        Ok(!speculates && !self.objects.need(process))
    }

    /// A process has ended that held an image of a member. The member goes back to the image before at once, while there is
    /// one: later it might have to go back to the image that is lost. To deny what it depended on is always safe.
    pub(super) fn lost_image(&mut self, vessel: Pid) -> Result<(), SupervisorError> {
        let lost = self.members.values_mut().find_map(|member| {
            let before = member.lose(&self.world, vessel)?;
            Some((member.task, before))
        });
        let Some((task, before)) = lost else {
            return Ok(());
        };
        let behind = self.engine.prediction_behind(task, before);
        match behind.map_err(refused("look at a checkpoint"))? {
            Some(id) => self.deny(id),
            None => Ok(()),
        }
    }

    /// Denies a prediction without its source.
    fn deny(&mut self, id: Id) -> Result<(), SupervisorError> {
        self.sources.withdrawn(id);
        self.tell(id, Decision::Deny)
    }

    /// A process that depended on something undecided has been killed, for good. What it did since its first image is gone with
    /// it: it might as well have been killed before. So what it came to depend on is denied, be it another's prediction, since
    /// others may have seen what it did.
    ///
    /// What it depended on by its birth stays undecided. Were that denied, its parent would bear another in its place, and
    /// nobody would kill that one. Until it is decided whether the process was ever born, it stays a member.
    pub(super) fn perished(&mut self, process: Pid) -> Result<(), SupervisorError> {
        let Some(member) = self.members.get_mut(&process) else {
            return Ok(());
        };
        member.perish();
        self.may_dismiss |= self.lendings.forget(process);
        // One that stood still at its exit has ended already as far as its parent may know.
        let is_over = self.objects.exits.hold_back(process);
        while let Some(member) = self.members.get(&process) {
            let deps = self.engine.deps(Node::Task(member.task));
            let predictions = deps.map_err(refused("look at a task"))?.predictions;
            let birth = member.birth();
            let is_meant = |id| predictions.contains(id) && (is_over || !birth.contains(id));
            match self.sources.oldest(is_meant) {
                Some(id) => self.deny(id)?,
                None => break,
            }
        }
        if let Some(member) = self.members.get(&process) {
            self.hurry(Node::Task(member.task))?;
        }
        self.dismiss_if_free(process)
    }
}
