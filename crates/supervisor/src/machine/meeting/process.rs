//! Birth of threads and processes, and attributes of a process that a vessel holds.

use std::io;

use rustix::process::{Pid, Signal};
use surmise_checkpoint::{Change, Checkpoint};
use surmise_linux::proc::{self, Ids, Status, Task};

use surmise_syscalls::Syscall;

use super::Met;
use crate::call::Call;
use crate::kind::Kind;
use crate::machine::task;
use crate::meeting::Meeting;

/// PR_SET_NAME of prctl(2).
pub(super) const SET_NAME: u32 = 15;

/// ITIMER_REAL of setitimer(2).
const REAL: u32 = 0;

pub(super) fn meet(met: &Met<'_>) -> io::Result<Meeting> {
    Ok(match met.name {
        Syscall::RtSigaction => handler(met)?,
        Syscall::Setresuid if is_unchanged(met, Ids::Users)? => Meeting::Pass(Kind::Process),
        Syscall::Setresgid if is_unchanged(met, Ids::Groups)? => Meeting::Pass(Kind::Process),
        Syscall::Setrlimit => limit(met, met.arguments[0], met.arguments[1])?,
        // Zero is the caller.
        Syscall::Prlimit64 if met.arguments[0] as u32 == 0 => {
            limit(met, met.arguments[1], met.arguments[2])?
        }
        Syscall::Alarm => timer(met)?,
        Syscall::Setitimer if met.arguments[0] as u32 == REAL => timer(met)?,
        Syscall::Umask => Meeting::Note(Change::Umask),
        Syscall::Chdir | Syscall::Fchdir if !met.known.seen.has_jails() => {
            Meeting::Note(Change::Directory)
        }
        Syscall::SetTidAddress if is_tid_address_known(met) => Meeting::Note(Change::TidAddress),
        Syscall::Sigaltstack if are_signal_stacks_known(met) => Meeting::Note(Change::SignalStack),
        Syscall::Prctl if met.arguments[0] as u32 == SET_NAME => {
            Meeting::Note(Change::Name(met.thread))
        }
        Syscall::Clone => match birth(met)? {
            birth @ (Meeting::Bear | Meeting::Lend { .. }) => child(met, birth)?,
            other => other,
        },
        Syscall::Fork => child(met, Meeting::Bear)?,
        Syscall::Vfork => child(met, lending(met)?)?,
        Syscall::Getpgid | Syscall::Getsid | Syscall::Getpgrp | Syscall::Getppid => {
            Meeting::Pass(Kind::Process)
        }
        _ => Meeting::Wait,
    })
}

/// Whether a process asks for the numbers that it has: shells and compilers do so at their start, to be rid of others.
fn is_unchanged(met: &Met<'_>, which: Ids) -> io::Result<bool> {
    /// Of setresuid(2): the number stays.
    const STAYS: u32 = u32::MAX;
    let Some(own) = proc::ids(met.process, which)? else {
        return Ok(false);
    };
    let [_, effective, _, of_files] = own;
    // The effective number becomes that for files, and each thread has numbers of its own.
    let are_plain = effective == of_files && task::threads(met.process)?.len() == 1;
    let mut pairs = own.iter().zip(&met.arguments[..3]);
    Ok(are_plain && pairs.all(|(&own, &asked)| asked as u32 == own || asked as u32 == STAYS))
}

/// Whether the kernel may reap the children of a process by itself.
fn are_ends_ignored(met: &Met<'_>) -> io::Result<bool> {
    let ignores = Status::of(met.process)?.ignores(Signal::CHILD);
    Ok(ignores || met.known.seen.reaps_by_itself())
}

/// A signal that the timer has sent before waits for a rollback, too; one that it sends afterwards is never sent then.
fn timer(met: &Met<'_>) -> io::Result<Meeting> {
    const ALARM: u32 = Signal::ALARM.as_raw().cast_unsigned();
    Ok(match is_waiting(met.process, ALARM)? {
        true => Meeting::Wait,
        false => Meeting::SetTimer,
    })
}

