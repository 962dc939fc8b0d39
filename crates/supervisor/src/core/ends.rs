//! Ends of processes that depend on something undecided: held, told to parents, and brought about in the end.

use rustix::process::Pid;
use surmise_engine::{Access, Answer as Permission, CkptId, Node, ObjectId};
use surmise_syscalls::Syscall;

use super::Core;
use super::imaging::Gained;
use crate::call::Call;
use crate::error::{SupervisorError, bug, fail, refused};
use crate::kind::Kind;
use crate::member::Member;
use crate::objects::exits::Exit;
use crate::objects::heed::mask_of;
use crate::objects::wait::{ChildWait, Outlook, Tidings, Told};
use crate::waits::{Asked, Item};
use crate::world::{Expects, Kin, Traced, World};

impl<W: World> Core<W> {
    /// Has a member stand still at its exit, if its call is one and can be held. True if the call needs no answer.
    pub(super) fn hold_exit(
        &mut self,
        process: Pid,
        asked: &Asked,
    ) -> Result<bool, SupervisorError> {
        let call = &asked.call;
        let is_end = matches!(call.name(), Syscall::Exit | Syscall::ExitGroup);
        // A parent that waits for its memory could not be told.
        if !is_end || self.lendings.concern(process) || self.is_free(process)? {
            return Ok(false);
        }
        let kin = self.kin(process);
        let Some(member) = self.members.get(&process) else {
            return Ok(false);
        };
        let task = member.task;
        let ending = self.world.ending(process, call, &kin);
        let Some(ending) = ending.map_err(fail("look at a process that ends"))? else {
            return Ok(false);
        };
        // Among those that are made again.
        self.waits.add(Item::Call(*asked));
        if !self.stop(process)? {
            // It was killed, which is an event to come.
            return Ok(true);
        }
        let Some(member) = self.members.get_mut(&process) else {
            return Ok(true);
        };
        let account = self.world.account(&mut member.process);
        let Some(account) = account.map_err(fail("look at what a process has used"))? else {
            return Ok(true);
        };
        let record = self.objects.record(Kind::Exit);
        let exit = Exit::new(process, ending, account);
        let object = self.objects.exits.hold(exit, record);
        let mut effects = Vec::new();
        let access = Access::Modify(Some(record));
        let permission = self.engine.access(task, object, access, &mut effects);
        let permission = permission.map_err(refused("note an exit"))?;
        if permission != Permission::Go {
            let error = bug("the engine refuses the exit of a task that has an image");
            return Err(fail("hold an exit")(error));
        }
        self.stats.met(Kind::Exit);
        self.perform(effects)?;
        self.rouse(ending.parent)?;
        self.look_soon();
        Ok(true)
    }

    /// The parent's calls that wait for a child, or for a signal, are made or attended to once more.
    fn rouse(&mut self, parent: Pid) -> Result<(), SupervisorError> {
        if !self.members.contains_key(&parent) {
            if !self.world.may_sleep(parent) {
                return Ok(());
            }
            self.gather()?;
            let world = &self.world;
            let is_of = |call: &&Call| {
                let process = world.process_of(call.thread()).ok().flatten();
                process == Some(parent)
            };
            let calls: Vec<_> = self
                .waits
                .calls()
                .filter(is_of)
                .map(Call::pending)
                .collect();
            let roused = self.world.rouse(parent, &calls);
            roused.map_err(fail("rouse a parent"))?;
            return self.forget_answered();
        }
        let world = &self.world;
        let is_meant = |call: &Call| {
            let process = || world.process_of(call.thread()).ok().flatten();
            let is_told = ChildWait::of(call).is_some() || mask_of(call).is_some();
            is_told && process() == Some(parent)
        };
        let recalled = self.waits.recall(is_meant);
        self.end_waits(recalled)?;
        // One that sleeps in the kernel would sleep on, since the child has not really ended.
        let may_stop = !self.lendings.concern(parent) && !self.objects.exits.hold_back(parent);
        if may_stop
            && self.world.may_sleep(parent)
            && self.stop(parent)?
            && let Some(member) = self.members.get_mut(&parent)
        {
            let resumed = self.world.resume(&mut member.process, Traced::Still);
            resumed.map_err(fail("let a process go on"))?;
        }
        Ok(())
    }

