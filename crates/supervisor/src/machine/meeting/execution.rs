//! A new program in a process.
//!
//! What a process was before it executes a program a rollback restores where it has one thread, and has nothing that the kernel
//! takes away for good. A process that has no image is never restored. It was born while something was undecided, and is
//! destroyed where it would not have been born.

use std::io;

use rustix::process::Pid;
use surmise_checkpoint::{Checkpoint, lasts_beyond_execution};

use super::Met;
use crate::machine::family::tells_by_signal;
use crate::machine::{executing, task};
use crate::meeting::Meeting;

pub(super) fn meet(met: &Met<'_>) -> io::Result<Meeting> {
    // The other threads would end, and the caller take the number of the first.
    let is_alone = || Ok::<_, io::Error>(task::threads(met.process)? == [met.process]);
    let is_tracked =
        met.known.keeps_rights && (met.has_no_image() || can_be_restored(met)?) && is_alone()?;
    Ok(match is_tracked {
        true => Meeting::Execute,
        false => Meeting::Wait,
    })
}

/// Whether a rollback has the process execute again what it executes now.
fn can_be_restored(met: &Met<'_>) -> io::Result<bool> {
    let known = met.known;
    let Some(member) = known.member else {
        return Ok(false);
    };
    // It would find its program by a name of /proc.
    let is_able = known.can_undo_executions && !known.seen.has_jails();
    // Descriptors that others have, too, would be closed for them, or not; and what the kernel takes away it does not tell of.
    let is_plain = !known.seen.may_share_descriptors(met.process) && !known.seen.has_odd_tasks();
    // To the kernel the process is another parent afterwards, and children tell that one of their ends by SIGCHLD.
    let tells_by_child =
        |child: &Pid| member.has_vessel(*child) || tells_by_signal(*child).unwrap_or(false);
    let children = task::children(met.process, met.process)?;
    Ok(is_able
        && is_plain
        && children.iter().all(tells_by_child)
        && member.images().all(Checkpoint::can_undo_execution)
        && executing::program(met.name, &met.arguments).is_some()
        && lasts_beyond_execution(met.process)?.is_none())
}
