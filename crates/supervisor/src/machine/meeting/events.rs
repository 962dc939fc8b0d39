//! Readiness of objects. A task that looks at readiness learns what is decided, or what it depends on. A rollback ends a wait,
//! as it ends any call.

use surmise_syscalls::Syscall;

use super::Met;
use crate::meeting::{Act, Meeting};

pub(super) fn meet(met: &Met<'_>) -> Meeting {
    match met.name {
        Syscall::Poll | Syscall::Ppoll | Syscall::Select | Syscall::Pselect6 => {
            Meeting::Act(Act::Ask)
        }
        // What an edge-triggered queue has told once, it does not tell again.
        _ => Meeting::Wait,
    }
}
