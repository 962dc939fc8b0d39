//! Freezing and thawing.

use std::fs;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::process::Signal;
use surmise_linux::freeze::{FreezeError, Frozen};
use surmise_linux::proc::Task;
use surmise_sys::process;
use surmise_testkit::watchdog::{self, LIMIT};

use crate::domain::{Domain, Place, about, pause, state};

/// Each runs as the caller and as an ordinary user.
pub const TESTS: &[fn(&Place)] = &[
    nothing_runs_while_it_is_frozen,
    waits_go_on_as_if_nothing_had_happened,
    a_stopped_job_stays_stopped,
    every_signal_arrives_once,
    a_parent_in_vfork_counts_as_stopped,
    a_task_that_is_traced_is_named,
    what_does_not_stop_is_named,
    a_killed_task_is_its_parents_to_reap,
    a_frozen_domain_can_be_killed,
    a_domain_ends_with_who_has_frozen_it,
    without_its_tracer_all_go_on,
];

/// How long a freeze of a few processes may take on a busy machine.
const LIMIT_MAX: Duration = Duration::from_secs(10);

fn freeze(domain: &Domain) -> Frozen {
    Frozen::freeze(domain.init(), LIMIT_MAX).expect("freeze")
}

fn nothing_runs_while_it_is_frozen(place: &Place) {
    let directory = place.directory("restless");
    let file = directory.join("words");
    fs::write(&file, [0; 4096]).expect("write");
    let mut domain = Domain::start(&directory, &[&text(&place.path("restless")), &text(&file)]);
    domain.read_until("ready");
    for _ in 0..25 {
        let frozen = freeze(&domain);
        assert!(frozen.len() >= 8, "{}", frozen.len());
        let before = words(&file);
        for _ in 0..10 {
            pause(1);
            assert_eq!(words(&file), before, "{}", told(&domain));
        }
        frozen.thaw().expect("thaw");
        watchdog::until("all go on", LIMIT, || {
            words(&file)
                .iter()
                .zip(&before)
                .all(|(now, then)| now != then)
        });
    }
}

/// Where each task stands.
fn told(domain: &Domain) -> String {
    let tell = |&task: &Task| {
        let status = about(task, "status");
        let of = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_default().trim().to_owned()
        };
        let (wchan, call) = (about(task, "wchan"), about(task, "syscall"));
        let (state, tracer, switches) = (of("State:"), of("TracerPid:"), of("voluntary_ctxt"));
        format!("{task:?} {state} tracer {tracer} {switches} {wchan} {call}\n")
    };
    domain.tasks().iter().map(tell).collect()
}

/// One counter for each kind of process in restless.c.
fn words(file: &Path) -> [u64; 8] {
    let bytes = fs::read(file).expect("read");
    std::array::from_fn(|word| {
        u64::from_ne_bytes(bytes[word * 8..][..8].try_into().expect("eight bytes"))
    })
}

