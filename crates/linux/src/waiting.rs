//! What a task waits for, to find out whether a whole domain is stalled.
//!
//! Only what the kernel knows by itself is read: the state, the call with its registers, and the links
//! of descriptors. To read a task's memory, or a file behind a descriptor, could itself wait for the
//! view.

use std::io;
use std::time::Duration;

use rustix::process::Pid;

use crate::proc::{self, Call, Doing, Entry, Link, Task};

/// What a task waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Nothing: it executes, or waits for a disk, the view or memory, which end by themselves.
    Running,
    /// A time, and nothing else.
    Time,
    /// To read, write, connect or accept.
    Descriptor(Link),
    /// Any of several descriptors, by poll, select or epoll: all sockets of the process that it may be,
    /// by inode. Which of them is in its memory. A timeout does not count: the task comes back to wait.
    Many(Vec<u64>),
    /// A child's end. Also a parent in vfork.
    Child,
    /// Another task that shares memory with it.
    Futex,
    /// A lock on a file.
    Lock,
    /// A System V semaphore or message.
    Ipc,
    /// A signal.
    Signal,
    /// To be continued: a stopped job, or a tracee.
    Stopped,
    /// The other end of a FIFO that it opens.
    Open,
    /// The person at a terminal.
    Terminal,
    /// Something else, in the call of this number.
    Call(i64),
    /// Nothing any more: it has ended and is not reaped.
    Ended,
}

/// What `task` waits for at this moment.
///
/// # Errors
/// As for reading /proc: `NotFound` or `ESRCH` when it has ended, `EPERM` or `EACCES` when it is not
/// the caller's to look into.
pub fn state(task: Task) -> io::Result<Waiting> {
    let state = proc::state(task)?;
    match state {
        Some('T' | 't') => return Ok(Waiting::Stopped),
        Some('Z' | 'X') => return Ok(Waiting::Ended),
        Some('S' | 'D') => {}
        _ => return Ok(Waiting::Running),
    }
    let Doing::Calling(call) = proc::doing(task)? else {
        return Ok(Waiting::Running);
    };
    let place = Entry::from(task).text("wchan")?;
    if ["fuse", "request_wait"]
        .iter()
        .any(|part| place.contains(part))
    {
        return Ok(Waiting::Running);
    }
    if state == Some('D') {
        return Ok(match i64::from(call.number) {
            libc::SYS_vfork | libc::SYS_clone | libc::SYS_clone3 => Waiting::Child,
            _ => Waiting::Running,
        });
    }
    classify(task, &call, &place)
}

/// How long a task has executed, and how often it got a processor: two samples that are equal mean
/// that it did nothing between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// Processor time.
    pub time: Duration,
    /// Times that it began to execute.
    pub turns: u64,
}

