//! Tasks that are small state machines: all that one does next follows from what it was told.

use std::ops::{Index, IndexMut};
use std::time::Instant;

use rustix::process::Pid;

use super::lending::Loan;
use super::op::Op;
use super::plan::Plan;
use super::sides::Side;
use super::signals::Sent;

/// A thread.
#[derive(Debug)]
pub(in crate::core::simulation) struct Task {
    pub(in crate::core::simulation) process: Pid,
    pub(super) seed: u64,
    /// By which it does what it does, if that is not by its seed.
    pub(super) plan: Option<Plan>,
    /// All that it was told so far, which is all that it is.
    pub(super) told: Vec<i64>,
    /// The number of the call that it waits in.
    pub(super) waits_in: Option<u64>,
    /// It has stopped to take a signal, and does nothing until that is delivered.
    pub(super) at_signal: bool,
    /// Which one that is, if it is one that is counted.
    pub(super) signal: Option<Sent>,
    /// Since when it has waited, if it does.
    pub(super) since: Instant,
    /// What was put into its memory for a read that has not returned yet.
    pub(super) filled: Option<u8>,
    pub(in crate::core::simulation) is_alive: bool,
    pub(super) stands: bool,
    pub(super) traced: bool,
    /// It stands still at its exit.
    pub(super) at_exit: bool,
    /// The sides of the pipe inside that it has closed, and how much it had been told before.
    pub(super) closed: Vec<(usize, Side)>,
    /// It has its parent's memory.
    pub(super) loan: Option<Loan>,
    /// A child has its memory, for which it waits.
    pub(super) lends: bool,
    /// It has given the memory back a moment ago.
    pub(super) gives_back: Option<Loan>,
    /// A look at the program that it is about to execute has found that a rollback could undo the execution.
    pub(super) can_come_back: bool,
    /// Its call was let go and has not happened yet.
    pub(super) flies: bool,
}

impl Task {
    /// A thread of a process that was told so much, at this time.
    pub(super) fn new(process: Pid, seed: u64, told: Vec<i64>, now: Instant) -> Self {
        Self {
            process,
            seed,
            plan: None,
            told,
            waits_in: None,
            at_signal: false,
            signal: None,
            since: now,
            filled: None,
            is_alive: true,
            stands: false,
            traced: false,
            at_exit: false,
            closed: Vec::new(),
            loan: None,
            lends: false,
            gives_back: None,
            can_come_back: false,
            flies: false,
        }
    }

    pub(super) fn op(&self) -> Op {
        match (self.plan, self.loan) {
            (Some(plan), _) => plan.after(&self.told),
            (None, Some(loan)) => Op::with_loan(self.seed, &self.told, loan.since),
            (None, None) => Op::after(self.seed, &self.told),
        }
    }

    /// Whether it is about to make a call, or could be stopped by a signal.
    pub(super) fn runs(&self) -> bool {
        let is_busy = self.waits_in.is_some() || self.at_signal || self.at_exit;
        self.is_alive && !is_busy && !self.lends && !self.flies
    }
}

/// All tasks, by their numbers.
#[derive(Debug)]
pub(in crate::core::simulation) struct Tasks(Vec<(Pid, Task)>);

impl FromIterator<(Pid, Task)> for Tasks {
    fn from_iter<I: IntoIterator<Item = (Pid, Task)>>(tasks: I) -> Self {
        Self(tasks.into_iter().collect())
    }
}

impl Tasks {
    pub(in crate::core::simulation) fn iter(&self) -> impl Iterator<Item = (Pid, &Task)> {
        self.0.iter().map(|(pid, task)| (*pid, task))
    }

    pub(super) fn add(&mut self, pid: Pid, task: Task) {
        self.0.push((pid, task));
    }
}

impl Index<Pid> for Tasks {
    type Output = Task;

    fn index(&self, pid: Pid) -> &Task {
        let found = self.0.iter().find(|(one, _)| *one == pid);
        &found.expect("a task").1
    }
}

impl IndexMut<Pid> for Tasks {
    fn index_mut(&mut self, pid: Pid) -> &mut Task {
        let found = self.0.iter_mut().find(|(one, _)| *one == pid);
        &mut found.expect("a task").1
    }
}
