//! A program under a supervisor: the smallest one there is.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use surmise_checkpoint::{Checkpoint, Gate, PendingCall, Process, Traced};
use surmise_sys::process::{self, Child};
use surmise_sys::ptrace::{self, News, Stop, Stopped};
use surmise_sys::seccomp::{Listener, Notification, Privilege, Program, install_with_listener};
use surmise_syscalls::{Syscall, row_numbered};
use surmise_testkit::watchdog::LIMIT;

use crate::listening::Listening;

/// What a supervisor does beside letting calls pass.
pub trait Script {
    /// A call, which waits for its answer.
    fn hear(&mut self, tracee: &mut Tracee, name: Syscall, call: &Notification);

    /// A thread is about to take a signal.
    fn signal(&mut self, tracee: &mut Tracee, stopped: Stopped) {
        tracee.take_signal(stopped);
    }

    /// A thread has made another one.
    fn birth(&mut self, _tracee: &mut Tracee, _thread: Pid) {}

    /// The program has ended.
    fn ended(&mut self) {}
}

/// A program and its listener.
pub struct Tracee {
    pub gate: Listening,
    pub process: Process,
    /// Of its exit, once it has called that.
    pub status: Option<i32>,
    /// How often it was stopped as a job is.
    pub job_stops: u64,
    output: Option<OwnedFd>,
    vessels: HashSet<Pid>,
}

impl Tracee {
    /// Starts a program, which has no input unless it is given some.
    pub fn start(command: &mut Command, input: Option<OwnedFd>) -> Self {
        let input =
            input.unwrap_or_else(|| File::open("/dev/null").expect("open /dev/null").into());
        let (output, writer) = rustix::pipe::pipe().expect("pipe");
        let filter = Program::new(surmise_sys::seccomp::Listening::PREDICTIONS);
        // The number that the listener will have: the lowest that is free.
        let (told, tell) = rustix::pipe::pipe().expect("pipe");
        let keep = [input.as_fd(), writer.as_fd(), tell.as_fd()];
        let child = process::fork(&keep, || {
            rustix::stdio::dup2_stdin(&input).expect("dup2");
            rustix::stdio::dup2_stdout(&writer).expect("dup2");
            install(&tell, &filter);
            let error = command.exec();
            panic!("{command:?}: {error}");
        })
        .expect("fork");
        drop((input, writer, tell));
        let mut number = [0];
        File::from(told)
            .read_exact(&mut number)
            .expect("hear the number");
        Self {
            gate: Listening::new(await_listener(&child, number[0].into())),
            process: Process::new(child.pid()).expect("open the process"),
            status: None,
            job_stops: 0,
            output: Some(output),
            vessels: HashSet::new(),
        }
    }

    /// Supervises it to its end. Returns what it wrote, and its status if it has exited.
    pub fn run(&mut self, script: &mut dyn Script) -> (String, Option<i32>) {
        let deadline = Instant::now() + 12 * LIMIT;
        while self.step(script) {
            assert!(Instant::now() < deadline, "the program does not end");
        }
        script.ended();
        let pipe = self.output.take().expect("it runs once");
        let mut output = String::new();
        File::from(pipe).read_to_string(&mut output).expect("read");
        (output, self.status)
    }

    /// False once it has ended.
    pub fn step(&mut self, script: &mut dyn Script) -> bool {
        while let Some(news) = ptrace::poll_any().expect("wait") {
            match news {
                News::Ended(thread) if thread == self.process.pid() => return false,
                News::Ended(thread) => self.process.ended(thread),
                News::Stopped(stopped, Stop::Birth(thread)) => {
                    self.process.born(thread);
                    stopped.go_on().expect("go on");
                    script.birth(self, thread);
                }
                News::Stopped(stopped, Stop::Signal(_)) => script.signal(self, stopped),
                // A vessel stays so for all its life.
                News::Stopped(stopped, _) if self.vessels.contains(&stopped.thread()) => {}
                News::Stopped(stopped, Stop::Group(_)) => {
                    self.job_stops += 1;
                    stopped.stay_stopped().expect("stay stopped");
                    let continued = kill_process(self.process.pid(), Signal::CONT);
                    continued.expect("continue the job");
                }
                News::Stopped(stopped, _) => stopped.go_on().expect("go on"),
            }
        }
        if let Some(call) = self.gate.next() {
            let row = row_numbered(call.number).expect("a call of the table");
            let name = row.name();
            if name == Syscall::ExitGroup && call.thread == self.process.pid() {
                self.status = Some(call.arguments[0] as i32);
            }
            script.hear(self, name, &call);
        }
        true
    }

