//! S38: random programs on the tree and one call after the other: the same results, errors and effects
//! that stay, whatever is predicted and in whatever order answers come.

mod program;
mod sequential;
mod shell;

use std::collections::BTreeMap;
use std::rc::Rc;

use fastrand::Rng;
use program::{Shape, Stays};
use proptest::prelude::*;
use shell::Shell;
use surmise_rpc::{Budget, Caller, Limits, Order, ScopeId};

proptest! {
    // More where PROPTEST_CASES asks for more.
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.max(2000)))]

    #[test]
    fn speculation_changes_nothing_that_stays(seed: u64) {
        run(seed, Order::None);
    }

    #[test]
    fn nor_does_keeping_order(seed: u64) {
        run(seed, Order::Stamp);
    }

    #[test]
    fn of_a_root_that_is_aborted_nothing_stays(seed: u64) {
        abort(seed);
    }
}

/// Programs in which nothing happens prove nothing.
#[test]
fn the_programs_reach_every_effect() {
    let mut reached = BTreeMap::new();
    for seed in 0..1000 {
        for (what, count) in run(seed, Order::None) {
            *reached.entry(what).or_insert(0) += count;
        }
    }
    for what in [
        "send",
        "send speculatively",
        "commit",
        "cancel",
        "start",
        "return",
        "fail",
        "foresee",
        "wake",
        "rollback",
        "forget",
        "vanish",
        "discard",
        "a prediction over a limit",
    ] {
        let count = reached.get(what).copied().unwrap_or(0);
        assert!(count >= 50, "{what} came {count} times: {reached:?}");
    }
}

/// The hole in the paper: values that are equal, read in an order that no sequential run has.
#[test]
fn only_stamps_keep_answers_in_order() {
    let inverted = |order| (0..2000).filter(|seed| is_inverted(*seed, order)).count();
    assert_eq!(inverted(Order::Stamp), 0);
    assert!(inverted(Order::None) > 20);
}

fn run(seed: u64, order: Order) -> BTreeMap<&'static str, usize> {
    let mut rng = Rng::with_seed(seed);
    let (mut shell, wanted) = prepare(&mut rng, order, shape_of(seed));
    let budget = shell.tree.budget();
    let is_right = rng.f64();
    let mut happened = 0;
    while shell.happen(&mut rng, is_right) {
        happened += 1;
        assert!(happened < 100_000, "it does not end");
    }
    let outcome = shell.frames[&ScopeId::ROOT].outcome;
    assert_eq!(outcome, Some(wanted.outcome));
    let mut stays = wanted.stays;
    if shape_of(seed).has_siblings {
        // Calls side by side have their effects in any order.
        stays.sort_unstable();
        shell.stays.sort_unstable();
    }
    assert_eq!(shell.stays, stays);
    for foreseen in shell.foreseen.values() {
        assert_eq!(*foreseen, wanted.outcome, "what travelled ahead came true");
    }
    assert!(shell.tentative.is_empty() && shell.locals.is_empty());
    assert!(shell.tree.is_quiet());
    assert_eq!(shell.tree.budget(), budget);
    if order == Order::None {
        // Else calls are sent again.
        assert_every_call_is_kept_or_wasted(&shell);
    }
    shell.counts
}

fn abort(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let body = Rc::new(program::body(&mut rng, shape_of(seed)));
    let caller = Caller::Speculative;
    let mut shell = Shell::new(body, 1, caller, Order::None, Limits::default());
    // So many that the commit, which would come at random as well, has mostly not.
    for _ in 0..rng.u32(..20) {
        shell.happen(&mut rng, 0.5);
    }
    if shell.tree.standing(ScopeId::ROOT) == Ok(surmise_rpc::Standing::Correct) {
        return;
    }
    shell.abort();
    assert_eq!(shell.stays, []);
    assert!(shell.tentative.is_empty() && shell.locals.is_empty());
    assert!(shell.frames.is_empty() && shell.calls.is_empty());
    assert_eq!(shell.tree.budget(), Limits::default().budget);
    assert_every_call_is_kept_or_wasted(&shell);
}

fn assert_every_call_is_kept_or_wasted(shell: &Shell) {
    let count = |what| shell.counts.get(what).copied().unwrap_or(0) as u64;
    assert_eq!(
        count("send speculatively"),
        count("commit") + shell.tree.calls_wasted()
    );
}

fn is_inverted(seed: u64, order: Order) -> bool {
    let mut rng = Rng::with_seed(seed);
    let shape = Shape {
        has_siblings: false,
        depth: 4,
    };
    let (mut shell, _) = prepare(&mut rng, order, shape);
    // Others write.
    shell.version = 1;
    while shell.happen(&mut rng, 0.9) {}
    !shell.frames[&ScopeId::ROOT].read.is_sorted()
}

struct Wanted {
    outcome: program::Outcome,
    stays: Vec<Stays>,
}

fn prepare(rng: &mut Rng, order: Order, shape: Shape) -> (Shell, Wanted) {
    let body = Rc::new(program::body(rng, shape));
    let mut stays = Vec::new();
    let outcome = sequential::run(&body, 1, &mut stays);
    let caller = if rng.bool() {
        Caller::Correct
    } else {
        Caller::Speculative
    };
    let limits = Limits {
        budget: Budget {
            branches: rng.u32(..100),
            depth: rng.u32(..12),
        },
        fan_out_max: rng.u32(..6),
    };
    let mut shell = Shell::new(body, 1, caller, order, limits);
    shell.haste = rng.f64();
    (shell, Wanted { outcome, stays })
}

fn shape_of(seed: u64) -> Shape {
    Shape {
        has_siblings: seed.is_multiple_of(2),
        depth: (seed / 2 % 5) as u32,
    }
}
