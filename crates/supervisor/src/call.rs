//! A call that waits for its answer, with its row of the table.

use rustix::process::Pid;
use surmise_checkpoint::PendingCall;
use surmise_sys::seccomp::Notification;
use surmise_syscalls::{Row, Syscall, row_numbered};

/// A call that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) notification: Notification,
    pub(crate) row: &'static Row,
}

impl Call {
    /// What the listener heard of; `None` for a number without a row, of which no filter tells.
    pub(crate) fn new(notification: Notification) -> Option<Self> {
        let row = row_numbered(notification.number)?;
        Some(Self { notification, row })
    }

    /// The thread that made the call.
    pub(crate) fn thread(&self) -> Pid {
        self.notification.thread
    }

    /// Which call it is.
    pub(crate) fn name(&self) -> Syscall {
        self.row.name()
    }

    pub(crate) fn arguments(&self) -> &[u64; 6] {
        &self.notification.arguments
    }

    /// The call as those see it who only answer.
    pub(crate) fn pending(&self) -> PendingCall {
        PendingCall {
            thread: self.notification.thread,
            id: self.notification.id,
        }
    }
}
