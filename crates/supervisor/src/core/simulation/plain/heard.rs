//! Who can have heard from whom.

use std::collections::{BTreeMap, BTreeSet};

use rustix::process::Pid;

use super::number;
use crate::core::simulation::fake::{
    Cells, END, FILES, NO_END, NOBODY, NOTHING, Op, SENT, Sent, Side, Step,
};

/// Whose output whom somebody can have heard from, by its place.
#[derive(Default)]
pub(super) struct Heard {
    tasks: BTreeMap<i32, BTreeSet<usize>>,
    /// Where names lead, and who was heard of by each cell.
    cells: Cells,
    files: [BTreeSet<usize>; 2 * FILES],
    position: BTreeSet<usize>,
    pipe: BTreeSet<usize>,
    /// From those that have written to the pipe inside, and from those that have read there.
    puts: BTreeSet<usize>,
    takes: BTreeSet<usize>,
    line: [BTreeSet<usize>; 2],
    /// By the number of a signal that a task has sent.
    kicks: BTreeMap<i64, BTreeSet<usize>>,
    /// From those that have closed the pipe inside.
    closed: BTreeSet<usize>,
}

impl Heard {
    pub(super) fn by(&mut self, task: Pid) -> &mut BTreeSet<usize> {
        self.tasks.entry(number(task)).or_default()
    }

    /// A task does something, by which a process loses its end for writing if `shuts`.
    pub(super) fn hear(&mut self, step: &Step, shuts: bool) {
        if shuts {
            let known = self.by(step.task).clone();
            self.closed.extend(known);
        }
        let is_told = match step.op {
            Op::Receive => step.told == END,
            Op::Open(side) => side == Side::Writing && step.told == 0,
            _ => false,
        };
        if is_told {
            let known = self.closed.clone();
            self.by(step.task).extend(known);
        }
        let task = self.tasks.entry(number(step.task)).or_default();
        for cell in self.cells.seen_by(step.op) {
            task.extend(self.files[cell].iter());
        }
        if let Some(cell) = self.cells.changed_by(step.op) {
            self.files[cell].extend(task.iter());
            self.cells.add(cell);
        }
        match step.op {
            Op::Kick(_) if step.told != NOBODY => {
                self.kicks.insert(step.told - SENT, task.clone());
            }
            Op::Signal(Sent::Task(number)) => {
                let kick = self.kicks.get(&(number as i64));
                task.extend(kick.expect("somebody has sent it"));
            }
            // Who writes there learns nothing of those who have read, and who finds nothing there of nobody.
            Op::Say(queue, _) => self.line[queue as usize].extend(task.iter()),
            Op::Hear(queue) if step.told != NOTHING => {
                task.extend(self.line[queue as usize].iter());
                self.line[queue as usize].extend(task.iter());
            }
            _ => {}
        }
        if step.told != NO_END {
            self.hear_by_pipe(step);
        }
        let object = match step.op {
            Op::Move => &mut self.position,
            Op::Take | Op::Poll => &mut self.pipe,
            _ => return,
        };
        let task = self.tasks.entry(number(step.task)).or_default();
        task.extend(object.iter());
        if step.op != Op::Poll {
            object.extend(task.iter());
        }
    }

    /// A task does something with the pipe inside, of which it has an end.
    fn hear_by_pipe(&mut self, step: &Step) {
        let task = self.tasks.entry(number(step.task)).or_default();
        match step.op {
            // Who writes there learns nothing of those who have read.
            Op::Send(_) => {
                task.extend(self.puts.iter());
                self.puts.extend(task.iter());
            }
            Op::Receive | Op::Ask => {
                task.extend(self.puts.iter());
                task.extend(self.takes.iter());
            }
            _ => return,
        }
        // At the end of the pipe, or where it is empty, there is nothing to take: who finds that leaves nothing there.
        if step.op == Op::Receive && ![END, NOTHING].contains(&step.told) {
            self.takes.extend(task.iter());
        }
    }
}
