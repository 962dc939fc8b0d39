//! Files that the kernel reads and writes by itself, without a message: FUSE passthrough (Linux 6.9), for
//! root only.
//!
//! All open files of one node that are passed through lead to the same file. While there is one, the
//! kernel caches nothing of the node. So the first open decides for the later ones. The kernel tells of
//! a close late, when it counts the file as closed already. So the count here is never below the
//! kernel's own count, and to go on in the same way is right for a count that is too high, too.
//!
//! **Objects** are passed through if they are whole: for one that borrows, the view needs the log for each block. The
//! descriptors go on leading to the object, so no commit may take it while it is open. The commit of a domain that goes on
//! gets a copy, and afterwards the object is a change of the domain's again ([`Core::give_copies`],
//! [`Core::own_again`]). The object's times do not tell whether it was written to since: a mapped page that has
//! changed already is changed again without a word.
//!
//! *Mappings.* A mapping does not keep the open file, so nobody hears of its end, and writes through a
//! shared mapping send no message. But a mapping keeps the object itself open. So after the last close the view lets go of the
//! object, and a lease (fcntl(2)) tells whether anybody still has it open. As long as somebody has, the file is taken to be
//! open: a process that opens it next must see what others see through their mappings. While a file is open for reading and
//! writing, or a mapping made then is left, the kernel asks for its attributes each time. Compilers and linkers, which write a new file, rarely
//! do. A database asks for them with each query; so a file that has a content already goes by messages, unless it is passed
//! through for others. Where there are no leases, all that is opened for both does.
//!
//! **Real files** that are programs or libraries are passed through to opens for reading alone: their pages are then
//! shared with the whole machine. Nobody may write to such a file while it is open in this way, as
//! nobody may write to a program that runs. A writer waits a moment, since a close may not have been
//! told yet, and then fails with `ETXTBSY` ([`View::free_of_readers`]). A mapping goes on seeing the real file. Such a file
//! stays registered with the kernel after its last close, for as long as it holds the node's data and is one of those used
//! last: programs are started again and again.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use rustix::io::Errno;
use surmise_fuse::{Backing, BackingId, Notifier};
use surmise_lower::{OpenFile, read_full};

use super::core::{Core, now};
use super::data::{is_gone, set_times};
use super::facts::{Facts, Step, outcome};
use super::files::{Data, FileNumber, Passage};
use super::opening::{AT_ONCE_BYTES_MAX, OpenHow};
use super::{View, WHOLE, fail};
use crate::copies::{copy_data, share_blocks};
use crate::record::Record;
use crate::types::{NodeId, ObjectId};

/// How the file of a program or library begins (elf(5)).
const PROGRAM: &[u8; 4] = b"\x7fELF";

/// How long the kernel may take to tell of a close.
const CLOSES_WITHIN: Duration = Duration::from_secs(1);

/// Which way the data of an open file go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Way {
    /// By messages, and the kernel caches them.
    #[default]
    Messages,
    /// Through the kernel.
    Passed(BackingId),
}

/// The open files whose data are passed through.
#[derive(Debug, Default)]
pub(super) struct Passed {
    open: HashMap<NodeId, Open>,
    /// Those whose nodes somebody moved or removed outside during a commit.
    lost: HashSet<NodeId>,
    /// The kernel has agreed to it, and not refused it yet.
    is_allowed: bool,
    /// Nobody can tell whether an object is mapped.
    has_no_leases: bool,
}

#[derive(Debug)]
struct Open {
    /// `None` while only mappings are left.
    backing: Option<Backing>,
    files: u32,
    leads_to: LeadsTo,
    /// A process could have it mapped.
    may_be_mapped: bool,
    /// A process could have it mapped shared, and write to it so.
    may_be_written: bool,
}

/// What is read and written.
#[derive(Clone, Copy, Debug)]
enum LeadsTo {
    Object(ObjectId),
    Real(FileNumber),
}

impl Passed {
    pub(super) fn allow(&mut self) {
        self.is_allowed = true;
    }

    /// Whether the node's attributes may change without a message.
    pub(super) fn is_mapped(&self, id: NodeId) -> bool {
        self.open.get(&id).is_some_and(|open| open.may_be_written)
    }

    /// Whether somebody reads the real file.
    fn is_read(&self, id: NodeId) -> bool {
        let open = self.open.get(&id);
        open.is_some_and(|open| matches!(open.leads_to, LeadsTo::Real(_)))
    }

