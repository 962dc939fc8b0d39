//! The supervisor's core: what it hears goes to the engine, and what the engine says is done, in the engine's order.
//!
//! It holds no dependency of its own: which task depends on which guess, what waits for what, what a decision releases
//! and what a denial takes back are the engine's. The core maps the engine's numbers to processes, images, records and
//! calls, and touches none of them but through a [`World`].

mod admission;
mod announcing;
mod attending;
mod bearing;
mod cascade;
mod claims;
mod deciding;
mod deputing;
mod ends;
pub(crate) mod executing;
mod fifos;
mod guessing;
mod imaging;
mod interrupting;
mod lending;
mod moving;
mod newborns;
mod removing;
mod sending;
mod shutting;
mod signals;
#[cfg(test)]
mod simulation;
mod zombies;

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use rustix::process::Pid;
use surmise_engine::{Engine, Kinds, Node, WaiterId};

use crate::call::Call;
use crate::counters::Counters;
use crate::durability::Durable;
use crate::error::{SupervisorError, fail, refused};
use crate::kind::Kind;
use crate::map::Map;
use crate::member::Member;
use crate::objects::Objects;
use crate::objects::files::Files;
use crate::objects::input::Place;
use crate::source::{Source, Sources};
use crate::stats::Stats;
use crate::waits::{Asked, Item, Waited, Waits};
use crate::world::World;
use lending::Lendings;
use newborns::Newborns;
use shutting::Looks;

/// The supervision of one domain, apart from its events.
#[derive(Debug)]
pub(crate) struct Core<W: World> {
    pub(crate) world: W,
    engine: Engine,
    /// The processes that depend on something undecided.
    members: Map<Pid, Member<W>>,
    pub(crate) objects: Objects<W>,
    sources: Sources,
    waits: Waits<W::Signal>,
    lendings: Lendings,
    durable: Option<Durable>,
    looks: Looks,
    /// When signals are looked for that wait for threads whose calls wait; nothing while no call does.
    signals_due: Option<Instant>,
    newborns: Newborns,
    /// Of the call that is attended to: the pipes of which it may be told that they are shut for writing.
    hung_up: Vec<Place>,
    /// Of the call that is attended to: whether a rollback could undo that it executes a program, if that was found out just
    /// before.
    foreseen: Option<bool>,
    /// Of the call that is attended to: whether it sleeps until a child ends, if that was found out just before.
    sleeps: Option<bool>,
    /// Of the call that is attended to: whether an object was left out of its way because its process is a member.
    is_spared: bool,
    /// How many checkpoints there have been.
    checkpoints: u64,
    /// Whether a member may have come to depend on nothing.
    may_dismiss: bool,
    stats: Counters,
}

impl<W: World> Core<W> {
    pub(crate) fn new(
        world: W,
        files: Option<Box<dyn Files>>,
        sources: Vec<Box<dyn Source>>,
        durable: Option<Durable>,
    ) -> Self {
        Self {
            world,
            engine: Engine::new(),
            members: Map::default(),
            objects: Objects::new(files),
            sources: Sources::new(sources),
            waits: Waits::default(),
            lendings: Lendings::default(),
            durable,
            looks: Looks::default(),
            signals_due: None,
            newborns: Newborns::default(),
            hung_up: Vec::new(),
            foreseen: None,
            sleeps: None,
            is_spared: false,
            checkpoints: 0,
            may_dismiss: false,
            stats: Counters::default(),
        }
    }

    /// What was done so far.
    pub(crate) fn into_stats(mut self) -> Stats {
        self.stats.waited_in_view(self.objects.files.waited());
        self.stats.into_stats()
    }

    /// A thread waits in a call.
    pub(crate) fn called(&mut self, call: Call) -> Result<(), SupervisorError> {
        self.receive(call)?;
        self.attend_all()
    }

    /// A tracee has stopped to take a signal.
    pub(crate) fn signalled(
        &mut self,
        thread: Pid,
        signal: W::Signal,
    ) -> Result<(), SupervisorError> {
        self.receive_signal(thread, signal)?;
        self.attend_all()
    }

    /// A thread has come past all calls that were let go.
    fn is_past(&mut self, thread: Pid) {
        self.objects.files.past(thread);
        self.objects.positions.past(thread);
    }

    /// Keeps a signal until it is attended to, if that is more than to let the thread take it.
    fn receive_signal(&mut self, thread: Pid, signal: W::Signal) -> Result<(), SupervisorError> {
        // It takes signals between calls.
        self.is_past(thread);
        let process = self.member_of_tracee(thread)?;
        if let Some(member) = process.and_then(|process| self.members.get_mut(&process)) {
            // Its handler may do anything before the call that is made again.
            member.take_foreseen();
        }
        match process {
            Some(process) if self.withhold(process, &signal)? => {
                self.waits.add(Item::Signal { process, signal });
                self.forget_vessels(process)
            }
            Some(process) if self.may_take(process, &signal)? => self.pass_on(signal),
            Some(process) if self.takes_for_now(process, &signal)? => self.pass_on(signal),
            Some(process) if self.is_ended_by(process, &signal)? => self.pass_on(signal),
            Some(process) => {
                self.waits.add(Item::Signal { process, signal });
                Ok(())
            }
            None => self.deliver(signal),
        }
    }

