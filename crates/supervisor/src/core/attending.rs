//! What becomes of a call: it is guessed, happens under an undecided guess, waits, or passes.

use std::os::fd::OwnedFd;

use rustix::process::Pid;
use surmise_checkpoint::Change;
use surmise_engine::{Access, Answer as Permission, Node, ObjectId, TaskId, UndoId, WaiterId};
use surmise_sys::seccomp::Answer;
use surmise_syscalls::{Disposition, Kind as Column};

use super::Core;
use super::guessing::Guessed;
use super::imaging::Gained;
use crate::call::Call;
use crate::durability::{DOMAIN, Verdict};
use crate::error::{SupervisorError, fail, refused};
use crate::kind::Kind;
use crate::meeting::{Act, Changing, Meeting};
use crate::member::Member;
use crate::object::Did;
use crate::objects::files::Touch;
use crate::objects::stream::channel;
use crate::waits::{Asked, Item, Waited};
use crate::world::{Apart, World};

/// What a call finds before it.
pub(super) enum Way {
    Clear,
    /// It is made again.
    Again,
    /// It waits until this depends on nothing.
    Barred(Node, Kind),
    /// It reads from a pipe that others have shut.
    AtEnd,
}

impl<W: World> Core<W> {
    /// Attends to something that waits.
    pub(super) fn attend(&mut self, item: Item<W::Signal>) -> Result<(), SupervisorError> {
        match item {
            Item::Call(asked) => self.attend_call(asked),
            Item::Signal { process, signal } => match self.members.get(&process) {
                Some(_) if self.only_stays(process)? => self.pass_on(signal),
                Some(member) => {
                    let node = Node::Task(member.task);
                    self.park(Item::Signal { process, signal }, node, Kind::Signal)
                }
                None => self.deliver(signal),
            },
        }
    }

    fn attend_call(&mut self, asked: Asked) -> Result<(), SupervisorError> {
        let call = &asked.call;
        self.foreseen = self.take_foreseen(call);
        self.sleeps = None;
        self.is_spared = false;
        match self.obstacle(call)? {
            Way::Clear => {}
            Way::Again => return Ok(()),
            Way::Barred(node, kind) => return self.park(Item::Call(asked), node, kind),
            Way::AtEnd => return self.tell_of_end(call),
        }
        if self.is_behind_output(call)? {
            let now = self.world.now();
            self.look_for_signals_later();
            self.waits.park_behind_output(Item::Call(asked), now);
            return Ok(());
        }
        let guessed = match &asked.offer {
            Some(offer) => self.guess(call, offer)?,
            None => Guessed::Waits,
        };
        let foreseen = match guessed {
            Guessed::Given | Guessed::Again => return Ok(()),
            Guessed::Foreseen(meeting) => Some(meeting),
            Guessed::Waits => None,
        };
        let asked = Asked {
            offer: None,
            ..asked
        };
        if self.collect(call)? || self.announce(&asked)? {
            return Ok(());
        }
        match self.member_of(call.thread()) {
            // What has spared it is in its way by now.
            member if self.is_spared && !self.is_bound(member)? => {
                self.waits.add(Item::Call(asked));
                Ok(())
            }
            Some(process) if self.only_stays(process)? => self.pass_or_lend(process, &asked),
            Some(process) if self.hold_exit(process, &asked)? => Ok(()),
            Some(process) => self.track(process, &asked, foreseen),
            None => self.pass(&asked),
        }
    }

    /// What of others a call would touch that is undecided. Its process comes to depend on that where it may.
    fn obstacle(&mut self, call: &Call) -> Result<Way, SupervisorError> {
        let may_be_first = !self.members.is_empty() && self.world.touch(call) >= Touch::Changes;
        if !self.objects.are_quiet() || may_be_first {
            let caller = self.caller(call)?;
            if let Some(process) = caller {
                self.look_at_files(process, call)?;
            }
            for (obstacle, kind) in self.objects.obstacles(&self.world, caller, call) {
                let object = obstacle.object;
                if obstacle.spares_members && self.is_bound(self.member_of(call.thread()))? {
                    self.is_spared = true;
                    continue;
                }
                let gained = match caller {
                    Some(process) if obstacle.may_depend => self.gain(process, call, object)?,
                    _ => Gained::Refused,
                };
                match gained {
                    Gained::Depends => {}
                    Gained::Again => return Ok(Way::Again),
                    Gained::Refused => return Ok(Way::Barred(Node::Object(object), kind)),
                }
            }
        }
        // It would adopt vessels, which are for nobody to see.
        if self.world.adopts(call)
            && let Some(task) = self.first_bound()?
        {
            return Ok(Way::Barred(Node::Task(task), Kind::Process));
        }
        match self.at_kept_file(call)? {
            Way::Clear => {}
            way => return Ok(way),
        }
        match self.at_fifo(call)? {
            Way::Clear => self.at_shut_pipe(call),
            way => Ok(way),
        }
    }

