//! Real programs through the socket and the crate.

use std::fs;

use serde_json::json;
use surmise_api::protocol::{Commit, Run};
use surmise_api::results::{Fate, State};
use surmise_api::{Client, ClientError, Event, Stream, Text, Then};
use surmise_testkit::{Scratch, surmise_binary};

use crate::server::{Server, Speaker};

pub fn shell(scratch: &Scratch, script: &str) -> Run {
    Run {
        command: vec!["sh".into(), "-c".into(), script.into()],
        directory: scratch.work().into(),
        ..Run::default()
    }
}

#[track_caller]
pub fn code(error: ClientError) -> String {
    match error {
        ClientError::Failed(failed) => failed.code,
        other => panic!("{other}"),
    }
}

/// What a run put out on a stream.
pub fn put_out(events: &[Event], wanted: Stream) -> String {
    let pieces = events.iter().filter_map(|event| match event {
        Event::Output { stream, data } if *stream == wanted => Some(data.as_bytes()),
        _ => None,
    });
    let bytes: Vec<u8> = pieces.flatten().copied().collect();
    String::from_utf8(bytes).expect("text")
}

#[test]
fn a_command_is_run_looked_at_and_committed_with_typed_results() {
    let scratch = Scratch::new();
    scratch.file("old", "1\n").file("gone", "");
    let server = Server::start(&scratch);
    let mut client = server.client();
    let mut events = Vec::new();
    let run = Run {
        environment: [("GREETING".into(), Some("hi".into()))].into(),
        ..shell(
            &scratch,
            "echo $GREETING; echo 2 >> old; rm gone; chmod 4755 old; echo no >&2; exit 3",
        )
    };
    let result = client.run(run, &mut |event| {
        events.push(event.clone());
        None
    });
    let result = result.expect("run");
    assert_eq!((result.exit, result.state), (3, Fate::Kept));
    let name = result.name.as_str();
    assert_eq!(
        events[0],
        Event::Started {
            name: Some(name.into())
        }
    );
    assert_eq!(put_out(&events, Stream::Stdout), "hi\n");
    assert_eq!(put_out(&events, Stream::Stderr), "no\n");
    assert_eq!(
        fs::read_to_string(scratch.path("old")).expect("read"),
        "1\n"
    );

    let summary = client.status(name).expect("status");
    assert_eq!((summary.state, summary.exit), (State::Ended, Some(3)));
    assert_eq!(summary.arguments[0], Text::from("sh"));
    assert_eq!(client.list().expect("list"), [summary]);
    let diff = client.diff(name).expect("diff");
    let kinds: Vec<_> = diff.changes.iter().map(|change| change.kind).collect();
    assert_eq!(kinds, ['M', 'D']);
    assert!(diff.changes[0].gives_rights, "set-user-id");

    let commit = Commit {
        name: name.into(),
        ..Commit::default()
    };
    let committed = client.commit(commit.clone()).expect("commit");
    assert_eq!((committed.changes, committed.goes_on), (2, false));
    assert!(!scratch.path("gone").exists());
    let again = client.commit(commit).expect_err("it is no more");
    assert_eq!(code(again), "unknown_domain");
}

#[test]
fn a_conflict_is_told_by_its_path_and_can_be_decided() {
    let scratch = Scratch::new();
    scratch.file("f", "old\n");
    let server = Server::start(&scratch);
    let mut client = server.client();
    let run = shell(&scratch, "echo ours > f");
    let name = client.run(run, &mut |_| None).expect("run").name;
    scratch.file("f", "theirs, and longer\n");
    let commit = Commit {
        name,
        ..Commit::default()
    };
    let ClientError::Failed(failed) = client.commit(commit.clone()).expect_err("a conflict") else {
        panic!("it was done");
    };
    assert_eq!(failed.code, "conflicts");
    assert_eq!(failed.conflicts[0].path, Text::from(scratch.path("f")));
    assert_eq!(failed.conflicts[0].what, "changed");
    let forced = Commit {
        ours: vec![scratch.path("f").into()],
        ..commit
    };
    client.commit(forced).expect("commit");
    assert_eq!(
        fs::read_to_string(scratch.path("f")).expect("read"),
        "ours\n"
    );
}

#[test]
fn what_becomes_of_changes_can_be_said_before() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let mut client = server.client();
    let mut run = |script: &str, then| {
        let run = Run {
            then,
            ..shell(&scratch, script)
        };
        client.run(run, &mut |_| None).expect("run")
    };
    let committed = run("echo x > a", Then::CommitIfZero);
    assert_eq!(committed.state, Fate::Committed);
    assert_eq!(committed.commit.map(|commit| commit.changes), Some(1));
    assert!(scratch.path("a").exists());
    let failed = run("echo x > b; exit 1", Then::CommitIfZero);
    assert_eq!(failed.state, Fate::Aborted);
    let aborted = run("echo x > b", Then::Abort);
    assert_eq!((aborted.state, aborted.changes.len()), (Fate::Aborted, 1));
    assert!(!scratch.path("b").exists());
    assert_eq!(run("true", Then::Keep).state, Fate::Unchanged);
    assert!(client.list().expect("list").is_empty());
}

