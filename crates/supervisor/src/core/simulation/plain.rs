//! What a machine without guesses could have done.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rustix::process::Pid;

use super::fake::{Cells, End, FILES, Families, Op, State, Step};

/// Its files, its pipe, and its families.
struct Plain<'a> {
    state: &'a State,
    families: Families,
    /// The threads that have ended.
    ended: Vec<Pid>,
    files: Cells,
    pipe: VecDeque<u8>,
    inner: VecDeque<u8>,
}

impl<'a> Plain<'a> {
    fn new(state: &'a State) -> Self {
        Self {
            state,
            families: state.first_families.clone(),
            ended: Vec::new(),
            files: Cells::default(),
            pipe: VecDeque::new(),
            inner: VecDeque::new(),
        }
    }

    fn process(&self, task: Pid) -> Pid {
        self.state.tasks[task].process
    }

    fn exit(&mut self, task: Pid, status: u8) {
        self.ended.push(task);
        let process = self.process(task);
        let tasks = self.state.tasks.iter();
        let mut threads = tasks.filter(|(_, task)| task.process == process);
        if threads.all(|(thread, _)| self.ended.contains(&thread)) {
            self.families.end(process, End::Exited(status));
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
            Op::Put(_) => 1,
            Op::Take => i64::from(self.pipe.pop_front().expect("a byte")),
            Op::Send(byte) => {
                self.inner.push_back(byte);
                1
            }
            Op::Receive => self.inner.pop_front().map_or(-1, i64::from),
            Op::Poll => (self.pipe.len() + 1000 * self.inner.len()) as i64,
            Op::Push(byte) => {
                self.pipe.push_back(byte);
                0
            }
            Op::Wait => {
                // Which child it is told of first is the machine's to say.
                let parent = self.process(task);
                let mut children = self.families.children(parent).into_iter();
                let found =
                    children.find(|(child, end)| end.is_some_and(|end| end.told(*child) == told));
                match found {
                    Some((child, _)) => self.families.reap(child).told(child),
                    None => self.families.wait(parent).expect("a child has ended").1,
                }
            }
            Op::Bear => {
                if let Some(child) = self.state.births.child(task, step.at) {
                    self.families.bear(self.process(task), child);
                }
                // There may be too many.
                told
            }
            Op::Kill(process) => {
                self.families.end(process, End::Killed);
                0
            }
            Op::Exit(status) => {
                self.exit(task, status);
                0
            }
            Op::Sync | Op::Irrevocable | Op::Execute => 0,
        }
    }
}

/// What is left of all that tasks did is what a machine without guesses could have done: no task was told anything else,
/// and nobody outside has seen anything else.
pub(super) fn is_plain(state: &State) {
    let mut plain = Plain::new(state);
    for step in &state.steps {
        let told = plain.tell(*step);
        assert_eq!(step.told, told, "{step:?} of {:?}", state.steps);
    }
    assert_eq!(state.files, plain.files);
    assert_eq!(state.pipe, plain.pipe);
    assert_eq!(state.inner, plain.inner);
    is_in_causal_order(state);
}

/// What was written reached the stream once, and after all that was written before by tasks that its writer can have
/// heard from, by a file or by a pipe. Tasks that have not heard from each other write in any order.
fn is_in_causal_order(state: &State) {
    let places = state.stream.iter().enumerate();
    let places: BTreeMap<_, _> = places
        .map(|(place, written)| ((number(written.task), written.at), (place, written.byte)))
        .collect();
    assert_eq!(places.len(), state.stream.len(), "written twice");
    let mut heard = Heard::default();
    let mut puts = 0;
    for step in &state.steps {
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
        heard.hear(step);
        if let Op::Bear = step.op
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

/// Whose output whom somebody can have heard from, by its place.
#[derive(Default)]
struct Heard {
    tasks: BTreeMap<i32, BTreeSet<usize>>,
    /// Where names lead, and who was heard of by each cell.
    cells: Cells,
    files: [BTreeSet<usize>; 2 * FILES],
    pipe: BTreeSet<usize>,
    inner: BTreeSet<usize>,
}

impl Heard {
    fn by(&mut self, task: Pid) -> &mut BTreeSet<usize> {
        self.tasks.entry(number(task)).or_default()
    }

    fn hear(&mut self, step: &Step) {
        let task = self.tasks.entry(number(step.task)).or_default();
        for cell in self.cells.seen_by(step.op) {
            task.extend(self.files[cell].iter());
        }
        if let Some(cell) = self.cells.changed_by(step.op) {
            self.files[cell].extend(task.iter());
            self.cells.add(cell);
        }
        let object = match step.op {
            Op::Take | Op::Poll => &mut self.pipe,
            Op::Send(_) | Op::Receive => &mut self.inner,
            _ => return,
        };
        let task = self.tasks.entry(number(step.task)).or_default();
        task.extend(object.iter());
        if let Op::Take | Op::Send(_) | Op::Receive = step.op {
            object.extend(task.iter());
        }
    }
}
