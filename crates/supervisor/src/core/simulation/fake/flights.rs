//! Calls about files that were let go and have not happened yet.

use std::io;

use rustix::process::Pid;

use super::{Fake, Op, State};
use crate::call::Call;
use crate::objects::files::{Look, Manner, Reach, Share, Target, Touch, Touches};

impl Fake {
    pub(super) fn touched(&self, call: &Call) -> Touch {
        match self.0.borrow().op_of(call) {
            Op::Look(_) | Op::List => Touch::Looks,
            Op::Add(_) => Touch::Changes,
            _ => Touch::Nothing,
        }
    }

    pub(super) fn reached(&self, call: &Call) -> Reach {
        let state = &mut *self.0.borrow_mut();
        let op = state.op_of(call);
        // Some names are not known.
        if state.rng.u8(..32) == 0 {
            return Reach::Everything;
        }
        let file = |file: usize, manner| Look {
            target: Target::Inode(file as u64),
            manner,
        };
        let looks = match op {
            Op::Look(of) => vec![file(of, Manner::Looks)],
            Op::Add(of) => vec![file(of, Manner::Changes)],
            Op::List => (0..state.files.len())
                .map(|of| file(of, Manner::Looks))
                .collect(),
            _ => return Reach::Nothing,
        };
        Reach::At {
            looks,
            elsewhere: Vec::new(),
        }
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
        let may_fly = matches!(op, Op::Look(_) | Op::List | Op::Add(_));
        let flies = may_fly && self.rng.u8(..3) == 0;
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

    /// What calls would touch: a file is a cell, and has layers.
    pub(super) fn touches(&self, looks: &[Look]) -> Touches {
        let mut touches = Touches::default();
        for look in looks {
            let Target::Inode(file) = look.target else {
                panic!("no file has a name");
            };
            let share = match look.manner {
                Manner::Changes => Share::Changes,
                _ => Share::Looks,
            };
            touches.cells.push((file, share));
            let layers = &self.layers[file as usize];
            touches.marks.extend(layers.iter().map(|(mark, _)| *mark));
        }
        touches
    }
}
