//! The tasks below a domain's pid 1, found in /proc.
//!
//! Orphans become children of pid 1, so all processes of a domain are below it. Only files are read
//! that the kernel fills by itself, never from a task's memory.

use std::fs;
use std::io;

use rustix::process::Pid;

/// A thread of a process. Both numbers are the caller's pid namespace's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Task {
    /// The process.
    pub process: Pid,
    /// The thread; of a process' first thread the same number.
    pub thread: Pid,
}

/// All threads of all processes below `init`, a domain's pid 1, without its own.
///
/// What is born or ends meanwhile may be missing or listed; parents come before their children.
///
/// # Errors
/// As for reading /proc: `NotFound` when `init` has ended, or on a kernel without
/// `CONFIG_PROC_CHILDREN`.
pub fn tasks(init: Pid) -> io::Result<Vec<Task>> {
    let mut found = Vec::new();
    visit(init, &mut |task| {
        found.push(task);
        Ok::<(), io::Error>(())
    })?;
    Ok(found)
}

/// Calls `visit` with each task, before the children of that task are looked for: when it stops the
/// task, that has no children later.
///
/// Returns whether the lists were whole. The kernel cuts the list of threads short when the one ends
/// that it has just told, and may skip a child when another one is reaped.
pub(crate) fn visit<E: From<io::Error>>(
    init: Pid,
    visit: &mut impl FnMut(Task) -> Result<(), E>,
) -> Result<bool, E> {
    let mut whole = true;
    let mut processes = Vec::new();
    for thread in threads(init, &mut whole)? {
        processes.extend(children(init, thread, &mut whole)?);
    }
    while let Some(process) = processes.pop() {
        let threads = or_gone(threads(process, &mut whole))?;
        for &thread in &threads {
            visit(Task { process, thread })?;
        }
        for thread in threads {
            processes.extend(children(process, thread, &mut whole)?);
        }
    }
    Ok(whole)
}

/// What /proc says of a task.
pub(crate) struct Seen {
    /// One letter: `t` for a stopped tracee, `Z` for a zombie.
    pub(crate) state: char,
    pub(crate) name: String,
    /// Who traces it.
    pub(crate) tracer: Option<Pid>,
    /// How often it has given up a processor: while that stays so, it sleeps.
    pub(crate) switches: (u64, u64),
    /// How many its process has, those included that have ended and are not reaped.
    threads: usize,
}

/// `None` once the task is gone.
///
/// When a thread executes a program just while its name in /proc is first looked up, that name goes on leading
/// to the process, whose number the thread has got.
pub(crate) fn look(task: Task) -> io::Result<Option<Seen>> {
    let status = or_gone(read(task, "status"))?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::trim)
    };
    let number = |name: &str| field(name).map_or(0, |count| count.parse().unwrap_or(0));
    let is_itself = field("Pid:").and_then(parse) == Some(task.thread);
    let state = field("State:").and_then(|state| state.chars().next());
    Ok(state.filter(|_| is_itself).map(|state| Seen {
        state,
        name: field("Name:").unwrap_or_default().to_owned(),
        tracer: field("TracerPid:").and_then(parse),
        switches: (
            number("voluntary_ctxt_switches:"),
            number("nonvoluntary_ctxt_switches:"),
        ),
        threads: number("Threads:") as usize,
    }))
}

/// A file of /proc about a task.
pub(crate) fn read(task: Task, name: &str) -> io::Result<String> {
    let (process, thread) = (task.process, task.thread);
    let path = format!(
        "/proc/{}/task/{}/{name}",
        process.as_raw_nonzero(),
        thread.as_raw_nonzero()
    );
    // A name of a task may be any bytes.
    Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
}

fn threads(process: Pid, whole: &mut bool) -> io::Result<Vec<Pid>> {
    let mut threads = Vec::new();
    for entry in fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero()))? {
        threads.extend(entry?.file_name().to_str().and_then(parse));
    }
    let first = Task {
        process,
        thread: process,
    };
    // 0 of a process that has ended: its first thread, a zombie, is listed all the same.
    let count = look(first)?.map_or(0, |seen| seen.threads);
    *whole &= threads.len() >= count;
    Ok(threads)
}

fn children(process: Pid, thread: Pid, whole: &mut bool) -> io::Result<Vec<Pid>> {
    let list = || or_gone(read(Task { process, thread }, "children"));
    let text = list()?;
    *whole &= text == list()?;
    Ok(text.split_ascii_whitespace().filter_map(parse).collect())
}

fn parse(number: &str) -> Option<Pid> {
    Pid::from_raw(number.parse().ok()?)
}

/// Nothing, if the task has ended meanwhile.
pub(crate) fn or_gone<T: Default>(result: io::Result<T>) -> io::Result<T> {
    match result {
        Err(error) if is_gone(&error) => Ok(T::default()),
        result => result,
    }
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}
