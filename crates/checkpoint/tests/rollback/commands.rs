//! A supervisor that does what the program asks of it, by a kill(2) that is addressed to nobody.

use rustix::process::Pid;
use surmise_checkpoint::{Checkpoint, Traced};
use surmise_sys::memory;
use surmise_sys::seccomp::Notification;
use surmise_syscalls::Syscall;
use surmise_testkit::watchdog::LIMIT;

use crate::steps::change;
use crate::tracee::{Script, Tracee, pending};

/// What a tracee's kill(2) is addressed to when it means its supervisor.
pub const COMMAND: u64 = 0x5bec_0000;

/// Of its second argument: what is to be done; above it is the number of the checkpoint that is meant.
const WHAT: u64 = 0xff;

/// What is to be done by the supervisor.
pub const TAKE: u64 = 1;
pub const BACK: u64 = 2;
pub const DISCARD: u64 = 3;

/// Obeys: takes a checkpoint where there is none of that number, else tells how often that was
/// restored; restores one, but only so often, and answers 0 from then on; discards one.
pub struct Commands<'a> {
    /// How often each checkpoint is restored.
    limit: u64,
    checkpoints: Vec<Numbered>,
    pub rollbacks: u64,
    pub discards: u64,
    /// Pages copied by all rollbacks.
    pub pages: u64,
    /// Done before each rollback, while no thread runs.
    meanwhile: Box<dyn FnMut(Pid) + 'a>,
    /// Done where there is no checkpoint, before one is taken and before the end, with how many were
    /// discarded, while the caller waits.
    between: Box<dyn FnMut(u64, Pid) + 'a>,
}

struct Numbered {
    number: u64,
    checkpoint: Checkpoint,
    rollbacks: u64,
}

impl<'a> Commands<'a> {
    pub fn new(limit: u64) -> Self {
        Self {
            limit,
            checkpoints: Vec::new(),
            rollbacks: 0,
            discards: 0,
            pages: 0,
            meanwhile: Box::new(|_| ()),
            between: Box::new(|_, _| ()),
        }
    }

    pub fn meanwhile(self, act: impl FnMut(Pid) + 'a) -> Self {
        Self {
            meanwhile: Box::new(act),
            ..self
        }
    }

    pub fn between(self, look: impl FnMut(u64, Pid) + 'a) -> Self {
        Self {
            between: Box::new(look),
            ..self
        }
    }

    fn obey(&mut self, tracee: &mut Tracee, call: &Notification) {
        let (what, number) = (call.arguments[1] & WHAT, call.arguments[1] / (WHAT + 1));
        let found = self.checkpoints.iter().position(|one| one.number == number);
        match (what, found) {
            (TAKE, None) => {
                let checkpoint = tracee.checkpoint(call, 0);
                self.checkpoints.push(Numbered {
                    number,
                    checkpoint,
                    rollbacks: 0,
                });
            }
            (TAKE, Some(found)) => {
                tracee.answer(call, self.checkpoints[found].rollbacks as i64);
            }
            (BACK, Some(found)) if self.checkpoints[found].rollbacks < self.limit => {
                // Newer ones are of what will not have been.
                for newer in self.checkpoints.drain(found + 1..).rev() {
                    tracee.discard(newer.checkpoint);
                }
                self.restore(tracee, call);
            }
            (BACK, Some(_)) => tracee.answer(call, 0),
            (DISCARD, Some(found)) => self.discard(tracee, call, found),
            _ => panic!("no such command: {what} of {number}"),
        }
    }

    fn restore(&mut self, tracee: &mut Tracee, call: &Notification) {
        let newest = self.checkpoints.last_mut().expect("found");
        newest.rollbacks += 1;
        self.rollbacks += 1;
        let checkpoint = &mut newest.checkpoint;
        self.pages += tracee.roll_back(Some(call), None, checkpoint, &mut self.meanwhile);
    }

    fn discard(&mut self, tracee: &mut Tracee, call: &Notification, found: usize) {
        let checkpoint = self.checkpoints.remove(found).checkpoint;
        self.discards += 1;
        if self.checkpoints.is_empty() {
            tracee.let_go(call, checkpoint);
        } else {
            tracee.discard(checkpoint);
            tracee.answer(call, 0);
        }
    }
}

impl Script for Commands<'_> {
    fn hear(&mut self, tracee: &mut Tracee, name: Syscall, call: &Notification) {
        let is_command = name == Syscall::Kill && call.arguments[0] == COMMAND;
        if self.checkpoints.is_empty() && (is_command || name == Syscall::ExitGroup) {
            (self.between)(self.discards, tracee.process.pid());
        }
        if is_command {
            return self.obey(tracee, call);
        }
        if let Some(change) = change(name, call) {
            let pid = tracee.process.pid();
            let mut newest_first = self.checkpoints.iter_mut().rev();
            // An older one is told as far as it need be.
            let _ = newest_first.all(|one| one.checkpoint.note(pid, change));
        }
        if name == Syscall::Execve {
            tracee.process.executes();
        }
        match self.checkpoints.is_empty() || !ignores(name, call) {
            true => tracee.let_pass(call),
            false => tracee.depute(call),
        }
    }

    fn ended(&mut self) {
        for one in self.checkpoints.drain(..) {
            one.checkpoint.destroy().expect("destroy");
        }
    }
}

impl Tracee {
    /// Has a deputy make the call of a thread.
    pub fn depute(&mut self, call: &Notification) {
        let (made, call) = ((i64::from(call.number), call.arguments), pending(call));
        let gate = &mut self.gate;
        let halted = self.process.halt(&[call], Vec::new(), LIMIT, gate);
        let mut halted = halted.expect("halt");
        let result = halted.depute(made, gate).expect("depute");
        let gone = halted.go_on(Some((call.thread, result)), Traced::Still, gate);
        gone.expect("let go");
    }
}

/// Whether a thread has its process ignore a signal.
fn ignores(name: Syscall, call: &Notification) -> bool {
    /// SIG_IGN.
    const IGNORE: u64 = 1;
    let mut handler = [0; 8];
    name == Syscall::RtSigaction
        && memory::read(call.thread, call.arguments[1], &mut handler).is_ok()
        && u64::from_ne_bytes(handler) == IGNORE
}
