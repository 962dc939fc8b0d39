//! Objects that the kernel reads and writes by itself, without a message: FUSE passthrough (Linux 6.9),
//! for root only.
//!
//! Of one node, the kernel wants all open files to go the same way, and those that are passed through to
//! lead to the same object. So the first open decides for all until the last is closed. The kernel tells
//! of a close late, when it counts the file as closed already: what is noted here never says less than
//! the kernel's own count, and to go on in the same way is right for it, too.
//!
//! Only whole objects are passed through. What borrows looks at the log for each block, and what is not
//! the domain's yet must not be written to.
//!
//! Since such an object stays what its descriptors lead to, no commit may take it: a commit of a domain
//! that goes on gets a copy, and afterwards the object is a change of the domain's again
//! ([`Core::give_copies`], [`Core::own_again`]), until its last open file is closed if nothing was written
//! to it meanwhile ([`Core::disown_unchanged`]). And a write through a shared mapping sends no message at
//! all, so a file that can be mapped in such a way has its attributes asked for each time.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use std::{io, iter, thread};

use rustix::fs::{Timespec, Timestamps};
use rustix::io::Errno;
use surmise_fuse::{Backing, BackingId, Notifier};

use super::core::{Core, now};
use crate::copies::copy_data;
use crate::record::Record;
use crate::types::{Attributes, Identity, NodeId, ObjectId};

/// How often the clock that stamps inodes goes on at least, and how many of these are waited for.
const GRANULE: Duration = Duration::from_millis(10);
const GRANULES_MAX: u32 = 3;

/// Which way the data of an open file go; to be given back when it is closed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Way {
    /// By messages.
    #[default]
    Messages,
    /// Through the kernel.
    Passed,
    /// Through the kernel, and by writes to a shared mapping perhaps.
    PassedAndMapped,
}

/// The open files whose data are passed through.
#[derive(Debug, Default)]
pub(super) struct Passed {
    open: HashMap<NodeId, Open>,
    /// The state in which they were committed, of those that were open then.
    committed: HashMap<NodeId, Identity>,
    /// The kernel has agreed to it, and not refused it yet.
    is_allowed: bool,
}

#[derive(Debug)]
struct Open {
    backing: Backing,
    files: u32,
    /// Those among them that a process could map shared and write to.
    mapped: u32,
}

impl Passed {
    pub(super) fn allow(&mut self) {
        self.is_allowed = true;
    }

    /// Whether the node's attributes may change without a message.
    pub(super) fn is_mapped(&self, id: NodeId) -> bool {
        self.open.get(&id).is_some_and(|open| open.mapped > 0)
    }

    /// One open file less; true when it was the last.
    fn close(&mut self, id: NodeId, way: Way) -> bool {
        if way == Way::Messages {
            return false;
        }
        let Entry::Occupied(mut entry) = self.open.entry(id) else {
            return false;
        };
        let open = entry.get_mut();
        open.files -= 1;
        open.mapped -= u32::from(way == Way::PassedAndMapped);
        let is_last = open.files == 0;
        if is_last {
            entry.remove();
        }
        is_last
    }
}

impl Open {
    fn add(&mut self, way: Way) -> (BackingId, Way) {
        let way = match way {
            // It has to come along, whatever speaks against it.
            Way::Messages => Way::PassedAndMapped,
            way => way,
        };
        self.files += 1;
        self.mapped += u32::from(way == Way::PassedAndMapped);
        (self.backing.id(), way)
    }
}

impl Core {
    /// Has one more open file of a node be passed through, where that can be.
    pub(super) fn pass(
        &mut self,
        id: NodeId,
        way: Way,
        kernel: &Notifier,
    ) -> Option<(BackingId, Way)> {
        if let Some(open) = self.passed.open.get_mut(&id) {
            return Some(open.add(way));
        }
        let may_begin = way != Way::Messages && self.passed.is_allowed;
        if !may_begin || self.known.is_open(id) || !self.has_object(id) {
            return None;
        }
        if self.borrowed(id).is_some() {
            return None;
        }
        // Without the object, messages will tell what is wrong.
        let object = self.file(id).ok()?;
        match kernel.register(&object) {
            Ok(backing) => {
                let mut open = Open {
                    backing,
                    files: 0,
                    mapped: 0,
                };
                let added = open.add(way);
                self.passed.open.insert(id, open);
                Some(added)
            }
            Err(_) => {
                self.passed.is_allowed = false;
                None
            }
        }
    }

    /// One open file less. True when the node's data are the real file's again.
    pub(super) fn close_passed(&mut self, id: NodeId, way: Way) -> bool {
        self.passed.close(id, way) && self.disown_unchanged(id)
    }

    /// No open files any more.
    pub(super) fn close_all_passed(&mut self) {
        self.passed.open.clear();
        let committed: Vec<NodeId> = self.passed.committed.keys().copied().collect();
        for id in committed {
            self.disown_unchanged(id);
        }
    }