    /// Whether what the open files lead to is no more what the node is.
    pub(super) fn is_lost(&self, id: NodeId) -> bool {
        self.lost.contains(&id)
    }
}

impl Open {
    /// One open file more, by way of the object or real file that is registered.
    fn add(&mut self, how: OpenHow, registered: BackingId) -> Way {
        self.files += 1;
        self.may_be_mapped |= how.reads;
        self.may_be_written |= how.reads && how.writes;
        Way::Passed(registered)
    }
}

impl View {
    /// The state, when nobody reads the real file of a node that is to be written to.
    ///
    /// # Errors
    /// `ETXTBSY` when somebody still does, or when so many others wait that nobody would hear of a close.
    pub(super) fn free_of_readers(&self, id: NodeId) -> io::Result<MutexGuard<'_, Core>> {
        let core = self.free_to_open(id);
        if !core.passed.is_read(id) {
            return Ok(core);
        }
        // Other workers have to go on.
        let Ok(_waiting) = self.waits_for_readers.try_lock() else {
            return fail(Errno::TXTBSY);
        };
        let is_read = |core: &mut Core| core.passed.is_read(id) || core.commit.is_some();
        let (core, waited) = self
            .settled
            .wait_timeout_while(core, CLOSES_WITHIN, is_read)
            .expect(WHOLE);
        match waited.timed_out() {
            true => fail(Errno::TXTBSY),
            false => Ok(core),
        }
    }
}

impl Core {
    /// Finds the way of one more open file of a node.
    pub(super) fn pass(
        &mut self,
        facts: &Facts,
        id: NodeId,
        how: OpenHow,
        kernel: &Notifier,
    ) -> Step<Way> {
        self.let_go(id);
        if self.passed.open.contains_key(&id) {
            return Ok(self.pass_again(id, how, kernel)?);
        }
        let has_content = !how.is_new && !how.truncate;
        let is_asked_for_often =
            how.reads && how.writes && (has_content || self.passed.has_no_leases);
        if how.is_synchronous || is_asked_for_often || !self.passed.is_allowed {
            return Ok(Way::Messages);
        }
        if self.known.is_open(id) {
            return Ok(Way::Messages);
        }
        // What cannot be opened here, messages will tell.
        let Ok(file) = outcome(self.file(facts, id))? else {
            return Ok(Way::Messages);
        };
        let Some(descriptor) = file.reader().descriptor() else {
            return Ok(Way::Messages);
        };
        let object = self.map.node(id).and_then(|node| node.object);
        let (leads_to, registered) = match (&file, object) {
            (Data::Object(_), Some(object)) if self.borrowed(id).is_none() => {
                (LeadsTo::Object(object), None)
            }
            (Data::Real(real), _) if !how.writes => match self.passage(facts, id, real)? {
                Some((number, registered)) => (LeadsTo::Real(number), registered),
                None => return Ok(Way::Messages),
            },
            _ => return Ok(Way::Messages),
        };
        let backing = registered.map_or_else(|| kernel.register(descriptor), Ok);
        let Ok(backing) = backing else {
            self.passed.is_allowed = false;
            return Ok(Way::Messages);
        };
        let registered = backing.id();
        let mut open = Open {
            backing: Some(backing),
            files: 0,
            leads_to,
            may_be_mapped: false,
            may_be_written: false,
        };
        let way = open.add(how, registered);
        self.passed.open.insert(id, open);
        Ok(way)
    }

    /// One more open file of a node that is passed through already.
    ///
    /// # Errors
    /// When what somebody has mapped cannot be opened again.
    fn pass_again(&mut self, id: NodeId, how: OpenHow, kernel: &Notifier) -> io::Result<Way> {
        let Some(open) = self.passed.open.get_mut(&id) else {
            return fail(Errno::STALE);
        };
        let registered = match (&open.backing, open.leads_to) {
            (Some(backing), _) => backing.id(),
            (None, LeadsTo::Object(object)) => {
                let object = self.objects.open(object)?;
                let backing = kernel.register(object.as_fd())?;
                open.backing.insert(backing).id()
            }
            (None, LeadsTo::Real(_)) => return fail(Errno::STALE),
        };
        Ok(open.add(how, registered))
    }

