//! Changes of several processes at once, which are undone and settled in any order that their dependencies allow: what
//! remains is what the remaining changes make. A log that is cut anywhere is what is decided.

mod model;
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn what_remains_is_what_the_remaining_changes_make(
        steps in prop::collection::vec(step(), 1..50),
        cut: prop::sample::Index,
        at: prop::sample::Index,
    ) {
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
}
