//! What a machine without guesses could have done.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rustix::process::Pid;

use super::fake::{FILES, Op, State, Step};

/// Its files, and its pipe.
#[derive(Default)]
struct Plain {
    files: [i64; FILES],
    pipe: VecDeque<u8>,
}

impl Plain {
    fn tell(&mut self, step: &Step) -> i64 {
        match step.op {
            Op::Look(file) => self.files[file],
            Op::Add(file) => {
                self.files[file] += 1;
                self.files[file]
            }
            Op::Put(_) => 1,
            Op::Take => i64::from(self.pipe.pop_front().expect("a byte")),
            Op::Poll => self.pipe.len() as i64,
            Op::Push(byte) => {
                self.pipe.push_back(byte);
                0
            }
            // There may be too many.
            Op::Bear => step.told,
            Op::Sync | Op::Irrevocable | Op::Execute | Op::Exit => 0,
        }
    }
}

/// What is left of all that tasks did is what a machine without guesses could have done: no task was told anything else,
/// and nobody outside has seen anything else.
pub(super) fn is_plain(state: &State) {
    let mut plain = Plain::default();
    for step in &state.steps {
        let told = plain.tell(step);
        assert_eq!(step.told, told, "{step:?} of {:?}", state.steps);
    }
    assert_eq!(state.files, plain.files);
    assert_eq!(state.pipe, plain.pipe);
    is_in_causal_order(state);
}

/// What was written reached the stream once, and after all that was written before by tasks that its writer can have
/// heard from, by a file or by the pipe. Tasks that have not heard from each other write in any order.
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
    files: [BTreeSet<usize>; FILES],
    pipe: BTreeSet<usize>,
}

impl Heard {
    fn by(&mut self, task: Pid) -> &mut BTreeSet<usize> {
        self.tasks.entry(number(task)).or_default()
    }

    fn hear(&mut self, step: &Step) {
        let object = match step.op {
            Op::Look(file) | Op::Add(file) => &mut self.files[file],
            Op::Take | Op::Poll => &mut self.pipe,
            _ => return,
        };
        let task = self.tasks.entry(number(step.task)).or_default();
        task.extend(object.iter());
        if let Op::Add(_) | Op::Take = step.op {
            object.extend(task.iter());
        }
    }
}
