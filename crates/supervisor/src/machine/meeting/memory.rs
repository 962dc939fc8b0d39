//! Maps of files. A private one is the process' own, and a rollback takes it away again. So it does with a shared one by
//! which nobody can store.

use std::io;

use surmise_syscalls::Syscall;

use super::Met;
use crate::kind::Kind;
use crate::machine::task;
use crate::meeting::Meeting;

pub(super) fn meet(met: &Met<'_>) -> io::Result<Meeting> {
    Ok(match met.name {
        // It shows what others do to the file. If a change of the file is undecided, the caller depends on
        // that by now; and a process that is to change the file later waits while others have it mapped.
        Syscall::Mmap
            if task::is_shared_map(&met.arguments)
                && !task::maps_for_reading(met.process, &met.arguments)? =>
        {
            Meeting::Wait
        }
        Syscall::Mmap => Meeting::Pass(Kind::Memory),
        // A map that others share, and that was only read from, may now be written to.
        Syscall::Mprotect if !met.known.seen.has_shared_memory() => Meeting::Pass(Kind::Memory),
        _ => Meeting::Wait,
    })
}