/// Whether a signal of this number waits for a process or any of its threads.
fn is_waiting(process: Pid, signal: u32) -> io::Result<bool> {
    for thread in task::threads(process)? {
        if Status::of(Task { process, thread })?.has_waiting(signal) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A soft limit can be given back, unless the hard one has been lowered meanwhile, as another thread could. Only those limits
/// are noted that a rollback itself does not run into.
fn limit(met: &Met<'_>, resource: u64, limits: u64) -> io::Result<Meeting> {
    /// RLIMIT_STACK, RLIMIT_CORE of getrlimit(2).
    const NOTED: [u32; 2] = [3, 4];
    let resource = resource as u32;
    // It fails by itself where it cannot be read.
    let Ok(hard) = task::word(met.process, limits.wrapping_add(8)) else {
        return Ok(Meeting::Wait);
    };
    let keeps_hard = NOTED.contains(&resource)
        && task::threads(met.process)?.len() == 1
        && proc::hard_limit(met.process, resource)? == Some(hard);
    Ok(match keeps_hard {
        true => Meeting::Note(Change::Limit(resource)),
        false => Meeting::Wait,
    })
}

/// Whether any image of the process can give back where the kernel tells of its thread's end.
fn is_tid_address_known(met: &Met<'_>) -> bool {
    is_known(met, Checkpoint::knows_tid_address)
}

fn are_signal_stacks_known(met: &Met<'_>) -> bool {
    is_known(met, Checkpoint::knows_signal_stacks)
}

fn is_known(met: &Met<'_>, by: impl Fn(&Checkpoint) -> bool) -> bool {
    met.known.member.is_some_and(|member| {
        let mut images = member.images();
        images.len() > 0 && images.all(by)
    })
}

/// A rollback ends a thread that is new, a process with a copy of the caller's memory, and one that has that memory while the
/// caller waits, as the C library's posix_spawn makes it. A process that is otherwise made waits: it shares something else with
/// its parent, or is not its child.
fn birth(met: &Met<'_>) -> io::Result<Meeting> {
    /// CLONE_PARENT_SETTID, CLONE_CHILD_CLEARTID, CLONE_CHILD_SETTID of clone(2): what fork of the C library asks for.
    const TOLD: u64 = 0x10_0000 | 0x20_0000 | 0x100_0000;
    /// The signal that tells of the end, SIGCHLD.
    const AS_FORK: u64 = 17;
    /// CLONE_VM, CLONE_VFORK of clone(2).
    const AS_VFORK: u64 = 0x100 | 0x4000 | AS_FORK;
    let [flags, stack, ..] = met.arguments;
    Ok(match flags & !TOLD {
        _ if flags & task::CLONE_THREAD != 0 => Meeting::Pass(Kind::Thread),
        AS_FORK if stack == 0 => Meeting::Bear,
        // Numbers that the kernel writes into memory would be written into the parent's.
        AS_VFORK if flags == AS_VFORK => lending(met)?,
        _ => Meeting::Wait,
    })
}

fn lending(met: &Met<'_>) -> io::Result<Meeting> {
    let is_alone = task::threads(met.process)?.len() == 1;
    Ok(Meeting::Lend { is_alone })
}

/// If a process and its child are destroyed, the child is an orphan first. A process that adopts it would wait for a child that
/// nobody has borne.
fn child(met: &Met<'_>, birth: Meeting) -> io::Result<Meeting> {
    Ok(match met.known.seen.has_reaper_above(met.process)? {
        true => Meeting::Wait,
        false => birth,
    })
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
    const CHILD: u32 = 17;
    const CONTINUE: u32 = 18;
    /// These, SIGURG and SIGWINCH are ignored by default.
    const IGNORED: [u32; 4] = [CHILD, CONTINUE, 23, 28];
    // A rollback could not restore any of that; it destroys such a process.
    if met.has_no_image() {
        return Ok(Meeting::Pass(Kind::Process));
    }
    let [signal, action, ..] = met.arguments;
    let signal = signal as u32;
    // It fails by itself.
    let Ok(handler) = task::word(met.process, action) else {
        return Ok(Meeting::Wait);
    };
    let flags = task::word(met.process, action + 8).unwrap_or(NO_ZOMBIES);
    let ignores = handler == IGNORE || handler == DEFAULT && IGNORED.contains(&signal);
    let change = Change::Handler(signal);
    Ok(match ignores || flags & NO_ZOMBIES != 0 {
        // The kernel has a job's going on mean more than its signal.
        true if flags & NO_ZOMBIES != 0 || signal == CONTINUE => Meeting::Wait,
        // And a child's end, where nobody need wait for the child.
        true if signal == CHILD && (handler == IGNORE || are_ends_ignored(met)?) => Meeting::Wait,
        // It is to be gone, whatever handler there is later.
        true if is_waiting(met.process, signal)? => Meeting::Wait,
        true => Meeting::Depute(change),
        false => Meeting::Note(change),
    })
}
