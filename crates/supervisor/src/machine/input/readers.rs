//! Threads that may be taking input this moment, or be in another call on a pipe.

use std::collections::HashMap;
use std::fs;

use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::process::Pid;

use surmise_linux::proc::Entry;
use surmise_syscalls::{Syscall, row_of};

use super::calls::{Reach, taking, touching};
use crate::machine::message::PLAIN;
use crate::machine::{fifo, task};
use crate::objects::input::Place;

/// So much is written to a pipe at once, or not at all (PIPE_BUF of pipe(7)).
const PIPE_BUF: u64 = 4096;

/// The threads whose last call that was heard of may touch pipes, or take input.
#[derive(Debug, Default)]
pub(crate) struct Readers(HashMap<Pid, Touching>);

/// Such a call.
#[derive(Clone, Copy, Debug)]
struct Touching {
    call: Syscall,
    /// What it takes input from.
    from: Reach,
    /// What it touches.
    what: Reach,
    /// Whether it can be made again without anybody's noticing.
    is_repeatable: bool,
}

/// A thread that may be in a call on a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) thread: Pid,
    /// Whether it can be made to come past that call, without its noticing.
    pub(crate) can_pass: bool,
}

impl Readers {
    /// A thread makes a call.
    pub(crate) fn heard(&mut self, thread: Pid, call: Syscall, arguments: &[u64; 6]) {
        let what = touching(call, arguments);
        if what == Reach::Nothing {
            self.0.remove(&thread);
            return;
        }
        let is_repeatable = match call {
            Syscall::Read | Syscall::Readv => true,
            // One that waits for all that it wants may have some of it.
            Syscall::Recvfrom => arguments[3] as u32 & !PLAIN == 0,
            Syscall::Recvmsg => arguments[2] as u32 & !PLAIN == 0,
            // To a pipe it is written at once, or not at all (PIPE_BUF of pipe(7)).
            Syscall::Write => arguments[2] <= PIPE_BUF,
            // The kernel has noted how much time is left.
            Syscall::Ppoll | Syscall::Select | Syscall::Pselect6 => true,
            // Only one that no time ends is made again as it was.
            Syscall::Poll => (arguments[2] as i32) < 0,
            _ => false,
        };
        let touching = Touching {
            call,
            from: taking(call, arguments),
            what,
            is_repeatable,
        };
        self.0.insert(thread, touching);
    }

    /// Its call does not happen.
    pub(crate) fn answered(&mut self, thread: Pid) {
        self.0.remove(&thread);
    }

    /// Whether a thread but this one may be taking what is at this place. True in doubt.
    pub(crate) fn may_take(&mut self, place: Place, but: Pid) -> bool {
        let mut is_taken = false;
        self.0.retain(|&thread, touching| {
            let state = match thread == but || touching.from == Reach::Nothing {
                true => State::Elsewhere,
                false => State::of(thread, touching.call),
            };
            is_taken |= state == State::There && leads_to(thread, touching.from, place);
            state != State::Gone
        });
        is_taken
    }

    /// The threads but one that may be in a call on a pipe or connection, which has its ends at these places.
    pub(crate) fn users(&mut self, places: &[Place], but: Pid) -> Vec<User> {
        let mut users = Vec::new();
        self.0.retain(|&thread, touching| {
            let state = match thread == but {
                true => State::Elsewhere,
                false => State::of(thread, touching.call),
            };
            let may_touch = matches!(state, State::There | State::Resumed)
                && match touching.what {
                    // Another thread may have closed a descriptor since.
                    Reach::Anything => !is_alone(thread) || has(thread, places),
                    what => places.iter().any(|place| leads_to(thread, what, *place)),
                };
            if may_touch {
                let can_pass =
                    state == State::There && touching.is_repeatable && !touching.may_be_cut(thread);
                users.push(User { thread, can_pass });
            }
            state != State::Gone
        });
        users
    }
}

