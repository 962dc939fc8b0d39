//! Rollbacks at moments that are hard: with other checkpoints, new threads, signals on their way.

use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use surmise_checkpoint::{Checkpoint, Traced};
use surmise_sys::ptrace::Stopped;
use surmise_sys::seccomp::Notification;
use surmise_syscalls::Syscall;

use surmise_testkit::skip;
use surmise_testkit::watchdog::{self, LIMIT};

use crate::commands::{BACK, COMMAND, Commands, DISCARD, TAKE};
use crate::steps::change;
use crate::tracee::{Script, Tracee, pending};

fn start(programs: &Path, name: &str, arguments: &[&str]) -> Tracee {
    let mut command = Command::new(programs.join(name));
    Tracee::start(command.args(arguments), None)
}

/// 64 MB in small pages, then in huge ones.
pub fn much_memory(programs: &Path) {
    for pages in [&[][..], &["huge"]] {
        let mut commands = Commands::new(1);
        let arguments = [&["8", "16384", "4096", "0"][..], pages].concat();
        let (output, status) = start(programs, "rounds", &arguments).run(&mut commands);
        assert_eq!((output.as_str(), status), ("rounds ok\n", Some(0)));
        assert_eq!(commands.rollbacks, 6);
        assert!(commands.pages >= 6 * 4096, "{} pages", commands.pages);
    }
}

/// Also where what the kernel tells as the name of a file is a pipe's, which nobody opens for writing.
pub fn shares(programs: &Path) {
    let mut commands = Commands::new(20);
    let (output, status) = start(programs, "shares", &[]).run(&mut commands);
    assert_eq!((output.as_str(), status), ("shares ok after 20\n", Some(0)));
    assert_eq!(commands.rollbacks, 20);
}

pub fn nested(programs: &Path) {
    let mut commands = Commands::new(5);
    let (output, status) = start(programs, "nested", &[]).run(&mut commands);
    assert_eq!(output, "nested ok after 5 and 5\n");
    assert_eq!(status, Some(0));
    assert_eq!(commands.rollbacks, 5 + 6 * 5);
}

/// A signal comes while all threads are stopped.
pub fn signal_meanwhile(programs: &Path) {
    let send = |pid| kill_process(pid, Signal::USR1).expect("send");
    let mut commands = Commands::new(20).meanwhile(send);
    let (output, status) = start(programs, "signals", &["halted"]).run(&mut commands);
    assert_eq!(
        (output.as_str(), status),
        ("signals ok after 20\n", Some(0))
    );
}

pub fn fatal_signal(programs: &Path) {
    let send = |pid| kill_process(pid, Signal::USR1).expect("send");
    let mut commands = Commands::new(20).meanwhile(send);
    let (output, status) = start(programs, "signals", &["fatal"]).run(&mut commands);
    assert_eq!((output.as_str(), status), ("", None));
    assert_eq!(commands.rollbacks, 1);
}

/// No mask keeps SIGSTOP out: it comes in the middle of what the thread does for its supervisor.
pub fn stop_meanwhile(programs: &Path) {
    let send = |pid| kill_process(pid, Signal::STOP).expect("send");
    let mut commands = Commands::new(1).meanwhile(send);
    let mut tracee = start(programs, "rounds", &["40", "16", "8", "0"]);
    let (output, status) = tracee.run(&mut commands);
    assert_eq!((output.as_str(), status), ("rounds ok\n", Some(0)));
    assert_eq!(commands.rollbacks, 30);
    assert_eq!(tracee.job_stops, 30);
}

/// Rolls back when the signal that it sends is about to be taken.
struct AtSignal {
    checkpoint: Option<Checkpoint>,
    /// Sent, too, while it does.
    meanwhile: &'static [Signal],
    /// Whether the signal was sent, and has met no rollback.
    is_sent: bool,
    rollbacks: u64,
}

pub fn signal_at_rollback(programs: &Path) {
    assert_eq!(at_signal(programs, &["taken"], &[]), 0);
}

/// The first signal waits to be taken already when those come that no mask keeps out.
pub fn signals_at_rollback(programs: &Path) {
    const STOP: Signal = Signal::STOP;
    const TRAP: Signal = Signal::TRAP;
    assert_eq!(at_signal(programs, &["taken"], &[STOP]), 20);
    assert_eq!(at_signal(programs, &["taken", "trapped"], &[TRAP]), 0);
    let both = at_signal(programs, &["taken", "trapped"], &[STOP, TRAP]);
    assert_eq!(both, 20);
}