    /// Tells a parent that waits for its children of an exit that is held, if there is one. True if the call was
    /// answered, or will be made again.
    pub(super) fn collect(&mut self, call: &Call) -> Result<bool, SupervisorError> {
        let Some(wait) = ChildWait::of(call).filter(|_| !self.members.is_empty()) else {
            return Ok(false);
        };
        let Some(parent) = self.caller(call)? else {
            return Ok(false);
        };
        // It could not be stopped for that.
        if self.lendings.concern(parent) {
            return Ok(false);
        }
        let Some(object) = self.collectable(parent, call, wait)? else {
            return self.tell_without_exit(parent, call, wait);
        };
        if self.is_waited_for(parent)? || self.is_awaited(parent) {
            return Ok(false);
        }
        match self.gain(parent, call, object)? {
            Gained::Again => Ok(true),
            Gained::Refused => Ok(false),
            Gained::Depends => match self.objects.exits.get(object) {
                Some(exit) => {
                    let tidings = Tidings::Collected(wait.told(&exit.ended()));
                    self.tell_exit(parent, call, object, &tidings)
                }
                None => Ok(false),
            },
        }
    }

    /// A member none of whose children stands still at its exit is told of one that has ended. If none has but those that it was
    /// told of, it need not wait to be told that.
    fn tell_without_exit(
        &mut self,
        parent: Pid,
        call: &Call,
        wait: ChildWait,
    ) -> Result<bool, SupervisorError> {
        if !self.members.contains_key(&parent) {
            return Ok(false);
        }
        let outlook = self.outlook(parent, call, wait)?;
        self.sleeps = Some(outlook == Outlook::Sleeps);
        match outlook {
            Outlook::Told(told) => self.tell_of_none(parent, call, &told),
            Outlook::Sleeps => Ok(false),
            Outlook::Unknown => self.collect_zombie(parent, call, wait),
        }
    }

    fn tell_of_none(
        &mut self,
        parent: Pid,
        call: &Call,
        told: &Told,
    ) -> Result<bool, SupervisorError> {
        let Some(member) = self.members.get_mut(&parent) else {
            return Ok(false);
        };
        let answered = self.world.tell_of_none(&mut member.process, call, told);
        self.stats.met(Kind::Process);
        answered.map_err(fail("answer a call"))
    }

    fn outlook(
        &self,
        parent: Pid,
        call: &Call,
        wait: ChildWait,
    ) -> Result<Outlook, SupervisorError> {
        let outlook = self.world.childless(parent, call, wait, &self.kin(parent));
        outlook.map_err(fail("look at children"))
    }

    /// Whether a call of a member sleeps until a child ends that still runs. If a child's exit is held, the call would not
    /// sleep if its caller could be told of that.
    pub(super) fn sleeps_for_child(
        &self,
        parent: Pid,
        call: &Call,
    ) -> Result<bool, SupervisorError> {
        let mut held = self.objects.exits.collectable(parent);
        match ChildWait::of(call) {
            Some(wait) if held.next().is_none() => {
                let look = || Ok(self.outlook(parent, call, wait)? == Outlook::Sleeps);
                let sleeps = self.sleeps.map_or_else(look, Ok)?;
                // Only in a simulation is it certain that nothing has happened since.
                debug_assert!(
                    !cfg!(test) || sleeps == look()?,
                    "it was found out for another"
                );
                Ok(sleeps)
            }
            _ => Ok(false),
        }
    }

