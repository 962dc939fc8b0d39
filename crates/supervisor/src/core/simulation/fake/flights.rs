//! Calls about files that were let go and have not happened yet.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::process::Pid;

use super::cells::{CELLS, FILES};
use super::{Fake, Op, State};
use crate::call::Call;
use crate::objects::files::{End, Look, Manner, Reach, Share, Target, Touch, Touches};
use crate::world::Reaching;

impl Reaching for Fake {
    fn touch(&self, call: &Call) -> Touch {
        match self.0.borrow().op_of(call) {
            Op::Look(_) | Op::List => Touch::Looks,
            Op::Add(_) => Touch::Changes,
            Op::Turn(_) | Op::Remove(_) => Touch::Binds,
            _ => Touch::Nothing,
        }
    }

    fn depends_on_ends(&self, call: &Call) -> bool {
        matches!(self.0.borrow().op_of(call), Op::Add(_))
    }

    fn reach(&self, _: Pid, call: &Call) -> io::Result<Reach> {
        let state = &mut *self.0.borrow_mut();
        let op = state.op_of(call);
        // Some names are not known.
        if state.once_in(32) {
            return Ok(Reach::Everything);
        }
        let inode = |cell: usize, manner| Look {
            target: Target::Inode(cell as u64),
            manner,
        };
        let path = |name: usize, manner| Look {
            target: Target::Path {
                base: PathBuf::new(),
                path: name.to_string().into(),
                follows: true,
            },
            manner,
        };
        let looks = match op {
            Op::Look(name) => vec![path(name, Manner::Looks)],
            Op::Add(name) => vec![path(name, Manner::Changes)],
            Op::Turn(name) | Op::Remove(name) => vec![inode(FILES + name, Manner::Changes)],
            // Which FIFO that is, is not looked up.
            Op::Open(_) => return Ok(Reach::Everything),
            Op::List => (0..CELLS).map(|cell| inode(cell, Manner::Looks)).collect(),
            _ => return Ok(Reach::Nothing),
        };
        Ok(Reach::At {
            looks,
            elsewhere: Arc::clone(&state.elsewhere),
            in_doubt: state.once_in(32),
        })
    }
}

impl Fake {
    /// Whether others see what a process changes by calls alone. They do nothing else; but meanwhile something may be heard
    /// of them.
    pub(super) fn is_undisturbed(&self, process: Pid) -> bool {
        let state = &mut *self.0.borrow_mut();
        let others = state.tasks.iter().map(|(pid, task)| (pid, task.process));
        let others: Vec<_> = others.filter(|&(_, other)| other != process).collect();
        if let Some(&(thread, other)) = state.rng.choice(&others) {
            match state.rng.u8(..50) {
                0..=4 if state.signal(thread) => state.heard_signals.push(thread),
                5 if !state.threads(other).is_empty() => {
                    state.kill(other);
                    state.heard_ends.push(other);
                }
                _ => {}
            }
        }
        state.rng.u8(..4) != 0
    }

    pub(super) fn land_all(&self, threads: &[Pid]) -> io::Result<bool> {
        let state = &mut *self.0.borrow_mut();
        for &thread in threads {
            // It may sleep.
            if state.tasks[thread].flies && state.rng.u8(..8) == 0 {
                return Ok(false);
            }
            state.land(thread);
        }
        Ok(true)
    }
}

impl State {
    /// Whether a call that is let go takes its time.
    pub(super) fn begins_flight(&mut self, pid: Pid, op: Op) -> bool {
        let may_fly = matches!(
            op,
            Op::Look(_) | Op::List | Op::Add(_) | Op::Turn(_) | Op::Remove(_) | Op::Move
        );
        let flies = may_fly && self.once_in(3);
        let task = self.task(pid);
        (task.flies, task.waits_in) = (flies, task.waits_in.filter(|_| !flies));
        flies
    }

    /// A call that was let go happens.
    pub(in crate::core::simulation) fn land(&mut self, pid: Pid) {
        let task = self.task(pid);
        if !std::mem::take(&mut task.flies) {
            return;
        }
        let op = task.op();
        let told = self.happen(pid, op).expect("files are there");
        self.tell(pid, op, told);
    }

    /// Threads are stopped: calls that were let go have happened, or are made again.
    pub(super) fn interrupt(&mut self, threads: &[Pid]) {
        for &thread in threads {
            match self.rng.bool() {
                true => self.land(thread),
                false => self.task(thread).flies = false,
            }
        }
    }

    pub(in crate::core::simulation) fn flying(&self) -> Vec<Pid> {
        let flying = self.tasks.iter().filter(|(_, task)| task.flies);
        flying.map(|(pid, _)| pid).collect()
    }

    /// A task changes a cell.
    pub(super) fn change(&mut self, pid: Pid, op: Op) -> i64 {
        let cell = self.files.changed_by(op).expect("it changes something");
        let process = self.tasks[pid].process;
        let mut marks = self.marks.iter().rev();
        let mark = marks.find(|mark| mark.process == process);
        let mark = mark.map(|mark| mark.number);
        if let Some(mark) = mark {
            self.check_beliefs((process, mark), op, cell);
        }
        let before = self.files.0[cell];
        self.believe(cell);
        match mark {
            Some(mark) => self.layers[cell].push((mark, before)),
            None => assert!(
                self.layers[cell].is_empty(),
                "it is decided, and lies on what is not"
            ),
        }
        self.files.add(cell)
    }

    /// What calls would touch: a cell has layers.
    pub(super) fn touches(&self, looks: &[Look]) -> Touches {
        let mut touches = Touches::default();
        for look in looks {
            let share = match look.manner {
                Manner::Changes => Share::Changes,
                _ => Share::Looks,
            };
            let cells = match &look.target {
                Target::Inode(cell) => vec![(*cell as usize, share)],
                Target::Path { path, .. } => {
                    let name = path.to_str().and_then(|name| name.parse().ok());
                    let on_the_way = self.files.seen_by(Op::Look(name.expect("a name")));
                    vec![(on_the_way[0], Share::Looks), (on_the_way[1], share)]
                }
            };
            touches.ends.push(end(look));
            for (cell, share) in cells {
                touches.cells.push((cell as u64, share));
                let layers = &self.layers[cell];
                touches.marks.extend(layers.iter().map(|(mark, _)| *mark));
            }
        }
        touches
    }
}

/// What a look leads to.
fn end(look: &Look) -> End {
    match look.target {
        Target::Path { .. } => End::File,
        Target::Inode(_) => End::Unknown,
    }
}
