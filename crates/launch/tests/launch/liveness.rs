//! S11: whoever is killed, nobody is left, nothing hangs, and what was done is kept.

use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use surmise_kept::Status;
use surmise_testkit::{Outcome, watchdog};

use crate::Test;
use crate::setting::{Roles, Setting};

pub const TESTS: &[Test] = &[
    ("control_killed", control),
    ("the_view_killed", view),
    ("the_relay_process_killed", relay),
    ("pid_1_killed", init),
    ("control_killed_at_any_time", any_time),
    ("control_asked_to_end_at_any_time", asked_at_any_time),
];

/// Keeps the view busy, with processes that wait for its answers.
const BUSY: &str = "while :; do echo x > f; ls -R /usr/share > /dev/null; rm f; done & \
                    while :; do cat /usr/bin/* > g; rm g; done & sleep 600";

fn control(setting: &Setting) {
    for script in ["sleep 600", BUSY] {
        killed(setting, script, |roles| roles.control).assert_code(137);
    }
}

fn view(setting: &Setting) {
    for script in ["sleep 600", BUSY] {
        killed(setting, script, |roles| roles.view)
            .assert_code(125)
            .assert_stderr_contains("error: the view process of the domain was killed");
    }
}

fn relay(setting: &Setting) {
    for script in ["sleep 600", BUSY] {
        killed(setting, script, |roles| roles.relay)
            .assert_code(125)
            .assert_stderr_contains("error: the relay process of the domain was killed");
    }
}

fn init(setting: &Setting) {
    for script in ["sleep 600", BUSY] {
        killed(setting, script, |roles| roles.init)
            .assert_code(125)
            .assert_stderr_contains("error: pid 1 of the domain was killed");
    }
}

fn killed(setting: &Setting, script: &str, whom: impl FnOnce(&Roles) -> i32) -> Outcome {
    let script = format!("{script}; true");
    let outcome = thread::scope(|scope| {
        let running = scope.spawn(|| setting.run(&["--name", "t", "--", "sh", "-c", &script]));
        let roles = setting.roles("sh");
        setting.sleeping(&roles);
        Roles::signal(whom(&roles), Signal::KILL);
        roles.end();
        running.join().expect("an outcome")
    });
    assert!(!setting.has_processes(), "a process is left");
    let domain = setting.root().open("t").expect("kept");
    assert_eq!(domain.status(), Status::Interrupted);
    domain.abort().expect("abort");
    outcome
}

/// What is left says how the command ended: control lives to see it.
fn asked_at_any_time(setting: &Setting) {
    for delay in (1..24).map(|step| Duration::from_micros(step * 700)) {
        let after = format!("{}", delay.as_secs_f64());
        let outcome = setting
            .run_by(
                &["timeout", "--foreground", "--signal=TERM", &after],
                &["--", "sh", "-c", "echo x > f; ls / > /dev/null"],
            )
            .outcome();
        for domain in setting.root().list().expect("list") {
            let status = domain.status();
            let has_ended = matches!(status, Status::Ended { .. });
            assert!(has_ended, "after {after} s: {status:?}, {outcome:?}");
            domain.abort().expect("abort");
        }
    }
}

/// Also while the roles start and while they end.
fn any_time(setting: &Setting) {
    for delay in (1..24).map(|step| Duration::from_micros(step * 700)) {
        let words = ["--", "sh", "-c", "echo x > f; ls / > /dev/null"];
        let after = format!("{}", delay.as_secs_f64());
        setting
            .run_by(
                &["timeout", "--foreground", "--signal=KILL", &after],
                &words,
            )
            .outcome();
        watchdog::until("no process is left", watchdog::LIMIT, || {
            !setting.has_processes()
        });
    }
    for domain in setting.root().list().expect("list") {
        domain.abort().expect("abort");
    }
}
