//! What a person at the terminal is asked.

use std::io::{Read, Write};
use std::sync::mpsc::channel;
use std::thread;

use surmise_testkit::{Act, watchdog};

use crate::network::{Server, read_all};
use crate::setting::as_each_user;

const ANSWERS: &str = "[a]llow this host [h]old [n]o";

/// Sends a word, and waits for a reply if there is to be one.
fn client(server: &Server, waits: bool) -> String {
    let wait = if waits {
        "print(s.recv(100).decode())"
    } else {
        ""
    };
    format!(
        "import socket\n\
         try: s = socket.create_connection(('127.0.0.1', {}))\n\
         except OSError as error: raise SystemExit(str(error.errno))\n\
         s.sendall(b'word')\n{wait}\n",
        server.port
    )
}

/// S16, S21.
#[test]
fn a_person_who_says_hold_sees_it_leave_at_the_commit() {
    as_each_user(|setting| {
        let server = Server::start();
        let script = client(&server, false);
        let run = ["run", "--", "python3", "-c", &script];
        let wants = format!("wants to reach {}", server.peer());
        let outcome = setting.surmise(&run).at_terminal(&[
            (&wants, Act::Do(&|| {})),
            (ANSWERS, Act::Type("h\n")),
            ("(4 bytes): word", Act::Do(&|| server.assert_untouched())),
            ("[k]eep", Act::Type("y\n")),
        ]);
        outcome.assert_success();
        assert_eq!(read_all(&mut server.accept()), b"word");
        server.assert_untouched();
    });
}

/// S16.
#[test]
fn a_person_who_says_no_refuses_the_connection() {
    as_each_user(|setting| {
        let server = Server::start();
        let script = client(&server, false);
        let run = ["run", "--", "python3", "-c", &script];
        let outcome = setting.surmise(&run).at_terminal(&[
            (ANSWERS, Act::Type("perhaps\n")),
            (ANSWERS, Act::Type("n\n")),
        ]);
        outcome.assert_code(1).assert_stdout_contains("\n111\n");
        server.assert_untouched();
    });
}

/// S22.
#[test]
fn a_person_is_asked_when_everything_waits() {
    as_each_user(|setting| {
        let server = Server::start();
        let (script, peer) = (client(&server, true), server.peer());
        let run = ["run", "--hold-net", &peer, "--", "python3", "-c", &script];
        let asked = format!("everything waits for replies to held output, of {peer}");
        let (asks, asking) = channel();
        let answered = |answer: &str| {
            setting.surmise(&run).at_terminal(&[
                ("held 4 bytes", Act::Do(&|| {})),
                (&asked, Act::Do(&|| server.assert_untouched())),
                (ANSWERS, Act::Do(&|| _ = asks.send(()))),
                ("", Act::Type(answer)),
            ])
        };
        let outcome = answered("n\n");
        asking.recv().expect("it was asked");
        outcome.assert_code(1);
        outcome.assert_stdout_contains("ConnectionResetError");
        server.assert_untouched();
        let outcome = thread::scope(|scope| {
            let (asking, server) = (asking, &server);
            scope.spawn(move || {
                // Not before: then it is looked whether somebody has come.
                asking.recv_timeout(watchdog::LIMIT).expect("it is asked");
                let mut stream = server.accept();
                let mut word = [0; 4];
                stream.read_exact(&mut word).expect("read");
                assert_eq!(&word, b"word");
                stream.write_all(b"reply").expect("reply");
            });
            answered("a\n")
        });
        outcome.assert_success().assert_stdout_contains("reply");
    });
}
