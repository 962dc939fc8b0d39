//! What a machine without guesses could have done.

mod heard;
mod memories;

use std::collections::{BTreeMap, VecDeque};

use rustix::process::Pid;

use super::fake::{
    BROKEN, Cells, END, End, FAILED, Families, HEARD, LENT, NO_END, NOBODY, NOTHING, Op, SENT,
    Sent, Side, Sides, State, Step, in_queues,
};
use heard::Heard;
use memories::Memories;

/// Its files, its pipe, and its families.
struct Plain<'a> {
    state: &'a State,
    families: Families,
    /// The threads that have ended.
    ended: Vec<Pid>,
    files: Cells,
    position: i64,
    /// That each process has set, and whose signal it has not taken: the last one is armed, or has sent its signal.
    timers: BTreeMap<i32, Vec<i64>>,
    /// The signals that tasks have sent, by their receivers and numbers, and that were not taken.
    kicks: Vec<(Pid, i64)>,
    pipe: VecDeque<u8>,
    inner: VecDeque<u8>,
    line: [VecDeque<u8>; 2],
    /// What each process has open of it.
    sides: BTreeMap<i32, Sides>,
    memories: Memories,
    /// What each process executes.
    programs: BTreeMap<i32, i64>,
}

impl<'a> Plain<'a> {
    fn new(state: &'a State) -> Self {
        Self {
            state,
            families: state.first_families.clone(),
            ended: Vec::new(),
            files: Cells::default(),
            position: 0,
            timers: BTreeMap::new(),
            kicks: Vec::new(),
            pipe: VecDeque::new(),
            inner: VecDeque::new(),
            line: Default::default(),
            sides: state
                .first_sides
                .iter()
                .map(|&(process, sides)| (number(process), sides))
                .collect(),
            memories: Memories::default(),
            programs: BTreeMap::new(),
        }
    }

    fn process(&self, task: Pid) -> Pid {
        self.state.tasks[task].process
    }

    fn exit(&mut self, task: Pid, status: u8) {
        if self.leave(task) {
            self.families.end(self.process(task), End::Exited(status));
        }
    }

    /// A thread does nothing more. With the last one of a process goes what that has open. Whether it was the last.
    fn leave(&mut self, task: Pid) -> bool {
        self.ended.push(task);
        let process = self.process(task);
        let is_last = self.is_over(process);
        if is_last {
            self.sides.remove(&number(process));
        }
        is_last
    }

    /// Whether all threads of a process have ended.
    fn is_over(&self, process: Pid) -> bool {
        let tasks = self.state.tasks.iter();
        let mut threads = tasks.filter(|(_, task)| task.process == process);
        threads.all(|(thread, _)| self.ended.contains(&thread))
    }

    fn sides(&self, process: Pid) -> Sides {
        self.sides
            .get(&number(process))
            .copied()
            .unwrap_or(Sides::NONE)
    }

    /// How many processes have the pipe inside open for writing.
    fn writers(&self) -> usize {
        self.sides.values().filter(|sides| sides.writing).count()
    }

    fn is_open(&self, side: Side) -> bool {
        self.sides.values().any(|sides| sides.has(side))
    }

    fn tell_of_pipe(&mut self, task: Pid, op: Op) -> i64 {
        match op {
            Op::Send(_) if !self.sides(self.process(task)).writing => NO_END,
            Op::Send(_) if !self.is_open(Side::Reading) => BROKEN,
            Op::Send(byte) => {
                self.inner.push_back(byte);
                1
            }
            Op::Receive if !self.sides(self.process(task)).reading => NO_END,
            Op::Receive => match self.inner.pop_front() {
                Some(byte) => byte.into(),
                None if self.is_open(Side::Writing) => NOTHING,
                None => END,
            },
            Op::Ask if !self.sides(self.process(task)).reading => NO_END,
            Op::Ask => (!self.inner.is_empty() || !self.is_open(Side::Writing)).into(),
            Op::Poll => {
                let told = in_queues([&self.pipe, &self.inner], &self.line);
                let sides = self.sides(self.process(task));
                told + sides.look(|side| self.is_open(side))
            }
            Op::Open(side) => self.is_open(side).into(),
            Op::Close(side) => {
                let process = self.process(task);
                if let Some(sides) = self.sides.get_mut(&number(process)) {
                    sides.close(side);
                }
                0
            }
            _ => unreachable!("{op:?} is of no pipe"),
        }
    }

    fn tell_of_connection(&mut self, op: Op) -> i64 {
        match op {
            Op::Say(queue, byte) => {
                self.line[queue as usize].push_back(byte);
                1
            }
            Op::Hear(queue) => self.line[queue as usize]
                .pop_front()
                .map_or(NOTHING, i64::from),
            _ => unreachable!("{op:?} is of no connection"),
        }
    }

