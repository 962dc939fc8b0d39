//! Birth of threads, and attributes of a process that a vessel holds.

use std::io;

use surmise_checkpoint::{Change, Checkpoint};

use surmise_syscalls::Syscall;

use super::Met;
use crate::call::Call;
use crate::kind::Kind;
use crate::machine::task;
use crate::meeting::Meeting;

pub(super) fn meet(met: &Met<'_>) -> io::Result<Meeting> {
    let [first, ..] = met.arguments;
    Ok(match met.name {
        Syscall::RtSigaction => handler(met)?,
        Syscall::Umask => Meeting::Note(Change::Umask),
        Syscall::Chdir | Syscall::Fchdir if !met.known.seen.has_jails() => {
            Meeting::Note(Change::Directory)
        }
        Syscall::SetTidAddress if is_tid_address_known(met) => Meeting::Note(Change::TidAddress),
        Syscall::Clone => thread(first),
        Syscall::Getpgid | Syscall::Getsid | Syscall::Getpgrp | Syscall::Getppid => {
            Meeting::Pass(Kind::Process)
        }
        _ => Meeting::Wait,
    })
}

/// Whether any image of the process can give back where the kernel tells of its thread's end.
fn is_tid_address_known(met: &Met<'_>) -> bool {
    met.known.member.is_some_and(|member| {
        let mut images = member.images();
        images.len() > 0 && images.all(Checkpoint::knows_tid_address)
    })
}

/// A rollback ends a thread that is new; a new process waits.
fn thread(flags: u64) -> Meeting {
    match flags & task::CLONE_THREAD {
        0 => Meeting::Wait,
        _ => Meeting::Pass(Kind::Thread),
    }
}

/// Whether a call may have the kernel reap the children of its process by itself (SA_NOCLDWAIT of sigaction(2)).
pub(crate) fn may_reap_children(call: &Call) -> bool {
    const CHILD: u32 = 17;
    let [signal, action, ..] = *call.arguments();
    call.name() == Syscall::RtSigaction
        && signal as u32 == CHILD
        && action != 0
        // It fails by itself where it cannot be read.
        && task::word(call.thread(), action + 8).is_ok_and(|flags| flags & NO_ZOMBIES != 0)
}

/// SA_NOCLDWAIT of sigaction(2).
const NO_ZOMBIES: u64 = 2;

/// What is pending of a signal that is to be ignored is gone, and so are children that are not waited for.
fn handler(met: &Met<'_>) -> io::Result<Meeting> {
    const DEFAULT: u64 = 0;
    const IGNORE: u64 = 1;
    /// SIGCHLD, SIGCONT, SIGURG, SIGWINCH: by default they are ignored.
    const IGNORED: [u32; 4] = [17, 18, 23, 28];
    let [signal, action, ..] = met.arguments;
    let signal = signal as u32;
    // It fails by itself.
    let Ok(handler) = task::word(met.process, action) else {
        return Ok(Meeting::Wait);
    };
    let flags = task::word(met.process, action + 8).unwrap_or(NO_ZOMBIES);
    let ignores = handler == IGNORE || handler == DEFAULT && IGNORED.contains(&signal);
    Ok(match ignores || flags & NO_ZOMBIES != 0 {
        true => Meeting::Wait,
        false => Meeting::Note(Change::Handler(signal)),
    })
}
