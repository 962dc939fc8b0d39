//! Maps of files. A private one is the process' own, and a rollback takes it away again.

use surmise_syscalls::Syscall;

use super::Met;
use crate::kind::Kind;
use crate::meeting::Meeting;

pub(super) fn meet(met: &Met<'_>) -> Meeting {
    match met.name {
        Syscall::Mmap => Meeting::Pass(Kind::Memory),
        // A map that others share, and that was only read from, may now be written to.
        Syscall::Mprotect if !met.known.seen.has_shared_memory() => Meeting::Pass(Kind::Memory),
        _ => Meeting::Wait,
    }
}
