//! Directories that tasks of a fake machine remove, unknown to its kernel.

use std::io;

use rustix::io::Errno;
use rustix::process::Pid;
use surmise_checkpoint::PendingCall;
use surmise_sys::seccomp::Answer;

use super::op::Op;
use super::{Fake, has_call};
use crate::call::Call;
use crate::world::{Removes, ToTell};

/// Which task removes one without the kernel's knowing, and whether it has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Concealing {
    pub(super) thread: Pid,
    pub(super) has_removed: bool,
}

impl Removes<Pid> for Fake {
    fn removes_directory(&self, call: &Call) -> bool {
        matches!(self.0.borrow().op_of(call), Op::Remove(_))
    }

    fn make(
        &mut self,
        process: &mut Pid,
        call: &Call,
        others: &[PendingCall],
        to_tell: ToTell<'_>,
    ) -> io::Result<bool> {
        let caller = call.thread();
        {
            let state = &mut *self.0.borrow_mut();
            let threads = state.threads(*process);
            if state.tasks[caller].waits_in != Some(call.notification.id) {
                return Ok(false);
            }
            let pending = |thread| thread == caller || has_call(others, thread);
            assert!(state.can_stop(*process, pending, |_| false));
            if state.fails_to_stop(&threads) {
                return Ok(false);
            }
            state.interrupt(&threads);
            for &thread in &threads {
                let task = state.task(thread);
                task.traced = true;
                task.waits_in = task.waits_in.filter(|_| thread == caller);
            }
            // The view may give up rather than wait.
            if state.rng.u8(..8) != 0 {
                let op = state.op_of(call);
                state.happen(caller, op);
                let concealing = state.concealing.as_mut().expect("the kernel would know");
                assert_eq!(concealing.thread, caller);
                concealing.has_removed = true;
            }
        }
        let told = to_tell(-i64::from(Errno::INTR.raw_os_error()))?;
        let state = &mut *self.0.borrow_mut();
        match told {
            Some(told) => assert!(state.answer(call, Answer::Value(told)), "it waits"),
            None => state.task(caller).waits_in = None,
        }
        Ok(told.is_some())
    }
}