/// Returns how often the program was stopped as a job is.
fn at_signal(programs: &Path, arguments: &[&str], meanwhile: &'static [Signal]) -> u64 {
    let mut script = AtSignal {
        checkpoint: None,
        meanwhile,
        is_sent: false,
        rollbacks: 0,
    };
    let mut tracee = start(programs, "signals", arguments);
    let (output, status) = tracee.run(&mut script);
    assert_eq!(
        (output.as_str(), status),
        ("signals ok after 20\n", Some(0))
    );
    tracee.job_stops
}

impl Script for AtSignal {
    fn hear(&mut self, tracee: &mut Tracee, name: Syscall, call: &Notification) {
        if let (Some(checkpoint), Some(change)) = (&mut self.checkpoint, change(name, call)) {
            checkpoint.note(tracee.process.pid(), change);
        }
        if name != Syscall::Kill || call.arguments[0] != COMMAND {
            return tracee.let_pass(call);
        }
        match call.arguments[1] {
            TAKE if self.checkpoint.is_none() => {
                self.checkpoint = Some(tracee.checkpoint(call, 0));
            }
            BACK if self.rollbacks < 20 => {
                let sent = kill_process(tracee.process.pid(), Signal::USR1);
                sent.expect("send");
                self.is_sent = true;
                tracee.answer(call, 0);
            }
            DISCARD => {
                let checkpoint = self.checkpoint.take().expect("it was taken");
                tracee.let_go(call, checkpoint);
            }
            _ => tracee.answer(call, self.rollbacks as i64),
        }
    }

    fn signal(&mut self, tracee: &mut Tracee, stopped: Stopped) {
        // The rollback of which the signal is taken is over.
        let is_first = stopped.signal().expect("signal").number() == Signal::USR1.as_raw();
        match &mut self.checkpoint {
            Some(checkpoint) if is_first && std::mem::take(&mut self.is_sent) => {
                self.rollbacks += 1;
                let signals = self.meanwhile;
                tracee.roll_back(None, Some(stopped), checkpoint, &mut |pid| {
                    for &signal in signals {
                        kill_process(pid, signal).expect("send");
                    }
                });
            }
            _ => tracee.take_signal(stopped),
        }
    }
}

/// Rolls back when any thread is about to take a signal that has waited since before the checkpoint.
#[derive(Default)]
struct AtEach {
    checkpoint: Option<Checkpoint>,
    rollbacks: u64,
}

/// Both threads may be about to take one.
pub fn waiting_signals(programs: &Path) {
    let mut tracee = start(programs, "order", &[]);
    let (output, status) = tracee.run(&mut AtEach::default());
    assert_eq!((output.as_str(), status), ("order ok after 20\n", Some(0)));
}

impl Script for AtEach {
    fn hear(&mut self, tracee: &mut Tracee, name: Syscall, call: &Notification) {
        if name != Syscall::Kill || call.arguments[0] != COMMAND {
            return tracee.let_pass(call);
        }
        match (call.arguments[1], self.checkpoint.take()) {
            (TAKE, None) => self.checkpoint = Some(tracee.checkpoint(call, 0)),
            (DISCARD, Some(checkpoint)) => tracee.let_go(call, checkpoint),
            (_, checkpoint) => {
                self.checkpoint = checkpoint;
                tracee.answer(call, self.rollbacks as i64);
            }
        }
    }

    fn signal(&mut self, tracee: &mut Tracee, stopped: Stopped) {
        match &mut self.checkpoint {
            Some(checkpoint) if self.rollbacks < 20 => {
                self.rollbacks += 1;
                tracee.roll_back(None, Some(stopped), checkpoint, &mut |_| ());
            }
            _ => tracee.take_signal(stopped),
        }
    }
}

/// Rolls back, and the process is killed on the way.
struct Killed {
    checkpoint: Option<Checkpoint>,
    /// How many calls of the rollback are waited for before it is killed.
    after: usize,
    /// Whether there were fewer.
    is_restored: bool,
}

/// Whichever call of the rollback it is: nobody waits for what it would do next.
pub fn kill_meanwhile(programs: &Path) {
    let restored = (0..1000).position(|after| {
        let mut script = Killed {
            checkpoint: None,
            after,
            is_restored: false,
        };
        let (output, status) = start(programs, "threads", &[]).run(&mut script);
        if !script.is_restored {
            assert_eq!((output.as_str(), status), ("", None), "killed at {after}");
        }
        script.is_restored
    });
    let calls = restored.expect("a rollback that ends");
    assert!(calls > 0, "no call is waited for");
}

