//! Changes that may have to be undone, cell by cell.
//!
//! A mark is of one process, and what the process changes from then on is the mark's, until it is settled or undone.
//! A request says on whose behalf the kernel asks ([`View::serves`]). Marks of several processes may be undecided at
//! once: who may change what others have changed, and who depends on whom then, is for the caller of this module to
//! say. Which marks can be undone and settled without others follows from the stacks of the map's cells
//! ([`crate::Map`]). A process without a mark changes for good. It waits where the change would lie on one that is undecided.
//!
//! A file gets a new object at its first change by a mark ([`super::copying`]), which is a copy of the older object. So
//! data are undone by the map alone.
//!
//! Two kinds of change cannot be undone. A file that other processes have open may be mapped by them, and they would
//! see changed data without a request. And there may be no space left for a copy. Such a change is [`surmise_fuse::Postponed`]
//! until something is decided. What a process with a mark writes by a call is none of the first kind, unless the caller of this module
//! wants it checked ([`View::check_writes`]): the caller lets a process write only where nobody else has the file mapped, and has
//! the kernel ask for the file's size once that is undone.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;

use rustix::io::Errno;

use super::core::{Core, now};
use super::facts::Step;
use super::families::Families;
use super::running::{Stale, StaleEntry};
use super::{View, fail};
use crate::record::Record;
use crate::types::{MarkId, NodeId, Timestamp};

thread_local! {
    /// The thread on whose behalf this one serves the view: 0 for the kernel's own, nothing outside of requests.
    static CALLER: Cell<Option<u32>> = const { Cell::new(None) };
}

/// The thread on whose behalf this one serves the view, if it is one.
pub(super) fn caller() -> Option<u32> {
    CALLER.get()
}

/// What the view knows of what is undecided, besides what the map keeps.
#[derive(Debug, Default)]
pub(super) struct Undecided {
    /// The process of each mark.
    marks: BTreeMap<MarkId, u32>,
    /// The highest mark ever.
    last: u64,
    families: Families,
    /// Nodes outside the map that lost a name, and by which mark.
    lost_names: Vec<(MarkId, NodeId)>,
    /// Nodes whose change had to wait, and by which mark; without one, it may be anybody's. The kernel may have put the change
    /// into its cache before it asked.
    waited: HashSet<(NodeId, Option<MarkId>)>,
    /// Nodes that the kernel forgot and that a mark kept.
    forgotten: HashSet<NodeId>,
    /// Nodes that got data of their own: when that is undone, they are real files again, and used.
    provided: HashSet<NodeId>,
    /// Calls of these marks that would wait for a decision fail: their processes are about to be rolled back.
    gives_up: HashSet<MarkId>,
    /// So do calls of these: their processes are about to be stopped for something else.
    gives_way: HashSet<MarkId>,
    /// Nobody decides any more.
    is_abandoned: bool,
    /// How often something came that calls may have waited for.
    decided: u64,
}

impl Undecided {
    /// How often something was decided so far.
    pub(super) fn decided(&self) -> u64 {
        self.decided
    }
}

/// Whose a change is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    Mark(MarkId),
    Nobodys,
    /// A page that the kernel writes back may be several processes'.
    Unknown,
}

impl View {
    /// What a process changes from now on is the new mark's. The process is named by its number in the caller's
    /// namespace. `has_borne` says that its children may share what it has open. As long as the process has marks, that need
    /// not be said a second time of the same files.
    ///
    /// # Errors
    /// `EBUSY` during a commit.
    pub fn mark(&self, process: u32, has_borne: bool) -> io::Result<MarkId> {
        let _stopped = self.changes.stop();
        let mut core = self.locked();
        if core.commit.is_some() {
            return fail(Errno::BUSY);
        }
        let last = core.undecided.last.max(core.map.last_mark().0);
        let mark = MarkId(last + 1);
        core.undecided.last = mark.0;
        core.undecided.marks.insert(mark, process);
        core.undecided
            .families
            .put(process, has_borne.then_some(mark));
        Ok(mark)
    }

    /// From now on, what a process that has a mark writes to a file that others have open waits.
    pub fn check_writes(&self, process: u32) {
        self.locked().undecided.families.check_writes(process);
    }