#[test]
fn errors_of_a_start_have_codes_and_the_status_of_a_shell() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let mut client = server.client();
    let mut fails = |run: Run| match client.run(run, &mut |_| None).expect_err("a failure") {
        ClientError::Failed(failed) => (failed.code, failed.status),
        other => panic!("{other}"),
    };
    let named = |command: &str, name: &str| Run {
        command: vec![command.into()],
        name: Some(name.into()),
        ..shell(&scratch, "")
    };
    let missing = fails(named("no-such-program", "t"));
    assert_eq!(missing, ("command_not_found".into(), 127));
    assert_eq!(fails(named("true", "../t")), ("bad_name".into(), 125));
    let real = Run {
        files: surmise_api::protocol::FilesParam::Real,
        ..named("true", "t")
    };
    assert_eq!(fails(real), ("not_possible_yet".into(), 125));
}

#[test]
fn a_command_reads_what_its_client_gives_it() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let mut speaker = Speaker::greeted(&server);
    let command = json!({"command": ["sort"], "directory": scratch.work(), "stdin": "client"});
    speaker.request(1, "run", command);
    // It may be begun before or after the command has started: it is kept for it.
    let given = speaker.ask(2, "input", json!({"request": 1, "data": "b\nü\na\n"}));
    assert_eq!(given["result"], json!({}));
    speaker.ask(
        3,
        "input",
        json!({"request": 1, "data": {"base64": "/wo="}, "end": true}),
    );
    let output = speaker.event("output");
    assert_eq!(output["data"]["base64"], "YQpiCsO8Cv8K", "{output}");
    let ended = speaker.response(1);
    assert_eq!(ended["result"]["state"], "unchanged");
    let late = speaker.ask(4, "input", json!({"request": 1, "data": "x"}));
    assert_eq!(late["error"]["code"], -32004);
}

#[test]
fn two_clients_do_not_wait_for_each_other() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let (mut one, mut other) = (Speaker::greeted(&server), Speaker::greeted(&server));
    let command = |name: &str| {
        let script = format!("echo x > {name}; cat");
        json!({"command": ["sh", "-c", script], "directory": scratch.work(), "name": name, "stdin": "client"})
    };
    one.request(1, "run", command("a"));
    other.request(1, "run", command("b"));
    one.event("started");
    other.event("started");
    // Both are seen by both, while they run; one is ended from the other.
    let listed = one.ask(2, "list", json!({}));
    assert_eq!(
        listed["result"].as_array().map(Vec::len),
        Some(2),
        "{listed}"
    );
    let aborted = one.ask(3, "abort", json!({"name": "b"}));
    assert_eq!(aborted["result"]["outcome"], "whole", "{aborted}");
    let ended = other.response(1);
    assert_eq!(ended["error"]["data"]["code"], "aborted_elsewhere");
    one.ask(4, "input", json!({"request": 1, "end": true}));
    assert_eq!(one.response(1)["result"]["state"], "kept");
}

#[test]
fn a_request_is_cancelled() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let mut speaker = Speaker::greeted(&server);
    let command = json!({"command": ["sleep", "600"], "directory": scratch.work(), "name": "t"});
    speaker.request(1, "run", command);
    speaker.event("started");
    speaker.request(2, "watch", json!({"name": "t"}));
    speaker.event("watching");
    assert_eq!(
        speaker.ask(3, "cancel", json!({"request": 2}))["result"],
        json!({})
    );
    let cancelled = speaker.response(2)["error"]["data"].clone();
    assert_eq!(cancelled["code"], "cancelled");
    let hint = "`surmise list` shows what is left";
    assert_eq!(cancelled["hint"], hint, "{cancelled}");
    let signal = json!({"request": 1, "signal": "INT"});
    assert_eq!(speaker.ask(4, "signal", signal)["result"], json!({}));
    assert_eq!(speaker.response(1)["result"]["exit"], 130);
    assert_eq!(
        speaker.ask(5, "cancel", json!({"request": 1}))["error"]["code"],
        -32004
    );
}

#[test]
fn a_running_domain_is_committed_while_it_is_watched() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let mut speaker = Speaker::greeted(&server);
    let command = json!({"command": ["sh", "-c", "echo x > made; echo; cat; rm made"],
                         "directory": scratch.work(), "name": "t", "stdin": "client"});
    speaker.request(1, "run", command);
    speaker.event("output");
    let mut client = server.client();
    let committed = client.commit(Commit {
        name: "t".into(),
        ..Commit::default()
    });
    assert!(committed.expect("commit").goes_on);
    assert!(scratch.path("made").exists());
    assert_eq!(speaker.event("committed")["changes"], 1);
    speaker.ask(2, "input", json!({"request": 1, "end": true}));
    let ended = speaker.response(1);
    assert_eq!(ended["result"]["changes"][0]["kind"], "D", "{ended}");
    client.abort("t").expect("abort");
}

