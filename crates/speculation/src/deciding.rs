//! Decisions, and what follows from them.

use std::io;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use surmise_checkpoint::{CheckpointError, Halted, PendingCall, Process, Traced};
use surmise_engine::{CkptId, Decision, Effect, Id, Node, Plan, Step, UndoId};
use surmise_sys::ptrace::Stopped;

use crate::changing::Mark;
use crate::door::{Door, pending};
use crate::speculator::{Speculator, SpeculatorError, fail, refused};

/// How long a process may take to stop for its rollback: it may wait for a disk.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a process that was killed may take to be seen to have ended.
const ENDING: Duration = Duration::from_secs(2);

/// What a thread was about to do when a decision was made.
#[derive(Default)]
pub(crate) struct Occasion {
    /// It waits in this call. Taken once the call was answered, or will be made again.
    pub(crate) call: Option<PendingCall>,
    /// It has stopped to take a signal.
    pub(crate) signal: Option<Stopped>,
}

impl Occasion {
    pub(crate) fn of_call(call: PendingCall) -> Self {
        Self {
            call: Some(call),
            signal: None,
        }
    }

    pub(crate) fn of_signal(stopped: Stopped) -> Self {
        Self {
            call: None,
            signal: Some(stopped),
        }
    }
}

impl Speculator {
    /// Decides all that is due.
    pub(crate) fn decide_due(&mut self, occasion: &mut Occasion) -> Result<(), SpeculatorError> {
        while let Some(id) = self.torture.as_ref().and_then(|torture| torture.due()) {
            self.decide(id, occasion)?;
        }
        Ok(())
    }

    /// Decides all that a process depends on.
    pub(crate) fn decide_all(
        &mut self,
        process: Pid,
        occasion: &mut Occasion,
    ) -> Result<(), SpeculatorError> {
        while let Some(id) = self.oldest(process) {
            self.decide(id, occasion)?;
        }
        self.settle(process, occasion)
    }

    /// The oldest guess that a process was given and that is undecided.
    fn oldest(&self, process: Pid) -> Option<Id> {
        let torture = self.torture.as_ref()?;
        torture.oldest(process)
    }

    fn decide(&mut self, id: Id, occasion: &mut Occasion) -> Result<(), SpeculatorError> {
        let Some(torture) = &mut self.torture else {
            return Ok(());
        };
        let Some((process, decision)) = torture.decide(id) else {
            return Ok(());
        };
        self.tell(id, decision, occasion)?;
        self.settle(process, occasion)
    }

    fn tell(
        &mut self,
        id: Id,
        decision: Decision,
        occasion: &mut Occasion,
    ) -> Result<(), SpeculatorError> {
        let mut effects = Vec::new();
        let told = self.engine.decide(id, decision, &mut effects);
        told.map_err(refused("decide a prediction"))?;
        self.perform(effects, occasion)
    }

    /// Does what the engine says.
    pub(crate) fn perform(
        &mut self,
        effects: Vec<Effect>,
        occasion: &mut Occasion,
    ) -> Result<(), SpeculatorError> {
        for effect in effects {
            match effect {
                Effect::Release(hold) => {
                    if let Some(output) = self.outbox.take(hold) {
                        output.deliver().map_err(fail("let output go"))?;
                    }
                }
                Effect::Drop(hold) => drop(self.outbox.take(hold)),
                Effect::Withdrawn(id) => {
                    if let Some(torture) = &mut self.torture {
                        torture.withdraw(id);
                    }
                }
                Effect::DiscardCheckpoint(ckpt) => self.discard(ckpt)?,
                Effect::Plan(plan) => self.carry_out(&plan, occasion)?,
                Effect::DiscardUndo(record) => self.discard_record(record)?,
                // No task waits, so none is woken; and nobody owns a prediction and waits for others.
                Effect::Wake { .. }
                | Effect::DeniedForCycle(_)
                | Effect::Stalled { .. }
                | Effect::Unstalled => {}
            }
        }
        self.forget_idle()
    }

    /// Has the engine forget the objects that nothing depends on any more.
    fn forget_idle(&mut self) -> Result<(), SpeculatorError> {
        let mut effects = Vec::new();
        for object in self.inputs.take_idle() {
            self.engine.forget(object, &mut effects);
        }
        match effects.is_empty() {
            true => Ok(()),
            false => self.perform(effects, &mut Occasion::default()),
        }
    }

    fn discard(&mut self, ckpt: CkptId) -> Result<(), SpeculatorError> {
        for member in self.members.values_mut() {
            member.discard(ckpt).map_err(fail("destroy a vessel"))?;
        }
        Ok(())
    }

    /// Carries out a plan. What a process has changed is undone while it stands still and before its memory
    /// is restored, of which a part may be in files.
    fn carry_out(&mut self, plan: &Plan, occasion: &mut Occasion) -> Result<(), SpeculatorError> {
        let mut restored = 0;
        let (mut oldest, changes) = self.take_changes(plan)?;
        for step in &plan.steps {
            match step {
                Step::Restore { group, to, .. } => {
                    let mut members = self.members.iter();
                    let found = members.find(|(_, member)| member.group == *group);
                    if let Some((&process, _)) = found {
                        let undone = oldest.take_if(|mark| mark.process == process);
                        self.roll_back(process, (*to, undone), occasion)?;
                        restored += 1;
                    }
                }
                // Stopping and going on are part of a restoration.
                Step::Stop(_) | Step::Resume(_) => {}
                Step::Undo(record) if changes.contains(record) => {}
                Step::Undo(record) => self.apply_record(*record)?,
                // Nobody has made a process while speculating: such calls wait.
                Step::Destroy(_) => return Err(impossible()),
            }
        }
        if oldest.is_some() {
            return Err(impossible());
        }
        self.stats.cascades += u64::from(restored > 1);
        let mut effects = Vec::new();
        let told = self.engine.rolled_back(plan.id, &mut effects);
        told.map_err(refused("note a rollback"))?;
        self.perform(effects, occasion)
    }