/// What `task` has done so far.
///
/// # Errors
/// As [`state`]; `InvalidData` on a kernel that does not count.
pub fn activity(task: Task) -> io::Result<Activity> {
    let text = Entry::from(task).text("schedstat")?;
    let mut numbers = text.split_ascii_whitespace().map(str::parse);
    // Executed and waited, in nanoseconds, and turns.
    match (numbers.next(), numbers.next(), numbers.next()) {
        (Some(Ok(time)), Some(Ok(_)), Some(Ok(turns))) => Ok(Activity {
            time: Duration::from_nanos(time),
            turns,
        }),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// The inodes of the sockets that a process holds, in ascending order.
///
/// # Errors
/// As [`state`].
pub fn sockets(process: Pid) -> io::Result<Vec<u64>> {
    let mut sockets = Vec::new();
    proc::each_link(process, |_, link| {
        if let Link::Socket(inode) = link {
            sockets.push(inode);
        }
    })?;
    sockets.sort_unstable();
    sockets.dedup();
    Ok(sockets)
}

fn classify(task: Task, call: &Call, place: &str) -> io::Result<Waiting> {
    let [first, second, third, ..] = call.arguments;
    Ok(match i64::from(call.number) {
        libc::SYS_nanosleep | libc::SYS_clock_nanosleep => Waiting::Time,
        libc::SYS_poll => polled(task, second == 0, int(third) >= 0)?,
        libc::SYS_ppoll => polled(task, second == 0, third != 0)?,
        libc::SYS_select | libc::SYS_pselect6 => match no_sets(call) {
            true => polled(task, true, call.arguments[4] != 0)?,
            false => any_below(task.process, int(first))?,
        },
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => {
            polled(task, false, true)?
        }
        libc::SYS_wait4 | libc::SYS_waitid => Waiting::Child,
        libc::SYS_futex | SYS_FUTEX_WAITV | SYS_FUTEX_WAIT => Waiting::Futex,
        libc::SYS_flock => Waiting::Lock,
        libc::SYS_fcntl if matches!(int(second), libc::F_SETLKW | libc::F_OFD_SETLKW) => {
            Waiting::Lock
        }
        libc::SYS_semop | libc::SYS_semtimedop | libc::SYS_msgrcv | libc::SYS_msgsnd => {
            Waiting::Ipc
        }
        libc::SYS_rt_sigtimedwait if third != 0 => Waiting::Time,
        libc::SYS_pause | libc::SYS_rt_sigsuspend | libc::SYS_rt_sigtimedwait => Waiting::Signal,
        libc::SYS_open | libc::SYS_openat | libc::SYS_openat2 | libc::SYS_creat => Waiting::Open,
        libc::SYS_sendfile => transfer(task, [first, second])?,
        libc::SYS_splice => transfer(task, [first, third])?,
        libc::SYS_tee => transfer(task, [first, second])?,
        // A wait that was interrupted and goes on. The registers are those of the first time.
        libc::SYS_restart_syscall => restarted(task, place, second == 0)?,
        number if ON_ITS_DESCRIPTOR.contains(&number) => on_descriptor(task, first)?,
        number => Waiting::Call(number),
    })
}

/// Calls whose first argument is the descriptor that they wait on.
const ON_ITS_DESCRIPTOR: [i64; 24] = [
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_ioctl,
    libc::SYS_connect,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvmmsg,
    libc::SYS_close,
    libc::SYS_vmsplice,
    libc::SYS_mq_timedsend,
    libc::SYS_mq_timedreceive,
];

// Not in libc for this C library.
const SYS_FUTEX_WAITV: i64 = 449;
const SYS_FUTEX_WAIT: i64 = 455;

/// A wait for readiness. Without a descriptor it is one for a time, or for a signal.
fn polled(task: Task, watches_nothing: bool, has_limit: bool) -> io::Result<Waiting> {
    Ok(match (watches_nothing, has_limit) {
        (true, true) => Waiting::Time,
        (true, false) => Waiting::Signal,
        (false, _) => any_below(task.process, i32::MAX)?,
    })
}

/// A wait for any of a process' descriptors below `limit`. Where a terminal is the only one of them that
/// somebody else makes ready, it is the terminal that is waited for: a shell at its prompt.
fn any_below(process: Pid, limit: i32) -> io::Result<Waiting> {
    let mut sockets = Vec::new();
    let (mut pipe, mut terminal) = (false, false);
    proc::each_link(process, |number, link| {
        if number < limit {
            match link {
                Link::Socket(inode) => sockets.push(inode),
                Link::Pipe(_) => pipe = true,
                Link::Other(link) => terminal |= is_terminal(&link),
            }
        }
    })?;
    if sockets.is_empty() && !pipe && terminal {
        return Ok(Waiting::Terminal);
    }
    sockets.sort_unstable();
    sockets.dedup();
    Ok(Waiting::Many(sockets))
}

/// Ptys, /dev/tty, /dev/tty1, /dev/ttyS0 and the console.
fn is_terminal(link: &str) -> bool {
    link.starts_with("/dev/pts/") || link.starts_with("/dev/tty") || link == "/dev/console"
}

/// Whether a select watches no descriptor.
fn no_sets(call: &Call) -> bool {
    let [count, sets @ ..] = call.arguments;
    int(count) == 0 || sets[..3] == [0; 3]
}

/// Moves data between two descriptors: it waits for the one that is no file.
fn transfer(task: Task, descriptors: [u64; 2]) -> io::Result<Waiting> {
    let mut last = Waiting::Running;
    for descriptor in descriptors {
        last = on_descriptor(task, descriptor)?;
        let is_file =
            matches!(&last, Waiting::Descriptor(Link::Other(link)) if link.starts_with('/'));
        if !is_file {
            break;
        }
    }
    Ok(last)
}

/// Of the calls that begin again in this way all have a timeout; the place tells which it is.
fn restarted(task: Task, place: &str, watches_nothing: bool) -> io::Result<Waiting> {
    let is = |part| place.contains(part);
    Ok(if is("futex") {
        Waiting::Futex
    } else if is("poll") {
        polled(task, watches_nothing, true)?
    } else {
        Waiting::Time
    })
}

fn on_descriptor(task: Task, number: u64) -> io::Result<Waiting> {
    // A thread may have a table of descriptors of its own.
    let link = match Link::of(task, int(number)) {
        // Closed by another thread meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Waiting::Running),
        link => link?,
    };
    Ok(match &link {
        Link::Other(name) if name == "anon_inode:[timerfd]" => Waiting::Time,
        Link::Other(name) if name == "anon_inode:[signalfd]" => Waiting::Signal,
        Link::Other(name) if is_terminal(name) => Waiting::Terminal,
        _ => Waiting::Descriptor(link),
    })
}

/// An argument that the kernel takes as an `int`.
fn int(argument: u64) -> i32 {
    argument as i32
}