    /// What these marks have changed stays. They are gone.
    ///
    /// # Errors
    /// `InvalidInput` where there is no such mark, or where something else that is undecided lies below what they
    /// changed: then nothing is settled. Else what writing the log or removing an object failed with.
    pub fn settle(&self, marks: &[MarkId]) -> io::Result<()> {
        let mut core = self.locked();
        core.check_marks(marks)?;
        core.map.check_settling(marks).map_err(not_so)?;
        core.decide(marks, Record::Settle)?;
        let is_settled = |mark: &MarkId| marks.contains(mark);
        let undecided = &mut core.undecided;
        undecided.lost_names.retain(|(mark, _)| !is_settled(mark));
        core.tidy_undecided();
        drop(core);
        self.sweep()
    }

    /// Calls that wait for a decision on behalf of these marks, and those that would, fail with `EINTR` until the marks
    /// are undone.
    pub fn give_up(&self, marks: &[MarkId]) {
        let mut core = self.locked();
        let undecided = &mut core.undecided;
        let there = marks
            .iter()
            .filter(|mark| undecided.marks.contains_key(mark));
        undecided.gives_up.extend(there.copied());
        undecided.decided += 1;
    }

    /// As [`Self::give_up`], until this is said again with `stops` false: the processes of these marks are about to be stopped,
    /// and make such calls again when they go on.
    pub fn give_way(&self, marks: &[MarkId], stops: bool) {
        let mut core = self.locked();
        let undecided = &mut core.undecided;
        undecided.gives_way.clear();
        if stops {
            undecided.gives_way.extend(marks);
            undecided.decided += 1;
        }
    }

    /// Calls that wait for a decision fail, and so do those that would: the caller of this module has died.
    pub fn abandon(&self) {
        let mut core = self.locked();
        core.undecided.is_abandoned = true;
        core.undecided.decided += 1;
    }

    /// What these marks have changed, named newest first, is as it was before. They are gone. Returns what the kernel has
    /// to be told; it has old data of these nodes, too.
    ///
    /// # Errors
    /// `InvalidInput` where there is no such mark, or where something else lies on what they changed: then
    /// nothing is undone. Else what writing the log or removing an object failed with.
    pub fn undo(&self, marks: &[MarkId]) -> io::Result<Stale> {
        let _stopped = self.changes.stop();
        let mut core = self.locked();
        let stale = core.undo(marks)?;
        let nodes = stale.nodes.iter().copied();
        let open: Vec<NodeId> = nodes.filter(|id| core.known.is_open(*id)).collect();
        drop(core);
        for id in open {
            // A descriptor keeps a real file, whatever becomes of its name outside. What cannot be read is
            // looked up again when it is needed.
            let _ = self.decide_under(
                || Ok(self.locked()),
                |core, facts| core.file(facts, id).map(drop),
            );
        }
        self.sweep()?;
        Ok(stale)
    }

    /// This thread serves the view on behalf of another, by its number where the device was opened. The kernel's own
    /// requests have the number 0. Before the first call of this method, what the thread changes is the newest mark's.
    pub fn serves(&self, thread: u32) {
        CALLER.set(Some(thread));
    }
}

impl Core {
    /// Whether there are marks.
    pub(super) fn is_marked(&self) -> bool {
        !self.undecided.marks.is_empty()
    }

    /// Writes one operation to the log and takes it into the map. It is the mark's whose process'
    /// call is served.
    ///
    /// # Errors
    /// [`surmise_fuse::Postponed`] where the change would lie on one that is undecided and not the caller's; else what
    /// writing the log failed with.
    pub(super) fn perform(&mut self, mut records: Vec<Record>, time: Timestamp) -> io::Result<()> {
        if self.is_marked() {
            let is_change = |record: &&Record| !matches!(record, Record::Adopt { .. });
            let first = records.iter().find(is_change);
            match self.whose(first.and_then(Record::node)) {
                Whose::Mark(mark) => records.insert(0, Record::By(mark)),
                Whose::Nobodys if self.map.may_be_decided(&records) => {}
                Whose::Nobodys | Whose::Unknown => return Err(self.postponed()),
            }
        }
        self.record(records, time)
    }

