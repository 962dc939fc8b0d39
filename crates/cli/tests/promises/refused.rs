//! S48: what the boundary refused is told once, when the command has ended.

use std::fs::Permissions;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use serde_json::{Value, json};
use surmise_testkit::Outcome;

use crate::network::Server;
use crate::setting::{Setting, as_each_user};
use crate::synchrony::{on_a_volume, stats};

/// The lines about refusals, without what all begin with.
fn told(outcome: &Outcome) -> Vec<&str> {
    let lines = outcome.stderr.lines();
    let told = lines.filter_map(|line| line.strip_prefix("surmise: refused inside: "));
    told.collect()
}

#[track_caller]
fn assert_told(outcome: &Outcome, wanted: &[&str]) {
    assert_eq!(told(outcome), wanted, "{outcome:?}");
}

/// Runs a Python program that must end by itself.
fn python(setting: &Setting, options: &[&str], program: &str) -> Outcome {
    let run = [&["run", "--dry-run"], options].concat();
    let command = ["--", "python3", "-c", program];
    setting.succeed(&[&run[..], &command].concat())
}

fn object(outcome: &Outcome) -> Value {
    let line = outcome.stderr.lines().last().expect("a line");
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {outcome:?}"))
}

/// As a test that tries something, whatever becomes of it.
const TRY: &str = "\
import ctypes, errno, os, socket
def reach(address, kind=socket.SOCK_STREAM):
    family = socket.AF_INET if isinstance(address, tuple) else socket.AF_UNIX
    client = socket.socket(family, kind)
    try: client.connect(address); print('reached')
    except OSError as error: print(errno.errorcode[error.errno])
";

/// S48: in a script without a rule there is no relay, and with one there is; both tell the same.
#[test]
fn hosts_are_told_with_the_program_the_count_and_the_option() {
    as_each_user(|setting| {
        let program =
            format!("{TRY}for _ in range(3): reach(('192.0.2.1', 80))\nreach(('192.0.2.2', 443))");
        let wanted = [
            "3 connections to 192.0.2.1:80 by python3 (allow with --allow-net 192.0.2.1:80)",
            "1 connection to 192.0.2.2:443 by python3 (allow with --allow-net 192.0.2.2:443)",
        ];
        for options in [&[][..], &["--net", "deny"], &["--allow-net", "192.0.2.9"]] {
            assert_told(&python(setting, options, &program), &wanted);
        }
        // Nobody is there to be asked.
        assert_told(&python(setting, &["--net", "ask"], &program), &wanted);
        let outcome = setting
            .surmise(&["run", "--", "curl", "-sS", "http://192.0.2.1/"])
            .outcome();
        outcome.assert_code(7);
        let wanted = "1 connection to 192.0.2.1:80 by curl (allow with --allow-net 192.0.2.1:80)";
        assert_told(&outcome, &[wanted]);
    });
}

/// S48: not the nameserver that was asked, and each name once a look-up.
#[test]
fn names_are_told_by_the_name() {
    as_each_user(|setting| {
        let program = "\
import socket
for _ in range(2):
    try: socket.getaddrinfo('some.example', 80)
    except OSError: print('unknown')
";
        let wanted = "2 look-ups of some.example by python3 (allow with --allow-net some.example)";
        for options in [&[][..], &["--allow-net", "192.0.2.9"], &["--net", "ask"]] {
            let outcome = python(setting, options, program);
            outcome.assert_stdout("unknown\nunknown\n");
            assert_told(&outcome, &[wanted]);
        }
    });
}

/// S48: a host for datagrams, whether it is chosen beforehand or with each.
#[test]
fn datagrams_are_told_by_the_host() {
    as_each_user(|setting| {
        let program = format!(
            "{TRY}reach(('192.0.2.1', 123), socket.SOCK_DGRAM)\n\
             client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
             try: client.sendto(b'x', ('192.0.2.2', 123))\n\
             except OSError as error: print(errno.errorcode[error.errno])\n"
        );
        assert_told(
            &python(setting, &[], &program),
            &[
                "1 datagram to 192.0.2.1:123 by python3 (allow with --allow-net 192.0.2.1)",
                "1 datagram to 192.0.2.2:123 by python3 (allow with --allow-net 192.0.2.2)",
            ],
        );
    });
}