    /// Whether a process depends on something undecided: then it is recorded what that does.
    fn is_bound(&self, process: Option<Pid>) -> Result<bool, SupervisorError> {
        let member = process.and_then(|process| self.members.get(&process));
        let Some(member) = member else {
            return Ok(false);
        };
        let speculates = self.engine.speculates(Node::Task(member.task));
        speculates.map_err(refused("look at a task"))
    }

    /// Looks up what of the view a call touches, where something there is undecided or would be.
    fn look_at_files(&mut self, process: Pid, call: &Call) -> Result<(), SupervisorError> {
        if self.members.contains_key(&process) || !self.objects.files.are_decided() {
            self.look_up(process, call)?;
        }
        Ok(())
    }

    /// Looks up what of the view a call touches.
    pub(super) fn look_up(&mut self, process: Pid, call: &Call) -> Result<(), SupervisorError> {
        if self.objects.files.log().is_none() {
            return Ok(());
        }
        let is_member = self.members.contains_key(&process);
        let waiting: Vec<Pid> = self.waits.calls().map(Call::thread).collect();
        let (world, caller) = (&mut self.world, (process, is_member));
        let looked = self.objects.files.look(world, caller, call, &waiting);
        looked.map_err(fail("look up what a call touches"))
    }

    /// Whether a call might overtake output that is on its way.
    fn is_behind_output(&mut self, call: &Call) -> Result<bool, SupervisorError> {
        if self.objects.streams.leaving().is_none() {
            return Ok(false);
        }
        let caller = self.caller(call)?;
        if !self.world.may_put(caller, call) {
            return Ok(false);
        }
        self.flush()?;
        Ok(self.objects.streams.leaving().is_some())
    }

    /// A call of a process that depends on something undecided. `met`: what it takes to let the call happen, if that was
    /// found out just now.
    fn track(
        &mut self,
        process: Pid,
        asked: &Asked,
        met: Option<Meeting>,
    ) -> Result<(), SupervisorError> {
        let Some(member) = self.members.get_mut(&process) else {
            return self.pass(asked);
        };
        let call = &asked.call;
        member.has_called();
        let met = match met {
            Some(met) => met,
            None => self.meet(process, call)?,
        };
        let Some(member) = self.members.get_mut(&process) else {
            return self.pass(asked);
        };
        match met {
            Meeting::Pass(kind) => self.stats.met(kind),
            Meeting::NoteInNew(change) => self.stats.met(kind_of(change)),
            Meeting::Note(change) => {
                self.stats.met(kind_of(change));
                member.note(&self.world, change);
            }
            Meeting::Depute(change) => return self.depute(process, asked, change),
            Meeting::Move(descriptor) => {
                if !self.move_shared(process, call, descriptor)? {
                    return self.wait(process, asked);
                }
            }
            Meeting::SetTimer => return self.set_timer(process, asked),
            Meeting::Act(act) => return self.act(process, asked, &act),
            Meeting::Signal(sending) => return self.send(process, asked, sending),
            Meeting::Bear => return self.bear(process, asked),
            Meeting::Lend { is_alone } => return self.lend(process, asked, is_alone),
            Meeting::Execute => return self.execute(process, asked),
            Meeting::Wait => return self.wait(process, asked),
        }
        self.pass(asked)
    }

    /// A call waits until its process depends on nothing undecided.
    pub(super) fn wait(&mut self, process: Pid, asked: &Asked) -> Result<(), SupervisorError> {
        let Some(member) = self.members.get(&process) else {
            return self.pass(asked);
        };
        let node = Node::Task(member.task);
        let kind = match self.sleeps_for_child(process, &asked.call)? {
            true => Kind::Child,
            false => Kind::Process,
        };
        self.park(Item::Call(*asked), node, kind)
    }

