//! What is asked to be made durable.
//!
//! Of a file of the view nothing is before a commit, which waits until nothing is undecided. So there the call does nothing, and
//! there is nothing to undo. What is on a mount of another kind is outside already.

use std::io;

use super::Met;
use crate::kind::Kind;
use crate::meeting::Meeting;
use surmise_syscalls::Syscall;

pub(super) fn meet(met: &Met<'_>) -> io::Result<Meeting> {
    let is_of_view = match met.name {
        Syscall::Fsync | Syscall::Fdatasync => {
            let names = met.known.seen.names();
            names.is_served(met.process, met.arguments[0])?
        }
        _ => false,
    };
    Ok(match is_of_view {
        true => Meeting::Pass(Kind::File),
        false => Meeting::Wait,
    })
}