    /// Time has passed, or a reader has room for output: what is due by now is done.
    pub(crate) fn woken(&mut self) -> Result<(), SupervisorError> {
        self.flush()?;
        self.attend_all()
    }

    /// A call waits in the view until no change of a file is undecided.
    pub(crate) fn asked(&mut self) -> Result<(), SupervisorError> {
        if let Some(log) = self.objects.files.log() {
            log.asked().map_err(fail("hear from the view"))?;
        }
        for object in self.objects.files.objects() {
            self.hurry(Node::Object(object))?;
        }
        self.attend_all()
    }

    /// Guesses nothing for a moment, and has decided what can be decided now.
    pub(crate) fn settle(&mut self) -> Result<(), SupervisorError> {
        self.sources.rest(self.world.now());
        let tasks: Vec<_> = self.members.values().map(|member| member.task).collect();
        for task in tasks {
            // A decision about one may have been the end of another.
            if self.members.values().any(|member| member.task == task) {
                self.hurry(Node::Task(task))?;
            }
        }
        self.attend_all()
    }

    /// Tasks go on after they all stood still, for a commit: what the view told before may be otherwise.
    pub(crate) fn resumed(&mut self) {
        self.objects.files.forget_looks();
    }

    /// Whether no process depends on anything undecided, and none is traced.
    pub(crate) fn is_settled(&self) -> bool {
        self.members.is_empty() && !self.world.are_parting()
    }

