//! What about a process cannot be undone.

use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use surmise_linux::proc::{self, Entry, Maps, Status, Task, is_gone};
use surmise_sys::memory;

use crate::contents::memory_of;
use crate::mappings;

/// What a process might have done, as far as its supervisor has seen: what it cannot have done need not be
/// looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Suspicions {
    /// Mapped memory that others may map, too.
    pub shared_memory: bool,
    /// Made a process that has its memory.
    pub sharing_children: bool,
    /// Asked that a copy of it lacks some of its memory (MADV_DONTFORK, MADV_WIPEONFORK of madvise(2)).
    pub hidden_memory: bool,
    /// Locked a file as fcntl(2) does: the lock goes with the next descriptor of that file that is closed.
    pub locks: bool,
    /// Filters its own calls, besides the supervisor's filters, which are so many.
    pub filters: Option<u32>,
    /// Is in a pid namespace below that of the supervised program, which is so many below the supervisor's.
    pub pid_namespaces: Option<usize>,
    /// Had its children be born into other namespaces than its own (unshare(2), setns(2)).
    pub namespaces: bool,
}

/// What stands in the way of a checkpoint, as the end of a sentence about the process.
///
/// # Errors
/// As for reading /proc: `NotFound` or `ESRCH` when the process has ended.
pub fn obstacle(process: Pid, suspicions: Suspicions) -> io::Result<Option<&'static str>> {
    let status = Status::of(process)?;
    if matches!(status.state(), Some('Z' | 'X')) {
        return Ok(Some("has lost its first thread"));
    }
    if status.ignores(Signal::TRAP) {
        return Ok(Some("ignores the signal by which calls are injected"));
    }
    // When the first process of one ends, the kernel waits in its place until the others have ended and were
    // reaped, by their tracers as well: a vessel's tracer may be waiting for that very process. And it adopts the
    // vessels of those that are killed, and would wait for children that nobody has borne.
    if let Some(namespaces) = suspicions.pid_namespaces
        && status.pid_namespaces() > namespaces
    {
        return Ok(Some("is in a pid namespace that was made since"));
    }
    if suspicions.namespaces && bears_elsewhere(process)? {
        return Ok(Some("has its children be born into another namespace"));
    }
    if let Some(filters) = suspicions.filters
        && status.filters() > filters
    {
        return Ok(Some("filters its own calls"));
    }
    if let Some(parent) = status.parent()
        && shares_memory(process, parent)?
    {
        return Ok(Some("has its parent's memory, from vfork"));
    }
    if suspicions.sharing_children && shares_memory_with_child(process)? {
        return Ok(Some("has a child with the same memory"));
    }
    if suspicions.shared_memory && has_writable_shared_memory(process)? {
        return Ok(Some("writes to memory that others may read"));
    }
    if suspicions.hidden_memory && has_hidden_memory(process)? {
        return Ok(Some("has memory that a copy of it does not get"));
    }
    if suspicions.locks && holds_locks(process)? {
        return Ok(Some("holds a lock on a file"));
    }
    match memory_of(process) {
        Err(error) if is_denied(&error) => Ok(Some("may not be looked into")),
        result => result.map(|_| None),
    }
}

/// How many filters are on a process' calls.
///
/// # Errors
/// As for reading /proc.
pub fn filters(process: Pid) -> io::Result<u32> {
    Ok(Status::of(process)?.filters())
}

/// In how many pid namespaces a process is, from this one's down.
///
/// # Errors
/// As for reading /proc.
pub fn pid_namespaces(process: Pid) -> io::Result<usize> {
    Ok(Status::of(process)?.pid_namespaces())
}

/// Whether a child of any of its threads, as a vessel is one, is not in the thread's own pid and time
/// namespaces. The first one in a pid namespace is its pid 1: after its end nobody is born there any more. And
/// once somebody is in a time namespace, its clocks cannot be set any more.
fn bears_elsewhere(process: Pid) -> io::Result<bool> {
    for thread in proc::threads(process)? {
        let namespaces = Entry::from(Task { process, thread }).path("ns");
        for kind in ["pid", "time"] {
            let own = match fs::read_link(namespaces.join(kind)) {
                // A kernel without such namespaces; or the thread has ended.
                Err(error) if is_gone(&error) => continue,
                Err(error) if is_denied(&error) => return Ok(true),
                own => own?,
            };
            // A pid namespace that nobody has been born into yet has no name.
            let of_children = fs::read_link(namespaces.join(format!("{kind}_for_children"))).ok();
            if of_children != Some(own) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn shares_memory(process: Pid, other: Pid) -> io::Result<bool> {
    match memory::is_shared(process, other) {
        // The other is not ours to look at, so it is no process of the domain; or it has ended.
        Err(error) if is_gone(&error) || is_denied(&error) => Ok(false),
        result => result,
    }
}

fn shares_memory_with_child(process: Pid) -> io::Result<bool> {
    let children = children(process)?;
    let shares = |&child: &Pid| shares_memory(process, child).unwrap_or(true);
    Ok(children.iter().any(shares))
}

/// The children of all threads of a process.
pub(crate) fn children(process: Pid) -> io::Result<Vec<Pid>> {
    let mut children = Vec::new();
    for thread in proc::threads(process)? {
        children.extend(proc::children(Task { process, thread })?);
    }
    Ok(children)
}

fn is_denied(error: &io::Error) -> bool {
    [Errno::PERM, Errno::ACCESS]
        .map(|errno| Some(errno.raw_os_error()))
        .contains(&error.raw_os_error())
}

/// The parent of a process, if this process can see it.
pub(crate) fn parent(process: Pid) -> io::Result<Option<Pid>> {
    Ok(Status::of(process)?.parent())
}

fn has_writable_shared_memory(process: Pid) -> io::Result<bool> {
    let mappings = mappings::of(process)?;
    let mut shared = mappings.iter().filter(|mapping| mapping.is_shared);
    Ok(shared.any(|mapping| mapping.protection.may_write()))
}

fn has_hidden_memory(process: Pid) -> io::Result<bool> {
    let told = Maps::with_flags(process)?;
    for map in told.iter() {
        let map = map?;
        if ["dc", "wf"]
            .iter()
            .any(|flag| map.has_flag(flag) == Some(true))
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// proc_locks(5): number, kind, mode, access, process, file, range.
fn holds_locks(process: Pid) -> io::Result<bool> {
    let own = process.as_raw_nonzero().to_string();
    let text = fs::read_to_string("/proc/locks")?;
    let mut locks = text
        .lines()
        .map(|line| line.split_ascii_whitespace().skip(1));
    Ok(locks
        .any(|mut fields| fields.next() == Some("POSIX") && fields.nth(2) == Some(own.as_str())))
}
