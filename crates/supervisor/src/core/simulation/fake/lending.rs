//! Processes that lend their memory on a fake machine.
//!
//! A child that has its parent's memory learns by it what threads of the parent were told, and they learn what the child
//! was told.

use std::io;

use rustix::process::Pid;
use surmise_sys::seccomp::Answer;

use super::Fake;
use super::op::{FAILED, LENT, Op};
use super::state::State;
use super::task::Task;
use crate::call::Call;
use crate::meeting::Meeting;
use crate::world::{Born, Lends};

/// Of a child that has its parent's memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loan {
    /// The thread that waits for the memory.
    parent: Pid,
    /// How much the child had been told when it was born.
    pub(super) since: usize,
}

/// What is in a memory, if threads were told numbers of this sum.
pub(in crate::core::simulation) fn memory(sum: i64) -> i64 {
    sum.rem_euclid(1000)
}

/// What it takes that a task lends its memory.
pub(super) fn lending(state: &State, task: Pid) -> Meeting {
    let threads = state.threads(state.tasks[task].process);
    Meeting::Lend {
        is_alone: threads.len() == 1,
    }
}

impl Lends<Pid> for Fake {
    fn lend(&mut self, _: &mut Pid, call: &Call) -> io::Result<Born<Pid>> {
        let state = &mut *self.0.borrow_mut();
        let parent = call.thread();
        if state.tasks[parent].waits_in != Some(call.notification.id) {
            return Ok(Born::Unmade);
        }
        assert!(state.tasks[parent].traced, "nobody hears of its child");
        if state.rng.u8(..8) == 0 {
            if state.rng.bool() {
                state.task(parent).waits_in = None;
                if state.rng.bool() && state.signal(parent) {
                    state.heard_signals.push(parent);
                }
            }
            return Ok(Born::Unmade);
        }
        let at = state.tasks[parent].told.len();
        assert!(state.answer(call, Answer::Continue), "it waits");
        Ok(state.trace_child(parent, at))
    }

    fn is_lent(&self, _: Pid, child: Pid) -> io::Result<bool> {
        let state = &mut *self.0.borrow_mut();
        let lags = state.rng.u8(..4) == 0;
        let task = state.task(child);
        // The parent goes on a moment before the child has another memory.
        task.gives_back = task.gives_back.filter(|_| lags);
        Ok(task.is_alive && task.loan.or(task.gives_back).is_some())
    }
}

impl State {
    /// A task bears a process that has its memory. Returns what the task is told.
    pub(super) fn lend(&mut self, parent: Pid) -> i64 {
        let at = self.tasks[parent].told.len();
        if self.bear(parent) < 0 {
            return FAILED;
        }
        let child = self.births.child(parent, at).expect("just born");
        let child = self.task(child);
        let since = child.told.len();
        child.loan = Some(Loan { parent, since });
        self.task(parent).lends = true;
        LENT
    }

    /// Whether what a task does now is certain. One that has a share in lent memory may be traced though it is.
    pub(super) fn is_certain(&self, task: Pid) -> bool {
        let Task {
            traced, process, ..
        } = self.tasks[task];
        let mut tasks = self.tasks.iter().map(|(_, task)| task);
        !traced
            || tasks.any(|one| {
                let loan = one.loan.or(one.gives_back);
                let parent = loan.map(|loan| self.tasks[loan.parent].process);
                parent.is_some_and(|parent| parent == process || one.process == process)
            })
    }

    /// Whether a process has one memory with another.
    pub(super) fn shares_memory(&self, process: Pid) -> bool {
        let mut tasks = self.tasks.iter().map(|(_, task)| task);
        tasks.any(|task| task.process == process && (task.lends || task.loan.is_some()))
    }

    /// What is in the memory that a task has of its parent, if it has that.
    pub(super) fn memory_lent_to(&self, task: Pid) -> Option<i64> {
        let loan = self.tasks[task].loan?;
        Some(self.memory(self.tasks[loan.parent].process))
    }

    /// What threads of a process, and children that have its memory, were told.
    fn memory(&self, process: Pid) -> i64 {
        let sum = |told: &[i64]| told.iter().sum::<i64>();
        let parts = self.tasks.iter().map(|(_, task)| match task.loan {
            _ if task.process == process => sum(&task.told),
            Some(loan) if self.tasks[loan.parent].process == process => {
                sum(&task.told[loan.since..])
            }
            _ => 0,
        });
        memory(parts.sum())
    }

    /// A child has another memory, or none any more. Its parent goes on.
    pub(super) fn give_back(&mut self, child: Pid) {
        let Some(loan) = self.tasks[child].loan else {
            return;
        };
        let parent = &self.tasks[loan.parent];
        if parent.is_alive && parent.lends {
            let told = self.memory(parent.process);
            self.tell(loan.parent, Op::Regain, told);
        }
        self.task(loan.parent).lends = false;
        let child = self.task(child);
        (child.loan, child.gives_back) = (None, Some(loan));
    }
}
