//! The filter on real programs.

use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, Output};

use surmise_sys::seccomp::{Listening, Privilege, Program, install};
use surmise_syscalls::{Disposition, Kind, Row, rows};
use surmise_testkit::{is_root, skip};

#[test]
fn a_shell_and_its_pipes_work() {
    let mut command = Command::new("bash");
    command.args([
        "-c",
        "seq 1 1000 | sort -rn | head -1; ls / >/dev/null && echo listed",
    ]);
    assert_eq!(filtered(command), "1000\nlisted\n");
}

#[test]
fn python_runs_threads_children_and_sockets() {
    let script = "
import socket, subprocess, threading
left, right = socket.socketpair()
thread = threading.Thread(target=lambda: right.sendall(b'from a thread'))
thread.start(); thread.join()
print(left.recv(100).decode())
print(subprocess.run(['echo', 'from a child'], capture_output=True, text=True).stdout, end='')
";
    assert_eq!(filtered(python(script)), "from a thread\nfrom a child\n");
}

/// With arguments that no kernel would act on, should the filter fail to stop the call.
#[test]
fn every_refused_call_answers_as_its_row_says() {
    let refused: Vec<(&Row, u16)> = rows()
        .filter_map(|row| match row.disposition(Kind::Consent) {
            Disposition::Refuse(errno) => Some((row, errno.number())),
            _ => None,
        })
        .collect();
    assert!(
        refused.len() > 50,
        "the table refuses {} calls",
        refused.len()
    );
    let numbers: Vec<String> = refused
        .iter()
        .map(|(row, _)| row.number().to_string())
        .collect();
    let script = format!(
        "{ERRNO}\nfor n in [{}]: print(errno(n, -1, -1, -1))",
        numbers.join(",")
    );
    let answers = filtered(python(&script));
    let answers: Vec<u16> = answers
        .lines()
        .map(|line| line.parse().expect("errno"))
        .collect();
    assert_eq!(answers.len(), refused.len());
    for ((row, expected), answer) in refused.into_iter().zip(answers) {
        assert_eq!(answer, expected, "{}", row.name());
    }
}

#[test]
fn refused_arguments_answer_and_their_neighbours_work() {
    let script = format!(
        "{ERRNO}
print(errno(16, 0, 0x5412, 0), errno(16, 0, 0x100005412, 0), errno(16, 0, 0x541c, 0))
print(errno(16, 0, 0x5413, 0))
print(errno(41, 40, 1, 0), errno(41, 1, 1, 0))
"
    );
    let mut command = python(&script);
    command.stdin(std::process::Stdio::null());
    const EPERM: i32 = libc::EPERM;
    const ENOTTY: i32 = libc::ENOTTY;
    const EAFNOSUPPORT: i32 = libc::EAFNOSUPPORT;
    assert_eq!(
        filtered(command),
        format!("{EPERM} {EPERM} {EPERM}\n{ENOTTY}\n{EAFNOSUPPORT} 0\n")
    );
}

/// Chromium's renderer guard and others probe for user namespaces; making one must work or fail
/// as it does outside, and mounting in it must be refused.
#[test]
fn a_nested_user_namespace_is_harmless() {
    const CLONE_NEWUSER_AND_NEWNS: u32 = 0x1002_0000;
    let script = format!("{ERRNO}\nprint(errno(272, {CLONE_NEWUSER_AND_NEWNS}))");
    let outside = run(python(&script));
    assert_eq!(filtered(python(&script)), outside);

    let script = format!("{script}\nprint(errno(165, b'none', b'/', b'tmpfs', 0, 0))");
    let inside = filtered(python(&script));
    assert_eq!(
        inside.lines().last(),
        Some(libc::EPERM.to_string().as_str())
    );
}