    /// The machine may have a task sleep only for a while.
    fn doze(&mut self, task: Pid, told: i64) -> i64 {
        let mut children = self.families.children(self.process(task)).into_iter();
        let child = children.find(|(child, _)| told == HEARD + i64::from(number(*child)));
        child.map_or(0, |(child, _)| {
            // One that was killed when it stood at its exit had exited.
            assert!(self.is_over(child), "it goes on");
            self.families.hear(child)
        })
    }

    /// Which child it is told of first is the machine's to say.
    fn wait(&mut self, task: Pid, told: i64) -> i64 {
        let parent = self.process(task);
        let mut children = self.families.children(parent).into_iter();
        let found = children.find(|(child, end)| end.is_some_and(|end| end.told(*child) == told));
        match found {
            Some((child, _)) => self.families.reap(child).told(child),
            None => self.families.wait(parent).expect("a child has ended").1,
        }
    }

    fn program(&self, process: Pid) -> i64 {
        self.programs.get(&number(process)).copied().unwrap_or(0)
    }

    fn execute(&mut self, task: Pid) -> i64 {
        let process = self.process(task);
        let before = self.program(process);
        self.programs.insert(number(process), before + 1);
        match self.memories.has_loan(task) {
            true => self
                .memories
                .execute(task, |one| self.state.tasks[one].process),
            false => before,
        }
    }

    fn tell_of_signal(&mut self, Step { task, op, told, .. }: Step) -> i64 {
        let process = self.process(task);
        let timers = self.timers.entry(number(process)).or_default();
        match op {
            Op::Arm => {
                timers.push(told);
                told
            }
            // Whether a process has one thread that goes on is the machine's to say.
            Op::Kick(_) if told == NOBODY => told,
            Op::Kick(to) => {
                self.kicks.push((to, told - SENT));
                told
            }
            Op::Signal(sent) => {
                if let Sent::Task(number) = sent {
                    let kick = (process, number as i64);
                    let place = self.kicks.iter().position(|one| *one == kick);
                    // Taken out, no other one takes it.
                    self.kicks.remove(place.expect("somebody has sent it"));
                }
                if let Sent::Timer(timer) = sent {
                    let place = timers.iter().position(|set| *set == timer);
                    // Those before it were set anew in time.
                    timers.drain(..=place.expect("it was set"));
                }
                if let Sent::Child { number, .. } = sent {
                    let child = Pid::from_raw(number as i32).expect("a number");
                    assert!(self.families.is_reaped(child), "{process:?} was not told");
                }
                sent.told()
            }
            _ => unreachable!("{op:?} is of no signal"),
        }
    }

    fn tell(&mut self, step: Step) -> i64 {
        let Step { task, op, told, .. } = step;
        match op {
            Op::Look(_) | Op::List => self.files.told(op),
            Op::Add(_) | Op::Turn(_) => {
                let cell = self.files.changed_by(op).expect("it changes something");
                self.files.add(cell)
            }
            Op::Remove(_) => {
                let cell = self.files.changed_by(op).expect("it changes something");
                self.files.add(cell);
                0
            }
            Op::Move => {
                self.position += 1;
                self.position - 1
            }
            Op::Arm | Op::Signal(_) | Op::Kick(_) => self.tell_of_signal(step),
            Op::Put(_) => 1,
            Op::Take => i64::from(self.pipe.pop_front().expect("a byte")),
            Op::Send(_) | Op::Receive | Op::Ask | Op::Poll | Op::Close(_) | Op::Open(_) => {
                self.tell_of_pipe(task, op)
            }
            Op::Say(..) | Op::Hear(_) => self.tell_of_connection(op),
            Op::Leave => {
                self.leave(task);
                told
            }
            Op::Push(byte) => {
                self.pipe.push_back(byte);
                0
            }
            Op::Wait => self.wait(task, told),
            Op::Doze => self.doze(task, told),
            Op::Bear | Op::Lend => {
                if let Some(child) = self.state.births.child(task, step.at) {
                    let parent = self.process(task);
                    self.families.bear(parent, child);
                    self.sides.insert(number(child), self.sides(parent));
                    let program = self.program(parent);
                    self.programs.insert(number(child), program);
                    self.memories.bear(task, child, told == LENT);
                }
                // There may be too many.
                told
            }
            // Whether a program can be executed is the machine's to say.
            Op::Execute if told == FAILED => told,
            Op::Execute => self.execute(task),
            Op::Regain => self
                .memories
                .regain(task, |one| self.state.tasks[one].process),
            Op::Kill(process) => {
                self.families.end(process, End::Killed);
                self.sides.remove(&number(process));
                0
            }
            Op::Exit(status) => {
                self.exit(task, status);
                0
            }
            Op::Sync | Op::Ignore | Op::Irrevocable => 0,
        }
    }
}

