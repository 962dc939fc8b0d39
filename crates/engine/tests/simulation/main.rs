//! Random histories on the engine and on a naive reference: the same effects, answers, refusals and
//! dependencies after every event; and the promises of the model, checked on the history itself.

mod event;
mod ledger;
mod reference;
mod stall;

use std::collections::{BTreeMap, BTreeSet};

use event::Event;
use ledger::Ledger;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use reference::{Reference, Said};
use surmise_engine::{Answer, Decision, Deps, Effect, Engine, Id, Kinds, Node, ObjectId};

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
    for _ in 0..200 {
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
        "stalled",
        "unstalled",
        "wait",
    ] {
        let count = reached.get(what).copied().unwrap_or(0);
        assert!(count >= 20, "{what} came {count} times in all: {reached:?}");
    }
}

/// Plays a history on both. Returns how often what was said.
fn play(history: &[Event]) -> BTreeMap<&'static str, usize> {
    let mut engine = Engine::new();
    let mut model = Reference::default();
    let mut ledger = Ledger::default();
    let mut counts = BTreeMap::new();
    for event in history {
        step(event, &mut engine, &mut model, &mut ledger, &mut counts);
    }
    // In the end everything is affirmed, and everything has left.
    while let Some(id) = model.ids().find(|id| !model.decided.contains_key(id)) {
        let mut effects = [Vec::new(), Vec::new()];
        engine
            .decide(id, Decision::Affirm, &mut effects[0])
            .unwrap();
        model.affirm(id, &mut effects[1]);
        assert_eq!(effects[0], effects[1], "at the end, {id}");
        ledger.note_effects(&effects[0], &model);
    }
    ledger.check_empty();
    counts
}

fn step(
    event: &Event,
    engine: &mut Engine,
    model: &mut Reference,
    ledger: &mut Ledger,
    counts: &mut BTreeMap<&'static str, usize>,
) {
    let (mut effects, mut wanted) = (Vec::new(), Vec::new());
    let said = tell(event, engine, model, &mut effects);
    let wanted_said = model.play(event, &mut wanted);
    assert_eq!(said, wanted_said, "{event:?}");
    assert_eq!(effects, wanted, "{event:?}");
    let waited = said
        .as_ref()
        .is_ok_and(|deps| deps.as_ref().is_some_and(|deps| !deps.is_empty()));
    if said.is_err() {
        assert_eq!(effects, [], "{event:?} was refused, with effects");
    } else {
        ledger.note(event, waited, &effects, model);
    }
    let tasks = model.tasks.iter().map(|&task| Node::Task(task));
    for node in tasks.chain((1..5).map(|object| Node::Object(ObjectId(object)))) {
        let deps = set(&engine.deps(node).unwrap(), model);
        assert_eq!(
            deps,
            model.undecided_of(node, Kinds::ALL),
            "{node} after {event:?}"
        );
        assert_eq!(
            deps,
            ledger.sources(node, model),
            "{node} by its history, after {event:?}"
        );
    }
    let answers = match said {
        Ok(Some(_)) if waited => Some("wait"),
        Ok(Some(_)) => Some("go"),
        _ => None,
    };
    for what in effects.iter().map(name).chain(answers) {
        *counts.entry(what).or_insert(0) += 1;
    }
}

fn tell(event: &Event, engine: &mut Engine, model: &Reference, effects: &mut Vec<Effect>) -> Said {
    let assumed = model.assumed.len();
    match *event {
        Event::Assume(owner, kind) => engine.assume(owner, kind).map(drop),
        Event::Depend(node, id) => engine.depend(node, id.id(assumed), effects),
        Event::Decide(id, decision) => engine.decide(id.id(assumed), decision, effects),
        Event::DecideConsent(decision) => {
            engine.decide(model.consent().unwrap_or(Id(0)), decision, effects)
        }
        Event::Spawn(parent, child) => engine.spawn(parent, child, effects),
        Event::End(task) => engine.end(task, effects),
        Event::Carry(object, kinds) => engine.carry(object, kinds),
        Event::Forget(object) => {
            engine.forget(object, effects);
            Ok(())
        }
        Event::Access(task, object, access) => {
            return match engine.access(task, object, access, effects)? {
                Answer::Go => Ok(Some(BTreeSet::new())),
                Answer::Wait(deps) => Ok(Some(set(&deps, model))),
            };
        }
        Event::Open(channel, gates) => engine.open(channel, gates),
        Event::Regate(channel, gates) => engine.regate(channel, gates, effects),
        Event::Close(channel) => engine.close(channel),
        Event::Discard(channel) => engine.discard(channel, effects),
        Event::Output(node, channel, hold) => engine.output(node, channel, hold, effects),
        Event::Barrier(node, waiter, kinds) => engine.barrier(node, waiter, kinds, effects),
        Event::Withdraw(waiter) => engine.withdraw(waiter, effects),
        Event::Blocked(node, on) => engine.blocked(node, on, effects),
        Event::Unblocked(node) => engine.unblocked(node, effects),
    }
    .map(|()| None::<BTreeSet<Id>>)
}

/// All members, one by one.
fn set(deps: &Deps, model: &Reference) -> BTreeSet<Id> {
    let predictions = deps.predictions.iter();
    let predictions = predictions.flat_map(|extent| (extent.first.0..=extent.last.0).map(Id));
    let epochs = deps
        .epochs
        .values()
        .flat_map(|&id| model.with_older_epochs(id));
    let epochs = epochs.filter(|id| !model.decided.contains_key(id));
    predictions.chain(epochs).chain(deps.consent).collect()
}

fn name(effect: &Effect) -> &'static str {
    match effect {
        Effect::Release(_) => "release",
        Effect::Drop(_) => "drop",
        Effect::Wake { ok: true, .. } => "wake ok",
        Effect::Wake { ok: false, .. } => "wake not ok",
        Effect::Stalled { .. } => "stalled",
        Effect::Unstalled => "unstalled",
    }
}
