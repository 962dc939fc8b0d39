//! Opening and closing of regular files.

use std::cell::RefCell;
use std::io;
use std::sync::MutexGuard;

use rustix::io::Errno;
use surmise_fuse::{Capabilities, Negotiated, Notifier};
use surmise_lower::{OpenFile, read_full};

use super::core::Core;
use super::passthrough::Way;
use super::{View, WHOLE, fail};
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
    /// The thread that opens it, by its number where the device was opened.
    pub opener: u32,
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
        let mut core = self.core();
        // What the kernel writes by itself nobody could undo.
        if negotiated.capabilities.contains(Capabilities::PASSTHROUGH) && !core.config.speculates {
            core.passed.allow();
        }
        drop(core);
        // It is met once.
        let _ = self.kernel.set(kernel);
    }

    /// Opens a regular file.
    pub fn open_file(&self, node: NodeId, how: OpenHow) -> io::Result<Opened> {
        let changes = how.writes || how.truncate;
        if changes {
            // Here, because nobody else may change the node during what follows.
            drop(self.free_of_readers(node)?);
        }
        // Before the lock.
        let _change = how.truncate.then(|| self.change(node));
        let mut core = match changes {
            true => self.free_of_readers(node)?,
            false => self.free_to_open(node),
        };
        if core.passed.is_lost(node) {
            return fail(Errno::STALE);
        }
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

    /// An open file of this opener's is gone, and every mapping of it unless it was passed through.
    pub fn close_file(&self, node: NodeId, opener: u32, was_passed: bool) {
        let mut core = self.core();
        core.known.close(node);
        core.drop_opener(node, opener);
        if was_passed {
            core.passed.close(node);
            self.settled.notify_all();
        }
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
        let is_small = (1..=AT_ONCE_BYTES_MAX as u64).contains(&identity.size);
        let keep_cache = match (file, self.kernel.get()) {
            (Some(file), Some(kernel)) if how.reads && is_first && is_small => {
                core.given.insert(node);
                drop(core);
                let is_given = give_data(kernel, node, file.reader()).is_ok();
                self.locked().given.remove(&node);
                self.settled.notify_all();
                is_given
            }
            _ => is_unchanged,
        };
        Ok(Opened { keep_cache, way })
    }

    /// The state, when the kernel is not being given the node's data. So while it is, nobody reads the
    /// node by a message, or cuts it, and [`Notifier::store`] waits for nothing.
    pub(super) fn free_to_open(&self, node: NodeId) -> MutexGuard<'_, Core> {
        let is_given = |core: &mut Core| core.given.contains(&node);
        self.settled.wait_while(self.core(), is_given).expect(WHOLE)
    }

    fn way(&self, core: &mut Core, node: NodeId, how: OpenHow) -> Way {
        let kernel = self.kernel.get();
        let way = kernel.map(|kernel| core.pass(node, how, kernel));
        core.known.open(node);
        core.note_opener(node, how.opener);
        way.unwrap_or_default()
    }
}

/// Puts a small file into the kernel's cache, which has nothing of it: that is quicker than the kernel's
/// asking for it.
fn give_data(kernel: &Notifier, node: NodeId, file: &dyn OpenFile) -> io::Result<()> {
    thread_local! {
        static BUFFER: RefCell<Vec<u8>> = RefCell::default();
    }
    BUFFER.with_borrow_mut(|buffer| {
        buffer.resize(AT_ONCE_BYTES_MAX, 0);
        let length = read_full(file, 0, buffer)?;
        kernel.store(node.0, 0, &buffer[..length])
    })
}
