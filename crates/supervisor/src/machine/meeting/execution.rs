//! A new program in a process.
//!
//! What a process was before cannot be restored by a rollback: memory, threads and handlers are the program's. But a process
//! that has no image is never restored. It was born while something was undecided, and is destroyed where it would not have
//! been born.

use std::io;

use super::Met;
use crate::machine::task;
use crate::meeting::Meeting;

pub(super) fn meet(met: &Met<'_>) -> io::Result<Meeting> {
    // The other threads would end, and the caller take the number of the first.
    let is_alone = || Ok::<_, io::Error>(task::threads(met.process)? == [met.process]);
    let is_free = met.known.keeps_rights && met.has_no_image() && is_alone()?;
    Ok(match is_free {
        true => Meeting::Execute,
        false => Meeting::Wait,
    })
}
