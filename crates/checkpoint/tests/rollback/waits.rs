//! Processes that wait in the kernel.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use surmise_checkpoint::{
    CheckpointError, Process, Suspicions, Traced, is_vessel, obstacle, pass_boundaries,
};
use surmise_sys::ptrace::Stopped;
use surmise_sys::seccomp::Notification;
use surmise_syscalls::Syscall;
use surmise_testkit::watchdog::{self, LIMIT};

use crate::tracee::{Script, Tracee, children_of};

/// How often each process is stopped.
const HALTS: u32 = 20;

/// Lets everything pass.
struct Plain;

impl Script for Plain {
    fn hear(&mut self, tracee: &mut Tracee, _name: Syscall, call: &Notification) {
        tracee.let_pass(call);
    }
}

/// Each kind of wait is stopped and goes on, then is rolled back and begins again: none reports that it
/// was interrupted.
pub fn no_wait_ends(programs: &Path) {
    let place = tempfile::tempdir().expect("a directory");
    let (reader, writer) = rustix::pipe::pipe().expect("pipe");
    let mut command = Command::new(programs.join("waits"));
    let mut tracee = Tracee::start(command.current_dir(place.path()), Some(reader));
    let waiting = await_children(&mut tracee);
    let all = children_of(tracee.process.pid()).len();
    assert!(waiting.len() > 25, "{} of {all} wait", waiting.len());
    for _ in 0..HALTS {
        pass(&waiting);
        // Calls that are made again are heard.
        step_for(&mut tracee, Duration::from_millis(20));
    }
    for &pid in &waiting {
        halt_and_roll_back(&mut tracee, pid);
    }
    let output = finish(&mut tracee, writer);
    let mut failed = output.lines().filter(|line| !line.ends_with(" ok"));
    assert_eq!(failed.next(), None, "{output}");
    assert_eq!(output.lines().count(), all, "{output}");
}

/// A job that was stopped before is rolled back, and stays stopped until somebody continues it.
pub fn stopped_job(programs: &Path) {
    let place = tempfile::tempdir().expect("a directory");
    let (reader, writer) = rustix::pipe::pipe().expect("pipe");
    let mut command = Command::new(programs.join("waits"));
    let mut tracee = Tracee::start(command.current_dir(place.path()), Some(reader));
    let job = await_children(&mut tracee)[0];
    kill_process(job, Signal::STOP).expect("stop");
    let is_stopped = || read(job, "status").contains("State:\tT");
    watchdog::until("it is stopped", LIMIT, is_stopped);
    for _ in 0..HALTS {
        halt_and_roll_back(&mut tracee, job);
        pass(&[job]);
        step_for(&mut tracee, Duration::from_millis(20));
        watchdog::until("it is stopped again", LIMIT, is_stopped);
        assert!(!read(job, "status").contains("tracing stop"));
    }
    kill_process(job, Signal::CONT).expect("continue");
    let output = finish(&mut tracee, writer);
    assert!(output.lines().all(|line| line.ends_with(" ok")), "{output}");
}

/// They come past the boundaries of their calls, and begin these again.
fn pass(threads: &[Pid]) {
    let passed = pass_boundaries(threads, LIMIT, |_| Ok(false)).expect("pass");
    assert!(passed.all, "{passed:?}");
    assert!(passed.at_signal.is_empty() && passed.ended.is_empty());
    let is_traced = |thread| !read(thread, "status").contains("TracerPid:\t0");
    assert!(!threads.iter().copied().any(is_traced));
}

/// One that runs comes past a boundary whatever it does, one that waits for an answer counts as such, and a tracee's signal
/// is not lost.
pub fn boundaries(programs: &Path) {
    let mut runner = Command::new("sh");
    let runner = runner.args(["-c", "trap 'exit 7' TERM; while :; do :; done"]);
    let mut runner = runner.spawn().expect("start sh");
    let thread = Pid::from_child(&runner);
    watchdog::until("it has its handler", LIMIT, || {
        let status = read(thread, "status");
        let caught = status
            .lines()
            .find_map(|line| line.strip_prefix("SigCgt:\t"));
        caught.is_some_and(|mask| u64::from_str_radix(mask, 16).expect("a mask") & (1 << 14) != 0)
    });
    for _ in 0..HALTS {
        pass(&[thread]);
    }
    let mut process = Process::new(thread).expect("open a process");
    let (reader, writer) = rustix::pipe::pipe().expect("pipe");
    let mut command = Command::new(programs.join("vfork"));
    let mut tracee = Tracee::start(&mut command, Some(reader));
    let gate = &mut tracee.gate;
    let halted = process.halt(&[], Vec::new(), LIMIT, gate).expect("halt");
    kill_process(thread, Signal::TERM).expect("send");
    halted.go_on(None, Traced::Still, gate).expect("go on");
    let mut passed = pass_boundaries(&[thread], LIMIT, |_| Ok(false)).expect("pass");
    assert!(passed.all, "{passed:?}");
    // On a busy machine it comes past the boundary before it has looked for signals. Then it stops for this one later.
    let stopped = passed
        .at_signal
        .pop()
        .unwrap_or_else(|| stopped_soon(thread));
    let signal = stopped.signal().expect("look");
    stopped.detach_with(&signal).expect("let it take that");
    let status = runner.wait().expect("wait");
    assert_eq!(status.code(), Some(7));

    // In vfork, it would come when its child has ended.
    step_for(&mut tracee, Duration::from_millis(50));
    let parent = tracee.process.pid();
    let late = pass_boundaries(&[parent], Duration::from_millis(20), |_| Ok(false));
    assert!(!late.expect("pass").all);
    let waits = pass_boundaries(&[parent], LIMIT, |thread| Ok(thread == parent));
    assert!(waits.expect("pass").all);
    assert_eq!(finish(&mut tracee, writer), "parent goes on\n");
}

