//! What real processes wait for.

use surmise_linux::freeze::Frozen;
use surmise_linux::proc::{Link, Task};
use surmise_linux::waiting::{Activity, Waiting, activity, sockets, state};
use surmise_testkit::watchdog::{self, LIMIT};

use crate::domain::{self, Domain, Place, about, pause};

/// Each runs as the caller and as an ordinary user.
pub const TESTS: &[fn(&Place)] = &[
    every_wait_is_told,
    waits_are_told_after_a_freeze,
    a_terminal_is_told_from_a_file,
    a_process_in_vfork_waits_for_its_child,
    who_executes_is_told_from_who_waits,
];

/// What each process of waits.c waits for, by a word for its kind.
const WAITS: [(&str, &str); 30] = [
    ("nanosleep", "time"),
    ("clock_nanosleep", "time"),
    ("poll", "many"),
    ("poll_nothing", "time"),
    ("ppoll", "many"),
    ("select", "many, no socket"),
    ("epoll_wait", "many"),
    ("epoll_pwait", "many"),
    ("read_pipe", "pipe"),
    ("write_pipe", "pipe"),
    ("read_event", "anon_inode:[eventfd]"),
    ("read_timer", "time"),
    ("read_signal", "signal"),
    ("read_watch", "anon_inode:inotify"),
    ("recv", "socket"),
    ("recv_limited", "socket"),
    ("accept_limited", "socket"),
    ("futex", "futex"),
    ("futex_limited", "futex"),
    ("wait4", "child"),
    ("sigtimedwait", "time"),
    ("pause", "signal"),
    ("sigsuspend", "signal"),
    ("semop", "ipc"),
    ("semtimedop", "ipc"),
    ("msgrcv", "ipc"),
    ("flock", "lock"),
    ("setlkw", "lock"),
    ("open_fifo", "open"),
    ("io_getevents", "call"),
];

fn every_wait_is_told(place: &Place) {
    let directory = place.directory("told");
    let domain = Domain::start(
        &directory,
        &[place.path("waits").to_str().expect("Unicode")],
    );
    assert_waits(&domain);
}

fn waits_are_told_after_a_freeze(place: &Place) {
    let directory = place.directory("told-again");
    let domain = Domain::start(
        &directory,
        &[place.path("waits").to_str().expect("Unicode")],
    );
    assert_waits(&domain);
    let frozen = Frozen::freeze(domain.init(), LIMIT).expect("freeze");
    let all_stopped = |task: &Task| {
        let seen = state(*task).expect("look");
        matches!(seen, Waiting::Stopped | Waiting::Ended)
    };
    assert!(domain.tasks().iter().all(all_stopped));
    frozen.thaw().expect("thaw");
    assert_waits(&domain);
}

/// The kinds of all waits that have not ended by themselves.
#[track_caller]
fn assert_waits(domain: &Domain) {
    for (name, kind) in WAITS {
        let task = domain.find(name);
        let mut seen = Waiting::Running;
        // It may be on its way to its call.
        watchdog::until(&format!("{name} waits"), LIMIT, || {
            seen = state(task).expect("look");
            seen != Waiting::Running
        });
        if seen == Waiting::Ended {
            assert_eq!(domain::state(task), 'Z');
            continue;
        }
        assert_eq!(kind_of(task, &seen), kind, "{name}: {seen:?}");
    }
}

fn kind_of(task: Task, waiting: &Waiting) -> String {
    let held = sockets(task.process).expect("look");
    // The pair and the listener of waits.c.
    assert_eq!(held.len(), 3);
    match waiting {
        Waiting::Time => "time",
        Waiting::Many(sockets) if *sockets == held => "many",
        // Their numbers are above those that it looks at.
        Waiting::Many(sockets) if sockets.is_empty() => "many, no socket",
        Waiting::Descriptor(Link::Socket(inode)) if held.contains(inode) => "socket",
        Waiting::Descriptor(Link::Pipe(_)) => "pipe",
        Waiting::Descriptor(Link::Other(link)) => link,
        Waiting::Child => "child",
        Waiting::Futex => "futex",
        Waiting::Lock => "lock",
        Waiting::Ipc => "ipc",
        Waiting::Signal => "signal",
        Waiting::Open => "open",
        Waiting::Call(_) => "call",
        _ => "another",
    }
    .to_owned()
}

fn a_terminal_is_told_from_a_file(place: &Place) {
    let directory = place.directory("terminal");
    let script = "import os, pty, select, socket
master, terminal = pty.openpty()
if os.fork() == 0: os.execvp('cat', ['cat', os.ttyname(terminal)])
if os.fork() == 0:
    # As a prompt does that has a connection, too.
    os.dup2(terminal, 0)
    other = socket.socketpair()
    open('/proc/self/comm', 'w').write('prompt')
    select.select([0], [], [])
os.wait()
";
    let domain = Domain::start(&directory, &["python3", "-c", script]);
    for name in ["cat", "prompt"] {
        let reader = domain.find(name);
        watchdog::until("it reads", LIMIT, || {
            state(reader).expect("look") == Waiting::Terminal
        });
    }
}

fn a_process_in_vfork_waits_for_its_child(place: &Place) {
    let directory = place.directory("told-vfork");
    let domain = Domain::start(
        &directory,
        &[place.path("vfork").to_str().expect("Unicode")],
    );
    watchdog::until("one waits for the other", LIMIT, || {
        let tasks = domain.tasks();
        let seen: Vec<_> = tasks.iter().map(|&task| state(task).ok()).collect();
        let reads = |seen| matches!(seen, &Some(Waiting::Descriptor(Link::Pipe(_))));
        seen.len() == 2 && seen[0] == Some(Waiting::Child) && reads(&seen[1])
    });
}

fn who_executes_is_told_from_who_waits(place: &Place) {
    let directory = place.directory("activity");
    let mut domain = Domain::start(&directory, &["bash", "-c", "read; while :; do :; done"]);
    let task = domain.find("bash");
    let reads = || matches!(state(task), Ok(Waiting::Descriptor(Link::Pipe(_))));
    watchdog::until("it reads", LIMIT, reads);
    let before = activity(task).expect("look");
    pause(20);
    assert_eq!(activity(task).expect("look"), before);
    domain.write("\n");
    watchdog::until("it executes", LIMIT, || {
        state(task).expect("look") == Waiting::Running
    });
    let Activity { time, turns } = before;
    watchdog::until("its time goes on", LIMIT, || {
        let now = activity(task).expect("look");
        now.time > time && now.turns > turns
    });
    assert!(about(task, "comm").contains("bash"));
}
