//! Tasks that are small state machines, and what they share.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::{Index, IndexMut};
use std::rc::Rc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::process::Pid;
use surmise_sys::seccomp::{Answer, Notification};
use surmise_syscalls::{Row, Syscall, row_of};

use crate::call::Call;

/// What a task does, each by one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core::simulation) enum Op {
    /// Is told what a file holds.
    Look(usize),
    /// Adds to what a file holds.
    Add(usize),
    /// Writes a number to the stream.
    Put(u8),
    /// Reads a byte from the pipe.
    Take,
    /// Is told how many bytes are in the pipe.
    Poll,
    /// Asks for durability.
    Sync,
    /// Does what nobody can take back.
    Irrevocable,
    /// Ends.
    Exit,
    /// Somebody outside writes to the pipe.
    Push(u8),
}

pub(in crate::core::simulation) const FILES: usize = 3;

impl Op {
    /// What a task does that was told all this.
    fn after(seed: u64, told: &[i64]) -> Self {
        if told.len() >= 30 {
            return Self::Exit;
        }
        let mut hash = seed ^ 0x9e37_79b9_7f4a_7c15;
        for &word in told {
            hash = (hash ^ word.cast_unsigned())
                .wrapping_mul(0x0100_0000_01b3)
                .rotate_left(23);
        }
        let place = (hash >> 32) as usize % FILES;
        match hash % 16 {
            0..=4 => Self::Look(place),
            5..=7 => Self::Add(place),
            8..=10 => Self::Put((hash >> 40) as u8),
            11 | 12 => Self::Take,
            13 => Self::Poll,
            14 => Self::Sync,
            _ => Self::Irrevocable,
        }
    }

    fn row(self) -> &'static Row {
        row_of(match self {
            Self::Look(_) => Syscall::Stat,
            Self::Add(_) => Syscall::Chmod,
            Self::Put(_) => Syscall::Write,
            Self::Take => Syscall::Read,
            Self::Poll => Syscall::Poll,
            Self::Sync => Syscall::Fsync,
            Self::Irrevocable => Syscall::Execve,
            Self::Exit | Self::Push(_) => Syscall::ExitGroup,
        })
    }
}

/// One thing that a task did, and what it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core::simulation) struct Step {
    pub(in crate::core::simulation) task: Pid,
    /// How much the task had been told before.
    pub(in crate::core::simulation) at: usize,
    pub(in crate::core::simulation) op: Op,
    pub(in crate::core::simulation) told: i64,
}

/// What a task has written to the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core::simulation) struct Written {
    pub(in crate::core::simulation) task: Pid,
    /// How much the task had been told before.
    pub(in crate::core::simulation) at: usize,
    pub(in crate::core::simulation) byte: u8,
}

#[derive(Debug)]
pub(in crate::core::simulation) struct Task {
    pub(super) seed: u64,
    /// All that it was told so far, which is all that it is.
    pub(super) told: Vec<i64>,
    /// The number of the call that it waits in.
    pub(super) waits_in: Option<u64>,
    /// What was put into its memory for a read that has not returned yet.
    pub(super) filled: Option<u8>,
    pub(in crate::core::simulation) is_alive: bool,
    pub(super) stands: bool,
    pub(super) traced: bool,
}

impl Task {
    pub(super) fn op(&self) -> Op {
        Op::after(self.seed, &self.told)
    }
}

/// All tasks, by their numbers.
#[derive(Debug)]
pub(in crate::core::simulation) struct Tasks(Vec<(Pid, Task)>);

