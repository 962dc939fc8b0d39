//! What tasks share.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::io::Errno;
use rustix::process::Pid;
use surmise_sys::seccomp::{Answer, Notification};

use super::births::Births;
use super::cells::{CELLS, Cells};
use super::family::{End, Families};
use super::happened::Happened;
use super::images::Held;
use super::op::{FAILED, Op};
use super::position::Position;
use super::removing::Concealing;
use super::sides::{BROKEN, END, NO_END, NOTHING, Side, Sides};
use super::signals::Mail;
use super::sizes::Beliefs;
use super::task::{Task, Tasks};
use crate::call::Call;

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

/// All there is.
#[derive(Debug)]
pub(in crate::core::simulation) struct State {
    pub(in crate::core::simulation) rng: Rng,
    /// Whether nothing happens by chance.
    pub(super) is_steady: bool,
    pub(in crate::core::simulation) now: Instant,
    pub(in crate::core::simulation) tasks: Tasks,
    pub(in crate::core::simulation) families: Families,
    /// What the first processes have open of the pipe inside.
    pub(in crate::core::simulation) first_sides: Vec<(Pid, Sides)>,
    /// As they were in the beginning.
    pub(in crate::core::simulation) first_families: Families,
    pub(in crate::core::simulation) files: Cells,
    pub(in crate::core::simulation) position: Position,
    pub(in crate::core::simulation) mail: Mail,
    /// Where callers find something else than these files.
    pub(super) elsewhere: Arc<HashSet<PathBuf>>,
    pub(in crate::core::simulation) beliefs: Beliefs,
    pub(super) marks: Vec<Mark>,
    pub(super) concealing: Option<Concealing>,
    /// Of each cell, the marks whose changes are undecided, and what was before: the lowest first.
    pub(super) layers: [Vec<(u64, i64)>; CELLS],
    pub(super) marks_made: u64,
    /// Those whose processes are about to be stopped, as far as the files know.
    pub(super) gives_way: Vec<u64>,
    pub(in crate::core::simulation) pipe: VecDeque<u8>,
    /// The pipe inside.
    pub(in crate::core::simulation) inner: VecDeque<u8>,
    /// The queues of the connection inside.
    pub(in crate::core::simulation) line: [VecDeque<u8>; 2],
    pub(in crate::core::simulation) happened: Happened,
    /// What the stream's reader has got, and how much there is room for.
    pub(in crate::core::simulation) stream: Vec<Written>,
    pub(in crate::core::simulation) room: usize,
    pub(in crate::core::simulation) steps: Vec<Step>,
    /// Which of them nobody can take back: by their tasks, and how much these had been told.
    pub(super) certain: Vec<(Pid, usize)>,
    pub(in crate::core::simulation) promised: u64,
    pub(in crate::core::simulation) kept: u64,
    /// By the number of a call: how many promises have to be kept before it is answered.
    pub(super) awaited: BTreeMap<u64, u64>,
    calls: u64,
    pub(in crate::core::simulation) births: Births,
    /// Of processes that have executed any, or descend from such a one.
    pub(super) programs: BTreeMap<i32, i64>,
    /// By number.
    pub(super) images: BTreeMap<u64, Held>,
    pub(super) images_made: u64,
    /// What was heard while something else was done.
    pub(super) heard_signals: Vec<Pid>,
    pub(in crate::core::simulation) heard_ends: Vec<Pid>,
}

#[derive(Debug)]
pub(super) struct Mark {
    pub(super) number: u64,
    pub(super) process: Pid,
}

pub(in crate::core::simulation) type Shared = Rc<RefCell<State>>;

