//! Processes and threads, and the tasks below a domain's pid 1.
//!
//! Orphans become children of pid 1, so all processes of a domain are below it.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::Pid;

use super::entry::{number, numbers, or_gone};
use super::{Entry, Status};

/// How many links the directory of a process' threads has that has one thread.
const LINKS_OF_ONE: u64 = 3;

/// A thread of a process. Both numbers are the caller's pid namespace's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Task {
    /// The process.
    pub process: Pid,
    /// The thread; of a process' first thread the same number.
    pub thread: Pid,
}

/// All processes, rising.
///
/// # Errors
/// As for reading /proc.
pub fn processes() -> io::Result<Vec<Pid>> {
    numbers(Path::new("/proc"))
}

/// The threads of a process, rising. The list is cut short when the thread ends that was just told.
///
/// # Errors
/// As for reading /proc: `NotFound` when it has ended.
pub fn threads(process: Pid) -> io::Result<Vec<Pid>> {
    let directory = Entry::from(process).path("task");
    // The kernel counts them as links. The first thread counts until all have ended: so a single one is the first.
    if directory.metadata()?.nlink() == LINKS_OF_ONE {
        return Ok(vec![process]);
    }
    numbers(&directory)
}

/// The children that a thread has borne or adopted. One may be missing when another one is reaped meanwhile.
///
/// # Errors
/// As for reading /proc: `NotFound` when it has ended.
pub fn children(task: Task) -> io::Result<Vec<Pid>> {
    let text = Entry::from(task).text("children")?;
    Ok(text.split_ascii_whitespace().filter_map(number).collect())
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
    for thread in whole_threads(init, &mut whole)? {
        processes.extend(whole_children(init, thread, &mut whole)?);
    }
    while let Some(process) = processes.pop() {
        let threads = or_gone(whole_threads(process, &mut whole))?;
        for &thread in &threads {
            visit(Task { process, thread })?;
        }
        for thread in threads {
            processes.extend(whole_children(process, thread, &mut whole)?);
        }
    }
    Ok(whole)
}

/// The status of a task; `None` once the task is gone.
///
/// When a thread executes a program just while its name in /proc is first looked up, that name goes on leading
/// to the process, whose number the thread has got.
pub(crate) fn look(task: Task) -> io::Result<Option<Status>> {
    let status = or_gone(Status::of(task).map(Some))?;
    Ok(status.filter(|status| status.thread() == Some(task.thread) && status.state().is_some()))
}

fn whole_threads(process: Pid, whole: &mut bool) -> io::Result<Vec<Pid>> {
    let threads = threads(process)?;
    let first = Task {
        process,
        thread: process,
    };
    // 0 of a process that has ended: its first thread, a zombie, is listed all the same.
    let count = look(first)?.map_or(0, |status| status.threads());
    *whole &= threads.len() >= count;
    Ok(threads)
}

fn whole_children(process: Pid, thread: Pid, whole: &mut bool) -> io::Result<Vec<Pid>> {
    let list = || or_gone(children(Task { process, thread }));
    let children = list()?;
    *whole &= children == list()?;
    Ok(children)
}
