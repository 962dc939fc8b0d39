//! What becomes of commands whose client or server goes.

use std::process::Command;

use rustix::process::Signal;
use serde_json::json;
use surmise_api::results::State;
use surmise_api::{Status, Surmise};
use surmise_testkit::{Scratch, surmise_binary, watchdog};

use crate::server::{LIMIT, Server, Speaker};

#[test]
fn s53_a_client_that_goes_ends_its_commands_and_their_domains_are_kept() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let mut speaker = Speaker::greeted(&server);
    let script = "echo x > made; echo $$; exec sleep 600";
    let command =
        json!({"command": ["sh", "-c", script], "directory": scratch.work(), "name": "t"});
    speaker.request(1, "run", command);
    speaker.event("output");
    drop(speaker);
    let mut client = server.client();
    watchdog::until("the domain has ended", LIMIT, || {
        client.status("t").expect("status").state == State::Ended
    });
    let summary = client.status("t").expect("status");
    assert_eq!(summary.exit, Some(128 + 1), "SIGHUP");
    assert_eq!(client.diff("t").expect("diff").changes.len(), 1);
    client.abort("t").expect("abort");
}

#[test]
fn a_server_that_is_killed_ends_its_commands_and_their_domains_are_kept() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let mut speaker = Speaker::greeted(&server);
    let command = json!({"command": ["sh", "-c", "echo x > made; echo; exec sleep 600"],
                         "directory": scratch.work(), "name": "t"});
    speaker.request(1, "run", command);
    speaker.event("output");
    server.end(Signal::KILL);
    // The socket stays, and the next server takes its place.
    let server = Server::start(&scratch);
    let mut client = server.client();
    watchdog::until("the domain has ended", LIMIT, || {
        client.status("t").expect("status").state == State::Ended
    });
    client.abort("t").expect("abort");
    let socket = server.socket.clone();
    assert_eq!(server.end(Signal::TERM), 0);
    assert!(
        !socket.exists(),
        "it is removed at an end that was asked for"
    );
}

#[test]
fn a_client_that_says_no_more_is_answered() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let mut speaker = Speaker::greeted(&server);
    let command = json!({"command": ["cat"], "directory": scratch.work(), "stdin": "client"});
    speaker.request(1, "run", command);
    speaker.request(2, "input", json!({"request": 1, "data": "x"}));
    speaker.finish();
    assert_eq!(speaker.event("output")["data"], "x");
    assert_eq!(
        speaker.response(1)["result"]["exit"],
        0,
        "cat found the end"
    );
    assert!(speaker.hear().is_none(), "the connection is closed");
}

#[test]
fn s53_a_hangup_that_comes_when_the_command_has_ended_does_not_keep_it_from_being_settled() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let mut speaker = Speaker::greeted(&server);
    // So many changes that it takes a while to look at them.
    let script = "mkdir d && cd d && seq 5000 | xargs touch";
    let command = json!({"command": ["sh", "-c", script], "directory": scratch.work(),
                         "name": "t", "then": "abort"});
    speaker.request(1, "run", command);
    speaker.event("started");
    let surmise = Surmise::at(scratch.state().join("surmise"));
    let domain = surmise.domain("t").expect("it runs");
    watchdog::until("the command has ended", LIMIT, || {
        !matches!(domain.status(), Status::Running { .. })
    });
    speaker.request(2, "cancel", json!({"request": 1}));
    let settled = speaker.response(1);
    assert_eq!(settled["result"]["state"], "aborted", "{settled}");
    assert!(!domain.exists());
}

#[test]
fn commands_get_signals_of_a_server_that_was_started_without_them() {
    let scratch = Scratch::new();
    // A script starts with `&` what is not to hear of Ctrl-C, and nohup what is not to hear of a terminal.
    let deaf = "import os, signal, sys\n\
                asked = {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM}\n\
                for one in asked: signal.signal(one, signal.SIG_IGN)\n\
                signal.pthread_sigmask(signal.SIG_BLOCK, asked)\n\
                os.execv(sys.argv[1], sys.argv[1:])\n";
    let mut command = Command::new("python3");
    command.args(["-c", deaf]).arg(surmise_binary());
    let server = Server::start_by(&scratch, &mut command);
    let mut speaker = Speaker::greeted(&server);
    for (id, name, exit) in [(1, "INT", 130), (2, "QUIT", 131), (3, "TERM", 143)] {
        let script = "echo; exec sleep 60";
        let command = json!({"command": ["sh", "-c", script], "directory": scratch.work()});
        speaker.request(id, "run", command);
        speaker.event("output");
        speaker.ask(9, "signal", json!({"request": id, "signal": name}));
        assert_eq!(speaker.response(id)["result"]["exit"], exit, "{name}");
    }
}
