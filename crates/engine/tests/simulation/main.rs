//! Random histories on the engine and on a naive reference: the same effects, answers, refusals and
//! dependencies after every event; the promises of the model, checked on the history itself; and a
//! shell's values, which rollbacks leave as if what they undo had never happened.

mod boundary;
mod event;
mod history;
mod ledger;
mod reference;
mod rollback;
mod speculate;
mod stall;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use event::Event;
use history::What;
use ledger::Ledger;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use reference::{Reference, Reply, Said};
use surmise_engine::{
    Access, Answer, CkptId, Decision, Deps, Effect, Engine, GroupId, Guess, Id, Kinds, Merged,
    Node, ObjectId, PlanId, Step, UndoId,
};
use world::World;

proptest! {
    // More where PROPTEST_CASES asks for more.
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.max(512)))]

    #[test]
    fn the_engine_does_what_the_rules_say(history in event::history()) {
        play(&history);
    }
}

/// A history in which nothing happens proves nothing.
#[test]
fn the_histories_reach_every_effect_and_answer() {
    let mut runner = TestRunner::deterministic();
    let mut reached = BTreeMap::new();
    for _ in 0..500 {
        let history = event::history().new_tree(&mut runner).unwrap().current();
        for (what, count) in play(&history) {
            *reached.entry(what).or_insert(0) += count;
        }
    }
    for what in [
        "go",
        "release",
        "drop",
        "wake ok",
        "wake not ok",
        "wake after a rollback",
        "wait during a rollback",
        "wake ahead of a later epoch",
        "stalled",
        "unstalled",
        "guess",
        "checkpoint first",
        "undo record first",
        "plan",
        "destroy",
        "restore several",
        "undo several",
        "withdrawn",
        "cycle",
        "discard a checkpoint",
        "discard an undo record",
        "refused while rolling back",
        "merge",
        "wait first",
        "restore a merged group",
        "commute beside another",
        "undo a commuting one below one that stays",
    ] {
        let count = reached.get(what).copied().unwrap_or(0);
        assert!(count >= 10, "{what} came {count} times in all: {reached:?}");
    }
}

/// Plays a history on all. Returns how often what was said.
fn play(history: &[Event]) -> BTreeMap<&'static str, usize> {
    let mut play = Play::new();
    for event in history {
        play.event(event);
    }
    play.finish();
    let ahead = play.ledger.ahead;
    play.counts.insert("wake ahead of a later epoch", ahead);
    play.counts
}

struct Play {
    engine: Engine,
    model: Reference,
    ledger: Ledger,
    world: World,
    counts: BTreeMap<&'static str, usize>,
    /// Numbers for checkpoints and records that events do not name.
    fresh: u64,
}

impl Play {
    fn new() -> Self {
        Self {
            engine: Engine::new(),
            model: Reference::new(),
            ledger: Ledger::default(),
            world: World::default(),
            counts: BTreeMap::new(),
            fresh: 100,
        }
    }

    /// Plays an event, and does what the answer asks for.
    fn event(&mut self, event: &Event) {
        let mut event = self.resolve(event);
        // A checkpoint and a record may both be needed.
        for _ in 0..3 {
            self.fresh += 1;
            match (self.step(&event), &mut event) {
                (Ok(Reply::CheckpointFirst(group)), repeated) => {
                    let ckpt = CkptId(self.fresh);
                    if let Event::Predict(_, _, may_share) = repeated {
                        *may_share = true;
                    }
                    self.step(&Event::Checkpointed(group, ckpt))
                        .expect("asked for");
                }
                (Ok(Reply::UndoFirst), Event::Access(_, _, access)) => {
                    let undo = Some(UndoId(self.fresh));
                    *access = match access {
                        Access::Modify(_) => Access::Modify(undo),
                        Access::Commute(_) => Access::Commute(undo),
                        _ => Access::Both(undo),
                    };
                }
                _ => return,
            }
        }
        panic!("{event:?} is never answered");
    }

