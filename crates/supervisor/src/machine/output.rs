//! Bytes that a task has written to one of the domain's streams, on their way there.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::time::Timespec;
use surmise_sys::memory;

use surmise_syscalls::Syscall;

use super::channels::Channels;
use super::task;
use crate::call::Call;

/// A pipe that can be written to takes this much at once (PIPE_BUF).
const ATOMIC: usize = 4096;

/// One write that its task believes to have happened.
#[derive(Debug)]
pub(crate) struct Output {
    to: OwnedFd,
    /// Whether `to` is the supervisor's own open file, which never blocks.
    is_own: bool,
    bytes: Vec<u8>,
    /// How many of them are written.
    written: usize,
}

impl Output {
    /// What a process writes by a descriptor, `bytes` being the address and the length; `None` if a part of it is not
    /// there, or the descriptor does not lead to a stream.
    pub(super) fn read(
        process: Pid,
        descriptor: u64,
        (address, length): (u64, u64),
        channels: &Channels,
    ) -> io::Result<Option<Self>> {
        let mut bytes = vec![0; length as usize];
        if memory::read(process, address, &mut bytes).is_err() {
            return Ok(None);
        }
        // Another thread may have changed what the descriptor leads to.
        Ok(match task::file(process, descriptor) {
            Ok(Some((to, stat))) if channels.leads_to_output(&to, &stat) => Some(Self {
                to,
                is_own: false,
                bytes,
                written: 0,
            }),
            _ => None,
        })
    }

    /// Writes as much as there is room for. True when all is written. A reader that is gone counts as one that has read
    /// all: the task will notice by its next write.
    pub(super) fn put(&mut self) -> io::Result<bool> {
        self.own();
        while self.written < self.bytes.len() {
            if !self.has_room()? {
                return Ok(false);
            }
            let rest = &self.bytes[self.written..];
            match rustix::io::write(&self.to, &rest[..rest.len().min(ATOMIC)]) {
                Ok(written) => self.written += written,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(_) => return Ok(true),
            }
        }
        Ok(true)
    }

    /// The task's open file is shared with others, and may not be made one that never blocks. A file of one's own may;
    /// where there is none to be had, a look goes before each write.
    fn own(&mut self) {
        if self.is_own {
            return;
        }
        let path = format!("/proc/self/fd/{}", self.to.as_raw_fd());
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        if let Ok(own) = rustix::fs::open(path, flags, Mode::empty()) {
            self.to = own;
            self.is_own = true;
        }
    }

    fn has_room(&self) -> io::Result<bool> {
        if self.is_own {
            return Ok(true);
        }
        let mut events = [PollFd::new(&self.to, PollFlags::OUT)];
        match rustix::event::poll(&mut events, Some(&Timespec::default())) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Where it goes, to poll for room.
impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.to.as_fd()
    }
}

/// Whether a call may write to one of the domain's streams, or lets its process end before what it has written has
/// left. True in doubt.
pub(super) fn may_put(channels: &Channels, process: Option<Pid>, call: &Call) -> bool {
    let descriptor = match call.name() {
        Syscall::Write
        | Syscall::Writev
        | Syscall::Pwrite64
        | Syscall::Pwritev
        | Syscall::Pwritev2
        | Syscall::Sendfile => call.arguments()[0],
        Syscall::Tee => call.arguments()[1],
        Syscall::Splice => call.arguments()[2],
        Syscall::Vmsplice | Syscall::IoSubmit | Syscall::ExitGroup | Syscall::Exit => return true,
        _ => return false,
    };
    let Some(process) = process else {
        return false;
    };
    match task::file(process, descriptor) {
        Ok(found) => found.is_some_and(|(file, stat)| channels.leads_to_output(&file, &stat)),
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As long as nobody reads, an output of more than a pipe holds does not leave, and does not wait either.
    #[test]
    fn a_slow_reader_gets_all_in_order_and_nobody_waits_for_it() {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let bytes: Vec<u8> = (0..300_000_u32).map(|number| number as u8).collect();
        let mut output = Output {
            to: writer,
            is_own: false,
            bytes: bytes.clone(),
            written: 0,
        };
        let mut read: Vec<u8> = Vec::new();
        let mut rounds = 0;
        while !output.put().expect("write") {
            rounds += 1;
            let mut piece = [0; 10_000];
            let length = rustix::io::read(&reader, &mut piece).expect("read");
            read.extend(&piece[..length]);
        }
        drop(output);
        loop {
            let mut piece = [0; 10_000];
            match rustix::io::read(&reader, &mut piece).expect("read") {
                0 => break,
                length => read.extend(&piece[..length]),
            }
        }
        assert!(rounds > 10 && read == bytes);
    }

    #[test]
    fn what_nobody_reads_has_left() {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        drop(reader);
        let mut output = Output {
            to: writer,
            is_own: false,
            bytes: vec![0; 100_000],
            written: 0,
        };
        assert!(output.put().expect("write"));
    }
}