    /// Whether a child has ended in the meantime of which a caller could not be told that sleeps for children.
    pub(super) fn has_missed_end(&self, call: &Call) -> Result<bool, SupervisorError> {
        match (self.caller(call)?, ChildWait::of(call)) {
            (Some(parent), Some(wait)) => Ok(self.outlook(parent, call, wait)? == Outlook::Unknown),
            _ => Ok(false),
        }
    }

    pub(super) fn kin(&self, process: Pid) -> Kin {
        let member = self.members.get(&process);
        let images = member.into_iter().flat_map(Member::images);
        let vessels = images.filter_map(|image| self.world.vessel(image));
        let discarded = member.map(|member| self.world.discarded(&member.process));
        let mut collected = self.objects.exits.collected_by(process);
        collected.extend(self.objects.zombies.collected_by(process));
        Kin {
            vessels: vessels.collect(),
            discarded: discarded.unwrap_or_default(),
            collected,
        }
    }

    /// Whether a member takes a signal that tells it of the end of a child, rather than wait: it does not notice it; or it
    /// depends on that end, and no rollback would have to bring the signal back, for each undoes that it was told.
    pub(super) fn may_take(
        &self,
        process: Pid,
        signal: &W::Signal,
    ) -> Result<bool, SupervisorError> {
        let Some(member) = self.members.get(&process) else {
            return Ok(false);
        };
        if self.only_stays(process)? {
            return Ok(true);
        }
        let mut images = member.images();
        let might_notice = images.any(|image| self.world.might_notice_ends(image));
        let is_unnoticed = self.world.is_unnoticed(signal);
        if !might_notice && is_unnoticed.map_err(fail("look at a signal"))? {
            return Ok(true);
        }
        let newest = member.newest_image();
        let told = self.told_by(process, signal)?;
        Ok(match told {
            Some(told) if newest.is_none_or(|newest| newest <= told) => {
                !self.has_zombies(process)?
            }
            _ => false,
        })
    }

    /// If a signal tells of an exit that is held, the newest image when its process was told first.
    pub(super) fn told_by(
        &self,
        process: Pid,
        signal: &W::Signal,
    ) -> Result<Option<CkptId>, SupervisorError> {
        let child = self.world.tells_of(signal);
        let child = child.map_err(fail("look at a signal"))?;
        Ok(child.and_then(|child| self.objects.exits.told_at(process, child)))
    }

    /// Whether children of a process have ended and are not reaped. A signal that waits tells of one end alone, and is lost for all
    /// others: so one that tells of an exit which is held may be theirs, too.
    pub(super) fn has_zombies(&self, process: Pid) -> Result<bool, SupervisorError> {
        let has = self.world.has_zombies(process);
        has.map_err(fail("look at children"))
    }

    /// Whether something waits until a member depends on nothing. What the member gains would have it wait longer.
    pub(super) fn is_awaited(&self, process: Pid) -> bool {
        let member = self.members.get(&process);
        let node = member.map(|member| Node::Task(member.task));
        node.is_some_and(|node| self.waits.awaited().any(|awaited| awaited == node))
    }

    /// The exit that a call is to be told of.
    fn collectable(
        &self,
        parent: Pid,
        call: &Call,
        wait: ChildWait,
    ) -> Result<Option<ObjectId>, SupervisorError> {
        for (object, exit) in self.objects.exits.collectable(parent) {
            let is_awaited = self.world.is_awaited(call, wait.whom, exit);
            if is_awaited.map_err(fail("look at a child"))? {
                let may = self.world.may_be_told(call, &wait.told(&exit.ended()));
                let may = may.map_err(fail("look at a parent"))?;
                return Ok(may.then_some(object));
            }
        }
        Ok(None)
    }

