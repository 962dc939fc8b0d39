//! S6: a commit of 200 changes of every kind, killed before each of its steps by SIGKILL, is all or
//! nothing: `undo` leaves nothing of it, and `resume` makes all of it real.
//!
//! A process of its own commits, so that the kill is a kill. A run takes a sample of the steps; with
//! `SURMISE_EVERY_STEP=1` it takes all of them, as `make soak` does.

pub mod tree;

use std::ops::ControlFlow;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Signal, getpid, kill_process};
use surmise_commit::{Request, Resumed, commit, pending};
use surmise_testkit::{TreeSnapshot, tell};

use crate::harness::World;

/// Tells the process that is killed before which step: then it is that process.
const STOP: &str = "SURMISE_TEST_COMMIT_UNTIL";
const STATE: &str = "SURMISE_TEST_COMMIT_STATE";
const ROOT: &str = "SURMISE_TEST_COMMIT_ROOT";

/// In a sample, every so many steps; a prime, so that it meets every kind of step.
const SAMPLE: usize = 67;

/// S6.
#[test]
fn a_commit_of_200_changes_is_all_or_nothing_after_a_kill() {
    let word = |name| std::env::var_os(name);
    match (word(STOP), word(STATE), word(ROOT)) {
        (Some(stop), Some(state), Some(root)) => {
            let stop = stop.to_str().and_then(|stop| stop.parse().ok());
            commit_until(state.as_ref(), root.as_ref(), stop.expect("a step"));
        }
        _ => kill_at_each_step(),
    }
}

#[derive(Debug, Default)]
struct Counts {
    kills: usize,
    staging_undone: usize,
    applying_undone: usize,
    too_late: usize,
    resumed_to_all: usize,
    resumed_to_nothing: usize,
}

fn kill_at_each_step() {
    let every = std::env::var_os("SURMISE_EVERY_STEP").is_some();
    let mut counts = Counts::default();
    let mut stop = 0;
    loop {
        let world = World::new(tree::plant);
        world.act(&tree::acts());
        if stop == 0 {
            let lines = world.lines();
            assert!(lines.len() >= 200, "{} changes: {lines:#?}", lines.len());
        }
        let before = TreeSnapshot::of(world.real());
        if !is_killed(&world, stop) {
            world.assert_same();
            break;
        }
        counts.kills += 1;
        undo(&world, &before, stop, &mut counts);
        stop += if every { 1 } else { SAMPLE };
    }
    tell(format_args!("kills: {stop} steps, {counts:?}"));
    assert!(
        counts.applying_undone > 3 && counts.too_late > 0,
        "{counts:?}"
    );
    assert!(
        counts.resumed_to_all > 3 && counts.resumed_to_nothing > 1,
        "{counts:?}"
    );
}

/// After a kill before the step `stop`: undone, killed once more, and resumed.
fn undo(world: &World, before: &TreeSnapshot, stop: usize, counts: &mut Counts) {
    let phase = pending(&world.state()).expect("a journal");
    if phase.is_some() {
        if world.undo(&[]) {
            world.assert_undone(before);
            match phase < Some(surmise_commit::Phase::Applying) {
                true => counts.staging_undone += 1,
                false => counts.applying_undone += 1,
            }
            assert!(
                is_killed(world, stop),
                "the second commit takes fewer steps"
            );
        } else {
            counts.too_late += 1;
        }
    }
    match world.resume(&[]) {
        Resumed::Finished(report) => {
            assert_eq!(report, Default::default(), "killed before step {stop}");
            world.assert_same();
            counts.resumed_to_all += 1;
        }
        Resumed::Undone | Resumed::Nothing => {
            world.assert_undone(before);
            counts.resumed_to_nothing += 1;
        }
    }
}

/// Commits in a process that kills itself before the step `stop`; `false` when it takes fewer.
fn is_killed(world: &World, stop: usize) -> bool {
    let status = Command::new(std::env::current_exe().expect("this program"))
        .args([
            "--exact",
            "kills::a_commit_of_200_changes_is_all_or_nothing_after_a_kill",
        ])
        .env(STOP, stop.to_string())
        .env(STATE, world.state())
        .env(ROOT, world.real())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .expect("this program starts");
    let is_killed = status.signal() == Some(Signal::KILL.as_raw());
    assert!(is_killed || status.success(), "{status}");
    is_killed
}

fn commit_until(state: &Path, root: &Path, stop: usize) {
    let map = surmise_view::load(state).expect("a view");
    let request = Request {
        name: "t",
        directory: state,
        map: &map,
        root,
        keep: None,
    };
    let mut left = stop;
    let report = commit(&request, &mut |_| {
        if left == 0 {
            kill_process(getpid(), Signal::KILL).expect("killed");
        }
        left -= 1;
        ControlFlow::Continue(())
    });
    assert_eq!(report.expect("a commit"), Default::default());
}
