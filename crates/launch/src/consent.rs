//! The consent that a domain runs under, and what hangs on it: control's part of the engine.

use std::collections::BTreeMap;

use surmise_engine::{
    Bug, ChannelId, Decision, Effect, Engine, EngineError, HoldId, Id, Kind, Kinds, Node, ObjectId,
    On, Owner, TaskId,
};

/// The one channel for all that the relay holds: it keeps the order in which it took things.
const HELD: ChannelId = ChannelId(0);

/// All that tasks of a domain wait for from each other. It acts whenever one of them does.
const INSIDE: Node = Node::Object(ObjectId(0));

/// What a task waits for, as far as it decides whether the domain can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Nothing: it runs.
    Nothing,
    /// A reply to held output.
    HeldReply,
    /// Another task, or an end of something that only tasks have.
    Inside,
    /// A clock.
    Time,
    /// Somebody outside who may act any time: at the terminal, on a stream, by a connection.
    Outside,
}

/// The consent of a running domain.
#[derive(Debug)]
pub(crate) struct Consent {
    engine: Engine,
    id: Id,
    tasks: BTreeMap<TaskId, Wait>,
    /// What waits, by the relay's number of its hold. The engine has a number of its own for each time that a hold
    /// begins to wait: what went meanwhile, the engine releases in vain.
    held: BTreeMap<u64, HoldId>,
    /// The engine's number of what waits next.
    next: u64,
    stalled: bool,
}

impl Consent {
    /// Of a domain whose command is about to start.
    pub(crate) fn new() -> Result<Self, Bug> {
        let mut engine = Engine::new();
        let id = engine.assume(Owner::Person, Kind::Consent);
        let id = id.map_err(bug("begin under a consent"))?;
        let opened = engine.open(HELD, Kinds::ALL);
        opened.map_err(bug("begin to hold output"))?;
        Ok(Self {
            engine,
            id,
            tasks: BTreeMap::new(),
            held: BTreeMap::new(),
            next: 0,
            stalled: false,
        })
    }

    /// Something of a hold of the relay's waits from now on; if it waited before, that counts no more.
    pub(crate) fn held(&mut self, hold: u64) -> Result<(), Bug> {
        let output = HoldId(self.next);
        self.next += 1;
        let mut effects = Vec::new();
        let held = self.engine.output(INSIDE, HELD, output, &mut effects);
        held.map_err(bug("hold output"))?;
        debug_assert!(effects.is_empty(), "held by the undecided consent");
        self.held.insert(hold, output);
        Ok(())
    }

    /// Nothing of a hold waits any more.
    pub(crate) fn gone(&mut self, hold: u64) {
        // It may have gone while it was being released.
        self.held.remove(&hold);
    }

    /// The person agrees to all so far, and the domain goes on under a new consent. Returns the holds that the engine
    /// releases, in its order.
    pub(crate) fn affirm(&mut self) -> Result<Vec<u64>, Bug> {
        let mut effects = Vec::new();
        // What waits for replies waits for the decision that is now there.
        self.look_afresh()?;
        let engine = &mut self.engine;
        let decided = engine.decide(self.id, Decision::Affirm, &mut effects);
        decided.map_err(bug("affirm a consent"))?;
        let next = engine.assume(Owner::Person, Kind::Consent);
        self.id = next.map_err(bug("go on under a new consent"))?;
        let held = std::mem::take(&mut self.held).into_iter();
        let mut waiting: BTreeMap<_, _> = held.map(|(hold, output)| (output, hold)).collect();
        let released = effects.into_iter().filter_map(|effect| match effect {
            Effect::Release(output) => waiting.remove(&output),
            _ => None,
        });
        let released = released.collect();
        debug_assert!(waiting.is_empty(), "all waited for the consent alone");
        Ok(released)
    }

    /// What the tasks waited for so far counts no more.
    pub(crate) fn look_afresh(&mut self) -> Result<(), Bug> {
        let mut effects = Vec::new();
        let gone = std::mem::take(&mut self.tasks).into_keys();
        self.end(gone, &mut effects)
            .and_then(|()| self.engine.unblocked(INSIDE, &mut effects))
            .map_err(bug("forget what tasks wait for"))?;
        self.stalled = false;
        Ok(())
    }

    /// What each living task waits for now. Returns whether the domain has stalled since the last look: nothing in it
    /// goes on before the consent is decided.
    pub(crate) fn look(&mut self, tasks: &BTreeMap<u64, Wait>) -> Result<bool, Bug> {
        let mut effects = Vec::new();
        self.note_waits(tasks, &mut effects)
            .map_err(bug("note what tasks wait for"))?;
        // On the way from one look to the next the engine may see what no look saw.
        let before = self.stalled;
        for effect in effects {
            match effect {
                Effect::Stalled { .. } => self.stalled = true,
                Effect::Unstalled => self.stalled = false,
                _ => {}
            }
        }
        Ok(self.stalled && !before)
    }

    fn note_waits(
        &mut self,
        tasks: &BTreeMap<u64, Wait>,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EngineError> {
        let mut gone = Vec::new();
        self.tasks.retain(|&task, _| {
            let is_there = tasks.contains_key(&task.0);
            if !is_there {
                gone.push(task);
            }
            is_there
        });
        self.engine.unblocked(INSIDE, effects)?;
        for (&task, &wait) in tasks {
            self.note(TaskId(task), wait, effects)?;
        }
        self.end(gone, effects)?;
        if tasks.values().any(|wait| *wait == Wait::HeldReply) {
            // As soon as a reply comes, a task that waits for another may be woken.
            self.engine.blocked(INSIDE, On::Consent, effects)?;
        }
        Ok(())
    }

    fn end(
        &mut self,
        tasks: impl IntoIterator<Item = TaskId>,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EngineError> {
        let mut tasks = tasks.into_iter();
        tasks.try_for_each(|task| self.engine.end(task, effects))
    }

    fn note(
        &mut self,
        task: TaskId,
        wait: Wait,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EngineError> {
        match self.tasks.insert(task, wait) {
            None => self.engine.spawn(None, task, effects)?,
            Some(before) if before == wait => return Ok(()),
            Some(_) => self.engine.unblocked(Node::Task(task), effects)?,
        }
        let on = match wait {
            Wait::Nothing => return Ok(()),
            Wait::HeldReply => On::Consent,
            Wait::Inside => On::Node(INSIDE),
            Wait::Time => On::Time,
            Wait::Outside => On::Input,
        };
        self.engine.blocked(Node::Task(task), on, effects)
    }
}

/// Nothing that a command or a person does makes the engine refuse what it is told here.
fn bug(while_doing: &'static str) -> impl FnOnce(EngineError) -> Bug {
    move |refused| refused.bug(while_doing)
}

#[cfg(test)]
mod tests;