fn halt_and_roll_back(tracee: &mut Tracee, pid: Pid) {
    let mut process = Process::new(pid).expect("open a process");
    let gate = &mut tracee.gate;
    for _ in 0..HALTS {
        let halted = process.halt(&[], Vec::new(), LIMIT, gate).expect("halt");
        halted.go_on(None, Traced::Still, gate).expect("go on");
    }
    let mut halted = process.halt(&[], Vec::new(), LIMIT, gate).expect("halt");
    let before = children_of(pid);
    let mut checkpoint = halted.checkpoint(gate).expect("checkpoint");
    let mut made = children_of(pid);
    made.retain(|child| !before.contains(child));
    // A vessel is stopped soon after its birth.
    let is = |process| is_vessel(&stopped_soon(process)).expect("look");
    let made: Vec<_> = made.into_iter().map(is).collect();
    assert_eq!(made, [true]);
    assert!(!is(pid));
    halted.go_on(None, Traced::Still, gate).expect("go on");
    let halted = process.halt(&[], Vec::new(), LIMIT, gate).expect("halt");
    let restored = halted.roll_back(&mut checkpoint, Traced::Still, gate);
    restored.expect("roll back");
    let halted = process.halt(&[], Vec::new(), LIMIT, gate).expect("halt");
    halted
        .discard(checkpoint)
        .and_then(|halted| halted.go_on(None, Traced::NoMore, gate))
        .expect("let go");
}

/// A tracee, once it has stopped.
fn stopped_soon(tracee: Pid) -> Stopped {
    watchdog::until("it stops", LIMIT, || Stopped::now(tracee).is_some());
    Stopped::now(tracee).expect("it stays so")
}

/// The program's children, once all of them wait and the program itself reads.
fn await_children(tracee: &mut Tracee) -> Vec<Pid> {
    let deadline = Instant::now() + LIMIT;
    let program = tracee.process.pid();
    loop {
        step_for(tracee, Duration::from_millis(50));
        let mut children = children_of(program);
        // One has what it waits for from the beginning.
        children.retain(|&child| !has_ended(child));
        let (ready, others): (Vec<_>, Vec<_>) = children.iter().partition(|&&child| waits(child));
        if waits(program) && !children.is_empty() && others.is_empty() {
            return ready;
        }
        assert!(Instant::now() < deadline, "{others:?} do not wait");
    }
}

fn step_for(tracee: &mut Tracee, time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        assert!(tracee.step(&mut Plain), "the program has ended");
    }
}

fn has_ended(process: Pid) -> bool {
    read(process, "status").contains("State:\tZ")
}

/// Whether it sleeps, not in a call that has to be answered.
fn waits(process: Pid) -> bool {
    read(process, "status").contains("State:\tS") && !read(process, "wchan").contains("seccomp")
}

fn read(process: Pid, name: &str) -> String {
    let path = format!("/proc/{}/{name}", process.as_raw_nonzero());
    fs::read_to_string(path).expect("look at a process")
}

/// Closes the program's input. Returns its output.
fn finish(tracee: &mut Tracee, input: OwnedFd) -> String {
    drop(input);
    let (output, status) = tracee.run(&mut Plain);
    assert_eq!(status, Some(0), "{output}");
    output
}

/// The parent cannot be stopped while its child has its memory; nobody is disturbed by the try.
pub fn vfork_is_busy(programs: &Path) {
    let (reader, writer) = rustix::pipe::pipe().expect("pipe");
    let mut command = Command::new(programs.join("vfork"));
    let mut tracee = Tracee::start(&mut command, Some(reader));
    let child = loop {
        step_for(&mut tracee, Duration::from_millis(20));
        if let [child] = children_of(tracee.process.pid())[..] {
            break child;
        }
    };
    let parent = tracee.process.pid();
    let found = |process| obstacle(process, Suspicions::default()).expect("look");
    assert_eq!(found(child), Some("has its parent's memory, from vfork"));
    assert_eq!(found(parent), None, "with its supervisor");
    for _ in 0..2 {
        let halted = tracee.process.halt(
            &[],
            Vec::new(),
            Duration::from_millis(100),
            &mut tracee.gate,
        );
        let error = halted.expect_err("its child has its memory");
        assert!(matches!(error, CheckpointError::Busy { thread } if thread == parent));
        step_for(&mut tracee, Duration::from_millis(20));
    }
    assert_eq!(finish(&mut tracee, writer), "parent goes on\n");
}