    /// A parent that depends on an exit learns of that. False if its call still waits.
    pub(super) fn tell_exit(
        &mut self,
        parent: Pid,
        call: &Call,
        object: ObjectId,
        tidings: &Tidings,
    ) -> Result<bool, SupervisorError> {
        self.gather()?;
        let others = self.pending_calls(parent);
        let exits = &self.objects.exits;
        let (Some(member), Some(exit)) = (self.members.get_mut(&parent), exits.get(object)) else {
            return Ok(false);
        };
        let task = member.task;
        let is_told = self
            .world
            .tell(&mut member.process, call, (exit, tidings), &others);
        let is_told = is_told.map_err(fail("tell a parent of an exit"))?;
        self.forget_answered()?;
        if !is_told {
            let waits = self.world.still_waits(call);
            return waits.map(|waits| !waits).map_err(fail("look at a call"));
        }
        let record = self.objects.record(Kind::Exit);
        let since = CkptId(self.checkpoints);
        let collects = matches!(tidings, Tidings::Collected(_));
        self.objects.exits.tell(object, collects, record, since);
        let mut effects = Vec::new();
        let access = Access::Both(Some(record));
        let permission = self.engine.access(task, object, access, &mut effects);
        if permission.map_err(refused("note that a parent knows of an exit"))? != Permission::Go {
            let error = bug("a parent that depends on an exit needs an image to learn of it");
            return Err(fail("tell a parent of an exit")(error));
        }
        self.stats.met(match collects {
            true => Kind::Child,
            false => Kind::Signal,
        });
        self.perform(effects)?;
        Ok(true)
    }

    /// Brings about the exits that are certain.
    pub(super) fn attend_ends(&mut self) -> Result<(), SupervisorError> {
        while let Some(exit) = self.take_due() {
            self.bring_about(&exit)?;
            self.may_dismiss = true;
        }
        self.close_files_of_stuck()
    }

    /// What a process has open that is to end, others would find open for as long as its parent cannot be stopped. The parent may have
    /// lent its memory to a child that executes a program which that very process has written.
    fn close_files_of_stuck(&mut self) -> Result<(), SupervisorError> {
        for child in self.objects.exits.take_stuck() {
            if let Some(member) = self.members.get_mut(&child) {
                let closed = self.world.close_files(&mut member.process);
                closed.map_err(fail("have a process close its files"))?;
            }
        }
        Ok(())
    }

    fn take_due(&mut self) -> Option<Exit> {
        // A parent that cannot be stopped could not reap it.
        let lendings = &self.lendings;
        let can_happen = |exit: &Exit| !exit.is_known() || !lendings.concern(exit.ending.parent);
        self.objects.exits.take_due(can_happen)
    }

    /// A process ends that has stood still at its exit. If its parent knows, the parent learns nothing new.
    fn bring_about(&mut self, exit: &Exit) -> Result<(), SupervisorError> {
        let parent = exit.ending.parent;
        let is_told = exit.is_known() && self.members.contains_key(&parent);
        // One that stands still at its own exit stays there.
        let stands = self.objects.exits.hold_back(parent);
        // The end must not be told while the parent runs.
        let is_told = is_told && (stands || self.stop(parent)?);
        let before = match self.members.get_mut(&parent) {
            Some(member) if is_told => self.world.expects(&mut member.process),
            _ => Ok(Expects::default()),
        };
        let before = before.map_err(fail("look at children"))?;
        if let Some(mut member) = self.members.remove(&exit.child) {
            let ended = self.world.exit(&mut member.process, &exit.ending);
            ended.map_err(fail("have a process end"))?;
            self.members.insert(exit.child, member);
            self.dismiss(exit.child)?;
        }
        if is_told && let Some(member) = self.members.get_mut(&parent) {
            let reaped = self.world.reap(&mut member.process, exit, &before);
            reaped.map_err(fail("reap a child"))?;
            if !stands {
                let resumed = self.world.resume(&mut member.process, Traced::Still);
                resumed.map_err(fail("let a process go on"))?;
            }
        }
        self.forget_idle()
    }
}