    fn resolve(&self, event: &Event) -> Event {
        match *event {
            Event::CheckpointOf(task, ckpt) => {
                let group = self.model.state.of(task).unwrap_or(GroupId(999));
                Event::Checkpointed(group, ckpt)
            }
            Event::RolledBackNext => {
                let next = self.model.plans.first();
                Event::RolledBack(next.copied().unwrap_or(PlanId(999)))
            }
            _ => event.clone(),
        }
    }

    fn step(&mut self, event: &Event) -> Said {
        let (mut effects, mut wanted) = (Vec::new(), Vec::new());
        let said = self.tell(event, &mut effects);
        let wanted_said = self.model.play(event, &mut wanted);
        assert_eq!(said, wanted_said, "{event:?}");
        assert_eq!(effects, wanted, "{event:?}");
        match said {
            Ok(_) => self.ledger.note(event, &effects, &self.model),
            Err(_) => assert_eq!(effects, [], "{event:?} was refused, with effects"),
        }
        match (event, &said) {
            (&Event::Access(_, object, access), Ok(Reply::Go)) => {
                let is_last = |entry: &history::Entry| matches!(entry.what, What::Accessed { .. });
                let last = self.model.history.iter().rposition(is_last);
                self.world.access(object, access, last.expect("noted"));
            }
            (&Event::Checkpointed(group, ckpt), Ok(_)) => self.world.checkpointed(group, ckpt),
            (&Event::Forget(object), _) => self.world.forget(object),
            _ => {}
        }
        self.world.carry_out(&effects);
        self.check(event);
        self.count(event, &said, &effects);
        said
    }

    fn check(&self, event: &Event) {
        let model = &self.model;
        self.world.check(model);
        for task in model.tasks() {
            let group = self.engine.group(task).ok();
            assert_eq!(group, model.state.of(task), "{task} after {event:?}");
        }
        let tasks = model.tasks().into_iter().map(Node::Task);
        for node in tasks.chain((1..5).map(|object| Node::Object(ObjectId(object)))) {
            let deps = set(&self.engine.deps(node).unwrap(), model);
            let predictions = model.undecided_of(node, Kinds::PREDICTIONS);
            let speculates = self.engine.speculates(node).unwrap();
            assert_eq!(
                speculates,
                !predictions.is_empty(),
                "{node} after {event:?}"
            );
            for id in (1..=model.assumed.all.len() as u64).map(Id) {
                let depends = self.engine.depends_on(node, id).unwrap();
                assert_eq!(
                    depends,
                    predictions.contains(&id),
                    "{node} on {id} after {event:?}"
                );
            }
            assert_eq!(
                deps,
                model.undecided_of(node, Kinds::ALL),
                "{node} after {event:?}"
            );
            assert_eq!(
                deps,
                self.ledger.sources(node, model),
                "{node} by its history, after {event:?}"
            );
        }
    }

    /// In the end everything is affirmed, and everything has left.
    fn finish(&mut self) {
        // The end of one may deny what it owned, and so bring another back.
        while let Some(&task) = self.model.tasks().first() {
            self.step(&Event::End(task)).unwrap();
        }
        while let Some(&plan) = self.model.plans.first() {
            self.step(&Event::RolledBack(plan)).unwrap();
        }
        while let Some(id) = self
            .model
            .ids()
            .find(|id| !self.model.decided.contains_key(id))
        {
            let mut effects = [Vec::new(), Vec::new()];
            self.engine
                .decide(id, Decision::Affirm, &mut effects[0])
                .unwrap();
            self.model.affirm(id, &mut effects[1]);
            assert_eq!(effects[0], effects[1], "at the end, {id}");
            self.ledger.note_effects(&effects[0], &self.model);
            self.world.carry_out(&effects[0]);
        }
        self.ledger.check_empty();
        self.world.check_empty();
    }

