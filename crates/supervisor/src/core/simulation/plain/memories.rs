//! What is in memory.

use std::collections::{BTreeMap, BTreeSet};

use rustix::process::Pid;

use super::super::fake::{FAILED, Op, Step, memory};
use super::number;

/// What is in memory: all that threads of its process were told, and children that have it.
#[derive(Default)]
pub(super) struct Memories {
    sums: BTreeMap<i32, i64>,
    loans: BTreeMap<i32, Loan>,
    killed: BTreeSet<i32>,
}

struct Loan {
    parent: Pid,
    sum: i64,
    is_over: bool,
}

impl Memories {
    pub(super) fn tell(&mut self, &Step { task, told, .. }: &Step) {
        // Of what no task does nobody is told.
        if task == Pid::INIT {
            return;
        }
        *self.sums.entry(number(task)).or_default() += told;
        if let Some(loan) = self.loans.get_mut(&number(task)) {
            loan.sum += told;
        }
    }

    /// Nobody takes the memory back of a process that was killed.
    pub(super) fn leave_killed(&mut self, step: &Step, process: impl Fn(Pid) -> Pid) {
        let child = match step.op {
            Op::Kill(killed) => {
                self.killed.insert(number(killed));
                killed
            }
            Op::Exit(_) => step.task,
            Op::Execute if step.told != FAILED => step.task,
            _ => return,
        };
        let killed = &self.killed;
        let is_left = |loan: &Loan| killed.contains(&number(process(loan.parent)));
        self.loans
            .retain(|of, loan| *of != number(child) || !is_left(loan));
    }

    pub(super) fn bear(&mut self, parent: Pid, child: Pid, is_lent: bool) {
        let sum = self.sums.get(&number(parent)).copied().unwrap_or(0);
        self.sums.insert(number(child), sum);
        if is_lent {
            let loan = Loan {
                parent,
                sum: 0,
                is_over: false,
            };
            self.loans.insert(number(child), loan);
        }
    }

    pub(super) fn has_loan(&self, child: Pid) -> bool {
        let loan = self.loans.get(&number(child));
        loan.is_some_and(|loan| !loan.is_over)
    }

    /// A child executes a program: it has its parent's memory until then.
    pub(super) fn execute(&mut self, child: Pid, process: impl Fn(Pid) -> Pid) -> i64 {
        let loan = self.loans.get_mut(&number(child)).expect("a loan");
        loan.is_over = true;
        let parent = process(loan.parent);
        self.of(parent, process)
    }

    pub(super) fn regain(&mut self, parent: Pid, process: impl Fn(Pid) -> Pid) -> i64 {
        let told = self.of(process(parent), process);
        self.loans.retain(|_, loan| loan.parent != parent);
        told
    }

    pub(super) fn of(&self, of: Pid, process: impl Fn(Pid) -> Pid) -> i64 {
        let pid = |number: i32| Pid::from_raw(number).expect("a number");
        let own = self
            .sums
            .iter()
            .filter(|(task, _)| process(pid(**task)) == of);
        let lent = self
            .loans
            .values()
            .filter(|loan| process(loan.parent) == of);
        let sums = own.map(|(_, sum)| sum).chain(lent.map(|loan| &loan.sum));
        memory(sums.sum())
    }
}