impl State {
    pub(in crate::core::simulation) fn new(seed: u64, processes: usize) -> Shared {
        let mut rng = Rng::with_seed(seed);
        let now = Instant::now();
        let kind = rng.u64(..4);
        let threads = (1..=processes).flat_map(|number| {
            let process = 100 * number as i32;
            (0..rng.choice([1, 1, 1, 2, 4]).expect("one")).map(move |thread| (process, thread))
        });
        let threads: Vec<_> = threads.collect();
        let tasks = threads.into_iter().map(|(process, thread)| {
            let pid = |number| Pid::from_raw(number).expect("a number");
            let seed = rng.u64(..) << 2 | kind;
            let task = Task::new(pid(process), seed, Vec::new(), now);
            (pid(process + thread), task)
        });
        let tasks: Tasks = tasks.collect();
        let first_sides = (1..=processes).map(|number| {
            let sides = Sides {
                reading: rng.u8(..4) != 0,
                writing: rng.u8(..3) == 0,
            };
            (Pid::from_raw(100 * number as i32).expect("a number"), sides)
        });
        let first_sides = first_sides.collect();
        let families = Families::any(&mut rng, processes);
        Rc::new(RefCell::new(Self {
            rng,
            is_steady: false,
            now,
            tasks,
            first_families: families.clone(),
            families,
            first_sides,
            files: Cells::default(),
            position: Position::default(),
            mail: Mail::default(),
            beliefs: Beliefs::default(),
            marks: Vec::new(),
            concealing: None,
            layers: Default::default(),
            marks_made: 0,
            gives_way: Vec::new(),
            pipe: VecDeque::new(),
            inner: VecDeque::new(),
            line: Default::default(),
            happened: Happened::default(),
            stream: Vec::new(),
            room: 0,
            steps: Vec::new(),
            certain: Vec::new(),
            promised: 0,
            kept: 0,
            awaited: BTreeMap::new(),
            calls: 0,
            births: Births::default(),
            programs: BTreeMap::new(),
            images: BTreeMap::new(),
            images_made: 0,
            heard_signals: Vec::new(),
            heard_ends: Vec::new(),
            elsewhere: Arc::default(),
        }))
    }

    /// Tasks that are about to make a call.
    pub(in crate::core::simulation) fn runnable(&self) -> Vec<Pid> {
        let tasks = self.tasks.iter();
        let tasks = tasks.filter(|(_, task)| task.runs());
        tasks.map(|(pid, _)| pid).collect()
    }

    /// The threads of a process that have not ended.
    pub(super) fn threads(&self, process: Pid) -> Vec<Pid> {
        let tasks = self.tasks.iter();
        let threads = tasks.filter(|(_, task)| task.is_alive && task.process == process);
        threads.map(|(pid, _)| pid).collect()
    }

    /// A thread stops to take a signal. False if it cannot.
    pub(in crate::core::simulation) fn signal(&mut self, pid: Pid) -> bool {
        let now = self.now;
        let task = &mut self.tasks[pid];
        let stops = task.runs() && task.traced;
        if stops {
            (task.at_signal, task.since) = (true, now);
        }
        stops
    }

    /// The longest time that a thread waits for which neither a reader nor the disk is to blame.
    pub(in crate::core::simulation) fn longest_wait(&self) -> Duration {
        let waits = |task: &&Task| {
            let is_slow = |call| {
                self.awaited.contains_key(&call) || matches!(task.op(), Op::Put(_) | Op::Exit(_))
            };
            task.at_signal || task.waits_in.is_some_and(|call| !is_slow(call))
        };
        let tasks = self.tasks.iter().map(|(_, task)| task);
        let times = tasks.filter(waits).map(|task| self.now - task.since);
        times.max().unwrap_or_default()
    }

    /// A task makes its next call.
    pub(in crate::core::simulation) fn call(&mut self, pid: Pid) -> Call {
        self.calls += 1;
        let now = self.now;
        let task = &mut self.tasks[pid];
        assert!(!task.stands, "it stands still");
        (task.waits_in, task.since) = (Some(self.calls), now);
        let row = task.op().row();
        let notification = Notification {
            id: self.calls,
            thread: pid,
            number: row.number(),
            // Of any child.
            arguments: [u64::MAX, 0, 0, 0, 0, 0],
            instruction_pointer: 0,
        };
        Call { notification, row }
    }