    /// A call waits for that, or for input: then it is attended to again.
    fn sleep(
        &mut self,
        process: Pid,
        asked: &Asked,
        input: Option<OwnedFd>,
    ) -> Result<(), SupervisorError> {
        let Some(member) = self.members.get(&process) else {
            return self.pass(asked);
        };
        let node = Node::Task(member.task);
        let waiter = self.begin_wait(Item::Call(*asked), node, Kind::Pipe)?;
        self.waits.sleep(waiter, process, input);
        self.look_later();
        self.hurry_for(waiter, node)
    }

    /// There may be input for calls that wait for some. No decision has kept them waiting: they would have slept anyway.
    pub(super) fn wake_sleepers(&mut self) -> Result<(), SupervisorError> {
        let mut effects = Vec::new();
        for waiter in self.waits.wake_sleepers() {
            self.withdraw(waiter, &mut effects)?;
        }
        self.perform(effects)
    }

    /// Calls that were parked are attended to once more, whatever they have waited for.
    pub(super) fn end_waits(
        &mut self,
        ended: Vec<(WaiterId, (Option<Call>, Waited))>,
    ) -> Result<(), SupervisorError> {
        let mut effects = Vec::new();
        for (waiter, waited) in ended {
            self.withdraw(waiter, &mut effects)?;
            self.note_wait(waited)?;
        }
        self.perform(effects)
    }

    /// A call of a process does something to an object whose kind takes part in that.
    fn act(&mut self, process: Pid, asked: &Asked, act: &Act) -> Result<(), SupervisorError> {
        let call = &asked.call;
        if !self.moves_for_others(process, call, act)? {
            return self.wait(process, asked);
        }
        let Some(member) = self.members.get(&process) else {
            return self.pass(asked);
        };
        let task = member.task;
        let apart = match act {
            Act::Change(_) | Act::Send { .. } | Act::Take(_) => self.apart(),
            Act::Ask => Apart {
                hung_up: std::mem::take(&mut self.hung_up),
                ..self.apart()
            },
            Act::Put { .. } => Apart::default(),
        };
        let world = &mut self.world;
        let met = self.objects.meet(world, member, call, act, &apart);
        let (did, record, kind) = met.map_err(fail("do what a call asks for"))?;
        let answer = match did {
            Did::Wait => return self.wait(process, asked),
            Did::Sleeps(input) => return self.sleep(process, asked, input),
            Did::Gone => return Ok(()),
            Did::Known(answer) => answer,
            Did::PutOut(hold) => {
                let mut effects = Vec::new();
                let told = self
                    .engine
                    .output(Node::Task(task), channel(task), hold, &mut effects);
                told.map_err(refused("note output"))?;
                self.stats.met(kind);
                return self.perform(effects);
            }
            Did::Accesses {
                object,
                observes,
                answer,
            } => {
                if !self.access_both((process, task), (object, observes), record)? {
                    return self.wait(process, asked);
                }
                answer
            }
        };
        self.stats.met(kind);
        if kind == Kind::Pipe {
            self.wake_sleepers()?;
        }
        if let Act::Change(Changing { moved, .. }) = act
            && let Some(member) = self.members.get_mut(&process)
        {
            if matches!(did, Did::Accesses { .. }) {
                member.recorded(record);
            }
            self.note_own_moves(process, moved);
        }
        match answer {
            Answer::Continue if self.world.removes_directory(call) => {
                self.remove_directory(process, asked)
            }
            Answer::Continue => self.pass(asked),
            answer => {
                self.world.takes_nothing(call.thread());
                self.respond(call, answer)
            }
        }
    }

    /// A task observes and modifies an object, by this record of the object's kind. False if it may not: then nothing was done.
    pub(super) fn access(
        &mut self,
        task: TaskId,
        object: ObjectId,
        record: UndoId,
    ) -> Result<bool, SupervisorError> {
        let mut effects = Vec::new();
        let access = Access::Both(Some(record));
        let permission = self.engine.access(task, object, access, &mut effects);
        let permission = permission.map_err(refused("note an access"))?;
        self.perform(effects)?;
        if permission == Permission::Go {
            return Ok(true);
        }
        self.take_back(record)?;
        Ok(false)
    }

