//! Directories that are removed without the kernel's knowing.
//!
//! A directory that the kernel has removed is dead to the kernel for ever: processes that have it open or work there can make
//! nothing in it, also when the removal is undone. So where a removal may have to be undone, the kernel asks for it, after its own
//! checks, and is told that the request was interrupted. The kernel cannot know then what has become of the name, so it drops the
//! name (its `fuse_rmdir`), and the directory lives on. What the kernel would refuse in a dead directory the view refuses
//! ([`Core::check_alive`]). If the removal is undone, the kernel finds the same directory again by its name.

use std::io;

use rustix::io::Errno;

use super::core::Core;
use super::undo::caller;
use super::{View, fail, families};
use crate::types::NodeId;

/// A directory that was removed without the kernel's knowing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The directory that its name was in.
    pub parent: NodeId,
    /// Itself.
    pub node: NodeId,
}

/// Whose removal the kernel is not to know of.
#[derive(Debug, Default)]
pub(super) struct Concealing {
    thread: Option<u32>,
    removed: Option<Removed>,
}

impl Concealing {
    /// Whether the request that is served is one that the kernel is not to know of.
    fn is_for_caller(&self) -> bool {
        self.thread.is_some() && caller() == self.thread
    }
}

impl View {
    /// The next directory that this thread removes is removed without the kernel's knowing, which is told `EINTR`. The caller
    /// of this method waits for that, and decides nothing before [`Self::concealed`]. So a request of that thread which would
    /// have to wait for a decision fails with `EINTR`, too. The thread is named by its number in the caller's namespace. False if its
    /// number in its own namespace is not known.
    pub fn conceal(&self, thread: u32) -> bool {
        let thread = families::inner(thread);
        self.locked().concealing = Concealing {
            thread,
            removed: None,
        };
        thread.is_some()
    }

    /// The end of what [`Self::conceal`] began. Returns what was removed, if anything was: the kernel still believes what it knows
    /// of both directories.
    pub fn concealed(&self) -> Option<Removed> {
        std::mem::take(&mut self.locked().concealing).removed
    }
}

impl Core {
    /// What the kernel is told of a removal.
    pub(super) fn told_of_removal(&mut self, parent: NodeId, node: NodeId) -> io::Result<()> {
        if !self.concealing.is_for_caller() {
            return Ok(());
        }
        self.concealing.removed = Some(Removed { parent, node });
        fail(Errno::INTR)
    }

    /// Whether a request cannot wait for a decision, since who decides waits for the request.
    pub(super) fn hinders_decision(&self) -> bool {
        self.concealing.is_for_caller()
    }

    /// Whether who decides waits for a request, which other requests are not to keep.
    pub(super) fn is_concealing(&self) -> bool {
        self.concealing.thread.is_some()
    }

    /// Nothing is made in a directory that was removed, also where the kernel does not know of that.
    pub(super) fn check_alive(&self, directory: NodeId) -> io::Result<()> {
        match self.map.node(directory) {
            Some(node) if node.is_removed_directory() => fail(Errno::NOENT),
            _ => Ok(()),
        }
    }
}
