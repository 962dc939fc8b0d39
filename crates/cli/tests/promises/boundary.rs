//! S8, S9, S10, S12, S16, S17, S18: where a domain ends.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use surmise_testkit::copied_binary;

use crate::setting::as_each_user;

/// S8.
#[test]
fn the_exit_status_is_the_commands() {
    as_each_user(|setting| {
        let exits = |command: &[&str], code| {
            let mut arguments = vec!["run", "--dry-run", "--"];
            arguments.extend(command);
            setting.surmise(&arguments).outcome().assert_code(code);
        };
        exits(&["true"], 0);
        exits(&["sh", "-c", "exit 77"], 77);
        exits(&["sh", "-c", "kill -TERM $$"], 128 + 15);
        exits(&["no-such-command-here"], 127);
        setting.scratch.file("not-executable", "#!/bin/sh\n");
        exits(&["./not-executable"], 126);
        exits(&["./missing"], 127);
    });
}

/// S9.
#[test]
fn processes_that_outlive_the_command_are_ended_and_listed() {
    as_each_user(|setting| {
        let script = "(trap '' TERM; sleep 30) & sleep 31 & sleep 0.5; echo started";
        let outcome = setting
            .surmise(&["run", "--dry-run", "--", "sh", "-c", script])
            .outcome();
        outcome
            .assert_success()
            .assert_stdout("started\n")
            .assert_stderr_contains("sleep");
    });
}

/// S9.
#[test]
fn with_wait_they_are_waited_for() {
    as_each_user(|setting| {
        let script = "(sleep 1; echo late > file) & true";
        setting.succeed(&["run", "--commit", "--wait", "--", "sh", "-c", script]);
        assert!(setting.scratch.path("file").exists());
    });
}

/// S10.
#[test]
fn a_domain_in_a_domain_is_refused() {
    as_each_user(|setting| {
        let copy = copied_binary(&setting.scratch);
        let copy = copy.to_str().expect("Unicode");
        setting
            .surmise(&["run", "--dry-run", "--", copy, "run", "--", "true"])
            .outcome()
            .assert_code(125)
            .assert_stderr_contains("Error:")
            .assert_stderr_contains("Hint:");
    });
}

/// S12.
#[test]
fn a_kept_domain_is_the_same_when_entered_again() {
    as_each_user(|setting| {
        setting.scratch.file("old", "o").file("sub/leaf", "l");
        let look = "find . -printf '%p %y %m %n %s %T@ %i\\n' | sort; cat old new moved/leaf";
        let script = format!("echo x >> old; echo n > new; mv sub moved; chmod 600 new; {look}");
        let first = setting.run_script(&script);
        let again = setting.succeed(&["shell", "t", "--", "sh", "-c", look]);
        assert_eq!(first.stdout, again.stdout);
    });
}

/// S16.
#[test]
fn without_network_there_is_only_a_loopback_interface() {
    as_each_user(|setting| {
        let script = "import socket\n\
             print(sorted(name for _, name in socket.if_nameindex()))\n\
             server = socket.create_server(('127.0.0.1', 0))\n\
             socket.create_connection(server.getsockname())\n";
        let run = ["run", "--dry-run", "--", "python3", "-c", script];
        setting.succeed(&run).assert_lines(&["['lo']"]);
    });
}

/// S25.
#[test]
fn a_socket_outside_is_reached_if_it_is_named() {
    as_each_user(|setting| {
        let path = setting.scratch.path("agent");
        let agent = UnixListener::bind(&path).expect("listen");
        // Whoever runs the command may connect.
        std::fs::set_permissions(&path, Permissions::from_mode(0o777)).expect("chmod");
        agent.set_nonblocking(true).expect("set");
        let reach = "import socket\n\
             client = socket.socket(socket.AF_UNIX)\n\
             try: client.connect('agent'); print('reached')\n\
             except ConnectionRefusedError: print('refused')\n";
        let command = ["--", "python3", "-c", reach];
        let run = ["run", "--dry-run"];
        setting
            .succeed(&[&run[..], &command].concat())
            .assert_stdout("refused\n");
        assert!(agent.accept().is_err(), "a connection arrived");
        let named = ["run", "--dry-run", "--allow-socket", "agent"];
        setting
            .succeed(&[&named[..], &command].concat())
            .assert_stdout("reached\n");
        agent.accept().expect("the connection from inside");
        let missing = ["run", "--dry-run", "--allow-socket", "nobody", "--", "true"];
        setting
            .surmise(&missing)
            .outcome()
            .assert_code(125)
            .assert_stderr_contains("nobody");
    });
}

/// S17.
#[test]
fn only_the_standard_streams_come_along() {
    as_each_user(|setting| {
        let list = "exec 7< .; exec \"$0\" run --dry-run -- sh -c 'ls /proc/$$/fd'";
        let from = "exec \"$0\" run --dry-run -- true < .";
        let surmise = copied_binary(&setting.scratch);
        let surmise = surmise.to_str().expect("Unicode");
        setting
            .plain(&["sh", "-c", list, surmise])
            .outcome()
            .assert_success()
            .assert_stdout("0\n1\n2\n");
        setting
            .plain(&["sh", "-c", from, surmise])
            .outcome()
            .assert_code(125)
            .assert_stderr_contains("directory");
    });
}

/// S18.
#[test]
fn ways_around_the_view_are_closed() {
    as_each_user(|setting| {
        let script = r"
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def fails(number, *arguments):
    if libc.syscall(number, *arguments) >= 0: return 'succeeded'
    return errno.errorcode[ctypes.get_errno()]
print('mount', fails(165, b'none', b'/tmp', b'tmpfs', 0, 0))
print('io_uring_setup', fails(425, 4, ctypes.create_string_buffer(120)))
print('bpf', fails(321, 0, ctypes.create_string_buffer(120), 72))
print('open_by_handle_at', fails(304, 0, ctypes.create_string_buffer(128), 0))
print('x32 getpid', fails(0x40000000 + 39))
for path in ['/proc/sys/kernel/hostname', '/proc/sysrq-trigger', '/sys/kernel/mm/ksm/run']:
    try: os.open(path, os.O_WRONLY); print(path, 'opened')
    except OSError: print(path, 'refused')
print(sorted(set(os.listdir('/dev')) & {'fuse', 'kmsg', 'mem', 'loop-control', 'vda', 'sda'}))
";
        setting
            .succeed(&["run", "--dry-run", "--", "python3", "-c", script])
            .assert_lines(&[
                "mount EPERM",
                "io_uring_setup ENOSYS",
                "bpf EPERM",
                "open_by_handle_at EPERM",
                "x32 getpid ENOSYS",
                "/proc/sys/kernel/hostname refused",
                "/proc/sysrq-trigger refused",
                "/sys/kernel/mm/ksm/run refused",
                "[]",
            ]);
    });
}