    /// The same, of a member that may observe another object besides.
    fn access_both(
        &mut self,
        (process, task): (Pid, TaskId),
        (object, observed): (ObjectId, Option<ObjectId>),
        record: UndoId,
    ) -> Result<bool, SupervisorError> {
        if let Some(observed) = observed
            && !self.observe(process, observed)?
        {
            self.take_back(record)?;
            return Ok(false);
        }
        self.access(task, object, record)
    }

    fn take_back(&mut self, record: UndoId) -> Result<(), SupervisorError> {
        let undone = self.objects.undo(&mut self.world, &[record]);
        undone.map_err(fail("take back what may not be")).map(drop)
    }

    /// The tasks that touch nothing for now, or no more.
    fn apart(&self) -> Apart {
        let images = self.members.values().flat_map(Member::images);
        Apart {
            waiting: self.waits.calls().map(Call::thread).collect(),
            vessels: images
                .filter_map(|image| self.world.vessel(image))
                .collect(),
            standing: self
                .objects
                .exits
                .standing()
                .map(|(process, _)| process)
                .collect(),
            hung_up: Vec::new(),
        }
    }

    /// A call that no guess stands in the way of.
    pub(super) fn pass(&mut self, asked: &Asked) -> Result<(), SupervisorError> {
        let call = &asked.call;
        if let Some(answer) = asked.ordered {
            return self.respond(call, answer);
        }
        if let Some(refused) = self.world.refuses(call) {
            return self.respond(call, refused);
        }
        let is_ordered = matches!(
            call.row.disposition_with(Column::Epoch, call.arguments()),
            Disposition::Track | Disposition::Wait
        );
        if is_ordered && let Some(durable) = &mut self.durable {
            match durable.meet(call) {
                Verdict::Now(Answer::Continue) => {}
                Verdict::Now(answer) => return self.respond(call, answer),
                Verdict::OnceDurable(answer) => return self.wait_for_durability(*call, answer),
            }
        }
        self.respond(call, Answer::Continue)
    }

    /// A call is about to happen.
    pub(super) fn happens(&mut self, call: &Call) -> Result<(), SupervisorError> {
        let noted = self.world.happens(call);
        noted.map_err(fail("look at a call"))?;
        let touch = self.world.touch(call);
        let member = self.member_of(call.thread());
        let member = member.and_then(|process| self.members.get(&process));
        let record = member.and_then(Member::newest_record);
        self.objects.files.let_go(call, touch, record);
        let moves = self.world.moves(call);
        self.objects.positions.let_go(call.thread(), moves);
        Ok(())
    }

    pub(super) fn respond(&mut self, call: &Call, answer: Answer) -> Result<(), SupervisorError> {
        if answer == Answer::Continue {
            self.happens(call)?;
        }
        // One that has gone needs no answer.
        let answered = self.world.answer(call, answer);
        answered.map(drop).map_err(fail("answer a call"))
    }

    /// A call that gets its answer once all is durable that was promised so far.
    fn wait_for_durability(&mut self, call: Call, answer: Answer) -> Result<(), SupervisorError> {
        let Some(durable) = &mut self.durable else {
            return self.respond(&call, answer);
        };
        let asked = Asked {
            call,
            offer: None,
            ordered: Some(answer),
        };
        let waited = Waited {
            kind: Kind::Epoch,
            since: self.world.now(),
        };
        let waiter = self.waits.park(Item::Call(asked), DOMAIN, waited);
        let mut effects = Vec::new();
        let waits = durable.wait(&mut self.engine, waiter, &mut effects);
        waits.map_err(refused("wait for an epoch"))?;
        self.perform(effects)
    }

    /// Promises were kept.
    pub(crate) fn committed(&mut self) -> Result<(), SupervisorError> {
        let Some(durable) = &mut self.durable else {
            return Ok(());
        };
        let mut effects = Vec::new();
        let kept = durable.committed(&mut self.engine, &mut effects);
        kept.map_err(refused("affirm an epoch"))?;
        self.perform(effects)?;
        self.attend_all()
    }
}

fn kind_of(change: Change) -> Kind {
    use Change::{
        Directory, Flags, Handler, Limit, Name, Position, Program, SignalStack, TidAddress, Umask,
    };
    match change {
        Position(_) => Kind::File,
        Program => Kind::Program,
        Directory | Flags(_) | Handler(_) | Limit(_) | Name(_) | SignalStack | TidAddress
        | Umask => Kind::Process,
    }
}