    /// The mark whose a change of a node's data is.
    ///
    /// # Errors
    /// [`surmise_fuse::Postponed`] as for [`Core::perform`].
    pub(super) fn changer(&mut self, id: NodeId) -> io::Result<Option<MarkId>> {
        if !self.is_marked() {
            return Ok(None);
        }
        match self.whose(Some(id)) {
            Whose::Mark(mark) => Ok(Some(mark)),
            Whose::Nobodys if self.map.is_decided(id) => Ok(None),
            // It is made in the end.
            Whose::Nobodys => Err(self.postponed()),
            Whose::Unknown => {
                self.undecided.waited.insert((id, None));
                Err(self.postponed())
            }
        }
    }

    /// Refuses a change of data by a call that others might see.
    pub(super) fn check_written(&mut self, id: NodeId) -> Step<()> {
        let mark = self.changer(id)?;
        let undecided = &self.undecided;
        let process = mark.and_then(|mark| undecided.marks.get(&mark));
        match (process, caller()) {
            // A page that the kernel writes back was changed by no call.
            (Some(process), Some(1..)) if undecided.families.may_write(*process) => Ok(()),
            _ => self.check_unshared(id),
        }
    }

    /// Refuses a change of data that others might see.
    pub(super) fn check_unshared(&mut self, id: NodeId) -> Step<()> {
        let Some(mark) = self.changer(id)? else {
            return Ok(());
        };
        if !self.is_open_elsewhere(id, mark) {
            return Ok(());
        }
        self.undecided.waited.insert((id, Some(mark)));
        Err(self.postponed().into())
    }

    /// The kernel gave back the last reference to a node.
    pub(super) fn drop_forgotten(&mut self, id: NodeId) {
        if self.map.is_kept_by_mark(id) {
            self.undecided.forgotten.insert(id);
        } else if let Some(object) = self.map.drop_nameless(id) {
            self.objects.discard(object);
        }
    }

    /// A node has data of the domain's own by now.
    pub(super) fn forget_use(&mut self, id: NodeId) {
        match self.is_marked() {
            true => _ = self.undecided.provided.insert(id),
            false => self.known.forget_use(id),
        }
    }

    /// A node outside the map has lost a name.
    pub(super) fn note_lost_name(&mut self, id: NodeId) {
        self.known.lose_name(id);
        if self.is_marked()
            && let Whose::Mark(mark) = self.whose(None)
        {
            self.undecided.lost_names.push((mark, id));
        }
    }

    pub(super) fn newest_mark(&self) -> Option<MarkId> {
        self.undecided.marks.keys().next_back().copied()
    }

    /// Whose a change is, of this node where a node is changed.
    fn whose(&mut self, id: Option<NodeId>) -> Whose {
        let undecided = &mut self.undecided;
        let newest_of = |process: u32| {
            let mut marks = undecided.marks.iter().rev();
            let newest = marks.find(|(_, of)| **of == process);
            newest.map_or(Whose::Nobodys, |(mark, _)| Whose::Mark(*mark))
        };
        match CALLER.get() {
            None => undecided
                .marks
                .keys()
                .next_back()
                .map_or(Whose::Nobodys, |mark| Whose::Mark(*mark)),
            Some(0) => {
                // The kernel writes back what those have changed who have the file open, or mapped.
                let openers = id.map(|id| self.openers.of_node(id));
                let mut openers = openers.into_iter().flatten();
                let first = openers
                    .next()
                    .map(|opener| undecided.families.of(opener.thread));
                match first {
                    Some(process)
                        if openers.all(|other| undecided.families.of(other.thread) == process) =>
                    {
                        process.map_or(Whose::Nobodys, newest_of)
                    }
                    _ => Whose::Unknown,
                }
            }
            Some(thread) => {
                let process = undecided.families.of(thread);
                process.map_or(Whose::Nobodys, newest_of)
            }
        }
    }

