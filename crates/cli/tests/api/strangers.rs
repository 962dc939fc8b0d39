//! What the server does not take: other users, and what is no request.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use surmise_testkit::{Run, Scratch, is_root, skip};

use crate::server::{Server, Speaker};

#[track_caller]
fn refused(message: &Value, code: i32, id: &Value) {
    assert_eq!(message["error"]["code"], code, "{message}");
    assert_eq!(&message["id"], id, "{message}");
    assert!(message["error"]["message"].is_string(), "{message}");
}

#[test]
fn what_is_no_request_is_told_and_the_next_one_is_taken() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let mut speaker = Speaker::greeted(&server);
    for (line, code, id) in [
        ("", -32700, Value::Null),
        (
            "{\"jsonrpc\": \"2.0\", \"id\": 1, \"meth",
            -32700,
            Value::Null,
        ),
        ("\u{0}\u{1}", -32700, Value::Null),
        ("[]", -32600, Value::Null),
        (
            "{\"jsonrpc\": \"2.0\", \"method\": \"list\"}",
            -32600,
            Value::Null,
        ),
        (
            "{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"lost\"}",
            -32601,
            json!(1),
        ),
        (
            "{\"jsonrpc\": \"2.0\", \"id\": \"a\", \"method\": \"abort\", \"params\": {\"name\": \"t\", \"all\": true}}",
            -32602,
            json!("a"),
        ),
        (
            "{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"run\", \"params\": {\"command\": [\"true\"], \
             \"directory\": \"here\"}}",
            -32602,
            json!(1),
        ),
    ] {
        speaker.say(format!("{line}\n").as_bytes());
        refused(&speaker.hear().expect("an answer"), code, &id);
    }
    assert_eq!(speaker.ask(9, "list", json!({}))["result"], json!([]));
}

#[test]
fn hello_comes_first_and_once_and_names_a_version() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let mut speaker = server.speaker();
    refused(&speaker.ask(1, "list", json!({})), -32001, &json!(1));
    let newer = json!({"versions": [2, 3]});
    refused(&speaker.ask(2, "hello", newer), -32002, &json!(2));
    let both = speaker.ask(3, "hello", json!({"versions": [2, 1]}));
    assert_eq!(both["result"]["version"], 1);
    let again = speaker.ask(4, "hello", json!({"versions": [1]}));
    refused(&again, -32001, &json!(4));
}

#[test]
fn half_a_line_and_too_long_a_line_are_told_and_not_taken() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let mut speaker = Speaker::greeted(&server);
    speaker.say(b"{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"list\"}");
    speaker.finish();
    refused(&speaker.hear().expect("an answer"), -32700, &Value::Null);
    assert!(speaker.hear().is_none(), "the connection is closed");

    let mut speaker = Speaker::greeted(&server);
    speaker.say(&vec![b' '; surmise_api::protocol::LINE_MAX + 1]);
    refused(&speaker.hear().expect("an answer"), -32600, &Value::Null);
    assert!(speaker.hear().is_none(), "the connection is closed");
}

#[test]
fn too_many_requests_and_ids_in_use_are_refused() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let mut speaker = Speaker::greeted(&server);
    let command = json!({"command": ["sleep", "600"], "directory": scratch.work()});
    speaker.request(0, "run", command.clone());
    let name = speaker.event("started")["name"].clone();
    refused(&speaker.ask(0, "list", json!({})), -32600, &json!(0));
    for id in 1..32 {
        speaker.request(id, "run", command.clone());
    }
    refused(&speaker.ask(32, "list", json!({})), -32003, &json!(32));
    let mut other = Speaker::greeted(&server);
    other.ask(1, "abort", json!({"name": name}));
    speaker.response(0);
    assert!(speaker.ask(33, "list", json!({}))["result"].is_array());
}

#[test]
fn s53_another_user_is_refused_whatever_the_mode_of_the_socket() {
    if !is_root() {
        skip("to be another user takes root");
        return;
    }
    const NOBODY: u32 = 65_534;
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let mode = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("chmod");
    };
    mode(scratch.root(), 0o755);
    let found = std::fs::metadata(&server.socket)
        .expect("it is there")
        .permissions();
    assert_eq!(found.mode() & 0o777, 0o600);
    let script = format!(
        "import os, socket, sys\n\
         os.setuid({NOBODY})\n\
         s = socket.socket(socket.AF_UNIX)\n\
         s.connect(sys.argv[1])\n\
         print(s.makefile().read())\n"
    );
    let connect = || {
        let socket = server.socket.as_os_str();
        let words = ["python3".as_ref(), "-c".as_ref(), script.as_ref(), socket];
        Run::plain(&scratch, words).outcome()
    };
    connect()
        .assert_code(1)
        .assert_stderr_contains("PermissionError");
    mode(&server.socket, 0o666);
    connect()
        .assert_success()
        .assert_stdout_contains("\"code\":-32005")
        .assert_stdout_contains(&format!("user {NOBODY} may not"));
}

#[test]
fn a_socket_in_use_and_a_file_are_not_replaced() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let socket = server.socket.to_str().expect("text");
    let second = Run::surmise(&scratch, ["api", "--socket", socket]).outcome();
    second.assert_code(1).assert_stderr_contains("exists\n");
    assert!(
        server
            .client()
            .list()
            .expect("the first one serves")
            .is_empty()
    );
    scratch.file("f", "mine");
    let file = scratch.path("f");
    let over = Run::surmise(&scratch, ["api", "--socket", file.to_str().expect("text")]).outcome();
    over.assert_code(1).assert_stderr_contains("exists\n");
    assert_eq!(std::fs::read(file).expect("it stays"), b"mine");
}

#[test]
fn standard_streams_serve_one_client_until_its_last_request_is_done() {
    let scratch = Scratch::new();
    let requests = concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"hello","params":{"versions":[1]}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":2,"method":"run","params":{"command":["echo","hi"],"directory":"/"}}"#,
        "\n"
    );
    let run = Run::surmise(&scratch, ["api", "--stdio"]).stdin(requests);
    let outcome = run.seconds(60).outcome();
    outcome.assert_success().assert_no_stderr();
    let told = outcome.assert_stdout_contains(r#""stream":"stdout","data":"hi\n""#);
    told.assert_stdout_contains(r#""state":"unchanged""#);
    let neither = Run::surmise(&scratch, ["api"]).outcome();
    neither.assert_code(2);
}
