//! What a client decides while a command runs.

use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::json;
use surmise_api::protocol::{BoundaryParams, Net, Run};
use surmise_api::results::State;
use surmise_api::{Answer, Event, Stream, Text};
use surmise_testkit::Scratch;

use crate::clients::{code, put_out, shell};
use crate::server::{Server, Speaker};

/// A server outside that answers one line with another.
fn echo_server() -> (u16, std::thread::JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let port = listener.local_addr().expect("an address").port();
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut byte = [0];
        let mut heard = Vec::new();
        while byte != *b"\n" && stream.read(&mut byte).expect("read") > 0 {
            heard.extend(byte);
        }
        stream.write_all(b"yes\n").expect("write");
        heard
    });
    (port, serving)
}

fn gate_or_skip() -> bool {
    let has_gate = surmise_api::can_gate();
    if !has_gate {
        surmise_testkit::skip("no TUN device can be used here");
    }
    has_gate
}

fn dialogue(scratch: &Scratch, port: u16) -> Run {
    let script =
        format!("exec 3<>/dev/tcp/127.0.0.1/{port}; echo hi >&3; read -r line <&3; echo $line");
    Run {
        command: vec!["bash".into(), "-c".into(), script.as_str().into()],
        ..shell(scratch, "")
    }
}

#[test]
fn held_output_that_everything_waits_for_is_decided_by_its_client() {
    if !gate_or_skip() {
        return;
    }
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let mut client = server.client();
    let (port, serving) = echo_server();
    let run = Run {
        asks: true,
        boundary: Some(BoundaryParams {
            hold_net: vec![format!("127.0.0.1:{port}")],
            ..BoundaryParams::default()
        }),
        ..dialogue(&scratch, port)
    };
    let mut events = Vec::new();
    let result = client.run(run, &mut |event| {
        events.push(event.clone());
        matches!(event, Event::Stalled { .. }).then_some(Answer::Allow)
    });
    assert_eq!(result.expect("run").exit, 0, "{events:?}");
    assert_eq!(put_out(&events, Stream::Stdout), "yes\n", "{events:?}");
    let is_waiting = |event: &Event| matches!(event, Event::Waiting { bytes: 3, .. });
    assert!(events.iter().any(is_waiting), "{events:?}");
    assert_eq!(serving.join().expect("no panic"), b"hi\n");
}

#[test]
fn a_host_that_no_rule_names_is_asked_for() {
    if !gate_or_skip() {
        return;
    }
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let mut client = server.client();
    let mut events = Vec::new();
    let run = Run {
        asks: true,
        boundary: Some(BoundaryParams {
            net: Net::Ask,
            ..BoundaryParams::default()
        }),
        ..Run {
            command: ["bash", "-c", "exec 3<>/dev/tcp/192.0.2.1/80"]
                .map(Text::from)
                .to_vec(),
            ..shell(&scratch, "")
        }
    };
    let result = client.run(run, &mut |event| {
        events.push(event.clone());
        matches!(event, Event::Reach { .. }).then_some(Answer::Refuse)
    });
    assert_ne!(result.expect("run").exit, 0);
    let asked =
        |event: &Event| matches!(event, Event::Reach { peer, .. } if peer == "192.0.2.1:80");
    assert!(events.iter().any(asked), "{events:?}");
}

#[test]
fn a_domain_that_stalled_alone_is_watched_and_decided_from_elsewhere() {
    if !gate_or_skip() {
        return;
    }
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let (port, serving) = echo_server();
    let mut client = server.client();
    let run = Run {
        name: Some("t".into()),
        boundary: Some(BoundaryParams {
            hold_net: vec![format!("127.0.0.1:{port}")],
            ..BoundaryParams::default()
        }),
        ..dialogue(&scratch, port)
    };
    let stalled = client.run(run, &mut |_| None).expect_err("nobody answers");
    assert_eq!(code(stalled), "stalled");
    assert_eq!(client.status("t").expect("status").state, State::Running);

    let mut watcher = Speaker::greeted(&server);
    watcher.request(1, "watch", json!({"name": "t"}));
    watcher.event("watching");
    let mut other = Speaker::greeted(&server);
    let decided = other.ask(1, "decide", json!({"name": "t", "answer": "allow"}));
    assert_eq!(decided["result"]["name"], "t", "{decided}");
    assert_eq!(serving.join().expect("no panic"), b"hi\n");
    let ended = watcher.response(1);
    assert_eq!(ended["result"]["exit"], 0, "{ended}");
    let late = other.ask(2, "decide", json!({"name": "t", "answer": "allow"}));
    assert_eq!(late["error"]["data"]["code"], "not_running", "{late}");
    client.abort("t").expect("abort");
}
