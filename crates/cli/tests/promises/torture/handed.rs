//! S31: what a process inside has open and hands to a program outside, nobody there finds anything undecided in.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use surmise_testkit::tell;

use super::{has, seeds};
use crate::setting::{Setting, as_each_user};

/// The program outside. It ends with the test.
struct Agent(Child);

impl Agent {
    /// Listens in the setting's directory.
    fn start(setting: &Setting) -> Self {
        setting.scratch.file("agent.py", include_str!("agent.py"));
        let mut command = Command::new("python3");
        let directory = setting.scratch.work();
        command.arg("agent.py").current_dir(directory);
        let mut agent = Self(command.stdin(Stdio::null()).spawn().expect("start python3"));
        while !setting.scratch.path("agent").exists() {
            let ended = agent.0.try_wait().expect("look after the agent");
            assert!(ended.is_none(), "the agent has ended: {ended:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
        agent
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Both fail only if it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs one of the ways of the program plainly and with guesses. What it prints the agent has read.
fn handed(way: &str) {
    as_each_user(|setting| {
        if !has("python3") {
            return;
        }
        let program = include_str!("handed.py");
        setting.scratch.file("handed.py", program);
        let _agent = Agent::start(setting);
        let command = ["python3", "handed.py", way];
        let wanted = setting.plain(&command).outcome();
        wanted.assert_success();
        let torture = |seed: usize| ["--torture".to_owned(), format!("{seed}:0.1")];
        let mut guesses: Vec<_> = (1..=seeds().max(3)).map(torture).collect();
        guesses.push(["--predict-right".to_owned(), "0.3:60ms:0.3".to_owned()]);
        for [option, value] in &guesses {
            let mut arguments = vec!["run", "--dry-run", "--allow-socket", "agent"];
            arguments.extend([option, value, "--"].map(|word: &str| word));
            arguments.extend(command);
            let got = setting.surmise(&arguments).outcome();
            assert_eq!(
                (got.code, &got.stdout),
                (wanted.code, &wanted.stdout),
                "{way} with {option} {value}: {got:?}"
            );
        }
        tell(format_args!("{way}: {} runs", guesses.len()));
    });
}

#[test]
fn a_pipe_that_is_handed_out_has_nothing_undecided() {
    handed("hand_pipe");
}

#[test]
fn nor_has_a_fifo() {
    handed("hand_fifo");
}

#[test]
fn nor_has_what_a_child_hands_on() {
    handed("hand_by_child");
}

#[test]
fn nor_has_a_socket_of_a_connection_inside() {
    handed("hand_socket");
}

#[test]
fn nor_has_a_pipe_that_was_made_outside() {
    handed("be_handed");
}
