//! S17: the caller's standard streams, and what becomes of them inside.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use rustix::fs::{OFlags, fcntl_getfl};
use rustix::pipe::PipeFlags;
use surmise_testkit::{Outcome, skip, watchdog};

use crate::Test;
use crate::setting::Setting;

pub const TESTS: &[Test] = &[
    ("what_two_streams_put_out_keeps_its_order", order),
    ("a_reader_that_is_gone_ends_the_writer", reader_gone),
    ("a_slow_reader_stalls_its_channel_only", slow_reader),
    (
        "a_reader_that_never_reads_holds_up_no_end_that_is_asked_for",
        never_read,
    ),
    ("streams_that_are_closed_are_empty", closed),
    ("what_was_not_read_is_left_to_the_next", left_to_the_next),
    ("much_goes_through_as_it_is", much),
    ("the_callers_descriptions_stay_as_they_are", flags),
    ("a_socket_is_a_socket_inside", socket),
    ("no_file_of_the_caller_is_inside", no_file),
    ("what_is_kept_open_is_no_way_around_the_view", keep),
    ("held_output_is_not_shown", held),
    (
        "output_after_the_end_of_a_reader_is_an_error_not_a_hang",
        full_disk,
    ),
];

/// Runs a script outside in which `"$@"` runs the domain.
fn by(setting: &Setting, script: &str, words: &[&str]) -> Outcome {
    let front = ["bash", "-c", script, "bash"];
    setting.run_by(&front, words).seconds(30).outcome()
}

fn order(setting: &Setting) {
    let wanted: String = (1..=10_000).map(|line| format!("{line}\n")).collect();
    let script = "for i in {1..10000}; do \
                  if ((i % 2)); then echo $i; else echo $i >&2; fi; done";
    by(
        setting,
        r#""$@" > both 2>&1; grep -v kept: both"#,
        &["--", "bash", "-c", script],
    )
    .assert_code(0)
    .assert_stdout(&wanted);
    if Command::new("python3").arg("-V").output().is_err() {
        skip("there is no python3");
        return;
    }
    let script = "import sys\n\
                  for i in range(1, 10001): print(i, file=sys.stdout if i % 2 else sys.stderr)";
    by(
        setting,
        r#""$@" 2>&1 | grep -v kept:"#,
        &["--", "python3", "-u", "-c", script],
    )
    .assert_stdout(&wanted);
}

fn reader_gone(setting: &Setting) {
    let script = r#""$@" | head -n 1; echo ${PIPESTATUS[0]}"#;
    by(setting, script, &["--", "yes"]).assert_stdout("y\n141\n");
    // Also for who only looks: `tail -f` waits for the end of its reader.
    let script = r#"("$@"; echo ended $? >&2) | head -n 1"#;
    by(setting, script, &["--", "tail", "-f", "/etc/passwd"]).assert_stderr_contains("ended ");
}

fn slow_reader(setting: &Setting) {
    // Standard output's reader reads when told, which is after standard error has had its say.
    let script = r#"mkfifo go; exec 3<> go
        "$@" 2> >(head -c 300000 | tr -d x; echo >&3; cat > rest) | (read <&3; wc -c)"#;
    let inner = "head -c 1000000 /dev/zero & head -c 300000 /dev/zero | tr '\\0' x >&2; wait";
    by(setting, script, &["--", "sh", "-c", inner]).assert_stdout("1000000\n");
}

fn never_read(setting: &Setting) {
    let script = r#"mkfifo go; exec 3<> go
        (timeout --foreground -s TERM 0.5 "$@"; echo ended $? >&2; echo >&3) | (read <&3; wc -c)"#;
    // The one ends by itself, and what it put out waits; the other waits, too.
    for inner in ["head -c 100000 /dev/zero", "exec yes"] {
        by(setting, script, &["--", "sh", "-c", inner]).assert_stderr_contains("ended 124");
    }
}

