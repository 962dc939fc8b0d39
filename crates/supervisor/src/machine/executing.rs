//! Programs that processes execute though that may have to be undone.

use std::io;

use surmise_checkpoint::PendingCall;
use surmise_sys::ptrace::Stopped;
use surmise_syscalls::Syscall;

use super::process::{Supervised, unless_numbered};
use super::{Machine, task};
use crate::call::Call;
use crate::world::Executes;

/// From which directory the path of a program leads, and where it is in the caller's memory; `None` of a call that says otherwise
/// which program it means.
pub(super) fn program(name: Syscall, arguments: &[u64; 6]) -> Option<(Option<u64>, u64)> {
    let [first, second, _, _, flags, _] = *arguments;
    match name {
        Syscall::Execve => Some((None, first)),
        Syscall::Execveat if flags == 0 => Some((Some(first), second)),
        _ => None,
    }
}

impl Executes<Supervised, Stopped> for Machine {
    fn can_come_back(
        &mut self,
        process: &mut Supervised,
        call: &Call,
        others: &[PendingCall],
    ) -> io::Result<Option<bool>> {
        let Some(path) = program(call.name(), call.arguments()) else {
            return Ok(None);
        };
        let mut found = None;
        process.answer_by(call, others, &mut self.door, |halted, _, door| {
            found = match halted.can_come_back_from(path, door) {
                Err(_) if halted.was_killed() => Some(false),
                looked => unless_numbered(looked)?.or(Some(false)),
            };
            Ok(None)
        })?;
        Ok(found)
    }

    fn executes(&self, process: &mut Supervised) {
        process.process.executes();
    }

    fn is_of_vessel(&self, process: &Supervised, stopped: &Stopped) -> io::Result<bool> {
        match stopped.signal() {
            Err(error) if task::is_gone(&error) => Ok(false),
            signal => Ok(process.process.is_of_vessel(&signal?)),
        }
    }

    fn forget_vessels(&mut self, process: &mut Supervised) -> io::Result<()> {
        let door = &mut self.door;
        let forgotten = process.with_halted(|halted| halted.forget_vessels(door));
        forgotten.map(drop)
    }
}