    /// The number of a node's real file, and its registration where it has one; `None` where it is not to be passed through.
    fn passage(
        &mut self,
        facts: &Facts,
        id: NodeId,
        real: &Arc<dyn OpenFile>,
    ) -> Step<Option<(FileNumber, Option<Backing>)>> {
        let Some((number, passage)) = self.files.take_passage(id) else {
            return Ok(None);
        };
        let found = match passage {
            Passage::Registered(backing) => Some((number, Some(backing))),
            Passage::Unknown if facts.holds(id, real, is_program)? => Some((number, None)),
            Passage::Unknown | Passage::Needless => {
                self.files.keep_passage(id, number, Passage::Needless);
                None
            }
        };
        Ok(found)
    }

    /// One open file less that is passed through.
    pub(super) fn end_pass(&mut self, id: NodeId) {
        if let Some(open) = self.passed.open.get_mut(&id) {
            open.files -= 1;
            self.let_go(id);
        }
    }

    /// Takes a node as not passed through any more, unless it is open or somebody has its object open.
    pub(super) fn let_go(&mut self, id: NodeId) {
        let Entry::Occupied(mut entry) = self.passed.open.entry(id) else {
            return;
        };
        let open = entry.get_mut();
        if open.files > 0 {
            return;
        }
        if let (true, LeadsTo::Object(object)) = (open.may_be_mapped, open.leads_to) {
            // The view's own descriptors would count.
            open.backing = None;
            self.files.close(id);
            let is_in_use = self.objects.is_in_use(object);
            self.passed.has_no_leases |= is_in_use.is_err();
            // Without leases, mappings that were made only to read it do not count.
            if is_in_use.unwrap_or(open.may_be_written) {
                return;
            }
        }
        let open = entry.remove();
        self.passed.lost.remove(&id);
        if let (LeadsTo::Real(number), Some(backing)) = (open.leads_to, open.backing) {
            let passage = Passage::Registered(backing);
            self.files.keep_passage(id, number, passage);
        }
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
        for id in self.passed.open.keys().copied().collect::<Vec<_>>() {
            self.let_go(id);
        }
        // A mapping that was made only to read an object goes on with the file that the commit makes of the object.
        let Passed { open, lost, .. } = &mut self.passed;
        open.retain(|_, open| open.files > 0 || open.may_be_written);
        lost.retain(|id| open.contains_key(id));
        let open = self.passed.open.iter();
        let nodes = open.filter(|(node, open)| {
            matches!(open.leads_to, LeadsTo::Object(_)) && !stays.contains(node)
        });
        let nodes: Vec<NodeId> = nodes.map(|(node, _)| *node).collect();
        let mut copies = Vec::new();
        let copied = nodes.into_iter().try_for_each(|id| {
            if let Some(object) = self.map.node(id).and_then(|node| node.object) {
                let copy = self.objects.next();
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
                self.objects.discard(copy);
            }
            return Err(error);
        }
        Ok(copies
            .into_iter()
            .map(|(node, object, _)| {
                self.files.close(node);
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
        self.objects.leave(copies);
        for (node, _) in objects {
            self.files.close(node);
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
            let adopted = self.decide_at_once(|core, facts| core.adopt(facts, *node, &mut records));
            match adopted {
                Ok(()) => records.push(Record::Content {
                    node: *node,
                    object: *object,
                }),
                // Moved or removed outside in the same moment, and stale from now on.
                Err(error) if is_gone(&error) => {
                    records.truncate(before);
                    self.passed.lost.insert(*node);
                }
                Err(error) => return Err(error),
            }
        }
        self.perform_all(records)?;
        for (node, _) in objects {
            self.known.forget_use(*node);
        }
        Ok(())
    }

    fn copy_object(&self, from: ObjectId, to: ObjectId) -> io::Result<()> {
        let source = self.objects.open(from)?;
        let target = self.objects.create(to)?;
        let shown = self.objects.attributes(from)?;
        if !share_blocks(&source, &target) {
            target.set_len(shown.identity.size)?;
            copy_data(&source, &target, 0..shown.identity.size)?;
        }
        set_times(&target, &shown)
    }

    fn perform_all(&mut self, records: Vec<Record>) -> io::Result<()> {
        match records.is_empty() {
            true => Ok(()),
            false => self.perform(records, now()),
        }
    }
}

/// Whether it is worth while: large programs and libraries are mapped, and nobody writes into them.
fn is_program(file: &dyn OpenFile) -> bool {
    let mut magic = [0; PROGRAM.len()];
    let is_large = file
        .attributes()
        .is_ok_and(|data| data.identity.size > AT_ONCE_BYTES_MAX as u64);
    // What is read in part is another.
    is_large && read_full(file, 0, &mut magic).is_ok() && magic == *PROGRAM
}