    fn disown_unchanged(&mut self, id: NodeId) -> bool {
        let Some(committed) = self.passed.committed.remove(&id) else {
            return false;
        };
        let Some(object) = self.map.node(id).and_then(|node| node.object) else {
            return false;
        };
        let is_unchanged = self.object_state(object).is_ok_and(|now| now == committed);
        // If the log cannot be written, the object stays a change.
        if !is_unchanged
            || self
                .perform(vec![Record::Disown { node: id }], now())
                .is_err()
        {
            return false;
        }
        self.garbage.push(object);
        self.files.pop(&id);
        true
    }

    /// Has the log name copies of all objects that are passed through, and returns these objects. What
    /// `stays` when the commit has taken its names away needs none.
    ///
    /// # Errors
    /// What could not be copied or written; then nothing has changed.
    pub(super) fn give_copies(
        &mut self,
        stays: &HashSet<NodeId>,
    ) -> io::Result<Vec<(NodeId, ObjectId)>> {
        let nodes = self.passed.open.keys().copied();
        let nodes: Vec<NodeId> = nodes.filter(|node| !stays.contains(node)).collect();
        let mut copies = Vec::new();
        let copied = nodes.into_iter().try_for_each(|id| {
            if let Some(object) = self.map.node(id).and_then(|node| node.object) {
                let copy = self.next_object();
                copies.push((id, object, copy));
                self.copy_object(object, copy)?;
            }
            Ok(())
        });
        let given = copied.and_then(|()| {
            let records = copies.iter().map(|(node, _, copy)| Record::Content {
                node: *node,
                object: *copy,
            });
            self.perform_all(records.collect())
        });
        if let Err(error) = given {
            for (_, _, copy) in copies {
                // What stays is swept up later.
                let _ = self.store.remove(copy);
            }
            return Err(error);
        }
        Ok(copies
            .into_iter()
            .map(|(node, object, _)| {
                self.files.pop(&node);
                (node, object)
            })
            .collect())
    }

    /// Has the log name these objects instead of their copies: the commit was given up.
    ///
    /// # Errors
    /// What writing the log failed with; then what is written to the objects is lost, and the domain must
    /// end.
    pub(super) fn take_back(&mut self, objects: Vec<(NodeId, ObjectId)>) -> io::Result<()> {
        let copies = objects.iter();
        let copies = copies.filter_map(|(node, _)| self.map.node(*node)?.object);
        let copies: Vec<_> = copies.collect();
        let records = objects.iter().map(|(node, object)| Record::Content {
            node: *node,
            object: *object,
        });
        self.perform_all(records.collect())?;
        self.garbage.extend(copies);
        for (node, _) in objects {
            self.files.pop(&node);
        }
        Ok(())
    }

    /// Has these objects be changes of the domain's again, after their copies were committed.
    ///
    /// # Errors
    /// As [`Core::take_back`].
    pub(super) fn own_again(&mut self, objects: &[(NodeId, ObjectId)]) -> io::Result<()> {
        let mut records = Vec::new();
        for (node, object) in objects {
            let before = records.len();
            match self.adopt(*node, &mut records) {
                Ok(()) => records.push(Record::Content {
                    node: *node,
                    object: *object,
                }),
                // Moved or removed outside in the same moment, and stale from now on.
                Err(_) => records.truncate(before),
            }
        }
        self.perform_all(records)?;
        self.passed.committed.clear();
        for (node, object) in objects {
            self.known.forget_use(*node);
            let state = self.object_state(*object).ok().filter(wait_past);
            let committed = state.map(|state| (*node, state));
            self.passed.committed.extend(committed);
        }
        Ok(())
    }

    fn object_state(&self, object: ObjectId) -> io::Result<Identity> {
        let attributes = Attributes::of_statx(&self.store.stat(object)?);
        Ok(attributes.ok_or(Errno::IO)?.identity)
    }

    fn copy_object(&self, from: ObjectId, to: ObjectId) -> io::Result<()> {
        let source = self.store.open(from)?;
        let target = self.store.create(to)?;
        let stat = rustix::fs::fstat(&source)?;
        if rustix::fs::ioctl_ficlone(&target, &source).is_err() {
            let size = stat.st_size.cast_unsigned();
            target.set_len(size)?;
            copy_data(&source, &target, 0..size)?;
        }
        let time = |seconds, nanoseconds: u64| Timespec {
            tv_sec: seconds,
            tv_nsec: nanoseconds.cast_signed(),
        };
        let times = Timestamps {
            last_access: time(stat.st_atime, stat.st_atime_nsec),
            last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
        };
        Ok(rustix::fs::futimens(&target, &times)?)
    }

    fn perform_all(&mut self, records: Vec<Record>) -> io::Result<()> {
        match records.is_empty() {
            true => Ok(()),
            false => self.perform(records, now()),
        }
    }
}

/// Waits until a change would have another time than the last one; false where the clock was set back.
/// Since Linux 6.13 it would have at once.
fn wait_past(state: &Identity) -> bool {
    let steps = (0..GRANULES_MAX).map(|_| thread::sleep(GRANULE));
    iter::once(()).chain(steps).any(|()| state.changed < now())
}
