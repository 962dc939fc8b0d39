//! What a process has open of which others notice the last close.
//!
//! One that stands still at its exit has all of that open still, and so have its images.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::{OwnedFd, RawFd};

use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags};
use surmise_linux::proc::{Entry, Link};
use surmise_sys::memory;

use super::channels::Channels;
use super::fifo;
use super::seen::{Seen, devices};
use super::task::Reached;
use crate::objects::input::Place;

/// Whether others would notice that a process closes all that it and its images have open. It waits for an answer.
pub(super) fn are_noticed(
    process: Pid,
    vessels: &[Pid],
    known: (&Seen, &Channels),
) -> io::Result<bool> {
    let own = Opener::of(process)?;
    let numbers = descriptors(process)?;
    for &number in &numbers {
        if own.is_noticed(number, known)? {
            return Ok(true);
        }
    }
    for &vessel in vessels {
        let image = Opener::of(vessel)?;
        for number in descriptors(vessel)? {
            // One open file is the same to all who have it.
            let is_same = || memory::is_same_file((process, number), (vessel, number));
            let is_known = numbers.contains(&number) && is_same().unwrap_or(false);
            if !is_known && image.is_noticed(number, known)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// The numbers of the descriptors of a process.
fn descriptors(process: Pid) -> io::Result<HashSet<RawFd>> {
    let mut numbers = HashSet::new();
    for entry in fs::read_dir(Entry::from(process).path("fd"))? {
        let name = entry?.file_name();
        numbers.extend(name.to_str().and_then(|name| name.parse::<RawFd>().ok()));
    }
    Ok(numbers)
}

/// A process whose files are looked at.
struct Opener {
    process: Pid,
    pidfd: OwnedFd,
}

impl Opener {
    fn of(process: Pid) -> io::Result<Self> {
        let pidfd = rustix::process::pidfd_open(process, PidfdFlags::empty())?;
        Ok(Self { process, pidfd })
    }

    /// Whether by a descriptor the process has something open of which others notice the last close: a socket, a terminal, or an
    /// end of a pipe from outside, unless it is one of the domain's streams, which the command's process has as well. Of a pipe
    /// inside the domain, a FIFO of the view among them, readers are told of the end.
    fn is_noticed(&self, number: RawFd, (seen, channels): (&Seen, &Channels)) -> io::Result<bool> {
        // It may be closed meanwhile.
        let Ok(link) = Link::of(self.process, number) else {
            return Ok(false);
        };
        let is_pipe = match link {
            // These tell nobody of their readers and writers.
            Link::Other(path) if devices::is_place(path.as_ref()) => return Ok(false),
            Link::Other(path) if path.starts_with("anon_inode:") => return Ok(false),
            Link::Pipe(_) => true,
            Link::Other(_) | Link::Socket(_) => false,
        };
        let Some(file) = self.file(number)? else {
            return Ok(!is_pipe);
        };
        let plain = [FileType::RegularFile, FileType::Directory];
        let reached = Reached::by(file);
        let is_plain = plain.contains(&reached.kind);
        if !is_pipe && (is_plain || fifo::inode(&reached, seen)?.is_some()) {
            return Ok(false);
        }
        let place = reached.stat.as_ref().map(Place::of);
        Ok(match is_pipe {
            true => place.is_some_and(|place| channels.is_kept(place)),
            false => !place.is_some_and(|place| channels.is_stream(place)),
        })
    }

    /// What a descriptor leads to; nothing if it was closed meanwhile.
    fn file(&self, number: RawFd) -> io::Result<Option<OwnedFd>> {
        let flags = PidfdGetfdFlags::empty();
        match rustix::process::pidfd_getfd(&self.pidfd, number, flags) {
            Ok(file) => Ok(Some(file)),
            Err(Errno::BADF | Errno::SRCH) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }
}
