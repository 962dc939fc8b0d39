//! The consent that a domain runs under, and what hangs on it: control's part of the engine.

use std::collections::{BTreeMap, BTreeSet};

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

/// What control has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing in the domain goes on before the consent is decided.
    Stalled,
    /// It goes on again.
    Unstalled,
}

/// The consent of a running domain.
#[derive(Debug)]
pub(crate) struct Consent {
    engine: Engine,
    id: Id,
    tasks: BTreeMap<TaskId, Wait>,
    held: BTreeSet<HoldId>,
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
            held: BTreeSet::new(),
            stalled: false,
        })
    }

    /// The relay holds something new.
    pub(crate) fn held(&mut self, hold: u64) -> Result<(), Bug> {
        let hold = HoldId(hold);
        // More of what is held already adds nothing that could be decided apart.
        if self.held.insert(hold) {
            let mut effects = Vec::new();
            let held = self.engine.output(INSIDE, HELD, hold, &mut effects);
            held.map_err(bug("hold output"))?;
            debug_assert!(effects.is_empty(), "held by the undecided consent");
        }
        Ok(())
    }

    /// The person agrees to all so far, and the domain goes on under a new consent. Returns what may
    /// leave now, in causal order.
    pub(crate) fn affirm(&mut self) -> Result<Vec<u64>, Bug> {
        let mut effects = Vec::new();
        // What waits for replies waits for the decision that is now there.
        self.look_afresh()?;
        let engine = &mut self.engine;
        let decided = engine.decide(self.id, Decision::Affirm, &mut effects);
        decided.map_err(bug("affirm a consent"))?;
        let next = engine.assume(Owner::Person, Kind::Consent);
        self.id = next.map_err(bug("go on under a new consent"))?;
        let released = effects.into_iter().filter_map(|effect| match effect {
            Effect::Release(hold) => Some(hold),
            _ => None,
        });
        let released: Vec<_> = released.collect();
        for hold in &released {
            self.held.remove(hold);
        }
        Ok(released.into_iter().map(|hold| hold.0).collect())
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

    /// What each living task waits for now.
    pub(crate) fn look(&mut self, tasks: &BTreeMap<u64, Wait>) -> Result<Option<Change>, Bug> {
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
        Ok(match (before, self.stalled) {
            (false, true) => Some(Change::Stalled),
            (true, false) => Some(Change::Unstalled),
            _ => None,
        })
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
mod tests {
    use super::*;

    fn look(consent: &mut Consent, tasks: &[(u64, Wait)]) -> Option<Change> {
        let tasks = tasks.iter().copied().collect();
        consent.look(&tasks).expect("a living domain")
    }

    #[test]
    fn a_domain_is_stalled_when_nobody_but_the_person_can_end_a_wait() {
        let mut consent = Consent::new().expect("new");
        let (shell, curl) = ((1, Wait::Inside), (2, Wait::HeldReply));
        assert_eq!(look(&mut consent, &[shell]), None, "waits for its child");
        assert_eq!(look(&mut consent, &[shell, (2, Wait::Nothing)]), None);
        assert_eq!(look(&mut consent, &[shell, curl]), Some(Change::Stalled));
        assert_eq!(look(&mut consent, &[shell, curl]), None, "told once");
        let sleeper = (3, Wait::Time);
        let awake = look(&mut consent, &[shell, curl, sleeper]);
        assert_eq!(awake, Some(Change::Unstalled));
        assert_eq!(look(&mut consent, &[shell, curl]), Some(Change::Stalled));
        consent.affirm().expect("affirm");
        assert_eq!(look(&mut consent, &[shell, (2, Wait::Nothing)]), None);
    }

    #[test]
    fn a_task_that_waits_for_the_next_reply_has_stalled_again() {
        let mut consent = Consent::new().expect("new");
        let tasks = [(1, Wait::Inside), (2, Wait::HeldReply)];
        assert_eq!(look(&mut consent, &tasks), Some(Change::Stalled));
        consent.look_afresh().expect("answered");
        assert_eq!(look(&mut consent, &tasks), Some(Change::Stalled));
        assert_eq!(look(&mut consent, &tasks), None, "told once");
    }

    #[test]
    fn what_is_held_leaves_in_order_with_the_consent_and_what_follows_with_the_next() {
        let mut consent = Consent::new().expect("new");
        for hold in [3, 5, 3, 4] {
            consent.held(hold).expect("held");
        }
        assert_eq!(consent.affirm().expect("affirm"), [3, 5, 4]);
        consent.held(3).expect("held again");
        assert_eq!(consent.affirm().expect("affirm"), [3]);
        assert!(consent.affirm().expect("affirm").is_empty());
    }
}
