//! Readiness of objects. Whoever looks learns what others did, none of which is undecided here; and a wait
//! ends with a rollback, as any call does.

use surmise_syscalls::Syscall;

use super::Met;
use crate::kind::Kind;
use crate::meeting::Meeting;

pub(super) fn meet(met: &Met<'_>) -> Meeting {
    match met.name {
        Syscall::Poll | Syscall::Ppoll | Syscall::Select | Syscall::Pselect6 => {
            Meeting::Pass(Kind::Events)
        }
        // What an edge-triggered queue has told once, it does not tell again.
        _ => Meeting::Wait,
    }
}
