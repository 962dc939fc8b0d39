//! Locks of programs on two mounts.

use super::{Far, Mount};
use crate::setting::{Setting, as_each_user, as_own_user};

/// What programs do, and what has to come of it.
const LOCKS: &str = include_str!("locks.py");

/// Has programs on two mounts lock.
fn on_two_mounts(setting: &Setting, lease: Option<&str>, work: impl Fn(&Far<'_>, &Mount<'_>)) {
    let Some(far) = Far::new(setting) else {
        return;
    };
    setting.scratch.file("locks.py", LOCKS);
    let server = lease.map(|lease| far.serve(lease));
    let (one, two) = (far.mount("one"), far.mount("two"));
    work(&far, &one);
    one.unmount_whatever();
    two.unmount();
    drop(server);
}

#[track_caller]
fn run(far: &Far<'_>, work: &str) {
    let words = ["timeout", "100", "python3", "locks.py", work];
    let outcome = far.setting.plain(&words).in_place().seconds(120).outcome();
    outcome.assert_success();
}

#[test]
fn s59_a_lock_keeps_programs_on_all_mounts_out() {
    as_each_user(|setting| {
        on_two_mounts(setting, None, |far, _| run(far, "ranges()"));
    });
}

#[test]
fn s59_a_lock_goes_with_what_it_belongs_to() {
    as_each_user(|setting| {
        on_two_mounts(setting, None, |far, _| {
            run(far, "ends()");
            run(far, "upgrades()");
        });
    });
}

#[test]
fn s59_a_signal_ends_the_wait_for_a_lock() {
    as_each_user(|setting| {
        on_two_mounts(setting, None, |far, _| run(far, "signals()"));
    });
}

#[test]
fn s59_calls_that_wait_for_a_lock_keep_nobody_waiting() {
    as_own_user(|setting| {
        on_two_mounts(setting, None, |far, _| run(far, "many()"));
    });
}

#[test]
fn s59_programs_that_lock_lose_nothing() {
    as_each_user(|setting| {
        on_two_mounts(setting, None, |far, _| {
            run(far, "numbers()");
            run(far, "database()");
            let add = "flock m/number sh -c 'n=$(cat m/number); echo $((n+1)) > m/number'";
            let on = |mount| add.replace("m/", mount);
            let (one, two) = (on("one/"), on("two/"));
            far.sh(&format!(
                "echo 0 > one/number
                (for i in $(seq 40); do {one}; done) &
                for i in $(seq 40); do {two}; done
                wait $!
                cat two/number"
            ))
            .assert_stdout("80\n");
        });
    });
}

#[test]
fn s59_locks_outlive_the_server() {
    as_each_user(|setting| {
        on_two_mounts(setting, None, |far, _| {
            let server = far.server().expect("it runs");
            run(far, &format!("restart({server})"));
        });
    });
}

#[test]
fn s59_who_loses_a_lock_is_told() {
    as_own_user(|setting| {
        for work in ["given_up", "polled"] {
            on_two_mounts(setting, Some("1"), |far, one| {
                run(far, &format!("{work}({})", one.process));
                let told = far.succeed(&["mounts", "--json"]).stdout;
                assert!(
                    told.contains("1 lock: this machine was not heard of"),
                    "{told}"
                );
            });
        }
    });
}
