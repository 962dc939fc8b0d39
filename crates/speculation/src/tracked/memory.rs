//! Maps of files. A private one is the process' own, and a rollback takes it away again.

use super::{Meeting, Met};

pub(super) fn meet(met: &Met<'_>) -> Meeting {
    match met.name {
        "mmap" => Meeting::Pass("memory"),
        // A map that others share, and that was only read from, may now be written to.
        "mprotect" if !met.known.seen.has_shared_memory() => Meeting::Pass("memory"),
        _ => Meeting::Wait,
    }
}
