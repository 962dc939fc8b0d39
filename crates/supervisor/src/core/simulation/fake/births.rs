//! Processes that bear others, and those that were never born.

use std::collections::BTreeSet;

use rustix::process::Pid;

use super::Fake;
use super::op::Op;
use super::sides::Sides;
use super::state::State;
use super::task::Task;
use crate::member::Member;
use crate::world::Born;

/// There are no more tasks than this, also those that have ended.
const TASKS_MAX: usize = 40;

/// Who has borne whom.
#[derive(Debug, Default)]
pub(in crate::core::simulation) struct Births {
    all: Vec<Birth>,
    /// Processes that were destroyed since they would not have been born.
    unborn: BTreeSet<i32>,
    /// How many there have been.
    count: i32,
}

#[derive(Clone, Copy, Debug)]
struct Birth {
    parent: Pid,
    /// How much the parent had been told before.
    at: usize,
    child: Pid,
    /// What the child has open of the pipe inside.
    sides: Sides,
}

impl Births {
    /// Whom a task has borne that had been told so much.
    pub(in crate::core::simulation) fn child(&self, parent: Pid, at: usize) -> Option<Pid> {
        let mut all = self.all.iter();
        let found = all.find(|birth| birth.parent == parent && birth.at == at);
        found.map(|birth| birth.child)
    }

    /// The task that has borne a process.
    pub(super) fn parent(&self, child: Pid) -> Option<Pid> {
        let found = self.all.iter().find(|birth| birth.child == child);
        found.map(|birth| birth.parent)
    }

    /// What a process had open when it was born.
    pub(super) fn sides(&self, child: Pid) -> Sides {
        let found = self.all.iter().find(|birth| birth.child == child);
        found.map_or(Sides::NONE, |birth| birth.sides)
    }

    /// A task was told no more than this.
    fn forget(&mut self, parent: Pid, told: usize) {
        let unborn = &self.unborn;
        self.all.retain(|birth| {
            let is_undone = birth.parent == parent && birth.at >= told;
            let number = birth.child.as_raw_nonzero().get();
            assert!(!is_undone || unborn.contains(&number), "{birth:?} lives");
            !is_undone
        });
    }
}

/// Whether a member has one thread, and had it at all its images.
pub(super) fn is_alone(state: &State, member: &Member<Fake>) -> bool {
    member.images().all(|image| image.told.len() == 1) && state.threads(member.pid()).len() == 1
}

impl State {
    /// A task bears a process, with one thread, that goes on as a copy of the task. Returns what the task is told.
    pub(super) fn bear(&mut self, parent: Pid) -> i64 {
        if self.tasks.iter().count() >= TASKS_MAX {
            return -1;
        }
        self.births.count += 1;
        let child = Pid::from_raw(10_000 + 100 * self.births.count).expect("a number");
        let (now, bearer) = (self.now, &self.tasks[parent]);
        let at = bearer.told.len();
        let mut told = bearer.told.clone();
        told.push(0);
        // Of the same kind.
        let seed = bearer.seed.wrapping_mul(0x5851_f42d_4c95_7f2d);
        let mut task = Task::new(child, seed, told, now);
        task.plan = bearer.plan;
        let bearer = bearer.process;
        let sides = self.sides(bearer);
        self.set_program(child, self.program(bearer));
        self.families.bear(bearer, child);
        self.tasks.add(child, task);
        self.births.all.push(Birth {
            parent,
            at,
            child,
            sides,
        });
        1
    }

    /// Whom a task has borne that had been told so much, a tracee now.
    pub(super) fn trace_child(&mut self, parent: Pid, at: usize) -> Born<Pid> {
        let Some(child) = self.births.child(parent, at) else {
            return Born::Childless;
        };
        self.task(child).traced = true;
        Born::Child(child, child)
    }

    /// A process is destroyed that was never born: nothing that it did was done, and it has borne nobody.
    pub(super) fn unbear(&mut self, process: Pid) {
        let all = self.tasks.iter();
        let threads = all.filter(|(_, task)| task.process == process);
        let threads: Vec<_> = threads.map(|(pid, _)| pid).collect();
        self.end(process);
        for thread in threads {
            self.give_back(thread);
            self.strike(thread, 0);
            self.births.forget(thread, 0);
        }
        // It may have been killed before.
        self.steps.retain(|step| step.op != Op::Kill(process));
        self.families.unbear(process);
        self.births.unborn.insert(process.as_raw_nonzero().get());
    }

    /// Threads are what they were.
    pub(super) fn restore(&mut self, image: Vec<(Pid, Vec<i64>)>) {
        for (thread, told) in image {
            let length = told.len();
            self.strike(thread, length);
            self.births.forget(thread, length);
            let task = self.task(thread);
            (task.told, task.at_exit, task.flies) = (told, false, false);
            task.can_come_back = false;
            task.closed.retain(|(at, _)| *at < length);
        }
    }

    /// What a task did that had been told so much was not done.
    fn strike(&mut self, thread: Pid, told: usize) {
        let is_struck = |of: Pid, at: usize| of == thread && at >= told;
        let mut certain = self.certain.iter();
        let is_certain = certain.any(|&(of, at)| is_struck(of, at));
        assert!(!is_certain, "{thread:?} did what cannot be taken back");
        // A task that was killed does not take its signals again.
        if !self.tasks[thread].is_alive {
            let process = self.tasks[thread].process;
            for step in self
                .steps
                .iter()
                .filter(|step| is_struck(step.task, step.at))
            {
                if let Op::Signal(sent) = step.op {
                    self.mail.left.push((process, sent));
                }
            }
        }
        self.steps.retain(|step| !is_struck(step.task, step.at));
        self.mail.forget_children(thread, told);
    }
}