    /// Somebody outside writes to the pipe.
    pub(in crate::core::simulation) fn push(&mut self) {
        let byte = self.rng.u8(..);
        self.pipe.push_back(byte);
        self.note_outside(Op::Push(byte));
    }

    /// Whether nothing is left that could be undone.
    pub(in crate::core::simulation) fn is_at_rest(&self) -> bool {
        self.images.is_empty() && self.marks.is_empty() && !self.position.is_open()
    }

    /// Somebody kills a process.
    pub(in crate::core::simulation) fn kill(&mut self, process: Pid) {
        self.end(process);
        self.families.end(process, End::Killed);
        self.note_outside(Op::Kill(process));
        self.give_back(process);
    }

    /// All threads of a process end.
    pub(super) fn end(&mut self, process: Pid) {
        for thread in self.threads(process) {
            let task = &mut self.tasks[thread];
            (task.is_alive, task.waits_in, task.at_signal) = (false, None, false);
            (task.lends, task.flies) = (false, false);
            if let Some(sent) = task.signal.take() {
                self.mail.wait(process, sent);
            }
        }
        self.mail.end(process);
    }

    /// Something happens that no task does.
    fn note_outside(&mut self, op: Op) {
        self.steps.push(Step {
            task: Pid::INIT,
            at: 0,
            op,
            told: 0,
        });
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
        if answer == Answer::Continue && self.begins_flight(pid, op) {
            return true;
        }
        let told = match answer {
            Answer::Continue => match self.happen(pid, op) {
                Some(told) => told,
                // It waits for input: it makes the call again later.
                None => {
                    self.task(pid).waits_in = None;
                    return true;
                }
            },
            Answer::Value(1) if matches!(op, Op::Take | Op::Receive | Op::Hear(_)) => {
                let filled = self.task(pid).filled.take();
                i64::from(filled.expect("bytes come before their number"))
            }
            Answer::Value(0) if op == Op::Receive => END,
            Answer::Value(told) => told,
            Answer::Error(Errno::AGAIN) => NOTHING,
            Answer::Error(errno) => -i64::from(errno.raw_os_error()),
        };
        if matches!(op, Op::Irrevocable | Op::Exit(_)) && answer == Answer::Continue {
            self.certain.push((pid, self.tasks[pid].told.len()));
        }
        self.tell(pid, op, told);
        match op {
            Op::Exit(status) if answer == Answer::Continue => self.exit(pid, status),
            Op::Execute if told != FAILED => self.give_back(pid),
            _ => {}
        }
        true
    }

    fn exit(&mut self, pid: Pid, status: u8) {
        assert!(self.is_certain(pid), "it ends while something is undecided");
        let task = self.task(pid);
        task.is_alive = false;
        let process = task.process;
        if self.threads(process).is_empty() {
            self.families.end(process, End::Exited(status));
            self.mail.end(process);
        }
        self.give_back(pid);
    }

    /// A task has done something, and is told what came of it.
    pub(super) fn tell(&mut self, pid: Pid, op: Op, told: i64) {
        let at = self.tasks[pid].told.len();
        self.steps.push(Step {
            task: pid,
            at,
            op,
            told,
        });
        let task = self.task(pid);
        task.told.push(told);
        (task.waits_in, task.can_come_back) = (None, false);
    }

    /// A process waits for any child. One that was killed when it stood at its exit was killed before.
    fn wait(&mut self, process: Pid) -> Option<i64> {
        let (child, told) = self.families.wait(process)?;
        if let Some(child) = child
            && told == End::Killed.told(child)
        {
            self.leave_killed(child);
        }
        Some(told)
    }

    /// A process is told that a child was killed.
    pub(super) fn leave_killed(&mut self, child: Pid) {
        let tasks = &self.tasks;
        let is_of_child = |step: &Step| {
            tasks
                .iter()
                .any(|(pid, task)| pid == step.task && task.process == child)
        };
        for step in &mut self.steps {
            if matches!(step.op, Op::Exit(_)) && is_of_child(step) {
                step.op = Op::Leave;
            }
        }
    }

