//! Changes of several processes at once, which are undone and settled in any order that their dependencies allow: what
//! remains is what the remaining changes make. A log that is cut anywhere is what is decided.

mod model;
mod touched;
mod world;

use proptest::prelude::*;
use world::{Step, World};

const PROCESSES: usize = 3;

fn place() -> impl Strategy<Value = Vec<String>> {
    let name = prop::sample::select(&["x", "y", "a", "b", "c"][..]).prop_map(String::from);
    prop::collection::vec(name, 1..4)
}

fn step() -> impl Strategy<Value = Step> {
    let process = || 0..PROCESSES;
    let bytes = prop::collection::vec(any::<u8>(), 1..9);
    prop_oneof![
        4 => process().prop_map(Step::Mark),
        6 => (process(), place(), any::<bool>()).prop_map(|(p, at, is_directory)| Step::Make(p, at, is_directory)),
        4 => (process(), place(), bytes).prop_map(|(p, at, bytes)| Step::Write(p, at, bytes)),
        3 => (process(), place(), 0..0o100u16).prop_map(|(p, at, mode)| Step::Chmod(p, at, 0o700 | mode)),
        4 => (process(), place()).prop_map(|(p, at)| Step::Remove(p, at)),
        3 => (process(), place(), place()).prop_map(|(p, from, to)| Step::Rename(p, from, to)),
        3 => (process(), place(), place()).prop_map(|(p, from, to)| Step::Link(p, from, to)),
        3 => any::<usize>().prop_map(Step::Settle),
        3 => any::<usize>().prop_map(Step::Undo),
    ]
}

/// Changes of few cells, by many marks.
fn near_step() -> impl Strategy<Value = Step> {
    let process = || 0..PROCESSES;
    let place =
        || prop::sample::select(&["a", "c", "d"][..]).prop_map(|name| vec![name.to_owned()]);
    let bytes = prop::collection::vec(any::<u8>(), 1..9);
    prop_oneof![
        6 => process().prop_map(Step::Mark),
        3 => (process(), place()).prop_map(|(p, at)| Step::Make(p, at, false)),
        4 => (process(), place(), bytes).prop_map(|(p, at, bytes)| Step::Write(p, at, bytes)),
        3 => (process(), place(), 0..0o100u16).prop_map(|(p, at, mode)| Step::Chmod(p, at, 0o700 | mode)),
        2 => (process(), place()).prop_map(|(p, at)| Step::Remove(p, at)),
        2 => (process(), place(), place()).prop_map(|(p, from, to)| Step::Link(p, from, to)),
        4 => any::<usize>().prop_map(Step::Settle),
        4 => any::<usize>().prop_map(Step::Undo),
    ]
}

/// Each step is compared, and the view is cut off in one of them.
fn run(steps: &[Step], cut: prop::sample::Index, at: prop::sample::Index) {
    let mut world = World::new(PROCESSES);
    let cut = cut.index(steps.len());
    for (number, step) in steps.iter().enumerate() {
        match number == cut {
            true => world.step_and_cut(step, |length| at.index(length)),
            false => world.step(step),
        }
        world.compare();
    }
    world.reopen();
    world.compare();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_remains_is_what_the_remaining_changes_make(
        steps in prop::collection::vec(step(), 1..50),
        cut: prop::sample::Index,
        at: prop::sample::Index,
    ) {
        run(&steps, cut, at);
    }

    #[test]
    fn of_few_cells_with_many_layers_any_can_go(
        steps in prop::collection::vec(near_step(), 1..60),
        cut: prop::sample::Index,
        at: prop::sample::Index,
    ) {
        run(&steps, cut, at);
    }
}

fn at(name: &str) -> Vec<String> {
    vec![name.to_owned()]
}

/// Each mark by itself, in every order in which the two can be decided.
#[test]
fn of_two_names_made_in_one_directory_either_can_go() {
    for (settled, first_goes) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut world = World::new(2);
        for process in 0..2 {
            world.step(&Step::Mark(process));
        }
        world.step(&Step::Make(0, at("c"), true));
        world.step(&Step::Make(1, at("d"), true));
        // Once more, so that the first mark's change is the last.
        world.step(&Step::Make(0, at("e"), false));
        let (one, other) = match first_goes {
            true => (0, 0),
            false => (1, 0),
        };
        world.step(&match settled {
            true => Step::Settle(one),
            false => Step::Undo(one),
        });
        world.compare();
        world.step(&Step::Undo(other));
        world.compare();
        world.reopen();
        world.compare();
    }
}