fn waits_go_on_as_if_nothing_had_happened(place: &Place) {
    let directory = place.directory("waits");
    let mut domain = Domain::start(&directory, &[&text(&place.path("waits"))]);
    for _ in 0..4 {
        watchdog::until("all wait", LIMIT, || {
            let tasks = domain.tasks();
            // Some waits have a time of their own, and end.
            tasks.len() >= 33 && tasks.iter().all(|&task| matches!(state(task), 'S' | 'Z'))
        });
        let frozen = freeze(&domain);
        let tasks = domain.tasks();
        assert!(tasks.iter().all(|&task| matches!(state(task), 't' | 'Z')));
        pause(20);
        frozen.thaw().expect("thaw");
    }
    domain.close_input();
    let output = domain.read_to_end();
    assert_eq!(output.lines().count(), 32, "{output}");
    let wrong: Vec<&str> = output
        .lines()
        .filter(|line| !line.ends_with(" ok"))
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

fn a_stopped_job_stays_stopped(place: &Place) {
    let directory = place.directory("stopped");
    let script = "(kill -STOP $BASHPID; echo continued) & wait; echo over";
    let mut domain = Domain::start(&directory, &["bash", "-c", script]);
    let stopped = |domain: &Domain| domain.tasks().into_iter().find(|&task| state(task) == 'T');
    watchdog::until("it stops", LIMIT, || stopped(&domain).is_some());
    let task = stopped(&domain).expect("seen above");
    for _ in 0..3 {
        freeze(&domain).thaw().expect("thaw");
        watchdog::until("it is stopped again", LIMIT, || state(task) == 'T');
    }
    // Continued while it is frozen, it goes on afterwards.
    let frozen = freeze(&domain);
    rustix::process::kill_process(task.process, Signal::CONT).expect("signal");
    pause(20);
    assert_eq!(state(task), 't');
    frozen.thaw().expect("thaw");
    domain.read_until("continued");
    domain.read_until("over");
}

fn every_signal_arrives_once(place: &Place) {
    let directory = place.directory("signals");
    let mut domain = Domain::start(&directory, &[&text(&place.path("counts"))]);
    domain.read_until("ready");
    for _ in 0..100 {
        freeze(&domain).thaw().expect("thaw");
        pause(2);
    }
    domain.read_until("sent");
    domain.close_input();
    let output = domain.read_to_end();
    assert!(output.ends_with("count 2000\n"), "{output}");
}

fn a_parent_in_vfork_counts_as_stopped(place: &Place) {
    let directory = place.directory("vfork");
    let mut domain = Domain::start(&directory, &[&text(&place.path("vfork"))]);
    watchdog::until("the parent waits", LIMIT, || {
        domain.tasks().iter().any(|&task| state(task) == 'D')
    });
    for _ in 0..3 {
        let frozen = freeze(&domain);
        assert_eq!(frozen.len(), 2);
        pause(5);
        frozen.thaw().expect("thaw");
        assert!(domain.tasks().iter().all(|&task| state(task) != 't'));
    }
    domain.close_input();
    assert_eq!(domain.read_to_end(), "parent goes on\n");
}

fn a_task_that_is_traced_is_named(place: &Place) {
    let directory = place.directory("traced");
    let mut domain = Domain::start(&directory, &[&text(&place.path("traces"))]);
    domain.read_until("ready");
    match Frozen::freeze(domain.init(), LIMIT_MAX) {
        Err(FreezeError::Traced { name, .. }) => assert_eq!(name, "traced"),
        other => panic!("{other:?}"),
    }
    assert!(domain.tasks().iter().all(|&task| state(task) != 't'));
    domain.close_input();
    domain.read_until("over");
}

fn what_does_not_stop_is_named(place: &Place) {
    let directory = place.directory("busy");
    let file = directory.join("words");
    fs::write(&file, [0; 4096]).expect("write");
    let mut domain = Domain::start(&directory, &[&text(&place.path("restless")), &text(&file)]);
    domain.read_until("ready");
    match Frozen::freeze(domain.init(), Duration::ZERO) {
        Err(FreezeError::Busy { pid, name }) => assert!(pid > 1 && !name.is_empty(), "{name}"),
        other => panic!("{other:?}"),
    }
    let before = words(&file);
    watchdog::until("all go on", LIMIT, || {
        words(&file)
            .iter()
            .zip(&before)
            .all(|(now, then)| now != then)
    });
}

fn a_killed_task_is_its_parents_to_reap(place: &Place) {
    let directory = place.directory("killed");
    let script = "sleep 60 & wait $!; echo status $?";
    let mut domain = Domain::start(&directory, &["bash", "-c", script]);
    let sleeper = domain.find("sleep");
    let frozen = freeze(&domain);
    rustix::process::kill_process(sleeper.process, Signal::KILL).expect("kill");
    // The tracer lets go of it; its parent, who is stopped, has it still.
    watchdog::until("it is a zombie of nobody's", LIMIT, || {
        state(sleeper) == 'Z' && about(sleeper, "status").contains("TracerPid:\t0")
    });
    frozen.thaw().expect("thaw");
    assert_eq!(domain.read_to_end(), "status 137\n");
}

fn a_frozen_domain_can_be_killed(place: &Place) {
    let directory = place.directory("ended");
    let domain = Domain::start(&directory, &["bash", "-c", "sleep 60 & sleep 60"]);
    domain.find("sleep");
    let frozen = freeze(&domain);
    rustix::process::kill_process(domain.init(), Signal::KILL).expect("kill");
    // Its end waits for the reaping of every task of the namespace.
    watchdog::until("it has ended", LIMIT, || domain.has_ended());
    frozen.thaw().expect("the tracer was there to the end");
}

fn a_domain_ends_with_who_has_frozen_it(place: &Place) {
    let directory = place.directory("left");
    let (file, told) = (directory.join("words"), directory.join("frozen"));
    fs::write(&file, [0; 4096]).expect("write");
    let mut domain = Domain::start(&directory, &[&text(&place.path("restless")), &text(&file)]);
    domain.read_until("ready");
    let owner = process::fork(&[], || {
        let _frozen = freeze(&domain);
        fs::write(&told, "").expect("tell");
        loop {
            rustix::event::pause();
        }
    });
    let owner = owner.expect("fork");
    watchdog::until("it is frozen", LIMIT, || told.exists());
    let before = words(&file);
    owner.signal(Signal::KILL).expect("kill");
    watchdog::until("it has ended", LIMIT, || domain.has_ended());
    // No task has executed anything more.
    assert_eq!(words(&file), before);
    owner.wait().expect("wait");
}

fn without_its_tracer_all_go_on(place: &Place) {
    let directory = place.directory("tracer");
    let mut domain = Domain::start(&directory, &["bash", "-c", "read line; echo $line"]);
    let task = domain.find("bash");
    watchdog::until("it reads", LIMIT, || state(task) == 'S');
    let frozen = freeze(&domain);
    domain.write("typed\n");
    pause(20);
    assert_eq!(state(task), 't');
    let status = about(task, "status");
    let tracer = status
        .lines()
        .find_map(|line| line.strip_prefix("TracerPid:"))
        .and_then(|number| rustix::process::Pid::from_raw(number.trim().parse().ok()?))
        .expect("a tracer");
    rustix::process::kill_process(tracer, Signal::KILL).expect("kill");
    domain.read_until("typed");
    let mut polled = [PollFd::from_borrowed_fd(frozen.as_fd(), PollFlags::IN)];
    let soon = rustix::time::Timespec {
        tv_sec: 5,
        tv_nsec: 0,
    };
    assert_eq!(rustix::event::poll(&mut polled, Some(&soon)), Ok(1));
    frozen.thaw().expect_err("the tasks went on before");
}

fn text(path: &Path) -> String {
    path.to_str().expect("Unicode").to_owned()
}
