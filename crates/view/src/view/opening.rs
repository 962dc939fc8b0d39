//! Opening and closing of regular files.

use std::io;

use surmise_fuse::{BackingId, Notifier};

use super::View;
use super::core::Core;
use super::passthrough::Way;
use crate::types::NodeId;

/// How a regular file is opened.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenHow {
    /// Cut it to nothing.
    pub truncate: bool,
    /// Take set-id bits and file capabilities away.
    pub drop_privileges: bool,
    /// Which way its data may go, unless other open files of the node decide.
    pub way: Way,
}

/// An open file.
#[derive(Debug, Clone, Copy)]
pub struct Opened {
    /// Pages that the kernel cached of it are still right.
    pub keep_cache: bool,
    /// What its data go to without messages.
    pub backing: Option<BackingId>,
    /// Which way they go.
    pub way: Way,
}

impl View {
    /// From now on the kernel reads and writes objects by itself, where it lets that be.
    pub(crate) fn pass_through(&self, kernel: Notifier) {
        // It is told once.
        let _ = self.kernel.set(kernel);
    }

    /// Opens a regular file.
    pub fn open_file(&self, node: NodeId, how: OpenHow) -> io::Result<Opened> {
        // Before the lock.
        let _change = how.truncate.then(|| self.change(node));
        let mut core = self.core();
        if how.drop_privileges {
            core.drop_privileges(node)?;
        }
        if how.truncate {
            core.resize(node, 0)?;
        }
        let keep_cache = core.has_object(node) || core.look_at_opened(node)?;
        let opened = self.opened(&mut core, node, keep_cache, how.way);
        drop(core);
        if let (Way::PassedAndMapped, Some(kernel)) = (opened.way, self.kernel.get()) {
            // They were told for ever. The caller's hold of the node keeps the kernel from waiting here.
            // It can only fail when the file system is unmounted.
            let _ = kernel.expire_attributes(node.0);
        }
        Ok(opened)
    }

    /// Opens a regular file that was just created.
    pub fn open_created(&self, node: NodeId, way: Way) -> Opened {
        self.opened(&mut self.core(), node, true, way)
    }

    /// An open file, and every mapping of it, is gone.
    pub fn close_file(&self, node: NodeId, way: Way) {
        let mut core = self.core();
        core.known.close(node);
        let is_real = core.close_passed(node, way);
        drop(core);
        if let (true, Some(kernel)) = (is_real, self.kernel.get()) {
            // As above. The kernel has no pages of it that it would have to write first.
            let _ = kernel.expire_attributes(node.0);
        }
    }

    /// Nothing is open any more: the file system was unmounted, and of some files nobody told.
    pub(crate) fn close_all(&self) {
        self.locked().close_all_passed();
    }

    fn opened(&self, core: &mut Core, node: NodeId, keep_cache: bool, way: Way) -> Opened {
        let kernel = self.kernel.get();
        let passed = kernel.and_then(|kernel| core.pass(node, way, kernel));
        core.known.open(node);
        let (backing, way) = passed.unzip();
        Opened {
            keep_cache,
            backing,
            way: way.unwrap_or_default(),
        }
    }
}

impl Core {
    /// Notes in which state a real file is opened; true when it was in the same at its last open.
    fn look_at_opened(&mut self, node: NodeId) -> io::Result<bool> {
        let identity = self.lower_attributes(node)?.identity;
        self.note_use(node, identity)?;
        let is_unchanged = self.known.note_open(node, &identity);
        if !is_unchanged {
            self.files.pop(&node);
        }
        // A descriptor keeps the file while it is open inside, whatever becomes of its name outside. What
        // may not be read can still be written, and is looked up again for that.
        let _ = self.file(node);
        Ok(is_unchanged)
    }
}
