//! S24: programs that own the screen, as a person uses them, in a terminal of tmux.

use surmise_testkit::{Scratch, Tmux};

/// The question after a run.
const QUESTION: &str = "[k]eep";

fn read(scratch: &Scratch, name: &str) -> String {
    std::fs::read_to_string(scratch.path(name)).expect("read a file of the test")
}

#[test]
fn vim_edits_a_file_that_is_written_at_the_commit() {
    let scratch = Scratch::new();
    scratch.file("text", "old\n");
    let terminal = Tmux::start(&scratch);
    terminal.line("surmise run -- vim -u NONE -i NONE -n text");
    terminal.wait_for("\"text\"");
    terminal.keys(&["i", "new ", "Escape"]);
    terminal.wait_for("new old");
    terminal.line(":wq");
    terminal.wait_for("M text");
    terminal.wait_for(QUESTION);
    assert_eq!(read(&scratch, "text"), "old\n");
    terminal.line("y");
    terminal.wait_for("1 change committed");
    terminal.wait_for_last("$");
    assert_eq!(read(&scratch, "text"), "new old\n");
}

#[test]
fn less_turns_pages_and_takes_keys_while_its_input_is_a_pipe() {
    let scratch = Scratch::new();
    let terminal = Tmux::start(&scratch);
    for command in [
        "seq 500 | surmise run --dry-run -- less",
        "surmise run --dry-run -- sh -c 'seq 500 | less'",
    ] {
        terminal.line(command);
        terminal.wait_for("\n20\n");
        terminal.keys(&["G"]);
        terminal.wait_for("\n500\n");
        terminal.keys(&["q"]);
        terminal.wait_for_last("$");
        terminal.line("clear");
        terminal.wait_for_last("$");
    }
}

#[test]
fn python_reads_lines_edits_them_and_knows_its_terminal() {
    let scratch = Scratch::new();
    let terminal = Tmux::start(&scratch);
    terminal.line("surmise run --dry-run -- python3 -q");
    terminal.wait_for_last(">>>");
    terminal.line("import os; os.isatty(0), os.get_terminal_size()");
    terminal.wait_for("(True, os.terminal_size(columns=120, lines=24))");
    terminal.keys(&["C-c"]);
    terminal.wait_for("KeyboardInterrupt");
    terminal.line("6 * 7");
    terminal.wait_for("42");
    terminal.keys(&["C-d"]);
    terminal.wait_for_last("$");
}

#[test]
fn tmux_runs_inside() {
    let scratch = Scratch::new();
    // Else keys that come within a millisecond, as they may, are no commands.
    scratch.file("keys.conf", "set -g assume-paste-time 0\n");
    let terminal = Tmux::start(&scratch);
    terminal
        .line("surmise run --dry-run -- tmux -S sock -f keys.conf new 'echo in\"\"ner; sleep 600'");
    terminal.wait_for("inner");
    terminal.keys(&["C-b", "c"]);
    terminal.wait_for("1:");
    terminal.keys(&["C-b", ":"]);
    // tmux gives keys that come before its prompt stands to the window, or to nobody.
    terminal.wait_for_last(":");
    terminal.line("kill-server");
    terminal.wait_for_last("$");
}

#[test]
fn a_stopped_command_is_a_job_of_the_shell_and_goes_on_in_the_foreground() {
    let scratch = Scratch::new();
    let terminal = Tmux::start(&scratch);
    terminal.line("surmise run --dry-run -- sh -c 'echo rea\"\"dy; read word; echo got-$word'");
    terminal.wait_for("ready");
    terminal.keys(&["C-z"]);
    terminal.wait_for("Stopped");
    terminal.line("echo between; stty -a | grep -o ' echo '");
    terminal.wait_for(" echo");
    terminal.line("fg");
    terminal.line("it");
    terminal.wait_for("got-it");
    terminal.wait_for_last("$");
}

#[test]
fn a_stopped_job_is_not_committed_and_ends_by_an_abort() {
    let scratch = Scratch::new();
    let terminal = Tmux::start(&scratch);
    terminal.line("surmise run --name job -- sh -c 'echo rea\"\"dy; sleep 600'");
    terminal.wait_for("ready");
    terminal.keys(&["C-z"]);
    terminal.wait_for("Stopped");
    terminal.line("surmise commit job");
    terminal.wait_for("domain `job` is stopped");
    terminal.line("surmise abort job; echo sta\"\"tus $?");
    terminal.wait_for("status 0");
    terminal.wait_for("aborted from elsewhere");
}

#[test]
fn a_new_size_of_the_window_is_seen_inside() {
    let scratch = Scratch::new();
    let terminal = Tmux::start(&scratch);
    let script = "trap 'stty size' WINCH; stty size; while :; do sleep 0.05; done";
    terminal.line(&format!("surmise run --dry-run -- bash -c \"{script}\""));
    terminal.wait_for("24 120");
    terminal.resize(100, 30);
    terminal.wait_for("30 100");
    terminal.keys(&["C-c"]);
    terminal.wait_for_last("$");
}

#[test]
fn a_password_is_not_shown_and_the_terminal_is_as_before() {
    let scratch = Scratch::new();
    let terminal = Tmux::start(&scratch);
    let script = "stty -echo; printf Password:; read word; stty echo; echo; echo got-$word";
    terminal.line(&format!("surmise run --dry-run -- sh -c '{script}'"));
    terminal.wait_for_last("Password:");
    terminal.line("secret");
    terminal.wait_for("got-secret");
    let before = terminal.screen();
    assert_eq!(before.matches("secret").count(), 1, "{before}");
    terminal.line("stty -a | grep -o 'isig icanon'");
    terminal.wait_for("\nisig icanon");
}

#[test]
fn a_command_killed_in_raw_mode_leaves_the_terminal_as_it_was() {
    let scratch = Scratch::new();
    let terminal = Tmux::start(&scratch);
    terminal
        .line("surmise run --dry-run -- sh -c 'stty raw -echo; kill -9 $$'; echo sta\"\"tus $?");
    terminal.wait_for("status 137");
    terminal.wait_for_last("$");
    terminal.line("stty -a | grep -o 'isig icanon'");
    terminal.wait_for("\nisig icanon");
}

#[test]
fn a_connection_is_asked_for_on_the_terminal() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").expect("listen");
    let port = server.local_addr().expect("an address").port();
    let scratch = Scratch::new();
    let terminal = Tmux::start(&scratch);
    terminal.line(&format!(
        "surmise run --dry-run -- python3 -c \"import socket; \
         s = socket.create_connection(('127.0.0.1', {port})); print('conn' + 'ected')\""
    ));
    terminal.wait_for(&format!("wants to reach 127.0.0.1:{port}"));
    terminal.wait_for("[a]llow this host [h]old [n]o");
    terminal.line("a");
    terminal.wait_for("connected");
    server.accept().expect("the connection");
    terminal.wait_for_last("$");
}
