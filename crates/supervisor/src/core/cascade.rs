//! The rollback that a denial takes, step by step, in the order of the engine's plan.

use std::collections::BTreeSet;

use rustix::process::Pid;
use surmise_engine::{CkptId, Effect, GroupId, Plan, Step, UndoId, WaiterId};

use super::Core;
use crate::call::Call;
use crate::error::{SupervisorError, fail, refused};
use crate::kind::Kind;
use crate::member::Member;
use crate::objects::stream::channel;
use crate::world::{Traced, World};

impl<W: World> Core<W> {
    /// Carries out a plan.
    pub(super) fn carry_out(&mut self, plan: &Plan) -> Result<(), SupervisorError> {
        let records = plan.steps.iter().filter_map(|step| match step {
            Step::Undo(record) => Some(*record),
            _ => None,
        });
        let records: Vec<UndoId> = records.collect();
        let gave_way = self.objects.give_way(&records);
        gave_way.map_err(fail("have the view give up"))?;
        let mut stopped = Stopped::default();
        let (mut kinds, mut destroyed) = (BTreeSet::new(), 0);
        for step in &plan.steps {
            match step {
                Step::Destroy(group) => {
                    if self.destroy(*group)? {
                        kinds.insert(Kind::Birth);
                        destroyed += 1;
                    }
                }
                Step::Stop(group) => {
                    if let Some(process) = self.process_of(*group) {
                        self.check_stop(process)?;
                        stopped.all.push(process);
                        if self.stop(process)? {
                            stopped.standing.push(process);
                        }
                    }
                }
                // The first is for all of them: they undo one another's changes of one file at once.
                Step::Undo(record) if records.first() == Some(record) => {
                    let undone = self.objects.undo(&mut self.world, &records);
                    for kind in undone.map_err(fail("apply inverse records"))? {
                        self.note_undone(kind, &stopped);
                        kinds.insert(kind);
                    }
                }
                Step::Undo(_) => {}
                Step::Restore { group, to, .. } => self.restore(*group, *to, &mut stopped)?,
                Step::Resume(group) => self.resume(*group, &stopped)?,
            }
        }
        self.objects.exits.forget_retracted();
        if stopped.restored > 0 {
            self.members.values_mut().for_each(Member::meet_rollback);
        }
        if stopped.restored + destroyed > 1 {
            self.stats.cascade(&kinds);
        }
        let mut effects = Vec::new();
        let told = self.engine.rolled_back(plan.id, &mut effects);
        told.map_err(refused("note a rollback"))?;
        self.perform(effects)?;
        // What they wait for may have been put back.
        self.wake_sleepers()
    }

    /// The process of a group.
    fn process_of(&self, group: GroupId) -> Option<Pid> {
        let mut members = self.members.values();
        members
            .find(|member| member.group == group)
            .map(Member::pid)
    }

    /// Ends a process that would not have been born, with its images. Its memory is its parent's, page by page, so it
    /// is gone before the parent is restored. False if it has ended.
    fn destroy(&mut self, group: GroupId) -> Result<bool, SupervisorError> {
        let Some(process) = self.process_of(group) else {
            return Ok(false);
        };
        let Some(mut member) = self.members.remove(&process) else {
            return Ok(false);
        };
        self.may_dismiss |= self.lendings.forget(process);
        let mut effects = Vec::new();
        // Nobody takes its signals any more.
        let (_, waiters) = self.waits.take_signals(process);
        for waiter in waiters {
            self.withdraw(waiter, &mut effects)?;
        }
        self.stats.undone(Kind::Birth);
        self.perform(effects)?;
        let destroyed = self.world.destroy(&mut member.process);
        destroyed.map_err(fail("end a process"))?;
        self.forget_answered()?;
        let closed = self.engine.close(channel(member.task));
        closed.map_err(refused("close a channel"))?;
        let discarded = member.destroy(&mut self.world);
        discarded.map_err(fail("destroy a vessel"))?;
        Ok(true)
    }

    /// Stops a process, whatever it is doing. False if it has ended.
    pub(super) fn stop(&mut self, process: Pid) -> Result<bool, SupervisorError> {
        self.gather()?;
        let mut effects = Vec::new();
        let (signals, waiters) = self.waits.take_signals(process);
        for waiter in waiters {
            self.withdraw(waiter, &mut effects)?;
        }
        let calls = self.pending_calls(process);
        let Some(member) = self.members.get_mut(&process) else {
            return Ok(false);
        };
        if member.has_perished() {
            return Ok(false);
        }
        let files = &self.objects.files;
        // Threads have been asked to stop by then. Earlier, a thread would go on and see that its call was interrupted.
        let mut has_given_way = false;
        let mut give_way = || {
            has_given_way = true;
            files.let_stop(process, true)
        };
        let (world, own) = (&mut self.world, &mut member.process);
        let stands = world.stop(own, &calls, signals, &mut give_way);
        let stands = stands.map_err(fail("stop a process"))?;
        if has_given_way {
            let serves = files.let_stop(process, false);
            serves.map_err(fail("have the view serve a process again"))?;
        }
        self.perform(effects)?;
        self.forget_answered()?;
        Ok(stands)
    }