/// S48: where somebody outside listens, and nobody inside did.
#[test]
fn loopback_is_told_only_where_somebody_outside_was_missed() {
    as_each_user(|setting| {
        let server = Server::start();
        let port = server.port;
        let free = {
            let free = TcpListener::bind("127.0.0.1:0").expect("listen");
            free.local_addr().expect("an address").port()
        };
        let program = format!("{TRY}reach(('127.0.0.1', {port}))\nreach(('127.0.0.1', {free}))\n");
        let peer = server.peer();
        let wanted = format!("1 connection to {peer} by python3 (allow with --allow-net {peer})");
        for options in [&[][..], &["--allow-net", "192.0.2.9"]] {
            let outcome = python(setting, options, &program);
            outcome.assert_lines(&["ECONNREFUSED", "ECONNREFUSED"]);
            assert_told(&outcome, &[&wanted]);
        }
        server.assert_untouched();
        // One that waits for its own server, which happens to have the port of one outside.
        let program = format!(
            "{TRY}import threading, time\n\
             def serve():\n\
             \x20   time.sleep(0.3)\n\
             \x20   global server; server = socket.create_server(('127.0.0.1', {port}))\n\
             threading.Thread(target=serve).start()\n\
             while True:\n\
             \x20   try: socket.create_connection(('127.0.0.1', {port})); break\n\
             \x20   except ConnectionRefusedError: time.sleep(0.05)\n"
        );
        assert_told(&python(setting, &[], &program), &[]);
    });
}

/// S48.
#[test]
fn sockets_outside_are_told_with_their_paths() {
    as_each_user(|setting| {
        let path = setting.scratch.path("agent");
        let agent = UnixListener::bind(&path).expect("listen");
        std::fs::set_permissions(&path, Permissions::from_mode(0o777)).expect("chmod");
        let path = std::fs::canonicalize(path).expect("its path");
        let program = format!(
            "{TRY}reach('agent')\nos.symlink('agent', 'link'); reach('link')\nreach('nobody')\n\
             own = socket.socket(socket.AF_UNIX); own.bind('own'); own.listen(); reach('own')\n"
        );
        let outcome = python(setting, &[], &program);
        // What the domain has made is not outside.
        outcome.assert_lines(&["ECONNREFUSED", "ECONNREFUSED", "ENOENT", "reached"]);
        let path = path.display();
        let wanted = format!(
            "1 connection to the socket {path} by python3 (allow with --allow-socket {path})"
        );
        assert_told(&outcome, &[&wanted]);
        assert_told(
            &python(
                setting,
                &["--allow-socket", "agent"],
                &format!("{TRY}reach('agent')"),
            ),
            &[],
        );
        drop(agent);
        // The name is left, and nobody is there outside either.
        assert_told(&python(setting, &[], &format!("{TRY}reach('agent')")), &[]);
    });
}

/// S48.
#[test]
fn abstract_sockets_outside_are_told() {
    as_each_user(|setting| {
        use std::os::linux::net::SocketAddrExt;

        let name = format!(
            "surmise-{}-{:?}",
            std::process::id(),
            setting.user.is_some()
        );
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).expect("a name");
        let _server = UnixListener::bind_addr(&address).expect("listen");
        let program = format!("{TRY}reach('\\0{name}')\nreach('\\0{name}-nobody')");
        let wanted = format!("1 connection to the socket @{name} by python3");
        assert_told(&python(setting, &[], &program), &[&wanted]);
    });
}

/// S48, S18: calls, with the error that they have when nobody tells.
#[test]
fn refused_calls_are_told_unless_programs_expect_them_to_be() {
    as_each_user(|setting| {
        let program = format!(
            "{TRY}libc = ctypes.CDLL(None, use_errno=True)\n\
             def call(number, *arguments):\n\
             \x20   libc.syscall(number, *arguments); print(errno.errorcode[ctypes.get_errno()])\n\
             call(165, b'none', b'/tmp', b'tmpfs', 0, 0)\n\
             call(165, b'none', b'/tmp', b'tmpfs', 0, 0)\n\
             call(298, ctypes.create_string_buffer(120), 0, -1, -1, 0)\n\
             call(16, 0, 0x5412, b'x')\n\
             call(425, 4, ctypes.create_string_buffer(120))\n\
             call(250, 0, -3, 0)\n"
        );
        let errors = ["EPERM", "EPERM", "EACCES", "EPERM", "ENOSYS", "ENOSYS"];
        for options in [&[][..], &["--quiet"]] {
            let outcome = python(setting, options, &program);
            outcome.assert_lines(&errors);
            let wanted = [
                "2 calls of mount by python3",
                "1 call of perf_event_open by python3",
                "1 call of ioctl TIOCSTI by python3",
            ];
            let wanted = if options.is_empty() { &wanted[..] } else { &[] };
            assert_told(&outcome, wanted);
        }
    });
}

