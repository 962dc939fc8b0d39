//! The ends of the pipe inside that processes of a fake machine have open.

use std::io;

use rustix::process::Pid;

use super::op::Op;
use super::state::State;
use super::{Conduit, Fake, INNER, image_of};
use crate::call::Call;
use crate::objects::files::Target;
use crate::objects::input::Place;
use crate::world::{Apart, Asking, Claim, Claims, Fifos, Shut, Shutting, Still, Told};

/// What is told of a read that finds the end of the pipe.
pub(in crate::core::simulation) const END: i64 = -2;
/// EBADF, EPIPE.
pub(in crate::core::simulation) const NO_END: i64 = -9;
pub(in crate::core::simulation) const BROKEN: i64 = -32;
/// What is told of a read that finds nothing yet.
pub(in crate::core::simulation) const NOTHING: i64 = -1;
/// What a look is told besides, if nobody is left to write, or to read.
const HUNG_UP: i64 = -1_000_000;
const ERROR: i64 = -2_000_000;

/// A side of the pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core::simulation) enum Side {
    Reading,
    Writing,
}

/// The sides that a process has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core::simulation) struct Sides {
    pub(in crate::core::simulation) reading: bool,
    pub(in crate::core::simulation) writing: bool,
}

impl Sides {
    pub(in crate::core::simulation) const NONE: Self = Self {
        reading: false,
        writing: false,
    };

    pub(in crate::core::simulation) fn has(self, side: Side) -> bool {
        match side {
            Side::Reading => self.reading,
            Side::Writing => self.writing,
        }
    }

    pub(in crate::core::simulation) fn close(&mut self, side: Side) {
        match side {
            Side::Reading => self.reading = false,
            Side::Writing => self.writing = false,
        }
    }

    /// What a look by a process that has these sides is told of the others'.
    pub(in crate::core::simulation) fn look(self, is_open: impl Fn(Side) -> bool) -> i64 {
        let hung_up = self.reading && !is_open(Side::Writing);
        let error = self.writing && !is_open(Side::Reading);
        i64::from(hung_up) * HUNG_UP + i64::from(error) * ERROR
    }
}

impl State {
    /// The sides that a process has open, unless it has ended.
    pub(super) fn sides(&self, process: Pid) -> Sides {
        let first = self.first_sides.iter().find(|(one, _)| *one == process);
        let born = || self.births.sides(process);
        let mut sides = first.map_or_else(born, |(_, sides)| *sides);
        let tasks = self
            .tasks
            .iter()
            .filter(|(_, task)| task.process == process);
        for (_, side) in tasks.flat_map(|(_, task)| &task.closed) {
            sides.close(*side);
        }
        sides
    }

    /// Whether any process has a side open, be it one that stands at its exit, or an image.
    pub(super) fn is_open(&self, side: Side) -> bool {
        let mut images = self.images.values();
        let mut tasks = self.tasks.iter().filter(|(_, task)| task.is_alive);
        images.any(|image| image.sides.has(side))
            || tasks.any(|(_, task)| self.sides(task.process).has(side))
    }

    /// Whether a process has a side open that may execute something.
    fn is_used(&self, side: Side) -> bool {
        let mut tasks = self.tasks.iter();
        tasks.any(|(_, task)| task.is_alive && !task.at_exit && self.sides(task.process).has(side))
    }

    /// Whether a process that executes nothing has a side open.
    fn keeps(&self, one: &Still, side: Side) -> bool {
        match one.is_image {
            true => self.images[&image_of(one.process)].sides.has(side),
            false => self.sides(one.process).has(side),
        }
    }

    /// A task closes a side of the pipe, if that is what it does next. Nobody hears of that.
    pub(in crate::core::simulation) fn close(&mut self, pid: Pid) -> bool {
        let Op::Close(side) = self.tasks[pid].op() else {
            return false;
        };
        let at = self.tasks[pid].told.len();
        self.tell(pid, Op::Close(side), 0);
        self.task(pid).closed.push((at, side));
        true
    }
}

impl Shutting for Fake {
    fn shut_pipes(&mut self, call: &Call, still: &[Still]) -> io::Result<Vec<Shut>> {
        let state = &mut *self.0.borrow_mut();
        let own = state.sides(state.tasks[call.thread()].process);
        let op = state.op_of(call);
        let looked_at = match op {
            Op::Receive | Op::Ask if own.reading => vec![Side::Writing],
            Op::Send(_) if own.writing => vec![Side::Reading],
            Op::Poll => {
                let others = [(own.reading, Side::Writing), (own.writing, Side::Reading)];
                let others = others.into_iter().filter(|(is_own, _)| *is_own);
                others.map(|(_, side)| side).collect()
            }
            _ => Vec::new(),
        };
        let mut found = Vec::new();
        for side in looked_at {
            let keeps = |one: &&Still| state.keeps(one, side);
            let keepers = still.iter().filter(keeps).map(|one| one.process);
            let keepers: Vec<_> = keepers.collect();
            let is_read = op == Op::Receive;
            if keepers.is_empty() || state.is_used(side) || is_read && !state.inner.is_empty() {
                continue;
            }
            let is_end = (is_read || op == Op::Ask) && state.rng.u8(..8) != 0;
            let place = Place(0, INNER);
            found.push(Shut {
                keepers,
                is_end,
                place,
            });
        }
        Ok(found)
    }
}

/// Files of the fake are neither programs nor open.
impl Claims for Fake {
    fn claim(&self, _: &Call) -> Option<Claim> {
        None
    }

    fn denied(&mut self, _: Claim, _: &[Still]) -> io::Result<Vec<(Pid, Target)>> {
        Ok(Vec::new())
    }
}

/// The pipe is a FIFO, which all tasks may open.
impl Fifos<Conduit> for Fake {
    fn may_open_fifo(&self, call: &Call) -> bool {
        matches!(self.0.borrow().op_of(call), Op::Open(_))
    }

    fn kept_fifos(&mut self, still: &[Still]) -> io::Result<Vec<(Pid, Target)>> {
        let state = self.0.borrow();
        let sides = [Side::Reading, Side::Writing].into_iter();
        let kept: Vec<_> = sides.filter(|side| !state.is_used(*side)).collect();
        let keeps = |one: &&Still| kept.iter().any(|side| state.keeps(one, *side));
        let keepers = still.iter().filter(keeps);
        Ok(keepers
            .map(|one| (one.process, Target::Inode(INNER)))
            .collect())
    }

    fn fifo(&self, pipe: &Conduit) -> Option<Target> {
        (*pipe == Conduit::Pipe).then_some(Target::Inode(INNER))
    }
}

impl Asking for Fake {
    fn asks(&self, call: &Call) -> bool {
        self.0.borrow().op_of(call) == Op::Ask
    }

    fn may_touch(&self, _: Pid, _: &Call, _: Place) -> bool {
        true
    }

    fn ask(
        &mut self,
        _: Pid,
        _: &Call,
        (matters, apart): (&dyn Fn(Place) -> bool, &Apart),
    ) -> io::Result<Told> {
        let place = Place(0, INNER);
        let is_shut = apart.hung_up.contains(&place);
        if !matters(place) && !is_shut {
            return Ok(Told::Other);
        }
        let state = &mut *self.0.borrow_mut();
        let is_ready = is_shut || !state.inner.is_empty() || !state.is_open(Side::Writing);
        Ok(match (is_ready, state.rng.u8(..3)) {
            (_, 0) => Told::Unknown,
            (true, _) => Told::Ready(1),
            (false, 1) => Told::Ready(0),
            (false, _) => Told::Nothing(None),
        })
    }
}