impl Touching {
    /// Whether it may write less than it was to, once it is interrupted: all but a pipe may have taken some. True in doubt.
    fn may_be_cut(self, thread: Pid) -> bool {
        let (Syscall::Write, Reach::Descriptor(number)) = (self.call, self.what) else {
            return false;
        };
        let Ok(Some(process)) = task::process_of(thread) else {
            return true;
        };
        let kind = task::file_type(process, number);
        !is_alone(process) || !kind.is_ok_and(|kind| kind == Some(FileType::Fifo))
    }
}

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In its call, or so it may be.
    There,
    /// In its call, which the kernel has had go on after an interruption: nobody would hear if it did so again.
    Resumed,
    Elsewhere,
    Gone,
}

impl State {
    fn of(thread: Pid, call: Syscall) -> Self {
        let line = match Entry::from(thread).read("syscall") {
            Ok(line) => line,
            Err(error) if task::is_gone(&error) => return Self::Gone,
            Err(_) => return Self::There,
        };
        let number = |call| row_of(call).number().to_string();
        let line = String::from_utf8_lossy(&line);
        match line.split_ascii_whitespace().next() {
            Some("running") | None => Self::There,
            Some(other) if other == number(call) => Self::There,
            Some(other) if other == number(Syscall::RestartSyscall) => Self::Resumed,
            Some(_) => Self::Elsewhere,
        }
    }
}

/// Whether a thread has any of these open, by whatever number, or watches any by epoll(7). True in doubt.
fn has(thread: Pid, places: &[Place]) -> bool {
    let Ok(listed) = fs::read_dir(format!("/proc/{}/fd", thread.as_raw_nonzero())) else {
        return true;
    };
    listed.flatten().any(|entry| {
        let number = || entry.file_name().into_string().unwrap_or_default();
        let stat = match rustix::fs::stat(entry.path()) {
            Ok(stat) => stat,
            // A file of the view, which may be a FIFO.
            Err(Errno::ACCESS) => return fifo::may_be_among(thread, &number(), places),
            // One that is closed meanwhile is none.
            Err(_) => return false,
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Unknown => watches(thread, &number(), (stat.st_ino, places)),
            _ => places.contains(&Place::of(&stat)),
        }
    })
}

/// Whether a descriptor of epoll(7) watches what is at any of these places, which its process need not have open. One that watches
/// another such descriptor may watch anything: all these have one inode, `own`. True in doubt.
fn watches(thread: Pid, number: &str, (own, places): (u64, &[Place])) -> bool {
    let told = match Entry::from(thread).read(&format!("fdinfo/{number}")) {
        Ok(told) => told,
        Err(error) => return !task::is_gone(&error),
    };
    // What is no such descriptor has no such line (proc_pid_fdinfo(5)).
    let told = String::from_utf8_lossy(&told);
    let mut watched = told.lines().filter(|line| line.starts_with("tfd:"));
    watched.any(|line| {
        let inode = line.split_once("ino:").map(|(_, rest)| rest);
        let inode = inode.and_then(|rest| rest.split_ascii_whitespace().next());
        let inode = inode.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        inode.is_none_or(|inode| inode == own || places.iter().any(|place| place.1 == inode))
    })
}

/// Whether a thread is known to be the only one of its process.
fn is_alone(thread: Pid) -> bool {
    let path = format!("/proc/{}/task", thread.as_raw_nonzero());
    fs::read_dir(path).map_or(0, Iterator::count) == 1
}