fn closed(setting: &Setting) {
    by(setting, r#""$@" <&-"#, &["--", "wc", "-c"]).assert_stdout("0\n");
    by(
        setting,
        r#""$@" >&-; echo $?"#,
        &["--", "sh", "-c", "echo x; exit 3"],
    )
    .assert_stdout("3\n");
    let script = r#"("$@" <&- >&- 2>&-; echo $?)"#;
    by(setting, script, &["--", "sh", "-c", "exit 4"]).assert_stdout("4\n");
}

fn left_to_the_next(setting: &Setting) {
    setting.scratch.file("list", "1\n2\n3\n4\n");
    let inner = ["--", "sh", "-c", "read a; echo in $a"];
    let wanted = "in 1\n2\n3\n4\n";
    by(setting, r#"("$@"; cat) < list"#, &inner).assert_stdout(wanted);
    by(setting, r#"cat list | ("$@"; cat)"#, &inner).assert_stdout(wanted);
    let each = r#"while read l; do "$@"; echo $l; done"#;
    for from in ["< list", "< <(cat list)"] {
        by(setting, &format!("{each} {from}"), &["--", "true"]).assert_stdout("1\n2\n3\n4\n");
    }
}

fn much(setting: &Setting) {
    let script = r#"seq 200000 > numbers; "$@" < numbers | cksum; cat numbers | "$@" | cksum
        cksum < numbers"#;
    let outcome = by(setting, script, &["--", "cat"]);
    let lines = outcome.lines();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines.iter().all(|line| line == &lines[0]), "{lines:?}");
}

fn flags(setting: &Setting) {
    let words = setting.words(&["--", "sh", "-c", "echo started; cat > /dev/null"]);
    if setting.user() != 0 {
        skip("the caller is started as this user, by other means");
        return;
    }
    let pipe = || rustix::pipe::pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
    let ((input_end, input), (output, output_end)) = (pipe(), pipe());
    let child = Command::new(&words[0])
        .args(&words[1..])
        .stdin(Stdio::from(input_end.try_clone().expect("duplicate")))
        .stdout(Stdio::from(output_end.try_clone().expect("duplicate")))
        .stderr(Stdio::null())
        .spawn()
        .expect("start it");
    let mut started = [0; 8];
    let mut output = fs::File::from(output);
    output.read_exact(&mut started).expect("read");
    for fd in [input_end.as_fd(), output_end.as_fd()] {
        let flags = fcntl_getfl(fd).expect("look");
        assert!(!flags.contains(OFlags::NONBLOCK), "{flags:?}");
    }
    drop((input, input_end, output_end));
    let finished = watchdog::wait(child, "the caller", watchdog::LIMIT);
    assert!(finished.status.success(), "{}", finished.status);
}

fn socket(setting: &Setting) {
    if setting.user() != 0 {
        skip("the caller is started as this user, by other means");
        return;
    }
    let (mut ours, theirs) = UnixStream::pair().expect("a pair");
    let stream = || Stdio::from(OwnedFd::from(theirs.try_clone().expect("duplicate")));
    let script = "read a; echo got $a; \
                  for fd in 0 1; do readlink /proc/$$/fd/$fd | cut -c1-7; done; cat";
    let words = setting.words(&["--", "sh", "-c", script]);
    let child = Command::new(&words[0])
        .args(&words[1..])
        .stdin(stream())
        .stdout(stream())
        .stderr(Stdio::null())
        .spawn()
        .expect("start it");
    drop(theirs);
    ours.write_all(b"it\nrest").expect("write");
    ours.shutdown(std::net::Shutdown::Write).expect("shut down");
    let mut answer = String::new();
    ours.read_to_string(&mut answer).expect("read");
    assert_eq!(answer, "got it\nsocket:\nsocket:\nrest");
    watchdog::wait(child, "the caller", watchdog::LIMIT);
}

fn no_file(setting: &Setting) {
    let script = r#"echo x > in; "$@" < in > out; cat out"#;
    let inner = "readlink /proc/self/fd/0 /proc/self/fd/1 | cut -c1-5; stat -Lc %F /dev/stdin";
    by(setting, script, &["--", "sh", "-c", inner]).assert_stdout("pipe:\npipe:\nfifo\n");
    let inner = "[ /proc/self/fd/0 -ef /dev/null ] && [ /proc/self/fd/1 -ef /dev/null ]";
    let script = r#""$@" < /dev/null > /dev/null; echo $?"#;
    by(setting, script, &["--", "sh", "-c", inner]).assert_stdout("0\n");
}

fn keep(setting: &Setting) {
    setting.scratch.file("file", "one\ntwo\n");
    let words = |inner: &'static str| ["--keep-fd", "5", "--", "bash", "-c", inner];
    // A file is the view's, at the offset that it had.
    let script = r#"exec 5< file; read -u 5 a; "$@""#;
    by(
        setting,
        script,
        &words("cat <&5; echo new > file; cat file; readlink /proc/self/fd/5"),
    )
    .assert_code(0)
    .assert_stdout(&format!(
        "two\nnew\n{}\n",
        setting.scratch.path("file").display()
    ));
    let script = r#""$@" 5> >(cat >&2)"#;
    by(setting, script, &words("echo through >&5")).assert_stderr_contains("through");
    setting.scratch.file("gone", "");
    for (open, told) in [
        ("exec 5< /", "descriptor 5: a directory"),
        ("exec 5> out", "descriptor 5: a file open for writing"),
        ("exec 5<> out", "descriptor 5: a file open for writing"),
        ("exec 5>&-", "descriptor 5: Bad file descriptor"),
        (
            "exec 5< gone; rm gone",
            "descriptor 5: a file without a name",
        ),
    ] {
        by(setting, &format!(r#"{open}; "$@""#), &words("true"))
            .assert_code(125)
            .assert_stderr_contains(told);
    }
    setting
        .run(&["--keep-fd", "1", "--", "true"])
        .assert_code(125)
        .assert_stderr_contains("descriptor 1: a standard stream");
}

fn held(setting: &Setting) {
    let outcome = setting.run(&[
        "--name",
        "t",
        "--hold-streams",
        "--",
        "sh",
        "-c",
        "echo out; echo err >&2",
    ]);
    outcome.assert_code(0).assert_stdout("");
    assert!(!outcome.stderr.contains("err\n"), "{}", outcome.stderr);
    let outbox = setting.root().path().join("t/outbox");
    let kept = fs::read(outbox).expect("an outbox");
    for text in ["out\n", "err\n"] {
        let found = kept.windows(4).any(|window| window == text.as_bytes());
        assert!(found, "{text:?} is not held");
    }
}

fn full_disk(setting: &Setting) {
    // As a reader that is gone.
    by(setting, r#""$@" > /dev/full; echo $?"#, &["--", "yes"])
        .assert_stdout("141\n")
        .assert_stderr_contains("lost: standard output: No space left");
}
