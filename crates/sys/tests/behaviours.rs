//! What checkpoint and rollback rely on holds here, and where something does not, that is told. The trials
//! are copies of this process, which therefore has one thread: this program runs its tests itself, and a
//! second time as an ordinary user.

use std::io;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Signal, WaitOptions};
use surmise_sys::behaviours::{BEHAVIOURS, Behaviour, Deviation, check};
use surmise_sys::{process, ptrace};
use surmise_testkit::watchdog::{self, LIMIT};
use surmise_testkit::{become_ordinary_user, is_root, skip};

/// For a trial that never ends.
const SHORT: Duration = Duration::from_millis(50);

fn main() {
    // Whatever a trial leaves behind becomes a child of this process.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).expect("adopt");
    run_all();
    if !is_root() {
        return skip("behaviours as another user take root");
    }
    let child = process::fork(&[], || {
        become_ordinary_user();
        rustix::process::set_child_subreaper(Some(rustix::process::getpid())).expect("adopt");
        run_all();
        0
    });
    let status = child.expect("fork").wait().expect("wait");
    assert_eq!(status.exit_status(), Some(0), "as an ordinary user");
}

fn run_all() {
    let tests: [fn(); 4] = [
        each_behaviour_holds_and_its_trial_leaves_nothing,
        a_behaviour_that_differs_is_told_among_others,
        a_trial_that_hangs_is_ended_with_all_that_it_made,
        a_trial_that_breaks_is_told,
    ];
    for test in tests {
        test();
    }
}

fn each_behaviour_holds_and_its_trial_leaves_nothing() {
    let outcomes = check(BEHAVIOURS, LIMIT);
    assert_eq!(outcomes.len(), BEHAVIOURS.len());
    for (behaviour, outcome) in BEHAVIOURS.iter().zip(outcomes) {
        let Behaviour { number, name, .. } = behaviour;
        outcome.unwrap_or_else(|seen| panic!("{number}, {name}: {seen}"));
    }
    assert!(nobody_is_left(), "a trial leaves a process");
}

/// Reaps at most one.
fn nobody_is_left() -> bool {
    matches!(
        rustix::process::wait(WaitOptions::NOHANG),
        Err(Errno::CHILD)
    )
}

fn trial(probe: fn() -> Result<(), Deviation>) -> Behaviour {
    Behaviour {
        number: 200,
        name: "a behaviour",
        purpose: "this test",
        probe,
    }
}

fn a_behaviour_that_differs_is_told_among_others() {
    let differing = trial(|| Err(Deviation::Differs("something else".into())));
    let refused = trial(|| Err(io::Error::from(Errno::PERM).into()));
    let outcomes = check(&[BEHAVIOURS[0], differing, refused, BEHAVIOURS[1]], LIMIT);
    assert!(
        matches!(
            &outcomes[..],
            [
                Ok(()),
                Err(Deviation::Differs(seen)),
                Err(Deviation::Unavailable(error)),
                Ok(())
            ] if seen == "something else" && error.raw_os_error() == Some(libc::EPERM)
        ),
        "{outcomes:?}"
    );
}

fn a_trial_that_hangs_is_ended_with_all_that_it_made() {
    let hanging = trial(|| {
        let child = process::fork(&[], || {
            loop {
                rustix::event::pause();
            }
        })?;
        ptrace::seize(child.pid())?;
        loop {
            rustix::event::pause();
        }
    });
    let outcomes = check(&[BEHAVIOURS[0], hanging], SHORT);
    assert!(matches!(outcomes[1], Err(Deviation::Differs(_))));
    // Where the trial had come to make it.
    watchdog::until("what it made ends", LIMIT, nobody_is_left);
}

fn a_trial_that_breaks_is_told() {
    let killed = trial(|| {
        rustix::process::kill_process(rustix::process::getpid(), Signal::KILL)?;
        Ok(())
    });
    let left = trial(|| std::process::exit(0));
    for outcome in check(&[killed, left], LIMIT) {
        let seen = outcome.expect_err("it told nothing").to_string();
        assert!(seen.starts_with("the trial ended"), "{seen}");
    }
}
