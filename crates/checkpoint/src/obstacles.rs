//! What about a process cannot be undone.

use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::process::Pid;
use surmise_sys::memory;

use crate::contents::memory_of;
use crate::held::is_gone;
use crate::mappings;
use crate::threads::threads;

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
    if status
        .field("State:")
        .is_some_and(|state| state.starts_with(['Z', 'X']))
    {
        return Ok(Some("has lost its first thread"));
    }
    if status.ignores(SIGTRAP) {
        return Ok(Some("ignores the signal by which calls are injected"));
    }
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

const SIGTRAP: u32 = 5;

/// What /proc/PID/status says (proc_pid_status(5)).
struct Status(String);

impl Status {
    fn of(process: Pid) -> io::Result<Self> {
        let text = fs::read(format!("/proc/{}/status", process.as_raw_nonzero()))?;
        Ok(Self(String::from_utf8_lossy(&text).into_owned()))
    }

    fn field(&self, name: &str) -> Option<&str> {
        let line = self.0.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::trim)
    }

    fn parent(&self) -> Option<Pid> {
        self.field("PPid:")
            .and_then(|digits| Pid::from_raw(digits.parse().ok()?))
    }

    fn filters(&self) -> u32 {
        let count = self.field("Seccomp_filters:");
        count.and_then(|digits| digits.parse().ok()).unwrap_or(0)
    }

    /// In how many pid namespaces it is.
    ///
    /// When the first process of one ends, the kernel waits in its place until the others have ended and were
    /// reaped, by their tracers as well: a vessel's tracer may be waiting for that very process. And it
    /// adopts the vessels of those that are killed, and would wait for children that nobody has borne.
    fn pid_namespaces(&self) -> usize {
        let numbers = self.field("NSpid:").unwrap_or_default();
        numbers.split_ascii_whitespace().count()
    }

    fn ignores(&self, signal: u32) -> bool {
        let ignored = self
            .field("SigIgn:")
            .and_then(|mask| u64::from_str_radix(mask, 16).ok());
        ignored.is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
    }
}

/// Whether a child of any of its threads, as a vessel is one, is not in the thread's own pid and time
/// namespaces. The first one in a pid namespace is its pid 1: after its end nobody is born there any more. And
/// once somebody is in a time namespace, its clocks cannot be set any more.
fn bears_elsewhere(process: Pid) -> io::Result<bool> {
    for thread in threads(process)? {
        let namespaces = format!(
            "/proc/{}/task/{}/ns",
            process.as_raw_nonzero(),
            thread.as_raw_nonzero()
        );
        for kind in ["pid", "time"] {
            let own = match fs::read_link(format!("{namespaces}/{kind}")) {
                // A kernel without such namespaces; or the thread has ended.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) if is_denied(&error) => return Ok(true),
                own => own?,
            };
            // A pid namespace that nobody has been born into yet has no name.
            let of_children = fs::read_link(format!("{namespaces}/{kind}_for_children")).ok();
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
    for thread in threads(process)? {
        let (number, thread) = (process.as_raw_nonzero(), thread.as_raw_nonzero());
        let listed = fs::read_to_string(format!("/proc/{number}/task/{thread}/children"))?;
        let listed = listed.split_ascii_whitespace();
        children.extend(listed.filter_map(|child| Pid::from_raw(child.parse().ok()?)));
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
    let path = format!("/proc/{}/smaps", process.as_raw_nonzero());
    let text = fs::read(path)?;
    let text = String::from_utf8_lossy(&text);
    let flags = text
        .lines()
        .filter_map(|line| line.strip_prefix("VmFlags:"));
    let mut flags = flags.flat_map(str::split_ascii_whitespace);
    Ok(flags.any(|flag| matches!(flag, "dc" | "wf")))
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