/// Whether a thread's call may take from this place.
fn leads_to(thread: Pid, from: Reach, place: Place) -> bool {
    let Reach::Descriptor(number) = from else {
        return true;
    };
    let Ok(Some(process)) = task::process_of(thread) else {
        return false;
    };
    // Another thread may have closed the descriptor since; the call goes on all the same.
    if !is_alone(process) {
        return true;
    }
    match task::reached(process, number) {
        Ok(Some(reached)) => {
            let own = reached.stat.as_ref().map(Place::of);
            own == Some(place) || fifo::is_at(&reached, place)
        }
        Ok(None) => false,
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use rustix::event::epoll;
    use rustix::process::{Signal, kill_process};
    use surmise_linux::proc::Status;

    use super::*;

    const READ: Syscall = Syscall::Read;

    /// A process that waits for a line, and the place that it comes from.
    fn waiting() -> (Child, Pid, Place) {
        let child = Command::new("sh")
            .args(["-c", "read line; exec sleep 60"])
            .stdin(Stdio::piped())
            .spawn()
            .expect("start sh");
        let stat = rustix::fs::fstat(child.stdin.as_ref().expect("a pipe")).expect("stat");
        let thread = Pid::from_child(&child);
        (child, thread, Place::of(&stat))
    }

    fn eventually(mut is_so: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < Duration::from_secs(10), "it never is");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn what_is_watched_is_found_by_its_inode() {
        let pipes = [(); 2].map(|()| std::io::pipe().expect("a pipe").0);
        let places = pipes
            .each_ref()
            .map(|pipe| Place::of(&rustix::fs::fstat(pipe).expect("stat")));
        let [watched, other] = places;
        let queue = || epoll::create(epoll::CreateFlags::CLOEXEC).expect("a queue");
        let (outer, inner) = (queue(), queue());
        let add = |to: &OwnedFd, file: BorrowedFd<'_>| {
            let data = epoll::EventData::new_u64(0);
            epoll::add(to, file, data, epoll::EventFlags::IN).expect("watch");
        };
        add(&inner, pipes[0].as_fd());
        add(&outer, inner.as_fd());
        let own = rustix::fs::fstat(&inner).expect("stat").st_ino;
        let watches = |queue: &OwnedFd, place| {
            let number = queue.as_raw_fd().to_string();
            watches(rustix::process::getpid(), &number, (own, &[place]))
        };
        assert!(watches(&inner, watched) && !watches(&inner, other));
        assert!(watches(&outer, other), "the other one may watch anything");
        assert!(!super::watches(
            rustix::process::getpid(),
            "4000",
            (own, &places)
        ));
    }

    #[test]
    fn who_waits_for_input_may_take_it_and_who_has_it_may_not() {
        let (mut child, thread, place) = waiting();
        let other =
            Place::of(&rustix::fs::fstat(std::io::pipe().expect("a pipe").0).expect("stat"));
        let own = rustix::process::getpid();
        let mut readers = Readers::default();
        assert!(!readers.may_take(place, own), "nobody has read anything");
        readers.heard(thread, READ, &[0; 6]);
        eventually(|| State::of(thread, READ) == State::There);
        assert!(readers.may_take(place, own));
        assert!(!readers.may_take(place, thread), "it is the one that asks");
        assert!(!readers.may_take(other, own));
        child
            .stdin
            .take()
            .expect("a pipe")
            .write_all(b"line\n")
            .expect("write");
        eventually(|| !readers.may_take(place, own));
        child.kill().expect("kill");
        child.wait().expect("wait");
        assert!(!readers.may_take(place, own));
        assert!(readers.0.is_empty(), "it has ended");
    }

    /// As it is known of a sleep, a poll is.
    #[test]
    fn a_call_that_the_kernel_has_had_go_on_is_told_from_others() {
        const SLEEP: Syscall = Syscall::ClockNanosleep;
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep");
        let thread = Pid::from_child(&child);
        // One that runs may be in any call.
        let states = || [SLEEP, READ].map(|call| State::of(thread, call));
        eventually(|| states() == [State::There, State::Elsewhere]);
        kill_process(thread, Signal::STOP).expect("stop it");
        eventually(|| Status::of(thread).expect("its status").state() == Some('T'));
        kill_process(thread, Signal::CONT).expect("let it go on");
        eventually(|| State::of(thread, SLEEP) == State::Resumed);
        child.kill().expect("kill");
        child.wait().expect("wait");
    }

    #[test]
    fn a_later_call_and_an_answer_tell_that_a_read_is_over() {
        let (mut child, thread, place) = waiting();
        let own = rustix::process::getpid();
        let mut readers = Readers::default();
        readers.heard(thread, READ, &[0; 6]);
        readers.heard(thread, Syscall::Write, &[1; 6]);
        assert!(!readers.may_take(place, own));
        readers.heard(thread, Syscall::Getpgid, &[1; 6]);
        assert!(readers.0.is_empty());
        readers.heard(thread, READ, &[0; 6]);
        readers.answered(thread);
        assert!(!readers.may_take(place, own));
        child.kill().expect("kill");
        child.wait().expect("wait");
    }
}