impl Script for Killed {
    fn hear(&mut self, tracee: &mut Tracee, name: Syscall, call: &Notification) {
        if name != Syscall::Kill || call.arguments[0] != COMMAND || self.is_restored {
            return tracee.let_pass(call);
        }
        match &mut self.checkpoint {
            None => self.checkpoint = Some(tracee.checkpoint(call, 0)),
            Some(checkpoint) => {
                tracee.gate.kill = Some((self.after, tracee.process.pid()));
                let gate = &mut tracee.gate;
                let halted = tracee
                    .process
                    .halt(&[pending(call)], Vec::new(), LIMIT, gate);
                let restored = halted
                    .is_ok_and(|halted| halted.roll_back(checkpoint, Traced::Still, gate).is_ok());
                self.is_restored = tracee.gate.kill.take().is_some();
                assert!(restored || !self.is_restored);
                if self.is_restored {
                    // It has been seen that it would go on.
                    kill_process(tracee.process.pid(), Signal::KILL).expect("kill");
                }
            }
        }
    }

    fn ended(&mut self) {
        let checkpoint = self.checkpoint.take().expect("it was taken");
        checkpoint.destroy().expect("destroy");
    }
}

/// Rolls back when a thread was born that has not run yet.
struct AtBirth {
    checkpoint: Option<Checkpoint>,
    rollbacks: u64,
    /// Whether the birth was heard of.
    is_told: bool,
    /// Whether the new thread is sent a signal.
    is_sent: bool,
}

/// Whether the supervisor has heard of a birth or not, the thread ends.
pub fn births(programs: &Path) {
    for is_told in [true, false] {
        let mut script = AtBirth {
            checkpoint: None,
            rollbacks: 0,
            is_told,
            is_sent: false,
        };
        let (output, status) = start(programs, "births", &[]).run(&mut script);
        assert_eq!((output.as_str(), status), ("births ok after 50\n", Some(0)));
    }
}

/// What was sent to a thread that is undone meets its process.
pub fn signal_to_newborn(programs: &Path) {
    if Command::new("perl").arg("-v").output().is_err() {
        return skip("sending a signal to a thread takes perl");
    }
    let mut script = AtBirth {
        checkpoint: None,
        rollbacks: 0,
        is_told: true,
        is_sent: true,
    };
    let (output, status) = start(programs, "births", &[]).run(&mut script);
    assert_eq!((output.as_str(), status, script.rollbacks), ("", None, 1));
}

/// tgkill(2) of SIGTERM.
fn terminate(process: Pid, thread: Pid) {
    let [process, thread] = [process, thread].map(|number| number.as_raw_nonzero());
    let call = format!("exit syscall(234, {process}, {thread}, 15)");
    let status = Command::new("perl").args(["-e", &call]).status();
    assert!(status.expect("start perl").success());
}

impl AtBirth {
    fn roll_back(&mut self, tracee: &mut Tracee) {
        let Some(checkpoint) = &mut self.checkpoint else {
            return;
        };
        if self.rollbacks == 50 {
            return;
        }
        self.rollbacks += 1;
        tracee.roll_back(None, None, checkpoint, &mut |_| ());
    }
}

impl Script for AtBirth {
    fn hear(&mut self, tracee: &mut Tracee, name: Syscall, call: &Notification) {
        if matches!(name, Syscall::Clone | Syscall::Clone3) {
            tracee.let_pass(call);
            if !self.is_told {
                let told = || self.checkpoint.is_none() || Stopped::now(call.thread).is_some();
                watchdog::until("it stops to tell of the birth", LIMIT, told);
                self.roll_back(tracee);
            }
            return;
        }
        if name != Syscall::Kill || call.arguments[0] != COMMAND {
            return tracee.let_pass(call);
        }
        match (call.arguments[1], self.checkpoint.take()) {
            (TAKE, None) => self.checkpoint = Some(tracee.checkpoint(call, 0)),
            (DISCARD, Some(checkpoint)) => tracee.let_go(call, checkpoint),
            (_, checkpoint) => {
                self.checkpoint = checkpoint;
                tracee.answer(call, self.rollbacks as i64);
            }
        }
    }

    /// Its own first stop may have been heard of before; then it runs.
    fn birth(&mut self, tracee: &mut Tracee, thread: Pid) {
        if self.is_sent && self.checkpoint.is_some() {
            terminate(tracee.process.pid(), thread);
        }
        self.roll_back(tracee);
    }

    fn ended(&mut self) {
        if let Some(checkpoint) = self.checkpoint.take() {
            checkpoint.destroy().expect("destroy");
        }
    }
}
