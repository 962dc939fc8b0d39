//! FIFOs of programs outside: inside they have names, but nobody is at the other end. A task that opens one
//! waits there, and no call tells of it; so the domain's tasks are looked at.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use surmise_linux::proc::{self, Call, Doing, Entry, Task};
use surmise_sys::memory;
use surmise_syscalls::{Shape, Syscall, row_numbered};

use crate::observer::{Observer, Sockets};
use crate::refusal::Kind;

/// The longest path, with the byte that ends it.
const PATH_MAX: usize = 4096;

/// `AT_FDCWD`, as an int.
const WORKING: u32 = -100_i32 as u32;

/// A thread that waits in a call that opens a FIFO outside.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Waiter {
    thread: Pid,
    call: Call,
    fifo: PathBuf,
}

/// How long a task has to be seen to wait. One inside may come to the other end.
const LONG: Duration = Duration::from_millis(900);

/// Finds tasks that wait for the other end of a FIFO outside.
#[derive(Debug, Default)]
pub struct Fifos {
    /// Those that waited at the last look, and since when they are seen; `None` for those that were told.
    waiting: HashMap<Waiter, Option<Instant>>,
}

impl Fifos {
    /// Looks at all tasks of the domain. What has been seen to wait for long is told, once.
    pub fn look(&mut self, observer: &Observer) {
        let now = Instant::now();
        let mut before = std::mem::take(&mut self.waiting);
        for waiter in waiters(observer) {
            let since = before.remove(&waiter).unwrap_or(Some(now));
            let is_long = since.is_some_and(|since| now.duration_since(since) >= LONG);
            if is_long {
                let fifo = waiter.fifo.to_string_lossy();
                let allow = Some(format!("--allow-socket {fifo}"));
                observer.record(waiter.thread, Kind::Fifo, &fifo, allow);
            }
            self.waiting.insert(waiter, since.filter(|_| !is_long));
        }
    }
}

fn waiters(observer: &Observer) -> HashSet<Waiter> {
    let Sockets::Apart(allowed) = observer.sockets() else {
        return HashSet::new();
    };
    let found = proc::processes().unwrap_or_default().into_iter();
    let found = found.filter(|process| observer.is_inside(*process));
    let tasks = found.flat_map(|process| {
        let threads = proc::threads(process).unwrap_or_default().into_iter();
        threads.map(move |thread| Task { process, thread })
    });
    let waiters = tasks.filter_map(waiter);
    let is_allowed = |fifo: &Path| {
        let mut paths = allowed
            .iter()
            .filter_map(|path| fs::canonicalize(path).ok());
        paths.any(|path| fifo.starts_with(path))
    };
    waiters.filter(|waiter| !is_allowed(&waiter.fifo)).collect()
}

fn waiter(task: Task) -> Option<Waiter> {
    let Ok(Doing::Calling(call)) = proc::doing(task) else {
        return None;
    };
    let row = row_numbered(call.number)?;
    if !matches!(
        row.name(),
        Syscall::Open | Syscall::Openat | Syscall::Openat2
    ) {
        return None;
    }
    let place = row
        .arguments()
        .iter()
        .position(|shape| *shape == Shape::Path)?;
    let name = text(task.thread, *call.arguments.get(place)?)?;
    let entry = Entry::from(task);
    let directory = call.arguments[0] as u32;
    let start = match (name.is_absolute(), place) {
        (true, _) => fs::read_link(entry.path("root")).ok()?,
        (false, 1) if directory != WORKING => {
            fs::read_link(entry.path("fd").join(directory.to_string())).ok()?
        }
        (false, _) => fs::read_link(entry.path("cwd")).ok()?,
    };
    let path = start.join(name.strip_prefix("/").unwrap_or(&name));
    let fifo = fs::canonicalize(path).ok()?;
    let is_fifo = fs::metadata(&fifo).ok()?.file_type().is_fifo();
    is_fifo.then_some(Waiter {
        thread: task.thread,
        call,
        fifo,
    })
}

/// A text that ends with a zero byte. What follows it may not be there, so it is read up to the end of its page.
fn text(thread: Pid, mut at: u64) -> Option<PathBuf> {
    const PAGE: u64 = 4096;
    let mut text = Vec::new();
    while text.len() < PATH_MAX {
        let mut piece = vec![0; (PAGE - at % PAGE) as usize];
        memory::read(thread, at, &mut piece).ok()?;
        if let Some(end) = piece.iter().position(|byte| *byte == 0) {
            text.extend(&piece[..end]);
            return Some(Path::new(std::ffi::OsStr::from_bytes(&text)).into());
        }
        at += piece.len() as u64;
        text.append(&mut piece);
    }
    None
}