    fn check_marks(&self, marks: &[MarkId]) -> io::Result<()> {
        match marks
            .iter()
            .all(|mark| self.undecided.marks.contains_key(mark))
        {
            true => Ok(()),
            false => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "there is no such mark",
            )),
        }
    }

    /// Has the log and the map say what becomes of marks, which are gone.
    fn decide(&mut self, marks: &[MarkId], record: fn(Vec<MarkId>) -> Record) -> io::Result<()> {
        let changed = self.map.undecided_marks();
        let changed: Vec<MarkId> = marks
            .iter()
            .filter(|mark| changed.contains(mark))
            .copied()
            .collect();
        if !changed.is_empty() {
            self.record(vec![record(changed)], now())?;
            let superseded = self.map.superseded().to_vec();
            self.objects.leave(superseded);
        }
        let undecided = &mut self.undecided;
        for mark in marks {
            undecided.marks.remove(mark);
            undecided.gives_up.remove(mark);
        }
        let marks = &undecided.marks;
        undecided
            .families
            .keep(|process| marks.values().any(|of| *of == process));
        undecided.decided += 1;
        Ok(())
    }

    fn undo(&mut self, marks: &[MarkId]) -> io::Result<Stale> {
        self.check_marks(marks)?;
        self.map.check_taking_back(marks).map_err(not_so)?;
        let touched = self.map.touched(marks);
        self.decide(marks, Record::TakeBack)?;
        for (_, id) in self.undecided.take_losses(marks) {
            self.known.regain_name(id);
        }
        let waited = self.undecided.take_waited(marks);
        let nodes: Vec<NodeId> = touched.nodes.into_iter().chain(waited).collect();
        for id in &nodes {
            self.files.close_all(*id);
            self.believed.listed.forget(*id);
        }
        self.listings.outdate();
        self.tidy_undecided();
        let names = touched.names.into_iter();
        Ok(Stale {
            entries: names
                .map(|(parent, name, is_directory)| StaleEntry {
                    parent,
                    name,
                    is_directory,
                })
                .collect(),
            nodes,
        })
    }

    /// Drops what was kept for the sake of marks, once there are none.
    fn tidy_undecided(&mut self) {
        if self.is_marked() {
            return;
        }
        self.undecided.waited.clear();
        for id in std::mem::take(&mut self.undecided.provided) {
            if self.has_object(id) {
                self.known.forget_use(id);
            }
        }
        for id in std::mem::take(&mut self.undecided.forgotten) {
            if !self.known.is_held(id) {
                self.objects.leave(self.map.drop_nameless(id));
            }
        }
    }

    /// Whether others than the process of a mark may have a file open, or mapped.
    fn is_open_elsewhere(&mut self, id: NodeId, mark: MarkId) -> bool {
        let undecided = &mut self.undecided;
        let Some(process) = undecided.marks.get(&mark).copied() else {
            return true;
        };
        let families = &mut undecided.families;
        let shared_before = families.shared_before(process);
        let mut openers = self.openers.of_node(id);
        !openers
            .all(|opener| families.is_own(process, opener.thread) && opener.mark >= shared_before)
    }
}

impl Undecided {
    /// Whether calls of the thread that is served fail that would wait for a decision.
    pub(super) fn is_given_up(&self) -> bool {
        self.is_abandoned
            || match CALLER.get() {
                // The kernel lets no data go of a file while it writes some back, so an undoing would wait for that.
                Some(0) => !self.gives_up.is_empty(),
                Some(thread) => self.gives_up_of(self.families.known(thread)),
                None => self.gives_up_of(self.marks.values().next_back().copied()),
            }
    }

    /// Whether a process is about to be rolled back, or stopped.
    fn gives_up_of(&self, process: Option<u32>) -> bool {
        let mut marks = self.gives_up.union(&self.gives_way);
        process.is_some() && marks.any(|mark| self.marks.get(mark).copied() == process)
    }

    /// The nodes whose changes were not made, and are not made any more. One of another process waits on, and the kernel keeps
    /// its pages locked meanwhile: nobody may have it drop them.
    fn take_waited(&mut self, of: &[MarkId]) -> Vec<NodeId> {
        let waited = self
            .waited
            .extract_if(|(_, mark)| mark.is_none_or(|mark| of.contains(&mark)));
        waited.map(|(node, _)| node).collect()
    }

    /// The marks by which such nodes outside the map have lost a name: their link counts tell of that.
    pub(super) fn marks_of_losses(
        &self,
        is_meant: impl Fn(NodeId) -> bool,
        marks: &mut BTreeSet<MarkId>,
    ) {
        let losses = self.lost_names.iter().filter(|(_, id)| is_meant(*id));
        marks.extend(losses.map(|(mark, _)| *mark));
    }

    fn take_losses(&mut self, of: &[MarkId]) -> Vec<(MarkId, NodeId)> {
        let losses = self
            .lost_names
            .extract_if(.., |(mark, _)| of.contains(mark));
        losses.collect()
    }
}

fn not_so(refused: crate::map::Inconsistent) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, refused)
}