/// What is left of all that tasks did is what a machine without guesses could have done: no task was told anything else,
/// and nobody outside has seen anything else.
pub(super) fn is_plain(state: &State) {
    let mut plain = Plain::new(state);
    let mut shutting = Vec::new();
    for step in &state.steps {
        let before = plain.writers();
        let told = plain.tell(*step);
        assert_eq!(step.told, told, "{step:?} of {:?}", state.steps);
        shutting.push(plain.writers() < before);
        plain.memories.tell(step);
        plain
            .memories
            .leave_killed(step, |one| state.tasks[one].process);
    }
    for (_, task) in state.tasks.iter().filter(|(_, task)| task.is_alive) {
        let program = plain.program(task.process);
        assert_eq!(state.program(task.process), program, "{:?}", state.steps);
    }
    assert_eq!(state.files, plain.files);
    assert_eq!(state.position.at, plain.position);
    assert_eq!(state.pipe, plain.pipe);
    assert_eq!(state.inner, plain.inner);
    assert_eq!(state.line, plain.line);
    is_each_signal_taken(state, &plain.timers);
    for (process, number) in plain.kicks {
        let sent = Sent::Task(number as u64);
        let is_left = state.mail.left.contains(&(process, sent));
        assert!(is_left, "{sent:?} was lost: {:?}", state.steps);
    }
    is_in_causal_order(state, &shutting);
}

/// Each signal was taken once, unless its process ended before; and a timer that was set and not set again has sent its own.
fn is_each_signal_taken(state: &State, timers: &BTreeMap<i32, Vec<i64>>) {
    let mail = &state.mail;
    let outside = mail.sent.iter();
    let outside = outside.map(|&(process, number)| (process, Sent::Outside(number)));
    for (process, sent) in outside.chain(mail.of_children.iter().copied()) {
        let steps = state.steps.iter();
        let taken = steps.filter(|step| step.op == Op::Signal(sent)).count();
        let left = mail.left.iter().filter(|(_, one)| *one == sent).count();
        assert!(
            taken <= 1,
            "{sent:?} was taken {taken} times: {:?}",
            state.steps
        );
        assert!(
            taken + left > 0,
            "{sent:?} to {process:?} was lost: {:?}",
            state.steps
        );
    }
    for step in &state.steps {
        if let Op::Signal(sent @ Sent::Child { .. }) = step.op {
            let mut told = mail.of_children.iter();
            assert!(told.any(|(_, one)| *one == sent), "{step:?} was not told");
        }
    }
    // How a process that was killed had set its timer last is not known here.
    let was_killed = |process: i32| {
        let mut steps = state.steps.iter();
        steps.any(|step| matches!(step.op, Op::Kill(killed) if number(killed) == process))
    };
    for (process, timers) in timers.iter().filter(|(process, _)| !was_killed(**process)) {
        let Some(timer) = timers.last() else { continue };
        let is_armed = mail
            .timers
            .iter()
            .any(|(of, armed)| number(*of) == *process && armed == timer);
        let is_left = mail
            .left
            .iter()
            .any(|(_, sent)| *sent == Sent::Timer(*timer));
        assert!(
            is_armed || is_left,
            "timer {timer} of {process} was lost: {:?}",
            state.steps
        );
    }
}

/// What was written reached the stream once, and after all that was written before by tasks that its writer can have
/// heard from, by a file or by a pipe, be it by closing it. Tasks that have not heard from each other write in any order.
fn is_in_causal_order(state: &State, shutting: &[bool]) {
    let places = state.stream.iter().enumerate();
    let places: BTreeMap<_, _> = places
        .map(|(place, written)| ((number(written.task), written.at), (place, written.byte)))
        .collect();
    assert_eq!(places.len(), state.stream.len(), "written twice");
    let mut heard = Heard::default();
    let mut puts = 0;
    for (step, &shuts) in state.steps.iter().zip(shutting) {
        if let Op::Put(byte) = step.op {
            let found = places.get(&(number(step.task), step.at));
            let &(place, written) = found.expect("what was written has left");
            assert_eq!(written, byte);
            let before = heard.by(step.task);
            assert!(
                before.iter().all(|other| *other < place),
                "{step:?} was overtaken: {:?} {:?}",
                state.steps,
                state.stream
            );
            before.insert(place);
            puts += 1;
        }
        heard.hear(step, shuts);
        if let Op::Bear | Op::Lend = step.op
            && let Some(child) = state.births.child(step.task, step.at)
        {
            let known = heard.by(step.task).clone();
            heard.by(child).extend(known);
        }
    }
    assert_eq!(puts, state.stream.len(), "what was undone has left");
}

fn number(task: Pid) -> i32 {
    task.as_raw_nonzero().get()
}