    /// Takes out the records of changed files that a plan names, all of one process. Returns the mark of the
    /// oldest: who goes back there undoes all of it.
    fn take_changes(
        &mut self,
        plan: &Plan,
    ) -> Result<(Option<Mark>, Vec<UndoId>), SpeculatorError> {
        let (mut oldest, mut records) = (None, Vec::new());
        for step in &plan.steps {
            // The newest record comes first.
            if let Step::Undo(record) = step
                && let Some(mark) = self.marks.take(*record)
            {
                let taken = self.records.take(*record);
                taken.map_err(fail("apply a record"))?;
                self.stats.undone("changed file");
                oldest = Some(mark);
                records.push(*record);
            }
        }
        Ok((oldest, records))
    }

    fn roll_back(
        &mut self,
        process: Pid,
        (to, undone): (CkptId, Option<Mark>),
        occasion: &mut Occasion,
    ) -> Result<(), SpeculatorError> {
        let begun = Instant::now();
        let Some(member) = self.members.get_mut(&process) else {
            return Ok(());
        };
        let checkpoint = member.take(to).map_err(fail("destroy a vessel"))?;
        let Some(checkpoint) = checkpoint else {
            return undone.map_or(Ok(()), |_| Err(impossible()));
        };
        if undone.is_some() {
            // A thread that waits in the view would never stop.
            let given_up = self.files.give_up();
            given_up.map_err(fail("have the view give up"))?;
        }
        // What older images it has are needed by what is still undecided.
        let traced = match member.images() {
            0 => Traced::NoMore,
            _ => Traced::Still,
        };
        let halted = halt(&mut member.process, &mut self.door, occasion)?;
        if let Some(mark) = undone {
            let undone = self.files.undo(mark.number);
            undone.map_err(fail("undo what was changed"))?;
            member.has_undone = true;
        }
        if member.has_undone {
            checkpoint.learn_sizes();
        }
        let Some(halted) = halted else {
            return checkpoint.destroy().map_err(fail("destroy a vessel"));
        };
        let restored = halted.roll_back_for_good(checkpoint, traced, &mut self.door);
        let restored = match restored {
            Ok(restored) => restored,
            // It was killed meanwhile; its end is an event to come.
            Err(_) if member.process.has_ended() => return Ok(()),
            Err(error) if error.is_gone() && member.process.ends_within(ENDING) => return Ok(()),
            Err(error) => return Err(fail(error.what)(error.source)),
        };
        self.stats.pages_copied += restored.pages;
        self.stats.rollbacks.add(begun.elapsed());
        Ok(())
    }

    /// Lets a process go on untraced once nothing is undecided that it depends on.
    fn settle(&mut self, process: Pid, occasion: &mut Occasion) -> Result<(), SpeculatorError> {
        let Some(member) = self.members.get_mut(&process) else {
            return Ok(());
        };
        let deps = self.engine.deps(Node::Task(member.task));
        let deps = deps.map_err(refused("look at a task"))?;
        if !deps.predictions.is_empty() {
            return Ok(());
        }
        if member.process.is_traced()
            && let Some(halted) = halt(&mut member.process, &mut self.door, occasion)?
        {
            let gone_on = halted.go_on(None, Traced::NoMore, &mut self.door);
            gone_on.map_err(fail("let a process go on"))?;
        }
        self.dismiss(process)
    }

    /// A process that depended on something undecided has been killed. What it did since is gone with it:
    /// it might as well have been killed before.
    pub(crate) fn perished(&mut self, process: Pid) -> Result<(), SpeculatorError> {
        while let Some(id) = self.oldest(process) {
            if let Some(torture) = &mut self.torture {
                torture.withdraw(id);
            }
            self.tell(id, Decision::Deny, &mut Occasion::default())?;
        }
        self.dismiss(process)
    }
}

fn impossible() -> SpeculatorError {
    let error = io::Error::other("a plan that no task can have caused");
    fail("roll back")(error)
}

/// Stops a process, whatever it is doing; `None` if it has ended.
fn halt<'a>(
    process: &'a mut Process,
    door: &mut Door,
    occasion: &mut Occasion,
) -> Result<Option<Halted<'a>>, SpeculatorError> {
    let others = door.take_pending(|thread| process.has(thread));
    let mut calls: Vec<_> = others.iter().map(pending).collect();
    if let Some(call) = occasion.call.take_if(|call| process.has(call.thread)) {
        calls.push(call);
    }
    let is_own = |stopped: &mut Stopped| process.has(stopped.thread());
    let signal = occasion.signal.take_if(is_own);
    match process.halt(&calls, signal, PATIENCE, door) {
        Ok(halted) => Ok(Some(halted)),
        Err(CheckpointError::Ended { .. }) => Ok(None),
        Err(error) => Err(fail("stop a process")(io::Error::other(error))),
    }
}