    /// When something is due though nothing is heard.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let due = self.sources.next_due().into_iter();
        due.chain(self.looks.due()).chain(self.signals_due).min()
    }

    /// What is readable when there is input for a call that waits for some.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.waits.inputs()
    }

    /// There is input for calls that wait for some.
    pub(crate) fn arrived(&mut self) -> Result<(), SupervisorError> {
        self.wake_sleepers()?;
        self.attend_all()
    }

    /// The first output that a reader has no room for.
    pub(crate) fn leaving(&self) -> Option<&W::Output> {
        self.objects.streams.leaving()
    }

    /// What is readable when a call waits in the view.
    pub(crate) fn files(&self) -> Option<BorrowedFd<'_>> {
        self.objects.files.log().map(AsFd::as_fd)
    }

    /// What is readable when a commit was made.
    pub(crate) fn commits(&self) -> Option<BorrowedFd<'_>> {
        self.durable.as_ref().map(Durable::descriptor)
    }

    /// What makes promises durable.
    pub(crate) fn durable(&mut self) -> Option<&mut Durable> {
        self.durable.as_mut()
    }

    /// A tracee is no more.
    pub(crate) fn ended(&mut self, thread: Pid) -> Result<(), SupervisorError> {
        self.attend_end(thread)?;
        self.attend_all()
    }

    fn attend_end(&mut self, thread: Pid) -> Result<(), SupervisorError> {
        self.is_past(thread);
        if self.members.contains_key(&thread) {
            return self.perished(thread);
        }
        if let Some(process) = self.member_of(thread)
            && let Some(member) = self.members.get_mut(&process)
        {
            self.world.ended(&mut member.process, thread);
        }
        self.lost_image(thread)
    }

    /// Whether a process holds an image: it stays stopped for all its life.
    pub(crate) fn is_vessel(&self, process: Pid) -> bool {
        let mut images = self.members.values().flat_map(Member::images);
        images.any(|image| self.world.vessel(image) == Some(process))
    }

    /// The process of a tracee, if it depends on something undecided. One that was born by a thread of such
    /// a process is one of its threads from the start, for it was born a tracee.
    pub(crate) fn member_of_tracee(&mut self, thread: Pid) -> Result<Option<Pid>, SupervisorError> {
        if let Some(process) = self.member_of(thread) {
            return Ok(Some(process));
        }
        let process = self.world.process_of(thread);
        let process = process.map_err(fail("look at a task"))?;
        let member = process.and_then(|process| self.members.get_mut(&process));
        Ok(member.map(|member| {
            self.world.born(&mut member.process, thread);
            member.pid()
        }))
    }

    /// The process of a thread, if it depends on something undecided.
    fn member_of(&self, thread: Pid) -> Option<Pid> {
        if let Some(member) = self.members.get(&thread) {
            return Some(thread).filter(|_| !member.has_perished());
        }
        let mut members = self.members.values();
        let found = members.find(|member| self.world.traces(&member.process, thread));
        found.map(Member::pid)
    }

    /// The process of the thread that makes a call; `None` once it has ended. That of a member is known: its number is nobody
    /// else's as long as it is traced.
    fn caller(&self, call: &Call) -> Result<Option<Pid>, SupervisorError> {
        match self.member_of(call.thread()) {
            Some(process) => Ok(Some(process)),
            None => {
                let process = self.world.process_of(call.thread());
                process.map_err(fail("find a process"))
            }
        }
    }

    /// Keeps a call until it is attended to.
    fn receive(&mut self, call: Call) -> Result<(), SupervisorError> {
        self.stats.call(call.name()).events += 1;
        let heard = self.world.heard(&call);
        heard.map_err(fail("look at a call"))?;
        self.is_past(call.thread());
        let offer = self.sources.offer(&call, || self.world.now());
        let offer = offer.filter(|_| self.may_be_guessed(call.thread()));
        self.waits.add(Item::Call(Asked {
            call,
            offer,
            ordered: None,
        }));
        Ok(())
    }

    /// Attends to all that waits and can go on.
    fn attend_all(&mut self) -> Result<(), SupervisorError> {
        loop {
            self.decide_due()?;
            self.attend_lendings()?;
            self.attend_ends()?;
            self.attend_zombies()?;
            self.look_after_sleepers()?;
            self.interrupt_calls()?;
            self.dismiss_free()?;
            self.gather()?;
            for thread in self.world.take_ended() {
                self.attend_end(thread)?;
            }
            match self.waits.next() {
                Some(item) => self.attend(item)?,
                None => return Ok(()),
            }
        }
    }

    /// Receives what came while something else was waited for.
    fn gather(&mut self) -> Result<(), SupervisorError> {
        for (thread, signal) in self.world.take_signals() {
            self.receive_signal(thread, signal)?;
        }
        for call in self.world.take_backlog() {
            self.receive(call)?;
        }
        Ok(())
    }

    pub(super) fn pass_on(&mut self, signal: W::Signal) -> Result<(), SupervisorError> {
        let passed = self.world.pass_on(signal);
        passed.map_err(fail("let a thread take its signal"))
    }

    fn deliver(&mut self, signal: W::Signal) -> Result<(), SupervisorError> {
        let delivered = self.world.deliver(signal);
        delivered.map_err(fail("let a thread take its signal"))
    }

    /// Writes what is on its way to a reader.
    fn flush(&mut self) -> Result<(), SupervisorError> {
        if self.objects.streams.leaving().is_none() {
            return Ok(());
        }
        let flushed = self.objects.streams.flush(&mut self.world);
        if flushed.map_err(fail("let output go"))? {
            for waited in self.waits.wake_behind_output() {
                self.note_wait(waited)?;
            }
        }
        Ok(())
    }

    /// Something has waited until now.
    fn note_wait(&mut self, (call, waited): (Option<Call>, Waited)) -> Result<(), SupervisorError> {
        let kind = match (waited.kind, &call) {
            // While the child ran, a parent would have slept anyway. Nobody knows since when the child has ended.
            (Kind::Child, Some(call)) if self.has_missed_end(call)? => Kind::Process,
            (Kind::Child, _) => return Ok(()),
            (kind, _) => kind,
        };
        let time = self.world.now().saturating_duration_since(waited.since);
        let name = call.map(|call| call.name());
        self.stats.waited(name, kind, time);
        Ok(())
    }

    /// An item waits until a node depends on nothing undecided. The sources are asked whether they decide now.
    fn park(
        &mut self,
        item: Item<W::Signal>,
        node: Node,
        kind: Kind,
    ) -> Result<(), SupervisorError> {
        let waiter = self.begin_wait(item, node, kind)?;
        self.hurry_for(waiter, node)
    }

    /// As [`Self::park`], and nobody hurries. The wait may be over at once.
    fn begin_wait(
        &mut self,
        item: Item<W::Signal>,
        node: Node,
        kind: Kind,
    ) -> Result<WaiterId, SupervisorError> {
        let since = self.world.now();
        self.look_for_signals_later();
        let waiter = self.waits.park(item, node, Waited { kind, since });
        // If nothing is undecided, the member is let go before it is attended to again.
        self.may_dismiss = true;
        let mut effects = Vec::new();
        let waits = self
            .engine
            .barrier(node, waiter, Kinds::PREDICTIONS, &mut effects);
        waits.map_err(refused("wait for a decision"))?;
        self.perform(effects)?;
        Ok(waiter)
    }

    fn hurry_for(&mut self, waiter: WaiterId, node: Node) -> Result<(), SupervisorError> {
        match self.waits.is_parked(waiter) {
            true => self.hurry(node),
            false => Ok(()),
        }
    }
}