    /// Whether threads are not to be stopped. By then calls have been interrupted, or not.
    pub(super) fn fails_to_stop(&mut self, threads: &[Pid]) -> bool {
        let fails = self.once_in(8);
        for &thread in threads.iter().filter(|_| fails) {
            if self.rng.bool() {
                self.task(thread).waits_in = None;
            }
        }
        fails
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
        if let Op::Irrevocable = op {
            assert!(self.is_certain(pid), "it cannot be taken back");
        }
        Some(match op {
            Op::Look(_) | Op::List => self.files.told(op),
            Op::Add(_) | Op::Turn(_) => self.change(pid, op),
            Op::Remove(_) => {
                self.change(pid, op);
                0
            }
            Op::Move => self.position.advance(),
            Op::Arm => self.arm(self.tasks[pid].process),
            Op::Kick(process) => self.kick(process),
            Op::Put(byte) => {
                let written = self.written(pid, byte);
                self.stream.push(written);
                1
            }
            Op::Take => i64::from(self.pipe.pop_front()?),
            Op::Send(_) if !self.sides(self.tasks[pid].process).writing => NO_END,
            Op::Send(_) if !self.is_open(Side::Reading) => BROKEN,
            Op::Send(byte) => {
                self.inner.push_back(byte);
                1
            }
            Op::Receive if !self.sides(self.tasks[pid].process).reading => NO_END,
            Op::Receive => match self.inner.pop_front() {
                Some(byte) => byte.into(),
                None if self.is_open(Side::Writing) => NOTHING,
                None => END,
            },
            Op::Ask if !self.sides(self.tasks[pid].process).reading => NO_END,
            Op::Ask => (!self.inner.is_empty() || !self.is_open(Side::Writing)).into(),
            Op::Open(side) => self.is_open(side).into(),
            Op::Say(queue, byte) => {
                self.line[queue as usize].push_back(byte);
                1
            }
            Op::Hear(queue) => self.line[queue as usize]
                .pop_front()
                .map_or(NOTHING, i64::from),
            Op::Poll => {
                let sides = self.sides(self.tasks[pid].process);
                let told = in_queues([&self.pipe, &self.inner], &self.line);
                told + sides.look(|side| self.is_open(side))
            }
            Op::Wait => self.wait(self.tasks[pid].process)?,
            Op::Doze => self.families.doze(self.tasks[pid].process),
            Op::Bear => self.bear(pid),
            Op::Lend => self.lend(pid),
            Op::Execute => self.execute(pid),
            Op::Sync
            | Op::Ignore
            | Op::Irrevocable
            | Op::Exit(_)
            | Op::Close(_)
            | Op::Leave
            | Op::Push(_)
            | Op::Kill(_)
            | Op::Signal(_)
            | Op::Regain => 0,
        })
    }

    /// Whether all threads of a process can be stopped: one that waits in a call, or has stopped to take a signal, by
    /// those who know of that.
    pub(super) fn can_stop(
        &self,
        process: Pid,
        has_call: impl Fn(Pid) -> bool,
        has_signal: impl Fn(Pid) -> bool,
    ) -> bool {
        self.threads(process).into_iter().all(|thread| {
            let task = &self.tasks[thread];
            let stops = task.waits_in.is_none() || has_call(thread);
            stops && !task.lends && (!task.at_signal || has_signal(thread))
        })
    }
}

/// How many bytes are in the pipes and in the connection, as one number.
pub(in crate::core::simulation) fn in_queues(
    pipes: [&VecDeque<u8>; 2],
    line: &[VecDeque<u8>; 2],
) -> i64 {
    let queues = pipes
        .into_iter()
        .chain(line)
        .zip([1, 1000, 30_000, 200_000]);
    queues
        .map(|(queue, weight)| (queue.len() * weight) as i64)
        .sum()
}

/// Time passes.
pub(in crate::core::simulation) fn pass(state: &Shared, time: Duration) {
    state.borrow_mut().now += time;
}
