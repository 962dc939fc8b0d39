//! Opening and closing of regular files.

use std::fs::File;
use std::io;
use std::sync::MutexGuard;

use rustix::io::Errno;
use surmise_fuse::{Capabilities, Negotiated, Notifier};

use super::core::Core;
use super::passthrough::Way;
use super::{View, fail};
use crate::copies::read_full;
use crate::types::NodeId;

/// Real files up to this size are given to the kernel at their first open.
pub(super) const AT_ONCE_BYTES_MAX: usize = 64 << 10;

/// How a regular file is opened.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenHow {
    /// Cut it to nothing.
    pub truncate: bool,
    /// Take set-id bits and file capabilities away.
    pub drop_privileges: bool,
    /// Its data may be read.
    pub reads: bool,
    /// Its data may be written.
    pub writes: bool,
    /// What is written is to be on the disk at once, or reads are to come from there.
    pub is_synchronous: bool,
}

/// An open file.
#[derive(Debug, Clone, Copy)]
pub struct Opened {
    /// Pages that the kernel cached of it are still right.
    pub keep_cache: bool,
    /// Which way its data go.
    pub way: Way,
}

impl View {
    /// A kernel serves the view's files from now on.
    pub(crate) fn meet(&self, kernel: Notifier, negotiated: &Negotiated) {
        if negotiated.capabilities.contains(Capabilities::PASSTHROUGH) {
            self.core().passed.allow();
        }
        // It is met once.
        let _ = self.kernel.set(kernel);
    }

    /// Opens a regular file.
    pub fn open_file(&self, node: NodeId, how: OpenHow) -> io::Result<Opened> {
        // Before the lock.
        let _change = how.truncate.then(|| self.change(node));
        let mut core = match how.writes || how.truncate {
            true => self.free_of_readers(node)?,
            false => self.core(),
        };
        if how.drop_privileges {
            core.drop_privileges(node)?;
        }
        if how.truncate {
            core.resize(node, 0)?;
        }
        if !core.has_object(node) {
            return self.open_real(core, node, how);
        }
        let way = self.way(&mut core, node, how);
        let is_mapped = core.passed.is_mapped(node);
        drop(core);
        if let (true, Some(kernel)) = (is_mapped, self.kernel.get()) {
            // They were told for ever. The caller's hold of the node keeps the kernel from waiting here.
            // It can only fail when the file system is unmounted.
            let _ = kernel.expire_attributes(node.0);
        }
        Ok(Opened {
            keep_cache: true,
            way,
        })
    }

    /// Opens a regular file that was just created.
    pub fn open_created(&self, node: NodeId, how: OpenHow) -> Opened {
        Opened {
            keep_cache: true,
            way: self.way(&mut self.core(), node, how),
        }
    }

    /// An open file is gone, and every mapping of it unless it was passed through.
    pub fn close_file(&self, node: NodeId, was_passed: bool) {
        let mut core = self.core();
        core.known.close(node);
        let is_real = was_passed && core.close_passed(node);
        drop(core);
        if was_passed {
            self.closed.notify_all();
        }
        if let (true, Some(kernel)) = (is_real, self.kernel.get()) {
            // As above. The kernel has no pages of it that it would have to write first.
            let _ = kernel.expire_attributes(node.0);
        }
    }

    /// Nothing is open any more: the file system was unmounted, and of some files nobody told.
    pub(crate) fn close_all(&self) {
        self.locked().close_all_passed();
    }

    fn open_real(
        &self,
        mut core: MutexGuard<'_, Core>,
        node: NodeId,
        how: OpenHow,
    ) -> io::Result<Opened> {
        let identity = core.lower_attributes(node)?.identity;
        core.note_use(node, identity)?;
        self.note_read(&core, node, &identity);
        let is_unchanged = core.known.note_open(node, &identity);
        if !is_unchanged {
            core.files.pop(&node);
        }
        // A descriptor keeps the file while it is open inside, whatever becomes of its name outside. What
        // may not be read can still be written, and is looked up again for that.
        let file = core.file(node).ok();
        let is_first = !core.known.was_opened(node);
        let way = self.way(&mut core, node, how);
        drop(core);
        let is_small = (1..=AT_ONCE_BYTES_MAX as u64).contains(&identity.size);
        let keep_cache = match file {
            Some(file) if how.reads && is_first && is_small => self.give_data(node, &file).is_ok(),
            _ => is_unchanged,
        };
        Ok(Opened { keep_cache, way })
    }

    /// Puts a small file into the kernel's cache, which has nothing of it: that is quicker than the
    /// kernel's asking for it.
    fn give_data(&self, node: NodeId, file: &File) -> io::Result<()> {
        let Some(kernel) = self.kernel.get() else {
            return fail(Errno::OPNOTSUPP);
        };
        // One worker at a time, as the kernel wants it.
        let Ok(mut buffer) = self.at_once.try_lock() else {
            return fail(Errno::AGAIN);
        };
        buffer.resize(AT_ONCE_BYTES_MAX, 0);
        let length = read_full(file, 0, &mut buffer)?;
        kernel.store(node.0, 0, &buffer[..length])
    }

    fn way(&self, core: &mut Core, node: NodeId, how: OpenHow) -> Way {
        let kernel = self.kernel.get();
        let way = kernel.map(|kernel| core.pass(node, how, kernel));
        core.known.open(node);
        way.unwrap_or_default()
    }
}
