//! A process lends its memory behind a checkpoint, and is rolled back to before that.

use std::path::Path;
use std::process::Command;

use rustix::process::Pid;
use surmise_checkpoint::{Checkpoint, Lent, Process, Traced};
use surmise_sys::memory;
use surmise_sys::seccomp::Notification;
use surmise_syscalls::Syscall;
use surmise_testkit::watchdog::LIMIT;

use crate::commands::{BACK, COMMAND, DISCARD, TAKE};
use crate::tracee::{Script, Tracee, pending};

/// How often it is rolled back.
const ROUNDS: i64 = 20;

#[derive(Default)]
struct Loans {
    checkpoint: Option<Checkpoint>,
    child: Option<Process>,
    rounds: i64,
    pages: u64,
}

/// The child asks for the rollback, since its parent does nothing before the child has ended.
pub fn unborn(programs: &Path) {
    let mut loans = Loans::default();
    let mut tracee = Tracee::start(&mut Command::new(programs.join("loan")), None);
    let (output, status) = tracee.run(&mut loans);
    assert_eq!(output, format!("loan ok after {ROUNDS}\n"));
    assert_eq!(status, Some(0));
    assert!(loans.pages >= 32, "{} pages", loans.pages);
}

impl Loans {
    fn lend(&mut self, tracee: &mut Tracee, call: &Notification) {
        let parent = tracee.process.pid();
        let lent = tracee.process.lend(pending(call), &mut tracee.gate);
        match lent.expect("lend") {
            Lent::Child(child) => {
                assert!(memory::is_shared(parent, child.pid()).expect("look"));
                self.child = Some(child);
            }
            other => panic!("{other:?}"),
        }
    }

    fn back(&mut self, tracee: &mut Tracee) {
        let mut child = self.child.take().expect("a child");
        assert!(child.end(LIMIT).expect("end"), "it does not end");
        let checkpoint = self.checkpoint.as_mut().expect("a checkpoint");
        self.pages += tracee.roll_back(None, None, checkpoint, &mut |_| ());
        self.rounds += 1;
    }

    fn is_child(&self, thread: Pid) -> bool {
        let child = self.child.as_ref();
        child.is_some_and(|child| child.pid() == thread)
    }
}

impl Script for Loans {
    fn hear(&mut self, tracee: &mut Tracee, name: Syscall, call: &Notification) {
        let command =
            (name == Syscall::Kill && call.arguments[0] == COMMAND).then_some(call.arguments[1]);
        match (name, command) {
            (Syscall::Vfork, _) => self.lend(tracee, call),
            (_, Some(TAKE)) if self.checkpoint.is_none() => {
                self.checkpoint = Some(tracee.checkpoint(call, 0));
            }
            (_, Some(TAKE)) => tracee.answer(call, self.rounds),
            (_, Some(BACK)) if self.rounds < ROUNDS => {
                assert!(self.is_child(call.thread));
                self.back(tracee);
            }
            (_, Some(DISCARD)) => {
                let checkpoint = self.checkpoint.take().expect("a checkpoint");
                tracee.discard(checkpoint);
                tracee.go_on(call, Traced::NoMore);
            }
            (_, Some(_)) => tracee.answer(call, 0),
            _ => tracee.let_pass(call),
        }
    }
}
