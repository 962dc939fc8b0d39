//! Questions to the person while a command runs, in a terminal of tmux.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use surmise_testkit::{Scratch, Tmux};

/// How every question ends.
const ANSWERS: &str = "[a]llow this host [h]old [n]o";

/// Opens a connection to each port that it is given: all at once, or one after the reply of the other.
const CLIENT: &str = "\
import socket, sys, threading
def talk(port):
    with socket.create_connection(('127.0.0.1', port)) as client:
        client.sendall(b'hello')
        print('reply', client.recv(100).decode(), flush=True)
threads = [threading.Thread(target=talk, args=(int(port),)) for port in sys.argv[2:]]
for thread in threads:
    thread.start()
    if sys.argv[1] == 'one-by-one': thread.join()
for thread in threads: thread.join()
print('all', 'done')
";

/// Outside: answers one client with `reply`. Returns its port.
fn server(reply: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let port = listener.local_addr().expect("an address").port();
    // Of a test that fails, it waits for its client until the end of the tests.
    thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("accept");
        client.read_exact(&mut [0; 5]).expect("hello");
        client.write_all(reply.as_bytes()).expect("reply");
    });
    port
}

/// Starts the client with two servers outside; `how` is its first argument.
fn start(terminal: &Tmux, scratch: &Scratch, net: &str, how: &str) -> [u16; 2] {
    std::fs::write(scratch.path("client.py"), CLIENT).expect("write");
    let ports = [server("one"), server("two")];
    let [first, second] = ports;
    terminal.line(&format!(
        "surmise run --dry-run --net {net} {} -- python3 client.py {how} {first} {second}",
        match net {
            "hold" => format!("--hold-net 127.0.0.1:{first} --hold-net 127.0.0.1:{second}"),
            _ => String::new(),
        }
    ));
    ports
}

#[test]
fn two_questions_at_once_are_asked_one_after_the_other() {
    let scratch = Scratch::new();
    let terminal = Tmux::start(&scratch);
    let ports = start(&terminal, &scratch, "ask", "at-once");
    terminal.wait_for(ANSWERS);
    let screen = terminal.screen();
    let is_first = screen.contains(&format!("wants to reach 127.0.0.1:{}", ports[0]));
    terminal.line("a");
    let second = ports[usize::from(is_first)];
    terminal.wait_for(&format!("wants to reach 127.0.0.1:{second}"));
    terminal.line("a");
    terminal.wait_for("all done");
    terminal.wait_for_last("$");
}

#[test]
fn whoever_waits_again_is_asked_about_again() {
    let scratch = Scratch::new();
    let terminal = Tmux::start(&scratch);
    let [first, second] = start(&terminal, &scratch, "hold", "one-by-one");
    terminal.wait_for(&format!("of 127.0.0.1:{first}: {ANSWERS}"));
    terminal.line("a");
    terminal.wait_for(&format!("of 127.0.0.1:{second}: {ANSWERS}"));
    terminal.line("a");
    terminal.wait_for("all done");
    terminal.wait_for_last("$");
}

#[test]
fn a_question_waits_while_the_command_is_a_stopped_job() {
    let scratch = Scratch::new();
    let terminal = Tmux::start(&scratch);
    start(&terminal, &scratch, "hold", "one-by-one");
    terminal.wait_for(ANSWERS);
    terminal.keys(&["C-z"]);
    terminal.wait_for("Stopped");
    terminal.line("echo bet\"\"ween");
    terminal.wait_for("between");
    terminal.line("fg");
    terminal.line("a");
    terminal.wait_for("reply one");
    terminal.keys(&["C-c"]);
    terminal.wait_for_last("$");
}

#[test]
fn a_question_comes_again_when_its_job_goes_on() {
    let scratch = Scratch::new();
    let terminal = Tmux::start(&scratch);
    let question = "[k]eep, then Enter:";
    terminal.line("surmise run --name t -- touch made");
    terminal.wait_for(question);
    terminal.keys(&["C-z"]);
    terminal.wait_for("Stopped");
    terminal.line("clear");
    terminal.wait_for_last("$");
    terminal.line("fg");
    terminal.wait_for(question);
    terminal.line("y");
    terminal.wait_for("1 change committed");
    terminal.wait_for_last("$");
    assert!(scratch.path("made").exists());
}

#[test]
fn a_question_while_the_command_runs_comes_again_when_its_job_goes_on() {
    let scratch = Scratch::new();
    let terminal = Tmux::start(&scratch);
    start(&terminal, &scratch, "hold", "one-by-one");
    terminal.wait_for(ANSWERS);
    terminal.keys(&["C-z"]);
    terminal.wait_for("Stopped");
    terminal.line("clear");
    terminal.wait_for_last("$");
    terminal.line("fg");
    terminal.wait_for("then Enter:");
    terminal.line("a");
    terminal.wait_for("reply one");
    terminal.keys(&["C-c"]);
    terminal.wait_for_last("$");
}