impl Tasks {
    pub(in crate::core::simulation) fn iter(&self) -> impl Iterator<Item = (Pid, &Task)> {
        self.0.iter().map(|(pid, task)| (*pid, task))
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

/// All there is.
#[derive(Debug)]
pub(in crate::core::simulation) struct State {
    pub(in crate::core::simulation) rng: Rng,
    pub(in crate::core::simulation) now: Instant,
    pub(in crate::core::simulation) tasks: Tasks,
    pub(in crate::core::simulation) files: [i64; FILES],
    pub(super) marks: Vec<Mark>,
    pub(super) marks_made: u64,
    pub(in crate::core::simulation) pipe: VecDeque<u8>,
    /// What the stream's reader has got, and how much there is room for.
    pub(in crate::core::simulation) stream: Vec<Written>,
    pub(in crate::core::simulation) room: usize,
    pub(in crate::core::simulation) steps: Vec<Step>,
    pub(in crate::core::simulation) promised: u64,
    pub(in crate::core::simulation) kept: u64,
    /// By the number of a call: how many promises have to be kept before it is answered.
    pub(super) awaited: BTreeMap<u64, u64>,
    calls: u64,
    pub(super) images: BTreeSet<u64>,
    pub(super) images_made: u64,
}

#[derive(Debug)]
pub(super) struct Mark {
    pub(super) number: u64,
    pub(super) task: Pid,
    pub(super) before: Vec<(usize, i64)>,
}

pub(in crate::core::simulation) type Shared = Rc<RefCell<State>>;

impl State {
    pub(in crate::core::simulation) fn new(seed: u64, tasks: usize) -> Shared {
        let mut rng = Rng::with_seed(seed);
        let tasks = (1..=tasks).map(|number| {
            let pid = Pid::from_raw(100 + number as i32).expect("a number");
            let task = Task {
                seed: rng.u64(..),
                told: Vec::new(),
                waits_in: None,
                filled: None,
                is_alive: true,
                stands: false,
                traced: false,
            };
            (pid, task)
        });
        let tasks = Tasks(tasks.collect());
        Rc::new(RefCell::new(Self {
            rng,
            now: Instant::now(),
            tasks,
            files: [0; FILES],
            marks: Vec::new(),
            marks_made: 0,
            pipe: VecDeque::new(),
            stream: Vec::new(),
            room: 0,
            steps: Vec::new(),
            promised: 0,
            kept: 0,
            awaited: BTreeMap::new(),
            calls: 0,
            images: BTreeSet::new(),
            images_made: 0,
        }))
    }

    /// Tasks that are about to make a call.
    pub(in crate::core::simulation) fn runnable(&self) -> Vec<Pid> {
        let tasks = self.tasks.iter();
        let tasks = tasks.filter(|(_, task)| task.is_alive && task.waits_in.is_none());
        tasks.map(|(pid, _)| pid).collect()
    }

    /// A task makes its next call.
    pub(in crate::core::simulation) fn call(&mut self, pid: Pid) -> Call {
        self.calls += 1;
        let task = &mut self.tasks[pid];
        assert!(!task.stands, "it stands still");
        task.waits_in = Some(self.calls);
        let row = task.op().row();
        let notification = Notification {
            id: self.calls,
            thread: pid,
            number: row.number(),
            arguments: [0; 6],
            instruction_pointer: 0,
        };
        Call { notification, row }
    }

    /// Somebody outside writes to the pipe.
    pub(in crate::core::simulation) fn push(&mut self) {
        let byte = self.rng.u8(..);
        self.pipe.push_back(byte);
        self.steps.push(Step {
            task: Pid::INIT,
            at: 0,
            op: Op::Push(byte),
            told: 0,
        });
    }

    /// Whether nothing is left that could be undone.
    pub(in crate::core::simulation) fn is_at_rest(&self) -> bool {
        self.images.is_empty() && self.marks.is_empty()
    }

    pub(in crate::core::simulation) fn is_traced(&self, pid: Pid) -> bool {
        self.tasks[pid].traced
    }

    pub(in crate::core::simulation) fn kill(&mut self, pid: Pid) {
        let task = &mut self.tasks[pid];
        (task.is_alive, task.waits_in) = (false, None);
    }

    pub(super) fn op_of(&self, call: &Call) -> Op {
        self.tasks[call.thread()].op()
    }

    /// A call has its answer. It happens, if that is not the answer.
    pub(super) fn answer(&mut self, call: &Call, answer: Answer) -> bool {
        let pid = call.thread();
        if self.tasks[pid].waits_in != Some(call.notification.id) {
            return false;
        }
        if let Some(promises) = self.awaited.remove(&call.notification.id) {
            assert!(self.kept >= promises, "answered before it is durable");
        }
        let op = self.op_of(call);
        let told = match answer {
            Answer::Continue => match self.happen(pid, op) {
                Some(told) => told,
                // It waits for input: it makes the call again later.
                None => {
                    self.task(pid).waits_in = None;
                    return true;
                }
            },
            Answer::Value(1) if op == Op::Take => {
                let filled = self.task(pid).filled.take();
                i64::from(filled.expect("bytes come before their number"))
            }
            Answer::Value(told) => told,
            Answer::Error(errno) => -i64::from(errno.raw_os_error()),
        };
        let at = self.tasks[pid].told.len();
        self.steps.push(Step {
            task: pid,
            at,
            op,
            told,
        });
        let task = self.task(pid);
        task.told.push(told);
        task.waits_in = None;
        if op == Op::Exit && answer == Answer::Continue {
            assert!(!task.traced, "it ends while something is undecided");
            task.is_alive = false;
        }
        true
    }

    pub(super) fn task(&mut self, pid: Pid) -> &mut Task {
        &mut self.tasks[pid]
    }

    pub(super) fn written(&self, task: Pid, byte: u8) -> Written {
        let at = self.tasks[task].told.len();
        Written { task, at, byte }
    }

    /// What a call gives that happens; `None` if it would wait for ever.
    pub(super) fn happen(&mut self, pid: Pid, op: Op) -> Option<i64> {
        if let Op::Look(_) | Op::Add(_) = op {
            let others = self.marks.iter().filter(|mark| mark.task != pid);
            assert_eq!(others.count(), 0, "{pid:?} sees what is undecided");
        }
        if let Op::Irrevocable = op {
            assert!(!self.tasks[pid].traced, "it cannot be taken back");
        }
        Some(match op {
            Op::Look(file) => self.files[file],
            Op::Add(file) => {
                if let Some(mark) = self.marks.last_mut() {
                    mark.before.push((file, self.files[file]));
                }
                self.files[file] += 1;
                self.files[file]
            }
            Op::Put(byte) => {
                let written = self.written(pid, byte);
                self.stream.push(written);
                1
            }
            Op::Take => i64::from(self.pipe.pop_front()?),
            Op::Poll => self.pipe.len() as i64,
            Op::Sync | Op::Irrevocable | Op::Exit | Op::Push(_) => 0,
        })
    }

    /// A task is what it was.
    pub(super) fn restore(&mut self, pid: Pid, told: Vec<i64>) {
        let length = told.len();
        self.steps
            .retain(|step| step.task != pid || step.at < length);
        self.task(pid).told = told;
    }
}

/// Time passes.
pub(in crate::core::simulation) fn pass(state: &Shared, time: Duration) {
    state.borrow_mut().now += time;
}