    fn tell(&mut self, event: &Event, effects: &mut Vec<Effect>) -> Said {
        let assumed = self.model.assumed.all.len();
        let (engine, model) = (&mut self.engine, &self.model);
        match *event {
            Event::Depend(node, id) => {
                let answer = engine.depend(node, id.id(assumed), effects)?;
                return Ok(reply(answer));
            }
            Event::Access(task, object, access) => {
                let answer = engine.access(task, object, access, effects)?;
                return Ok(reply(answer));
            }
            Event::Predict(task, owner, may_share) => {
                return Ok(match engine.predict(task, owner, may_share, effects)? {
                    Guess::Go(id) => Reply::Guess(id),
                    Guess::CheckpointFirst(group) => Reply::CheckpointFirst(group),
                    Guess::Wait(_) => panic!("no history has so many predictions"),
                });
            }
            Event::Assume(owner, kind) => engine.assume(owner, kind).map(drop),
            Event::Decide(id, decision) => engine.decide(id.id(assumed), decision, effects),
            Event::DecideConsent(decision) => {
                engine.decide(model.consent().unwrap_or(Id(0)), decision, effects)
            }
            Event::Spawn(parent, child) => engine.spawn(parent, child, effects),
            Event::End(task) => engine.end(task, effects),
            Event::Merge(one, other) => {
                return Ok(match engine.merge(one, other, effects)? {
                    Merged::Go(group) => Reply::Merged(group),
                    Merged::WaitFirst(task) => Reply::WaitFirst(task),
                });
            }
            Event::Checkpointed(group, ckpt) => engine.checkpointed(group, ckpt, effects),
            Event::RolledBack(plan) => engine.rolled_back(plan, effects),
            Event::Forget(object) => {
                engine.forget(object, effects);
                Ok(())
            }
            Event::Open(channel, gates) => engine.open(channel, gates),
            Event::Close(channel) => engine.close(channel),
            Event::Output(node, channel, hold) => engine.output(node, channel, hold, effects),
            Event::Barrier(node, waiter, kinds) => engine.barrier(node, waiter, kinds, effects),
            Event::Withdraw(waiter) => engine.withdraw(waiter, effects),
            Event::Blocked(node, on) => engine.blocked(node, on, effects),
            Event::Unblocked(node) => engine.unblocked(node, effects),
            Event::CheckpointOf(..) | Event::RolledBackNext => unreachable!("resolved"),
        }
        .map(|()| Reply::Done)
    }

    /// Whether several commuting modifications of an object may be undone.
    fn is_crowded(&self, object: ObjectId) -> bool {
        let found = self.model.state.objects.get(&object);
        let commuted = found.map(|found| &found.value.commuted);
        let entries = self.model.undos.values();
        let is_among = |entry: &&usize| commuted.is_some_and(|all| all.contains(entry));
        entries.filter(is_among).count() > 1
    }

    /// Whether a modification was undone that commutes with a later one, which stays.
    fn is_undone_amid(&self, effects: &[Effect]) -> bool {
        let is_plan = |effect: &Effect| matches!(effect, Effect::Plan(_));
        let history = &self.model.history;
        effects.iter().any(is_plan)
            && history
                .iter()
                .enumerate()
                .any(|(at, entry)| match entry.what {
                    What::Accessed {
                        object,
                        access: Access::Commute(_),
                        ..
                    } if entry.undone => {
                        let found = self.model.state.objects.get(&object);
                        let last = found.and_then(|found| found.value.commuted.last());
                        last.is_some_and(|&last| {
                            at < last && self.model.undos.values().any(|&of| of == last)
                        })
                    }
                    _ => false,
                })
    }