#[test]
fn a_watch_that_a_running_domain_drops_is_told_as_lost() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let mut speaker = Speaker::greeted(&server);
    let command = json!({"command": ["sleep", "600"], "directory": scratch.work(), "name": "t"});
    speaker.request(0, "run", command);
    speaker.event("started");
    for id in 1..=16 {
        speaker.request(id, "watch", json!({"name": "t"}));
        speaker.event("watching");
    }
    // One too many: the first makes room. A client that has lost its watch may watch again.
    for (id, dropped) in [(17, 1), (18, 2)] {
        speaker.request(id, "watch", json!({"name": "t"}));
        let lost = speaker.response(dropped);
        assert_eq!(lost["error"]["data"]["code"], "watch_lost", "{lost}");
    }
    // The other watches last until the domain ends, and none of them is told as lost then.
    speaker.request(19, "abort", json!({"name": "t"}));
    for _ in 3..=18 {
        let ended = speaker.until(|message| (3..=18).any(|id| message["id"] == id));
        assert!(ended.get("error").is_none(), "{ended}");
    }
}

#[test]
fn a_kept_domain_is_entered() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let mut speaker = Speaker::greeted(&server);
    let mut command = |id, method: &str, script: &str| {
        let params =
            json!({"command": ["sh", "-c", script], "directory": scratch.work(), "name": "t"});
        speaker.ask(id, method, params)
    };
    command(1, "run", "echo x > made");
    let entered = command(2, "shell", "cat made; echo y > more");
    assert_eq!(entered["result"]["state"], "kept", "{entered}");
    let changes = entered["result"]["changes"].as_array().expect("changes");
    assert_eq!(changes.len(), 2);
    speaker.ask(3, "abort", json!({"name": "t"}));
}

#[test]
fn a_program_without_a_socket_starts_a_server_of_its_own() {
    let scratch = Scratch::new();
    // Its environment is that of this test: the state is where that says, so nothing is left there.
    let mut client = Client::spawn(surmise_binary()).expect("a server");
    let run = Run {
        then: Then::Abort,
        ..shell(&scratch, "echo x > made")
    };
    let result = client.run(run, &mut |_| None).expect("run");
    assert_eq!((result.state, result.changes.len()), (Fate::Aborted, 1));
    assert!(!scratch.path("made").exists());
}

#[test]
fn a_patch_comes_in_pieces() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let mut speaker = Speaker::greeted(&server);
    let script = "seq 20000 > numbers; mkfifo pipe";
    let command =
        json!({"command": ["sh", "-c", script], "directory": scratch.work(), "name": "t"});
    speaker.ask(1, "run", command);
    speaker.request(
        2,
        "diff",
        json!({"name": "t", "patch_base": scratch.work()}),
    );
    let mut patch = String::new();
    let result = loop {
        let message = speaker.hear().expect("the server has gone");
        match message["params"]["data"].as_str() {
            Some(piece) => patch.push_str(piece),
            None => break message,
        }
    };
    assert_eq!(
        patch.lines().filter(|line| line.starts_with('+')).count(),
        20_001
    );
    assert_eq!(
        result["result"]["left_out"][0]["path"],
        scratch.path("pipe").display().to_string()
    );
    speaker.ask(3, "abort", json!({"name": "t"}));
}

#[test]
fn a_client_that_does_not_read_stops_its_command_and_nobody_else() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let mut slow = Speaker::greeted(&server);
    let script = "seq 2000000; echo done > made";
    let command =
        json!({"command": ["sh", "-c", script], "directory": scratch.work(), "name": "slow"});
    slow.request(1, "run", command);
    slow.event("started");
    let mut client = server.client();
    let run = shell(&scratch, "true");
    assert_eq!(client.run(run, &mut |_| None).expect("run").exit, 0);
    assert!(
        client.diff("slow").expect("diff").changes.is_empty(),
        "it waits"
    );
    let mut bytes = 0;
    let ended = loop {
        let message = slow.hear().expect("the server has gone");
        match message["params"]["data"].as_str() {
            Some(piece) => bytes += piece.len(),
            None => break message,
        }
    };
    assert_eq!(
        ended["result"]["changes"].as_array().map(Vec::len),
        Some(1),
        "{ended}"
    );
    let wanted: usize = (1..=2_000_000)
        .map(|number: u32| number.to_string().len() + 1)
        .sum();
    assert_eq!(bytes, wanted, "nothing of the output is lost");
    client.abort("slow").expect("abort");
}
