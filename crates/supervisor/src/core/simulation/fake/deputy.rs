//! Calls that another process makes in place of a task.

use rustix::process::Pid;
use surmise_checkpoint::PendingCall;
use surmise_sys::seccomp::Answer;

use super::has_call;
use super::op::Op;
use super::state::State;
use crate::call::Call;

impl State {
    /// A task that waits in a call is told what another process has made of the call. False if that could not be done.
    pub(super) fn depute(&mut self, process: Pid, call: &Call, others: &[PendingCall]) -> bool {
        let (threads, caller) = (self.threads(process), call.thread());
        if self.tasks[caller].waits_in != Some(call.notification.id) {
            return false;
        }
        let pending = |thread| thread == caller || has_call(others, thread);
        assert!(self.can_stop(process, pending, |_| false));
        if self.fails_to_stop(&threads) {
            return false;
        }
        self.interrupt(&threads);
        let told = match self.op_of(call) {
            Op::Arm => self.arm(process),
            _ => 0,
        };
        assert!(self.answer(call, Answer::Value(told)), "it waits");
        for thread in threads {
            let task = self.task(thread);
            (task.waits_in, task.traced) = (None, true);
        }
        true
    }
}