/// S48.
#[test]
fn tracing_somebody_outside_is_told_and_tracing_ones_own_is_not() {
    as_each_user(|setting| {
        let outside = std::process::id().to_string();
        let script = format!("strace -o /dev/null true; strace -o /dev/null -p {outside}; true");
        let outcome = setting.succeed(&["run", "--dry-run", "--", "sh", "-c", &script]);
        assert_told(
            &outcome,
            &[&format!(
                "1 trace of the process outside {outside} by strace"
            )],
        );
    });
}

/// S48.
#[test]
fn a_listener_inside_is_refused_by_name_and_works_when_nobody_is_told() {
    as_each_user(|setting| {
        // A filter of one instruction that allows everything.
        let program = format!(
            "{TRY}libc = ctypes.CDLL(None, use_errno=True)\n\
             class Filter(ctypes.Structure):\n\
             \x20   _fields_ = [('length', ctypes.c_ushort), ('code', ctypes.c_char_p)]\n\
             libc.prctl(38, 1, 0, 0, 0)\n\
             allow = Filter(1, bytes([6, 0, 0, 0, 0, 0, 255, 127]))\n\
             descriptor = libc.syscall(317, 1, 8, ctypes.byref(allow))\n\
             print('listens' if descriptor >= 0 else errno.errorcode[ctypes.get_errno()])\n"
        );
        let outcome = python(setting, &[], &program);
        outcome.assert_stdout("EBUSY\n");
        let wanted =
            "1 call of seccomp SECCOMP_FILTER_FLAG_NEW_LISTENER by python3 (allow with --quiet)";
        assert_told(&outcome, &[wanted]);
        let outcome = python(setting, &["--quiet"], &program);
        outcome.assert_stdout("listens\n");
    });
}

/// S48: for programs, also with `--quiet`.
#[test]
fn the_object_has_what_the_lines_say() {
    as_each_user(|setting| {
        let program = format!(
            "{TRY}reach(('192.0.2.1', 80)); reach(('192.0.2.1', 80))\n\
             ctypes.CDLL(None).syscall(165, 0, 0, 0, 0, 0)\n"
        );
        let outcome = python(setting, &["--json"], &program);
        assert_eq!(told(&outcome).len(), 2);
        let wanted = json!([
            {
                "kind": "connection",
                "target": "192.0.2.1:80",
                "program": "python3",
                "count": 2,
                "allow": "--allow-net 192.0.2.1:80",
            },
            { "kind": "call", "target": "mount", "program": "python3", "count": 1, "allow": null },
        ]);
        assert_eq!(object(&outcome)["refused"], wanted);
        assert_eq!(object(&outcome)["refused_more"], 0);
        let outcome = python(setting, &["--json", "--quiet"], &program);
        assert_eq!(object(&outcome)["refused"], wanted);
        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:?}");
        let outcome = python(setting, &["--json"], "pass");
        assert_eq!(object(&outcome)["refused"], json!([]));
    });
}

/// S48: a scan does not fill the screen.
#[test]
fn many_sorts_of_refusals_are_told_in_a_bounded_number_of_lines() {
    as_each_user(|setting| {
        let program = format!("{TRY}for port in range(1, 301): reach(('192.0.2.1', port))");
        let outcome = python(setting, &["--json"], &program);
        let lines = told(&outcome);
        assert_eq!((lines.len(), lines[20]), (21, "and 280 more"));
        let object = object(&outcome);
        assert_eq!(object["refused"].as_array().expect("an array").len(), 200);
        assert_eq!(object["refused_more"], 100);
    });
}

