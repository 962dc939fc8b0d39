//! A file that all processes have open, and its position.

use std::io;
use std::rc::Rc;

use rustix::process::Pid;

use super::{Fake, Op};
use crate::call::Call;
use crate::world::Positions;

/// By which all processes have it.
pub(super) const SHARED_FILE: u64 = 6;

#[derive(Debug, Default)]
pub(in crate::core::simulation) struct Position {
    pub(in crate::core::simulation) at: i64,
    /// With whom else it is kept.
    open: Rc<()>,
}

impl Position {
    /// Whether a move of it may have to be undone.
    pub(super) fn is_open(&self) -> bool {
        Rc::strong_count(&self.open) > 1
    }

    /// A task moves it. Returns where it was.
    pub(super) fn advance(&mut self) -> i64 {
        self.at += 1;
        self.at - 1
    }
}

impl Positions<Rc<()>> for Fake {
    fn moves(&self, call: &Call) -> [Option<u64>; 2] {
        let moves = self.0.borrow().op_of(call) == Op::Move;
        [moves.then_some(SHARED_FILE), None]
    }

    fn description(&self, _: Pid, descriptor: u64) -> io::Result<Option<Rc<()>>> {
        let state = &mut *self.0.borrow_mut();
        let is_known = descriptor == SHARED_FILE && state.rng.u8(..8) != 0;
        Ok(is_known.then(|| Rc::clone(&state.position.open)))
    }

    fn leads_to(&self, _: Pid, descriptor: u64, _: &Rc<()>) -> Option<bool> {
        Some(descriptor == SHARED_FILE)
    }

    fn position(&self, _: &Rc<()>) -> io::Result<u64> {
        Ok(self.0.borrow().position.at.cast_unsigned())
    }

    fn set_position(&mut self, _: &Rc<()>, position: u64) -> io::Result<()> {
        let state = &mut *self.0.borrow_mut();
        let mut tasks = state.tasks.iter();
        assert!(
            tasks.all(|(_, task)| !task.flies || task.op() != Op::Move),
            "somebody moves it"
        );
        state.position.at = position.cast_signed();
        Ok(())
    }

    fn written(&self, _: &Rc<()>) -> io::Result<Option<u64>> {
        Ok(None)
    }
}
