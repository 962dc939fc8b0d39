//! Threads that may be taking input this moment: it would be gone before it could be given.

use std::collections::HashMap;
use std::fs;

use rustix::process::Pid;

use surmise_syscalls::{Syscall, row_of};

use super::calls::{Reach, taking};
use crate::machine::task;
use crate::objects::input::Place;

/// The threads whose last call that was heard of takes input.
#[derive(Debug, Default)]
pub(crate) struct Readers(HashMap<Pid, Taking>);

/// Such a call.
#[derive(Clone, Copy, Debug)]
struct Taking {
    call: Syscall,
    from: Reach,
}

impl Readers {
    /// A thread makes a call.
    pub(crate) fn heard(&mut self, thread: Pid, call: Syscall, arguments: &[u64; 6]) {
        match taking(call, arguments) {
            Reach::Nothing => drop(self.0.remove(&thread)),
            from => drop(self.0.insert(thread, Taking { call, from })),
        }
    }

    /// Its call does not happen.
    pub(crate) fn answered(&mut self, thread: Pid) {
        self.0.remove(&thread);
    }

    /// Whether a thread but this one may be taking what is at this place. True in doubt.
    pub(crate) fn may_take(&mut self, place: Place, but: Pid) -> bool {
        let mut is_taken = false;
        self.0.retain(|&thread, taking| {
            let state = match thread == but {
                true => State::Elsewhere,
                false => State::of(thread, taking.call),
            };
            is_taken |= state == State::There && leads_to(thread, taking.from, place);
            state != State::Gone
        });
        is_taken
    }
}

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In its call, or so it may be.
    There,
    Elsewhere,
    Gone,
}

impl State {
    fn of(thread: Pid, call: Syscall) -> Self {
        let path = format!("/proc/{}/syscall", thread.as_raw_nonzero());
        let line = match fs::read_to_string(path) {
            Ok(line) => line,
            Err(error) if task::is_gone(&error) => return Self::Gone,
            Err(_) => return Self::There,
        };
        match line.split_ascii_whitespace().next() {
            Some("running") | None => Self::There,
            Some(other) if other == row_of(call).number().to_string() => Self::There,
            Some(_) => Self::Elsewhere,
        }
    }
}

/// Whether a thread's call may take from this place.
fn leads_to(thread: Pid, from: Reach, place: Place) -> bool {
    let Reach::Descriptor(number) = from else {
        return true;
    };
    let Ok(Some(process)) = task::process_of(thread) else {
        return false;
    };
    let path = format!("/proc/{}/task", process.as_raw_nonzero());
    // Another thread may have closed the descriptor since; the call goes on all the same.
    if fs::read_dir(path).map_or(0, Iterator::count) != 1 {
        return true;
    }
    match task::file(process, number) {
        Ok(found) => found.is_some_and(|(_, stat)| Place::of(&stat) == place),
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

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

    #[test]
    fn a_later_call_and_an_answer_tell_that_a_read_is_over() {
        let (mut child, thread, place) = waiting();
        let own = rustix::process::getpid();
        let mut readers = Readers::default();
        readers.heard(thread, READ, &[0; 6]);
        readers.heard(thread, Syscall::Write, &[1; 6]);
        assert!(!readers.may_take(place, own));
        readers.heard(thread, READ, &[0; 6]);
        readers.answered(thread);
        assert!(!readers.may_take(place, own));
        child.kill().expect("kill");
        child.wait().expect("wait");
    }
}
