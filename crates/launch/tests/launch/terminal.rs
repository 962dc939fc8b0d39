//! S24, S26: the terminal of a domain, and the caller's behind it.

use rustix::process::Signal;
use surmise_testkit::Act::{Do, Resize, Type};
use surmise_testkit::{Act, Outcome};

use crate::Test;
use crate::setting::{Roles, Setting};

pub const TESTS: &[Test] = &[
    ("the_terminal_is_the_domains_own", own),
    ("only_streams_that_are_a_terminal_become_one", only_streams),
    ("keys_of_a_raw_program_arrive_as_they_are", raw),
    ("a_password_is_not_shown", password),
    ("the_window_has_its_size_inside", window),
    ("an_end_by_the_keyboard_is_a_signal_inside", quit),
    ("the_group_of_the_command_is_its_own", group),
    ("all_that_was_put_out_appears", all_output),
    ("the_settings_are_the_callers_again", settings),
    ("in_the_background_keys_are_left_alone", background),
    ("a_neighbour_in_a_pipeline_gets_the_keys", pipeline),
    ("who_reads_keys_without_being_asked_gets_them", lazily),
    ("a_command_that_stops_itself_stops_its_caller", stops_itself),
    ("what_appears_can_be_held", held),
];

fn dialogue(setting: &Setting, inner: &[&str], acts: &[(&str, Act<'_>)]) -> Outcome {
    let words = [&["--"], inner].concat();
    setting.run_by(&[], &words).at_terminal(acts)
}

/// With `"$@"` in `script`, run by a shell outside, as what runs the domain.
fn by(setting: &Setting, script: &str, inner: &[&str], acts: &[(&str, Act<'_>)]) -> Outcome {
    let words = [&["--"], inner].concat();
    let front = ["bash", "--norc", "-mc", script, "bash"];
    setting.run_by(&front, &words).seconds(20).at_terminal(acts)
}

fn own(setting: &Setting) {
    let script = "tty; ls -C /dev/pts; echo through > /dev/tty; stat -c %U $(tty)";
    dialogue(setting, &["sh", "-c", script], &[])
        .assert_code(0)
        .assert_stdout_contains("/dev/pts/0\n0  ptmx\nthrough\n");
}

fn only_streams(setting: &Setting) {
    let script = "test -t 0; a=$?; test -t 1; b=$?; test -t 2; echo $a $b $?";
    by(setting, r#""$@" | cat"#, &["sh", "-c", script], &[]).assert_stdout_contains("0 1 0\n");
    by(setting, r#": | "$@""#, &["sh", "-c", script], &[]).assert_stdout_contains("1 0 0\n");
    // Where none is one, there is none: the caller's is no way around the boundary.
    let script = "(: > /dev/tty) 2> /dev/null || echo none";
    by(
        setting,
        r#": | "$@" 2>&1 | cat"#,
        &["sh", "-c", script],
        &[],
    )
    .assert_stdout_contains("none\n");
}

fn raw(setting: &Setting) {
    let script = "stty raw -echo; echo ready; head -c 5 | od -An -tx1; stty sane";
    // Interrupt, stop, end of file, return, and a letter.
    dialogue(
        setting,
        &["sh", "-c", script],
        &[("ready", Type("\x03\x1a\x04\rx"))],
    )
    .assert_code(0)
    .assert_stdout_contains("03 1a 04 0d 78");
}

fn password(setting: &Setting) {
    let script = "stty -echo; printf 'password: '; read word; stty echo; echo; echo \"<$word>\"";
    let outcome = dialogue(
        setting,
        &["sh", "-c", script],
        &[("password: ", Type("hush\n"))],
    );
    outcome.assert_code(0).assert_stdout_contains("<hush>");
    assert_eq!(
        outcome.stdout.matches("hush").count(),
        1,
        "{}",
        outcome.stdout
    );
}

fn window(setting: &Setting) {
    let script = "trap 'stty size; exit 3' WINCH; stty size; while :; do sleep 0.05; done";
    dialogue(
        setting,
        &["bash", "-c", script],
        &[("24 80", Resize(31, 99))],
    )
    .assert_code(3)
    .assert_stdout_contains("31 99");
}

fn quit(setting: &Setting) {
    let script = "echo ready; sleep 600";
    dialogue(setting, &["sh", "-c", script], &[("ready", Type("\x1c"))]).assert_code(131);
    dialogue(setting, &["sh", "-c", script], &[("ready", Type("\x03"))]).assert_code(130);
    dialogue(setting, &["cat"], &[("", Type("line\n\x04"))])
        .assert_code(0)
        .assert_stdout_contains("line\nline\n");
}

/// S26.
fn group(setting: &Setting) {
    by(
        setting,
        r#""$@"; echo outside $?"#,
        &["sh", "-c", "kill -KILL 0"],
        &[],
    )
    .assert_stdout_contains("outside 137\n");
}

fn all_output(setting: &Setting) {
    let outcome = dialogue(setting, &["seq", "20000"], &[]);
    let wanted: String = (1..=20_000).map(|line| format!("{line}\n")).collect();
    outcome.assert_code(0);
    assert!(outcome.stdout.starts_with(&wanted), "something is lost");
}

fn settings(setting: &Setting) {
    // This shell leaves settings alone.
    let script = r#"before=$(stty -g); "$@"; code=$?
        for i in $(seq 100); do [ "$(stty -g)" = "$before" ] && break; sleep 0.05; done
        [ "$(stty -g)" = "$before" ] && echo restored after $code"#;
    let front = ["sh", "-c", script, "sh"];
    let run = |inner: &str, acts: &[(&str, Act<'_>)], told: &str| {
        setting
            .run_by(&front, &["--name", "t", "--", "sh", "-c", inner])
            .at_terminal(acts)
            .assert_stdout_contains(told);
        setting
            .root()
            .open("t")
            .expect("kept")
            .abort()
            .expect("abort");
    };
    run("stty raw -echo; exit 3", &[], "restored after 3\n");
    let inner = "stty raw -echo; echo ready; sleep 600; true";
    let kill = |whom: fn(&Roles) -> i32| {
        move || {
            let roles = setting.roles("sh");
            Roles::signal(whom(&roles), Signal::KILL);
        }
    };
    let command = kill(|roles| roles.command);
    run(inner, &[("ready", Do(&command))], "restored after 137\n");
    let view = kill(|roles| roles.view);
    run(inner, &[("ready", Do(&view))], "restored after 125\n");
    let init = kill(|roles| roles.init);
    run(inner, &[("ready", Do(&init))], "restored after 125\n");
    let control = kill(|roles| roles.control);
    run(inner, &[("ready", Do(&control))], "restored after 137\n");
}

fn background(setting: &Setting) {
    let script = r#""$@" & read a; echo outside $a; read b; jobs; fg"#;
    let inner = "echo started; read c; echo inside $c";
    by(
        setting,
        script,
        &["sh", "-c", inner],
        &[
            ("started", Type("one\n")),
            ("outside one", Type("two\n")),
            ("Stopped", Type("three\n")),
        ],
    )
    .assert_code(0)
    .assert_stdout_contains("inside three\n");
}

fn pipeline(setting: &Setting) {
    let script = r#""$@" | (cat; read a < /dev/tty; echo got $a)"#;
    by(
        setting,
        script,
        &["echo", "ready"],
        &[("ready", Type("it\n"))],
    )
    .assert_stdout_contains("got it\n");
}

fn lazily(setting: &Setting) {
    // Its standard input is no terminal, as that of a pager.
    let inner = "cat; read a < /dev/tty; echo got $a";
    by(
        setting,
        r#"echo ready | "$@""#,
        &["sh", "-c", inner],
        &[("ready", Type("it\n"))],
    )
    .assert_stdout_contains("got it\n");
}

fn stops_itself(setting: &Setting) {
    let inner = "kill -STOP $$; echo went on";
    by(
        setting,
        r#""$@"; echo stopped $?; fg"#,
        &["sh", "-c", inner],
        &[],
    )
    .assert_code(0)
    .assert_stdout_contains("stopped 147\n")
    .assert_stdout_contains("went on\n");
}

fn held(setting: &Setting) {
    let words = [
        "--name",
        "t",
        "--hold-terminal",
        "--",
        "sh",
        "-c",
        "echo hidden; read a; exit 5",
    ];
    let outcome = setting
        .run_by(&[], &words)
        .at_terminal(&[("", Type("it\n"))]);
    outcome.assert_code(5);
    assert!(!outcome.stdout.contains("hidden"), "{}", outcome.stdout);
}