#[test]
fn unknown_and_x32_calls_do_not_exist() {
    let x32_getpid = 0x4000_0000_u32 | 39;
    let script = format!("{ERRNO}\nfor n in (337, 400, 470, 1000, {x32_getpid}): print(errno(n))");
    let enosys = libc::ENOSYS.to_string();
    assert!(
        filtered(python(&script))
            .lines()
            .all(|answer| answer == enosys)
    );
}

#[test]
fn the_32_bit_entry_does_not_exist_but_can_exit() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = directory.path().join("int80");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/tracees/int80.c");
    let mut compiler = Command::new("gcc");
    compiler.arg("-O1").arg("-o").arg(&program).arg(source);
    run(compiler);

    let outside = output(Command::new(&program));
    let inside = output(under_filter(Command::new(&program)));
    if outside.status.signal() == Some(libc::SIGSEGV) {
        // A kernel built or started without this entry: nothing is left to refuse.
        assert_eq!(inside.status.signal(), Some(libc::SIGSEGV));
        return;
    }
    let answer = |output: &Output| {
        String::from_utf8_lossy(&output.stdout)
            .trim()
            .parse::<i32>()
    };
    assert!(
        answer(&outside).expect("a number") > 0,
        "getpid works outside"
    );
    assert_eq!(answer(&inside), Ok(-libc::ENOSYS));
    assert_eq!(inside.status.code(), Some(7));
}

#[test]
fn the_filter_cannot_be_shed_by_exec_or_fork() {
    let script = "print(__import__('subprocess').run(['python3', '-c', '''
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall(425, 1, 0)
print(ctypes.get_errno())
'''], capture_output=True, text=True).stdout, end='')";
    assert_eq!(filtered(python(script)), format!("{}\n", libc::ENOSYS));
}

#[test]
fn an_unprivileged_thread_must_give_up_privileges() {
    let mut status = Command::new("grep");
    status.args(["-E", "^(NoNewPrivs|Seccomp):", "/proc/self/status"]);
    assert_eq!(filtered(status), "NoNewPrivs:\t1\nSeccomp:\t2\n");
}

/// Keeping privileges takes CAP_SYS_ADMIN in the thread's user namespace, as a domain has it.
#[test]
fn a_privileged_thread_may_keep_set_uid_programs_working() {
    let program = Program::new(Listening::default());
    let mut status = Command::new("grep");
    status.args(["-E", "^(NoNewPrivs|Seccomp):", "/proc/self/status"]);
    // SAFETY: the closure only makes system calls and touches memory built before the fork.
    unsafe {
        status.pre_exec(move || {
            rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWUSER)?;
            install(&program, Privilege::Keep)
        });
    }
    match status.output() {
        Err(error) if !is_root() => skip(format!("no user namespace with its rights: {error}")),
        output => {
            let text = output.expect("filtered with privileges kept").stdout;
            assert_eq!(
                String::from_utf8_lossy(&text),
                "NoNewPrivs:\t0\nSeccomp:\t2\n"
            );
        }
    }
}

/// `errno(n, …)` makes a call and gives the error number it set, 0 for success.
const ERRNO: &str = "
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def errno(number, *arguments):
    ctypes.set_errno(0)
    arguments = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    libc.syscall(ctypes.c_long(number), *arguments)
    return ctypes.get_errno()
";

fn python(script: &str) -> Command {
    let mut command = Command::new("python3");
    command.args(["-c", script]);
    command
}

/// What the command prints under the filter; it must succeed.
fn filtered(command: Command) -> String {
    run(under_filter(command))
}

fn under_filter(mut command: Command) -> Command {
    let program = Program::new(Listening::default());
    // SAFETY: installing only makes system calls and touches memory built before the fork.
    unsafe {
        command.pre_exec(move || install(&program, Privilege::NoNewPrivileges));
    }
    command
}

/// What the command prints; it must succeed.
fn run(command: Command) -> String {
    let output = output(command);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    String::from_utf8(output.stdout).expect("text")
}

fn output(mut command: Command) -> Output {
    command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"))
}
