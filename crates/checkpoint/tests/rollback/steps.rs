//! What the scripts of several tests do.

use surmise_checkpoint::{Change, Checkpoint, CheckpointError, Traced};
use surmise_sys::seccomp::Notification;
use surmise_syscalls::Syscall;
use surmise_testkit::watchdog::LIMIT;

use crate::tracee::{Tracee, pending};

impl Tracee {
    /// Takes a checkpoint before a call, which then returns `result` without having happened.
    pub fn checkpoint(&mut self, call: &Notification, result: i64) -> Checkpoint {
        self.try_checkpoint(call, result).expect("checkpoint")
    }

    /// As [`Self::checkpoint`]; where there can be none, the call is made again.
    pub fn try_checkpoint(
        &mut self,
        call: &Notification,
        result: i64,
    ) -> Result<Checkpoint, CheckpointError> {
        let (call, gate) = (pending(call), &mut self.gate);
        let mut halted = self
            .process
            .halt(&[call], Vec::new(), LIMIT, gate)
            .expect("halt");
        let checkpoint = match halted.checkpoint(gate) {
            Ok(checkpoint) => checkpoint,
            Err(error) => {
                halted.go_on(None, Traced::NoMore, gate).expect("go on");
                return Err(error);
            }
        };
        let answered = Some((call.thread, result));
        halted.go_on(answered, Traced::Still, gate).expect("go on");
        self.keep(&checkpoint);
        Ok(checkpoint)
    }

    /// Discards the last checkpoint; the call returns 0.
    pub fn let_go(&mut self, call: &Notification, checkpoint: Checkpoint) {
        self.discard(checkpoint);
        self.go_on(call, Traced::NoMore);
    }
}

/// What a call changes that a rollback has to know of.
pub fn change(name: Syscall, call: &Notification) -> Option<Change> {
    match name {
        Syscall::RtSigaction => Some(Change::Handler(call.arguments[0] as u32)),
        Syscall::Umask => Some(Change::Umask),
        Syscall::Prlimit64 => Some(Change::Limit(call.arguments[1] as u32)),
        Syscall::SetTidAddress => Some(Change::TidAddress),
        Syscall::Fcntl => Some(Change::Flags(call.arguments[0] as i32)),
        Syscall::Chdir => Some(Change::Directory),
        Syscall::Execve => Some(Change::Program),
        Syscall::Sigaltstack => Some(Change::SignalStack),
        Syscall::Prctl => Some(Change::Name(call.thread)),
        Syscall::Read | Syscall::Lseek | Syscall::Getdents64 => {
            Some(Change::Position(call.arguments[0] as i32))
        }
        _ => None,
    }
}