    pub fn take_signal(&mut self, stopped: Stopped) {
        let signal = stopped.signal().expect("signal");
        stopped.go_on_with(&signal).expect("go on");
    }

    pub fn let_pass(&mut self, call: &Notification) {
        self.gate.let_pass(pending(call)).expect("answer");
    }

    pub fn answer(&mut self, call: &Notification, result: i64) {
        let answered = self.gate.answer(pending(call), result).expect("answer");
        assert!(answered, "the call has gone");
    }

    /// Remembers the vessel of a checkpoint: it is not to go on.
    pub fn keep(&mut self, checkpoint: &Checkpoint) {
        self.vessels.insert(checkpoint.vessel());
    }

    /// Returns how many pages were copied. `meanwhile` is done while no thread runs.
    pub fn roll_back(
        &mut self,
        call: Option<&Notification>,
        at_signal: Option<Stopped>,
        checkpoint: &mut Checkpoint,
        meanwhile: &mut dyn FnMut(Pid),
    ) -> u64 {
        let (call, gate) = (call.map(pending), &mut self.gate);
        let halted = self.process.halt(
            call.as_slice(),
            at_signal.into_iter().collect(),
            LIMIT,
            gate,
        );
        let halted = halted.expect("halt");
        meanwhile(halted.pid());
        let restored = halted.roll_back(checkpoint, Traced::Still, gate);
        restored.expect("roll back").pages
    }

    /// Stops the process and lets it go on; the call returns 0.
    pub fn go_on(&mut self, call: &Notification, traced: Traced) {
        let (call, gate) = (pending(call), &mut self.gate);
        let halted = self
            .process
            .halt(&[call], Vec::new(), LIMIT, gate)
            .expect("halt");
        let gone = halted.go_on(Some((call.thread, 0)), traced, gate);
        gone.expect("let go");
    }

    /// Discards a checkpoint that others are older than.
    pub fn discard(&mut self, checkpoint: Checkpoint) {
        self.vessels.remove(&checkpoint.vessel());
        checkpoint.discard(&mut self.process).expect("discard");
    }
}

/// A test that fails leaves no program behind.
impl Drop for Tracee {
    fn drop(&mut self) {
        if self.output.is_none() {
            return;
        }
        let mut known = vec![self.process.pid()];
        let mut next = 0;
        while let Some(&process) = known.get(next) {
            known.extend(children_of(process));
            next += 1;
        }
        for process in known {
            // One that has ended needs no end.
            let _ = kill_process(process, Signal::KILL);
        }
    }
}

pub fn children_of(process: Pid) -> Vec<Pid> {
    let number = process.as_raw_nonzero();
    let children = std::fs::read_to_string(format!("/proc/{number}/task/{number}/children"));
    let children = children.unwrap_or_default();
    let numbers = children.split_ascii_whitespace();
    let pid = |number: &str| Pid::from_raw(number.parse().ok()?);
    numbers
        .map(|number| pid(number).expect("a number"))
        .collect()
}

pub fn pending(call: &Notification) -> PendingCall {
    PendingCall {
        thread: call.thread,
        id: call.id,
    }
}

fn install(tell: &OwnedFd, filter: &Program) {
    let free = rustix::io::dup(tell).expect("dup");
    let number = std::os::fd::AsRawFd::as_raw_fd(&free);
    drop(free);
    let number = u8::try_from(number).expect("a low number");
    rustix::io::write(tell, &[number]).expect("tell");
    let installed = install_with_listener(filter, Privilege::NoNewPrivileges);
    assert_eq!(installed.expect("install"), RawFd::from(number));
}

fn await_listener(child: &Child, number: RawFd) -> Listener {
    let deadline = Instant::now() + LIMIT;
    loop {
        match Listener::of(child.as_fd(), number) {
            Ok(Some(listener)) => return listener,
            Ok(None) => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
            Err(error) => panic!("take the listener: {error}"),
        }
        assert!(Instant::now() < deadline, "no listener");
        std::thread::yield_now();
    }
}

/// Compiles one of the C programs in tests/tracees.
pub fn compile(name: &str, place: &Path) -> PathBuf {
    let program = place.join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/tracees")
        .join(name)
        .with_extension("c");
    let status = Command::new("gcc")
        .args(["-O1", "-Wall", "-Wno-unused-result", "-pthread", "-o"])
        .arg(&program)
        .arg(source)
        .status()
        .expect("start gcc");
    assert!(status.success(), "gcc {name}: {status}");
    program
}
