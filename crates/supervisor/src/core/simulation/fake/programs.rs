//! Programs that tasks execute on a fake machine.
//!
//! Which program a process executes is no part of what its threads were told: a rollback brings the former one back only if the
//! image was told of the execution before.

use std::io;

use rustix::process::Pid;
use surmise_checkpoint::PendingCall;

use super::op::FAILED;
use super::state::State;
use super::{Fake, has_call};
use crate::call::Call;
use crate::world::Executes;

impl Executes<Pid, Pid> for Fake {
    fn can_come_back(
        &mut self,
        process: &mut Pid,
        call: &Call,
        others: &[PendingCall],
    ) -> io::Result<Option<bool>> {
        let state = &mut *self.0.borrow_mut();
        let (threads, caller) = (state.threads(*process), call.thread());
        if state.tasks[caller].waits_in != Some(call.notification.id) {
            return Ok(None);
        }
        let pending = |thread| thread == caller || has_call(others, thread);
        assert!(state.can_stop(*process, pending, |_| false));
        if state.fails_to_stop(&threads) {
            return Ok(None);
        }
        state.interrupt(&threads);
        let can_come_back = state.rng.u8(..4) != 0;
        for thread in threads {
            let task = state.task(thread);
            (task.waits_in, task.traced) = (None, true);
        }
        state.task(caller).can_come_back = can_come_back;
        Ok(Some(can_come_back))
    }

    fn executes(&self, _: &mut Pid) {}

    fn is_of_vessel(&self, _: &Pid, _: &Pid) -> io::Result<bool> {
        Ok(false)
    }

    fn forget_vessels(&mut self, _: &mut Pid) -> io::Result<()> {
        Ok(())
    }
}

impl State {
    /// The program that a process executes: how many there were before it, in the process and in those that it descends from.
    pub(in crate::core::simulation) fn program(&self, process: Pid) -> i64 {
        let number = process.as_raw_nonzero().get();
        self.programs.get(&number).copied().unwrap_or(0)
    }

    pub(super) fn set_program(&mut self, process: Pid, program: i64) {
        self.programs
            .insert(process.as_raw_nonzero().get(), program);
    }

    /// A process executes a program, or tries. Returns what its thread is told: the program of before, but for one that has
    /// its parent's memory, which is told what was there.
    pub(super) fn execute(&mut self, thread: Pid) -> i64 {
        let task = &self.tasks[thread];
        let (process, can_come_back) = (task.process, task.can_come_back);
        let mut images = self.images.values();
        assert!(
            can_come_back || images.all(|image| image.process != process),
            "an image of it cannot be restored"
        );
        if self.once_in(4) {
            return FAILED;
        }
        let before = self.program(process);
        self.set_program(process, before + 1);
        self.memory_lent_to(thread).unwrap_or(before)
    }
}
