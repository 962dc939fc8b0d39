//! Positions in open files, by open files of this program: each is a further descriptor of a process' own description.
//!
//! While a call that moves a position is under way, the kernel has the next one wait. So a position is read in /proc, and set only
//! when no such call is under way.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{FileType, SeekFrom};
use rustix::io::Errno;
use rustix::process::{Pid, getpid};
use surmise_linux::proc::Opened;
use surmise_sys::memory;
use surmise_syscalls::Syscall;

use super::{Machine, task, unless_out_of_reach};
use crate::call::Call;
use crate::world::Positions;

/// An open file description that processes share.
#[derive(Debug)]
pub(crate) struct Description(OwnedFd);

impl Description {
    fn look(&self) -> io::Result<Opened> {
        Opened::of(getpid(), self.0.as_raw_fd())
    }
}

impl Positions<Description> for Machine {
    fn moves(&self, call: &Call) -> [Option<u64>; 2] {
        moves(call.name(), call.arguments())
    }

    fn description(&self, process: Pid, descriptor: u64) -> io::Result<Option<Description>> {
        let found = unless_out_of_reach(task::typed_file(process, descriptor), None)?;
        let has_position = |kind| matches!(kind, FileType::RegularFile | FileType::Directory);
        let Some((file, _)) = found.filter(|(_, kind)| has_position(*kind)) else {
            return Ok(None);
        };
        let description = Description(file);
        // As long as it is open here, the file cannot be executed, and a lock (flock(2)) is not given up.
        let opened = description.look()?;
        let is_kept = self.learnt.as_ref().is_none_or(|learnt| {
            let is_served = learnt.seen.names().is_view(opened.mount);
            learnt.seen.may_notice_ends() || opened.is_for_writing() && !is_served
        });
        Ok((!is_kept).then_some(description))
    }

    fn leads_to(&self, process: Pid, descriptor: u64, description: &Description) -> Option<bool> {
        // The kernel looks at the lower half of the register alone.
        let theirs = (process, descriptor as i32);
        let own = (getpid(), description.0.as_raw_fd());
        match memory::is_same_file(theirs, own) {
            Ok(is_same) => Some(is_same),
            // Another thread may have closed a descriptor by which the call goes on.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::BADF) => {
                let threads = unless_out_of_reach(task::threads(process), Vec::new());
                let is_alone = threads.is_ok_and(|threads| threads.len() <= 1);
                is_alone.then_some(false)
            }
            Err(error) => task::is_gone(&error).then_some(false),
        }
    }

    fn position(&self, description: &Description) -> io::Result<u64> {
        Ok(description.look()?.position)
    }

    fn set_position(&mut self, description: &Description, position: u64) -> io::Result<()> {
        rustix::fs::seek(&description.0, SeekFrom::Start(position))?;
        Ok(())
    }

    fn written(&self, description: &Description) -> io::Result<Option<u64>> {
        let Some(learnt) = &self.learnt else {
            return Ok(None);
        };
        let opened = description.look()?;
        let is_written = opened.is_for_writing() && learnt.seen.names().is_view(opened.mount);
        Ok(opened.inode.filter(|_| is_written))
    }
}

fn moves(name: Syscall, arguments: &[u64; 6]) -> [Option<u64>; 2] {
    let [first, second, third, ..] = *arguments;
    match name {
        Syscall::Read
        | Syscall::Readv
        | Syscall::Preadv2
        | Syscall::Write
        | Syscall::Writev
        | Syscall::Pwritev2
        | Syscall::Lseek
        | Syscall::Getdents
        | Syscall::Getdents64 => [Some(first), None],
        Syscall::Sendfile => [Some(first), Some(second)],
        Syscall::CopyFileRange | Syscall::Splice => [Some(first), Some(third)],
        _ => [None; 2],
    }
}