/// S48: what goes well without what is outside has nothing to tell.
#[test]
fn where_nothing_was_refused_nothing_is_told() {
    as_each_user(|setting| {
        let script = "\
git init -q . && git -c user.name=n -c user.email=e@x commit -q --allow-empty -m m
printf 'a: b\\n\\tcp b a\\nb:\\n\\techo b > b\\n' > Makefile && make -s
python3 - <<'END'
import grp, http.server, multiprocessing, pwd, socket, subprocess, threading, urllib.request
pwd.getpwall(); grp.getgrall(); socket.getaddrinfo('localhost', 80)
server = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f'http://localhost:{server.server_port}/Makefile'
assert urllib.request.urlopen(url).status == 200
one, two = socket.socketpair(); one.sendall(b'x')
subprocess.run(['sh', '-c', 'id; hostname; df . > /dev/null; ps > /dev/null'], check=True)
with multiprocessing.Pool(2) as pool: assert pool.map(abs, [-1, -2]) == [1, 2]
END
";
        for options in [&[][..], &["--net", "hold"]] {
            let run = [&["run", "--dry-run", "--"][..], &["sh", "-ec", script]].concat();
            let run = [&run[..2], options, &run[2..]].concat();
            let outcome = setting.succeed(&run);
            assert_told(&outcome, &[]);
        }
    });
}

/// S48: the roles that hear calls for another purpose tell the same.
#[test]
fn other_modes_tell_the_same() {
    as_each_user(|setting| {
        let program = format!(
            "{TRY}reach(('192.0.2.1', 80)); ctypes.CDLL(None).syscall(165, 0, 0, 0, 0, 0)\n\
             try: socket.getaddrinfo('some.example', 80)\n\
             except OSError: pass\n"
        );
        let wanted = [
            "1 call of mount by python3",
            "1 connection to 192.0.2.1:80 by python3 (allow with --allow-net 192.0.2.1:80)",
            "1 look-up of some.example by python3 (allow with --allow-net some.example)",
        ];
        let assert_same = |outcome: &Outcome| {
            let mut told = told(outcome);
            told.sort_unstable();
            assert_eq!(told, wanted, "{outcome:?}");
        };
        let command = ["python3", "-c", &program];
        for seed in ["1:0.05", "2:0.2"] {
            assert_same(&python(setting, &["--torture", seed], &program));
        }
        let run = [
            &[
                "run",
                "--name",
                "t",
                "--",
                "sh",
                "-c",
                "touch f; exec \"$@\"",
                "sh",
            ],
            &command[..],
        ];
        assert_same(&setting.succeed(&run.concat()));
        assert_same(&setting.succeed(&[&["shell", "t", "--"], &command[..]].concat()));
        let quiet = setting.succeed(&[&["shell", "--quiet", "t", "--"], &command[..]].concat());
        assert_told(&quiet, &[]);
    });
}

/// S48: with the real files, whose sockets are reached.
#[test]
fn external_synchrony_tells_the_same() {
    let body = format!(
        "cat > ../try.py <<'END'\n{TRY}\n\
         server = socket.socket(socket.AF_UNIX); server.bind('own'); server.listen(); reach('own')\n\
         reach(('192.0.2.1', 80)); ctypes.CDLL(None).syscall(165, 0, 0, 0, 0, 0)\n\
         END\n\
         surmise sync --net deny --stats --json -- python3 ../try.py"
    );
    on_a_volume(&body, |outcome| {
        outcome.assert_lines(&["reached", "ENETUNREACH"]);
        let wanted = [
            "1 connection to 192.0.2.1:80 by python3 (allow with --allow-net 192.0.2.1:80)",
            "1 call of mount by python3",
        ];
        assert_told(outcome, &wanted);
        assert_eq!(stats(outcome)["refused"].as_array().map(Vec::len), Some(2));
    });
}

/// S48: a task that opens a FIFO of a program outside waits for nobody.
#[test]
fn fifos_outside_are_told_of_each_task_that_waits_at_one() {
    as_each_user(|setting| {
        let script = "mkfifo pipe; chmod 666 pipe";
        setting
            .plain(&["sh", "-ec", script])
            .outcome()
            .assert_success();
        let path = std::fs::canonicalize(setting.scratch.path("pipe")).expect("its path");
        let path = path.display();
        // One that was made inside, and one at which somebody inside is met, are nobody's concern.
        let script = "mkfifo own; (sleep 2; echo x > own) & cat own
            (sleep 0.2; echo x > pipe) & cat pipe; ls -l pipe > /dev/null
            timeout 6 cat pipe || echo $?";
        let outcome = setting.succeed(&["run", "--dry-run", "--", "sh", "-c", script]);
        outcome.assert_stdout("x\nx\n124\n");
        let wanted = format!("1 open of the FIFO {path} by cat (allow with --allow-socket {path})");
        assert_told(&outcome, &[&wanted]);
    });
}
