//! Makes the kernel ask the view how long files are.
//!
//! This program stands outside the domain, and the kernel tells it nothing of the view's files. So a process inside looks for it.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Resource, getrlimit};

use super::{Machine, task, unless_out_of_reach};
use crate::map::Map;
use crate::world::Sizes;

/// A process of this program's own inside the domain.
pub trait Inside: fmt::Debug {
    /// Makes the kernel ask for all attributes of a file that the view has, and returns when it has its answer. Where the process has
    /// ended, the domain has, and nobody need ask.
    ///
    /// # Errors
    /// As for statx(2).
    fn look_at(&self, file: BorrowedFd<'_>) -> io::Result<()>;
}

/// So many files are held at most, and no more than this share of those that this program may have open: what it looks at needs some.
const HELD_MAX: usize = 256;
const SHARE: u64 = 4;

/// Files of the view that are held, by the numbers of their inodes.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) inside: Option<Box<dyn Inside>>,
    files: Map<u64, OwnedFd>,
}

impl Held {
    fn has_room(&self) -> bool {
        let most = getrlimit(Resource::Nofile).current;
        let most = most.map_or(HELD_MAX, |most| HELD_MAX.min((most / SHARE) as usize));
        self.files.len() < most
    }
}

impl Sizes for Machine {
    fn may_exchange(&self, process: Pid) -> bool {
        let learnt = self.learnt.as_ref();
        learnt.is_none_or(|learnt| learnt.seen.may_share_descriptors(process))
    }

    fn hold(&mut self, process: Pid, descriptor: u64) -> io::Result<Option<u64>> {
        if self.held.inside.is_none() {
            return Ok(None);
        }
        let inode = unless_out_of_reach(task::inode_of(process, descriptor), None)?;
        let Some(inode) = inode else {
            return Ok(None);
        };
        if self.held.files.contains_key(&inode) {
            return Ok(Some(inode));
        }
        if !self.held.has_room() {
            return Ok(None);
        }
        // It neither opens the file nor keeps it open: locks and the ends of writers are as without.
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let (process, descriptor) = (process.as_raw_nonzero(), descriptor as RawFd);
        let path = format!("/proc/{process}/fd/{descriptor}");
        let file = rustix::fs::open(path, flags, Mode::empty()).ok();
        Ok(file.map(|file| {
            self.held.files.insert(inode, file);
            inode
        }))
    }

    fn renew(&mut self, file: u64) -> io::Result<()> {
        match (&self.held.inside, self.held.files.get(&file)) {
            (Some(inside), Some(file)) => inside.look_at(file.as_fd()),
            _ => Err(crate::error::bug("no such file is held")),
        }
    }

    fn let_go_of(&mut self, file: u64) {
        self.held.files.remove(&file);
    }
}
