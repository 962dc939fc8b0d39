//! A family whose members do what a plan says, on a machine on which nothing happens by chance.

use rustix::process::Pid;

use super::op::Op;
use super::sides::Sides;
use super::state::{Shared, State};
use super::task::Task;

/// How many processes there are, each but the first the child of the one before.
pub(in crate::core::simulation) const GENERATIONS: usize = 3;

/// Each process executes a program, but for the first, and looks at a file. Each but the last bears the next one, waits for
/// that, and puts out its status. Then the process exits, with a status that tells whether the look has misled it.
#[derive(Clone, Copy, Debug)]
pub(in crate::core::simulation) struct Plan {
    /// Which processes bear before they look.
    pub(in crate::core::simulation) bears_first: [bool; GENERATIONS - 1],
    /// Whether the second process exits without waiting for the third.
    pub(in crate::core::simulation) leaves_child: bool,
}

impl Plan {
    /// What a process does that was told all this.
    pub(super) fn after(self, told: &[i64]) -> Op {
        let mut told = told.iter().copied();
        let mut is_child = false;
        for generation in 0..GENERATIONS {
            let mut is_misled = false;
            if is_child && told.next().is_none() {
                return Op::Execute;
            }
            is_child = false;
            let bears_first = self.bears_first.get(generation);
            let acts = match bears_first {
                None => &[Act::Look][..],
                Some(true) => &[Act::Bear, Act::Look],
                Some(false) => &[Act::Look, Act::Bear],
            };
            for act in acts {
                match (act, told.next()) {
                    (Act::Look, None) => return Op::Look(0),
                    (Act::Bear, None) => return Op::Bear,
                    (Act::Look, Some(told)) => is_misled = told < 0,
                    (Act::Bear, Some(told)) => is_child = told == 0,
                }
                if is_child {
                    break;
                }
            }
            if is_child {
                continue;
            }
            let is_last = bears_first.is_none();
            let leaves_child = self.leaves_child && generation + 2 == GENERATIONS;
            if !(is_last || leaves_child) {
                let Some(collected) = told.next() else {
                    return Op::Wait;
                };
                if told.next().is_none() {
                    return Op::Put((collected % 1000) as u8);
                }
            }
            return Op::Exit(Self::status(generation) + u8::from(is_misled));
        }
        unreachable!("the last one bears nobody")
    }

    /// With what a process exits that nothing has misled.
    pub(in crate::core::simulation) fn status(generation: usize) -> u8 {
        10 * (1 + generation as u8)
    }
}

enum Act {
    Look,
    Bear,
}

/// How many ancestors a task has.
pub(in crate::core::simulation) fn generation(state: &State, task: Pid) -> usize {
    let mut generation = 0;
    let mut parent = state.births.parent(task);
    while let Some(one) = parent {
        generation += 1;
        parent = state.births.parent(one);
    }
    generation
}

impl State {
    /// A machine on which a first process begins that has no parent.
    pub(in crate::core::simulation) fn steady(plan: Plan) -> Shared {
        let shared = Self::new(0, 0);
        {
            let state = &mut *shared.borrow_mut();
            let first = Pid::from_raw(100).expect("a number");
            let mut task = Task::new(first, 0, Vec::new(), state.now);
            task.plan = Some(plan);
            state.tasks.add(first, task);
            state.families.begin(first);
            state.first_families = state.families.clone();
            state.first_sides.push((first, Sides::NONE));
            state.is_steady = true;
            // The reader of the stream takes all.
            state.room = usize::MAX;
        }
        shared
    }

    /// Whether a task is about to look at a file.
    pub(in crate::core::simulation) fn looks(&self, task: Pid) -> bool {
        matches!(self.tasks[task].op(), Op::Look(_))
    }

    /// How much a task was told so far.
    pub(in crate::core::simulation) fn told(&self, task: Pid) -> usize {
        self.tasks[task].told.len()
    }

    /// Whether a task, when it had been told so much, executed a program or put something out: whether anything is decided right
    /// after that hardly matters to its family.
    pub(in crate::core::simulation) fn matters_little(&self, task: Pid, at: usize) -> bool {
        let mut steps = self.steps.iter().rev();
        let step = steps.find(|step| step.task == task && step.at == at);
        step.is_some_and(|step| matches!(step.op, Op::Execute | Op::Put(_)))
    }

    /// How many processes have ended or stand at their exits, and how many images there have been.
    pub(in crate::core::simulation) fn progress(&self) -> (usize, u64) {
        let tasks = self.tasks.iter().map(|(_, task)| task);
        let exits = tasks.filter(|task| !task.is_alive || task.at_exit);
        (exits.count(), self.images_made)
    }

    /// Whether something happens that happens once in so many times.
    pub(super) fn once_in(&mut self, times: u8) -> bool {
        !self.is_steady && self.rng.u8(..times) == 0
    }
}
