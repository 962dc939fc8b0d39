//! A process that takes checkpoints, and a supervisor that measures what they take.

use std::process::Command;
use std::time::Duration;
use std::time::Instant;

use surmise_checkpoint::{Checkpoint, Traced};
use surmise_sys::seccomp::Notification;
use surmise_syscalls::Syscall;

use crate::tracee::{Script, Tracee, pending};

/// What a tracee's kill(2) is addressed to when it means its supervisor.
const COMMAND: u64 = 0x5bec_0000;

/// Of each item, in microseconds.
#[derive(Default)]
pub struct Samples {
    /// The stop, the copy, the going on.
    pub checkpoint: Vec<f64>,
    /// The same, when the process was traced before.
    pub traced: Vec<f64>,
    /// The copy alone.
    pub copy: Vec<f64>,
    pub discard: Vec<f64>,
    /// The stop, the restoring, the going on.
    pub rollback: Vec<f64>,
    copied: u64,
}

impl Samples {
    /// How many pages a rollback copied, on average.
    pub fn pages(&self) -> u64 {
        self.copied / (self.rollback.len() as u64).max(1)
    }
}

#[derive(Default)]
struct Measuring {
    samples: Samples,
    checkpoint: Option<Checkpoint>,
    was_restored: bool,
}

/// Runs the process to its end.
pub fn measure(command: &mut Command) -> Samples {
    let mut script = Measuring::default();
    let (output, status) = Tracee::start(command, None).run(&mut script);
    assert_eq!(status, Some(0), "{command:?}: {output}");
    script.samples
}

fn us_since(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e6
}

impl Script for Measuring {
    fn hear(&mut self, tracee: &mut Tracee, name: Syscall, call: &Notification) {
        if name != Syscall::Kill || call.arguments[0] != COMMAND {
            return tracee.let_pass(call);
        }
        match (call.arguments[1], self.checkpoint.take()) {
            (1, None) => self.take(tracee, call),
            (2, Some(checkpoint)) if !self.was_restored => {
                self.roll_back(tracee, call, checkpoint);
            }
            (3, Some(checkpoint)) => self.discard(tracee, call, checkpoint),
            (_, checkpoint) => {
                self.checkpoint = checkpoint;
                tracee.answer(call, i64::from(self.was_restored));
            }
        }
    }
}

impl Measuring {
    fn take(&mut self, tracee: &mut Tracee, call: &Notification) {
        let was_traced = tracee.process.is_traced();
        let (gate, process) = (&mut tracee.gate, &mut tracee.process);
        let start = Instant::now();
        let mut halted = process
            .halt(&[pending(call)], Vec::new(), Duration::from_secs(10), gate)
            .expect("halt");
        let start_of_copy = Instant::now();
        let checkpoint = halted.checkpoint(gate).expect("checkpoint");
        let copy = us_since(start_of_copy);
        let answered = Some((call.thread, 0));
        halted.go_on(answered, Traced::Still, gate).expect("go on");
        let whole = us_since(start);
        self.samples.copy.push(copy);
        if was_traced {
            self.samples.traced.push(whole);
        } else {
            self.samples.checkpoint.push(whole);
        }
        tracee.keep(&checkpoint);
        self.checkpoint = Some(checkpoint);
        self.was_restored = false;
    }

    fn roll_back(&mut self, tracee: &mut Tracee, call: &Notification, mut checkpoint: Checkpoint) {
        let start = Instant::now();
        let pages = tracee.roll_back(Some(call), None, &mut checkpoint, &mut |_| ());
        self.samples.rollback.push(us_since(start));
        self.samples.copied += pages;
        self.checkpoint = Some(checkpoint);
        self.was_restored = true;
    }

    /// Every second time the process stays traced.
    fn discard(&mut self, tracee: &mut Tracee, call: &Notification, checkpoint: Checkpoint) {
        let traced = match self.samples.discard.len() % 2 {
            0 => Traced::Still,
            _ => Traced::NoMore,
        };
        let start = Instant::now();
        tracee.discard(checkpoint);
        self.samples.discard.push(us_since(start));
        tracee.go_on(call, traced);
    }
}
