//! Keys on the terminal, and signals to control.

use std::thread;

use rustix::process::Signal;
use surmise_testkit::Outcome;

use crate::Test;
use crate::setting::{Roles, Setting};

pub const TESTS: &[Test] = &[
    ("an_interrupt_reaches_the_command_alone", interrupt),
    ("a_stopped_domain_goes_on_in_the_foreground", stop),
    ("the_terminal_is_the_callers_again", terminal),
    ("a_terminate_signal_is_forwarded", forwarded),
    ("who_ignores_the_terminate_signal_is_killed", ignored),
    ("an_ignored_hangup_stays_ignored", hangup),
    (
        "without_a_terminal_an_interrupt_is_forwarded",
        interrupt_forwarded,
    ),
    (
        "without_a_terminal_its_own_group_ends_at_the_boundary",
        group,
    ),
];

fn interrupt(setting: &Setting) {
    let script = "trap 'echo trapped; exit 5' INT; echo ready; while :; do sleep 0.05; done";
    let run = setting.run_by(&[], &["--", "sh", "-c", script]);
    run.on_terminal(&[("ready", "\x03")])
        .assert_code(5)
        .assert_stdout_contains("trapped")
        .assert_stdout_contains("kept: sh-1");
}

fn stop(setting: &Setting) {
    let script = "echo ready; read word; echo got $word";
    let by = ["bash", "-mc", r#""$@"; echo back; fg"#, "bash"];
    let run = setting.run_by(&by, &["--", "sh", "-c", script]);
    run.on_terminal(&[("ready", "\x1a"), ("back", "it\n")])
        .assert_code(0)
        .assert_stdout_contains("got it");
}

fn terminal(setting: &Setting) {
    let by = ["sh", "-c", r#""$@"; read word; echo got $word"#, "sh"];
    let run = setting
        .run_by(&by, &["--", "bash", "--norc", "-i"])
        .env("PS1", "inner> ");
    run.on_terminal(&[
        ("inner> ", "sleep 0.1\n"),
        ("inner> ", "exit\n"),
        ("kept: ", "it\n"),
    ])
    .assert_code(0)
    .assert_stdout_contains("got it");
}

fn forwarded(setting: &Setting) {
    let script = "trap 'exit 6' TERM; exec 3< /dev/zero; while :; do sleep 0.05; done";
    while_running(setting, &[], script, |roles| {
        Roles::signal(roles.control, Signal::TERM)
    })
    .assert_code(6);
}

fn ignored(setting: &Setting) {
    let script = "trap '' TERM; while :; do sleep 0.05; done";
    while_running(setting, &[], script, |roles| {
        Roles::signal(roles.control, Signal::TERM)
    })
    .assert_code(137);
}

fn hangup(setting: &Setting) {
    let by = ["sh", "-c", r#"trap '' HUP; exec "$@""#, "sh"];
    let script = "trap 'exit 8' TERM; while :; do sleep 0.05; done";
    while_running(setting, &by, script, |roles| {
        Roles::signal(roles.control, Signal::HUP);
        Roles::signal(roles.command, Signal::HUP);
        // Signals are taken in order of their numbers: an unignored HUP would win.
        Roles::signal(roles.control, Signal::TERM);
    })
    .assert_code(8);
}

/// A session of its own has no terminal.
const WITHOUT_TERMINAL: [&str; 4] = ["env", "--default-signal=INT", "setsid", "--wait"];

fn interrupt_forwarded(setting: &Setting) {
    let script = "trap 'sleep 2.2; exit 7' INT; while :; do sleep 0.05; done";
    // It is no order to end within the grace.
    while_running(setting, &WITHOUT_TERMINAL, script, |roles| {
        Roles::signal(roles.control, Signal::INT)
    })
    .assert_code(7);
}

/// S26.
fn group(setting: &Setting) {
    let script = [r#""$@"; echo outside $?"#, "sh"];
    let by = [&WITHOUT_TERMINAL[..], &["sh", "-c"], &script].concat();
    setting
        .run_by(&by, &["--", "sh", "-c", "kill -KILL 0"])
        .outcome()
        .assert_code(0)
        .assert_stdout("outside 137\n");
    // Without a terminal it leads no group, so `setsid` need not fork, and is the command to its end.
    setting
        .run_by(&WITHOUT_TERMINAL, &["--", "setsid", "sh", "-c", "exit 7"])
        .outcome()
        .assert_code(7);
}

fn while_running(
    setting: &Setting,
    by: &[&str],
    script: &str,
    act: impl FnOnce(&Roles),
) -> Outcome {
    let script = format!("{script} # surmise");
    thread::scope(|scope| {
        let running = scope.spawn(|| setting.run_by(by, &["--", "sh", "-c", &script]).outcome());
        let roles = setting.roles("sh");
        // Only when it sleeps has the shell set its traps.
        setting.sleeping(&roles);
        act(&roles);
        let outcome = running.join().expect("an outcome");
        roles.end();
        outcome
    })
}