    /// Forgets the calls that are made again, or whose threads are no more.
    pub(super) fn forget_answered(&mut self) -> Result<(), SupervisorError> {
        let mut answered = Vec::new();
        for asked in self.waits.asked() {
            let waits = self.world.still_waits(&asked.call);
            if !waits.map_err(fail("look at a call"))? {
                answered.push(asked.call.notification.id);
                // It may have waited for all to be decided. Given a guess when it is made again, it would wait for ever.
                if asked.offer.is_none() {
                    self.sources.be_truthful(asked.call.thread());
                }
            }
        }
        if answered.is_empty() {
            return Ok(());
        }
        let mut effects = Vec::new();
        let is_over = |call: &Call| answered.contains(&call.notification.id);
        for waiter in self.waits.forget(is_over) {
            self.withdraw(waiter, &mut effects)?;
        }
        self.perform(effects)
    }

    pub(super) fn withdraw(
        &mut self,
        waiter: WaiterId,
        effects: &mut Vec<Effect>,
    ) -> Result<(), SupervisorError> {
        let withdrawn = self.engine.withdraw(waiter, effects);
        withdrawn.map_err(refused("forget a wait"))
    }

    /// What a process has open may have another size than the kernel believes.
    fn note_undone(&mut self, kind: Kind, stopped: &Stopped) {
        self.stats.undone(kind);
        if kind != Kind::ChangedFile {
            return;
        }
        for process in &stopped.all {
            if let Some(member) = self.members.get_mut(process) {
                member.has_undone = true;
            }
        }
    }

    fn restore(
        &mut self,
        group: GroupId,
        to: CkptId,
        stopped: &mut Stopped,
    ) -> Result<(), SupervisorError> {
        let begun = self.world.now();
        let Some(process) = self.process_of(group) else {
            return Ok(());
        };
        let Some(member) = self.members.get_mut(&process) else {
            return Ok(());
        };
        let (timer, signals) = member.undo_signals(to);
        let executions = member.undo_executions(to);
        let image = member.take(&mut self.world, to);
        let Some(image) = image.map_err(fail("destroy a vessel"))? else {
            return Ok(());
        };
        if !stopped.standing.contains(&process) {
            let discarded = self.world.discard(image, None);
            return discarded.map_err(fail("destroy a vessel"));
        }
        for child in self.objects.exits.take_retracted(process) {
            let retracted = self.world.retract(&mut member.process, child);
            retracted.map_err(fail("take a signal back"))?;
        }
        let has_undone = member.has_undone;
        let restored = self.world.restore(&mut member.process, image, has_undone);
        match restored.map_err(fail("restore a process"))? {
            Some(pages) => {
                if let Some(before) = timer {
                    let restored = self.world.restore_timer(&mut member.process, &before);
                    restored.map_err(fail("restore a timer"))?;
                    self.stats.undone(Kind::Timer);
                }
                let sent = self.world.send_again(&mut member.process, &signals);
                sent.map_err(fail("send a signal again"))?;
                for _ in &signals {
                    self.stats.undone(Kind::TakenSignal);
                }
                for _ in 0..executions {
                    self.stats.undone(Kind::Program);
                }
                self.stats.totals.pages_copied += pages;
                let time = self.world.now().saturating_duration_since(begun);
                self.stats.totals.rollbacks.add(time);
                stopped.restored += 1;
            }
            // It was killed meanwhile; its end is an event to come.
            None => stopped.standing.retain(|one| *one != process),
        }
        Ok(())
    }

    fn resume(&mut self, group: GroupId, stopped: &Stopped) -> Result<(), SupervisorError> {
        let process = self.process_of(group);
        let Some(process) = process.filter(|process| stopped.standing.contains(process)) else {
            return Ok(());
        };
        let traced = match self.may_go(process)? {
            true => Traced::NoMore,
            false => Traced::Still,
        };
        let Some(member) = self.members.get_mut(&process) else {
            return Ok(());
        };
        let resumed = self.world.resume(&mut member.process, traced);
        resumed.map_err(fail("let a process go on"))
    }
}

/// The processes of a plan.
#[derive(Default)]
struct Stopped {
    all: Vec<Pid>,
    /// Those that have not ended.
    standing: Vec<Pid>,
    /// How many were restored.
    restored: usize,
}