    fn count(&mut self, event: &Event, said: &Said, effects: &[Effect]) {
        let answer = match said {
            Ok(Reply::Go) => Some("go"),
            Ok(Reply::Guess(_)) => Some("guess"),
            Ok(Reply::CheckpointFirst(_)) => Some("checkpoint first"),
            Ok(Reply::UndoFirst) => Some("undo record first"),
            Ok(Reply::WaitFirst(_)) => Some("wait first"),
            Err(surmise_engine::EngineError::RollingBack { .. }) => {
                Some("refused while rolling back")
            }
            _ => None,
        };
        let wakes = effects
            .iter()
            .any(|effect| matches!(effect, Effect::Wake { ok: true, .. }));
        let wait = match *event {
            Event::RolledBack(_) if wakes => Some("wake after a rollback"),
            Event::Barrier(node @ Node::Object(_), ..)
                if said.is_ok() && self.model.open(node).is_err() =>
            {
                Some("wait during a rollback")
            }
            Event::Merge(one, other) if one != other && said.is_ok() => {
                let is_one = self.model.state.of(one) == self.model.state.of(other);
                is_one.then_some("merge")
            }
            Event::Access(_, object, Access::Commute(Some(_)))
                if matches!(said, Ok(Reply::Go)) && self.is_crowded(object) =>
            {
                Some("commute beside another")
            }
            _ => None,
        };
        let restores_several = |effect: &&Effect| match effect {
            Effect::Plan(plan) => plan.steps.iter().any(|step| match step {
                Step::Restore { group, .. } => self.model.state.groups[group].tasks.len() > 1,
                _ => false,
            }),
            _ => false,
        };
        let merged = effects.iter().find(restores_several);
        let merged = merged.map(|_| "restore a merged group");
        let is_amid = said.is_ok() && self.is_undone_amid(effects);
        let amid = is_amid.then_some("undo a commuting one below one that stays");
        let wait = wait.into_iter().chain(merged).chain(amid);
        for what in effects.iter().flat_map(names).chain(answer).chain(wait) {
            *self.counts.entry(what).or_insert(0) += 1;
        }
    }
}

fn reply(answer: Answer) -> Reply {
    match answer {
        Answer::Go => Reply::Go,
        Answer::CheckpointFirst(group) => Reply::CheckpointFirst(group),
        Answer::UndoFirst => Reply::UndoFirst,
    }
}

/// All members, one by one.
fn set(deps: &Deps, model: &Reference) -> BTreeSet<Id> {
    let predictions = deps.predictions.iter();
    let predictions = predictions.flat_map(|extent| (extent.first.0..=extent.last.0).map(Id));
    let epochs = deps.epochs.values();
    let epochs = epochs.flat_map(|&id| model.assumed.with_older_epochs(id));
    let epochs = epochs.filter(|id| !model.decided.contains_key(id));
    predictions.chain(epochs).chain(deps.consent).collect()
}

fn names(effect: &Effect) -> Vec<&'static str> {
    match effect {
        Effect::Release(_) => vec!["release"],
        Effect::Drop(_) => vec!["drop"],
        Effect::Wake { ok: true, .. } => vec!["wake ok"],
        Effect::Wake { ok: false, .. } => vec!["wake not ok"],
        Effect::Stalled { .. } => vec!["stalled"],
        Effect::Unstalled => vec!["unstalled"],
        Effect::Withdrawn(_) => vec!["withdrawn"],
        Effect::DeniedForCycle(_) => vec!["cycle"],
        Effect::DiscardCheckpoint(_) => vec!["discard a checkpoint"],
        Effect::DiscardUndo(_) => vec!["discard an undo record"],
        Effect::Plan(plan) => {
            let count = |is: fn(&Step) -> bool| plan.steps.iter().filter(|step| is(step)).count();
            let mut names = vec!["plan"];
            let kinds = [
                ("destroy", count(|step| matches!(step, Step::Destroy(_)))),
                (
                    "restore several",
                    count(|step| matches!(step, Step::Restore { .. })) / 2,
                ),
                (
                    "undo several",
                    count(|step| matches!(step, Step::Undo(_))) / 2,
                ),
            ];
            names.extend(
                kinds
                    .iter()
                    .filter(|(_, count)| *count > 0)
                    .map(|(name, _)| *name),
            );
            names
        }
    }
}
