//! S31: somebody outside sends a signal to a process whose call waits for a decision. The decision is too far away to wait for.

use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use surmise_linux::proc::{self, Entry};
use surmise_testkit::{Outcome, tell};

use super::struck::{children, init};
use super::{compile, has, told};
use crate::setting::{Setting, as_each_user};

/// Its last call waits, since nobody knows yet whom it would ask.
const WAITS: &str = "test -e /usr; kill -0 0";

#[test]
fn a_process_that_a_signal_ends_does_not_wait_for_a_decision() {
    as_each_user(|setting| {
        for signal in [Signal::TERM, Signal::HUP] {
            // Longer than any test may take.
            let outcome = signalled(setting, "1:60s", &["sh", "-c", WAITS], signal);
            outcome.assert_code(128 + signal.as_raw());
        }
    });
}

#[test]
fn a_process_takes_a_signal_before_a_decision() {
    let shell = format!("trap 'echo got; exit 5' USR1; {WAITS}");
    // Perl runs the handler only when the read has failed.
    let perl =
        "$SIG{USR1} = sub { print qq(got\\n); exit 5 }; stat '/usr'; pipe(R, W); sysread(R, $x, 1)";
    as_each_user(|setting| {
        for command in [["sh", "-c", &shell], ["perl", "-e", perl]] {
            if !has(command[0]) {
                continue;
            }
            let outcome = signalled(setting, "1:4s", &command, Signal::USR1);
            outcome.assert_code(5).assert_stdout("got\n");
            let speculation = &told(&outcome.stderr)["speculation"];
            tell(format_args!("{}: {}", command[0], speculation["objects"]));
            // Once all is decided there would be nothing to undo.
            assert_eq!(speculation["objects"]["taken signal"], 1, "{speculation}");
        }
    });
}

/// What sleeps until a signal comes, or has a handler to end it after a time, ends so whether it waits for a decision or not.
#[test]
fn a_call_ends_by_a_signal_as_it_does_plainly() {
    as_each_user(|setting| {
        compile(setting, "signalled.c", &["gcc", "-O1"]);
        for what in ["again", "masked", "flock", "setlkw", "accept", "recv"] {
            let command = ["./signalled", what];
            let wanted = setting.plain(&command).outcome();
            wanted.assert_code(0);
            let arguments = ["run", "--dry-run", "--predict-right", "1:1s", "--"];
            let got = setting.surmise(&[&arguments[..], &command].concat());
            let got = got.outcome();
            got.assert_code(0).assert_stdout(&wanted.stdout);
        }
    });
}

/// Runs a command under right guesses that are decided late, and sends it a signal when it waits in a call.
fn signalled(setting: &Setting, guesses: &str, command: &[&str], signal: Signal) -> Outcome {
    let mark = setting.scratch.root().display().to_string();
    let mark = format!("MARK={mark}");
    let arguments = [
        "run",
        "--dry-run",
        "--predict-right",
        guesses,
        "--stats",
        "--json",
    ];
    let arguments = [&arguments[..], &["--", "env", &mark], command].concat();
    thread::scope(|scope| {
        let run = scope.spawn(|| setting.surmise(&arguments).outcome());
        while !run.is_finished() {
            if let Some(process) = waiting(&mark, command[0]) {
                kill_process(process, signal).expect("send a signal");
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
        run.join().expect("an outcome")
    })
}

/// The process of a domain that executes this program, if its call has waited for a while.
fn waiting(mark: &str, program: &str) -> Option<Pid> {
    let mut command = children(init(mark)?).into_iter();
    let found = command.find(|child| proc::name(*child).is_ok_and(|name| name == program))?;
    let waits = || {
        let place = Entry::from(found).read("wchan").unwrap_or_default();
        String::from_utf8_lossy(&place).contains("seccomp")
    };
    let looks = 0..20;
    let mut waited = looks.map(|_| {
        thread::sleep(Duration::from_millis(10));
        waits()
    });
    waited.all(|waits| waits).then_some(found)
}
