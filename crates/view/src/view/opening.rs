//! Opening and closing of regular files.

use std::cell::RefCell;
use std::io;
use std::sync::MutexGuard;

use rustix::io::Errno;
use surmise_fuse::{Capabilities, Negotiated, Notifier};
use surmise_lower::{OpenFile, read_full};

use super::core::Core;
use super::facts::{Facts, Step, outcome};
use super::files::Data;
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
    /// This open has made it.
    pub is_new: bool,
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
    /// Its number, by which it is closed.
    pub number: u64,
}

/// What was decided of an opening.
struct Opening {
    keep_cache: bool,
    way: Way,
    number: u64,
    then: Then,
}

/// What is left to do for an opening when the lock is gone.
enum Then {
    Nothing,
    /// The kernel is given the data.
    Give(Data),
    /// The kernel has to ask for the attributes.
    Expire,
}

impl View {
    /// A kernel serves the view's files from now on.
    pub(crate) fn meet(&self, kernel: Notifier, negotiated: &Negotiated) {
        let mut core = self.core();
        // What the kernel writes by itself nobody could undo.
        if negotiated.capabilities.contains(Capabilities::PASSTHROUGH) && !core.openers.are_kept() {
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
        // Before the lock, and until the end.
        let change = how.truncate.then(|| self.change(node));
        if let Some(change) = &change {
            self.decide_under(
                || self.free_of_readers(node),
                |core, facts| {
                    core.check_openable(node)?;
                    match how.drop_privileges {
                        true => core.drop_privileges(facts, node),
                        false => Ok(()),
                    }
                },
            )?;
            change.resize(0)?;
        }
        let opening = self.decide_under(
            || match changes {
                true => self.free_of_readers(node),
                false => Ok(self.free_to_open(node)),
            },
            |core, facts| {
                core.check_openable(node)?;
                if how.drop_privileges {
                    core.drop_privileges(facts, node)?;
                }
                match core.has_object(node) {
                    true => self.open_object(core, facts, node, how),
                    false => self.open_real(core, facts, node, how),
                }
            },
        )?;
        let keep_cache = match (opening.then, self.kernel.get()) {
            (Then::Give(file), Some(kernel)) => {
                let is_given = give_data(kernel, node, file.reader()).is_ok();
                self.locked().files.end_giving(node);
                self.settled.notify_all();
                is_given
            }
            (Then::Expire, Some(kernel)) => {
                // They were told for ever. The caller's hold of the node keeps the kernel from waiting here.
                // It can only fail when the file system is unmounted.
                let _ = kernel.expire_attributes(node.0);
                true
            }
            _ => opening.keep_cache,
        };
        Ok(Opened {
            keep_cache,
            way: opening.way,
            number: opening.number,
        })
    }

    /// Opens a regular file that was just created.
    pub fn open_created(&self, node: NodeId, how: OpenHow) -> io::Result<Opened> {
        let how = OpenHow {
            is_new: true,
            ..how
        };
        let (way, number) = self.decide(|core, facts| self.way(core, facts, node, how))?;
        Ok(Opened {
            keep_cache: true,
            way,
            number,
        })
    }

    /// The open file of this number is gone, and every mapping of it unless it was passed through.
    pub fn close_file(&self, node: NodeId, number: u64, was_passed: bool) {
        let mut core = self.core();
        core.known.close(node);
        core.openers.remove(node, number);
        if was_passed {
            core.end_pass(node);
            self.settled.notify_all();
        }
    }

    fn open_object(
        &self,
        core: &mut Core,
        facts: &Facts,
        node: NodeId,
        how: OpenHow,
    ) -> Step<Opening> {
        let (way, number) = self.way(core, facts, node, how)?;
        let then = match core.passed.is_mapped(node) {
            true => Then::Expire,
            false => Then::Nothing,
        };
        Ok(Opening {
            keep_cache: true,
            way,
            number,
            then,
        })
    }

    fn open_real(
        &self,
        core: &mut Core,
        facts: &Facts,
        node: NodeId,
        how: OpenHow,
    ) -> Step<Opening> {
        let identity = core.lower_attributes(facts, node)?.identity;
        let is_unchanged = core.known.is_as_at_last_open(node, &identity);
        // A descriptor keeps the file while it is open inside, whatever becomes of its name outside. What
        // may not be read can still be written, and is looked up again for that.
        let file = match is_unchanged {
            true => outcome(core.file(facts, node))?.ok(),
            false => {
                let opened = outcome(core.open_lower_anew(facts, node))?.ok();
                let file = opened.map(Data::Real);
                match &file {
                    Some(file) => core.files.put(node, file.clone()),
                    None => core.files.close(node),
                }
                file
            }
        };
        core.note_use(node, identity)?;
        self.note_read(core, node, &identity);
        let is_first = !core.known.was_opened(node);
        let (way, number) = self.way(core, facts, node, how)?;
        // No question is left, so this is once.
        core.known.note_open(node, &identity);
        let is_small = (1..=AT_ONCE_BYTES_MAX as u64).contains(&identity.size);
        let then = match file {
            Some(file) if how.reads && is_first && is_small && self.kernel.get().is_some() => {
                core.files.begin_giving(node);
                Then::Give(file)
            }
            _ => Then::Nothing,
        };
        Ok(Opening {
            keep_cache: is_unchanged,
            way,
            number,
            then,
        })
    }

    /// The state, when the kernel is not being given the node's data. So while it is, nobody reads the
    /// node by a message, or cuts it, and [`Notifier::store`] waits for nothing.
    pub(super) fn free_to_open(&self, node: NodeId) -> MutexGuard<'_, Core> {
        let is_given = |core: &mut Core| core.files.is_given(node);
        self.settled.wait_while(self.core(), is_given).expect(WHOLE)
    }

    /// Counts one more open file, and finds its way. Returns its number, too.
    fn way(&self, core: &mut Core, facts: &Facts, node: NodeId, how: OpenHow) -> Step<(Way, u64)> {
        let way = match self.kernel.get() {
            Some(kernel) => core.pass(facts, node, how, kernel)?,
            None => Way::Messages,
        };
        core.known.open(node);
        Ok((way, core.note_opener(node, how)))
    }
}

impl Core {
    fn check_openable(&self, id: NodeId) -> io::Result<()> {
        match self.passed.is_lost(id) {
            true => fail(Errno::STALE),
            false => Ok(()),
        }
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
