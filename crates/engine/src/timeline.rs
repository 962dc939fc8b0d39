//! What a group did, in segments that begin at its checkpoints.
//!
//! # Why a denial takes back what depends on it, and nothing else
//!
//! Restoring a checkpoint undoes all that the group did since, whatever it depended on then. So a
//! segment may *gain* predictions only until others can have seen one of its acts: from then on it is
//! *spent*, and the next prediction needs a new checkpoint. An object that the group has modified and that no other group
//! has met since has been seen by nobody. If the segment gains, such an object takes the prediction, too, as if it had been
//! modified after that. Hence every act of a segment depends on
//! all predictions that could ever undo the act, and every group that met the act took these predictions. It follows that
//! exactly the groups that depend on a denied prediction have to be rolled back, each to its newest
//! checkpoint without the prediction, and that every group that has seen an undone act depends on it.

use std::collections::{BTreeMap, VecDeque};

use crate::assumptions::{Assumptions, Watcher};
use crate::deps::Tracked;
use crate::extents::Extents;
use crate::id::{ChannelId, CkptId, GroupId, Id, ObjectId, UndoId};

/// Something that a group did while it depended on predictions, and that a rollback takes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Modified {
        object: ObjectId,
        undo: UndoId,
        /// The place of the record among all.
        seq: u64,
    },
    Output {
        channel: ChannelId,
        arrival: u64,
    },
    Bore(GroupId),
    /// A prediction that was made for it or by it.
    Assumed(Id),
}

/// From one checkpoint to the next.
#[derive(Debug)]
pub(crate) struct Segment {
    /// The place of its beginning among those of all groups.
    pub serial: u64,
    /// None: it begins with the group, or the checkpoint is discarded.
    pub ckpt: Option<CkptId>,
    /// What the group depended on at its beginning.
    pub before: Tracked,
    /// The first of its acts, counted from the group's birth.
    from: u64,
    /// The predictions that the group came to depend on in it.
    gained: Extents,
    /// Whether others could have seen something of it but the objects in `modified`.
    is_spent: bool,
    /// The objects that the group has modified in it, each with its first record in it.
    modified: BTreeMap<ObjectId, Record>,
    /// The undecided one of `gained` whose decision may make the checkpoint needless.
    watching: Option<Id>,
}

/// An undo record, and its place among all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub undo: UndoId,
    pub seq: u64,
}

/// All of a group that may be undone, the oldest segment first; there is always one. But for the
/// first, segments of a living group have a checkpoint.
#[derive(Debug)]
pub(crate) struct Timeline {
    segments: VecDeque<Segment>,
    acts: VecDeque<Act>,
    /// How many acts have been forgotten, since nothing undoes them any more.
    settled: u64,
    /// The assumption whose decision may settle further acts.
    watching: Option<Id>,
}

impl Segment {
    pub fn new(serial: u64, ckpt: CkptId, before: Tracked) -> Self {
        Self {
            ckpt: Some(ckpt),
            before,
            ..Self::first(serial, Extents::default())
        }
    }

    fn first(serial: u64, gained: Extents) -> Self {
        Self {
            serial,
            ckpt: None,
            before: Tracked::default(),
            from: 0,
            gained,
            is_spent: false,
            modified: BTreeMap::new(),
            watching: None,
        }
    }

    fn unwatch(&mut self, group: GroupId, assumptions: &mut Assumptions) {
        if let Some(id) = self.watching.take() {
            assumptions.unwatch(id, Watcher::Segment(group, self.serial));
        }
    }
}

/// Where a rollback takes a group.
#[derive(Debug)]
pub(crate) struct Undone {
    /// The segment that is undone first.
    pub to: Segment,
    /// The checkpoints after it, with their places.
    pub needless: Vec<(u64, CkptId)>,
    /// What was done since.
    pub acts: Vec<Act>,
}

impl Timeline {
    /// Of a group that is born depending on these.
    pub fn new(inherited: &Extents) -> Self {
        Self {
            segments: VecDeque::from([Segment::first(0, inherited.clone())]),
            acts: VecDeque::new(),
            settled: 0,
            watching: None,
        }
    }

    /// Begins a segment. Returns the newest checkpoint if no prediction ever needed it: then it is
    /// as good as never taken.
    pub fn begin(&mut self, mut segment: Segment) -> Option<CkptId> {
        segment.from = self.settled + self.acts.len() as u64;
        let is_needed = self.newest().watching.is_some();
        let needless = if is_needed {
            None
        } else {
            self.newest_mut().ckpt.take()
        };
        if needless.is_some() {
            self.join_to_older(self.segments.len() - 1);
        }
        self.segments.push_back(segment);
        needless
    }

    /// Whether the group may come to depend on further predictions before its next checkpoint, if nobody else has met
    /// the objects that it has modified since the last one.
    pub fn may_gain(&self) -> bool {
        let newest = self.newest();
        newest.ckpt.is_some() && !newest.is_spent
    }

    /// The objects that the group has modified since its newest checkpoint, each with its first record since then.
    pub fn modified(&self) -> impl Iterator<Item = (ObjectId, Record)> + '_ {
        let modified = self.newest().modified.iter();
        modified.map(|(&object, &record)| (object, record))
    }

    /// The group comes to depend on these predictions.
    pub fn gain(&mut self, group: GroupId, gained: &Extents, assumptions: &mut Assumptions) {
        let newest = self.newest_mut();
        newest.gained.union(gained, assumptions.predictions());
        if newest.watching.is_none() {
            let next = newest.gained.newest(assumptions.predictions());
            newest.watching = next;
            let watcher = Watcher::Segment(group, newest.serial);
            next.inspect(|&id| assumptions.watch(id, watcher));
        }
    }

    /// An undecided prediction that the group came to depend on between a checkpoint and the next.
    pub fn gained_at(&self, ckpt: CkptId, assumptions: &Assumptions) -> Option<Id> {
        let mut segments = self.segments.iter();
        let segment = segments.find(|segment| segment.ckpt == Some(ckpt))?;
        segment.gained.newest(assumptions.predictions())
    }

    /// The group does something that others could see.
    pub fn spend(&mut self) {
        self.newest_mut().is_spent = true;
    }

    /// The group has modified an object.
    pub fn modify(&mut self, object: ObjectId, record: Record) {
        self.newest_mut().modified.entry(object).or_insert(record);
    }

    /// One of the group's tasks, which is not the last, has ended for good: no checkpoint of before may be used for
    /// further predictions.
    pub fn spend_all(&mut self) {
        for segment in &mut self.segments {
            segment.is_spent = true;
        }
    }

    /// The group, which speculates, does something that a rollback takes back.
    pub fn act(&mut self, act: Act) {
        self.acts.push_back(act);
    }

    /// Whether nothing is left that may be undone.
    pub fn is_settled(&self) -> bool {
        self.acts.is_empty()
    }

    fn newest(&self) -> &Segment {
        self.segments.back().expect("a timeline has a segment")
    }

    fn newest_mut(&mut self) -> &mut Segment {
        self.segments.back_mut().expect("a timeline has a segment")
    }

    /// Removes the boundary before a segment without a checkpoint.
    fn join_to_older(&mut self, index: usize) {
        if index == 0 {
            return;
        }
        let Some(removed) = self.segments.remove(index) else {
            return;
        };
        // What it gained is decided.
        let older = &mut self.segments[index - 1];
        older.is_spent |= removed.is_spent;
        for (object, record) in removed.modified {
            older.modified.entry(object).or_insert(record);
        }
    }
}

/// After decisions.
impl Timeline {
    /// Looks again at a segment whose watched prediction is decided. Returns its checkpoint if no
    /// undecided prediction needs it any more.
    pub fn review(
        &mut self,
        group: GroupId,
        serial: u64,
        assumptions: &mut Assumptions,
    ) -> Option<CkptId> {
        let index = self
            .segments
            .binary_search_by_key(&serial, |segment| segment.serial);
        let index = index.ok()?;
        let segment = &mut self.segments[index];
        segment.watching = segment.gained.newest(assumptions.predictions());
        if let Some(next) = segment.watching {
            assumptions.watch(next, Watcher::Segment(group, serial));
            return None;
        }
        let needless = segment.ckpt.take();
        self.join_to_older(index);
        needless
    }

    /// Forgets the acts that nothing can undo any more, and returns them. `now` is what the group
    /// depends on.
    pub fn settle(
        &mut self,
        group: GroupId,
        now: &Tracked,
        assumptions: &mut Assumptions,
    ) -> Vec<Act> {
        let watcher = Watcher::Acts(group);
        if let Some(id) = self.watching.take() {
            assumptions.unwatch(id, watcher);
        }
        let mut settled = Vec::new();
        for index in 0..self.segments.len() {
            let after = self.segments.get(index + 1);
            let ending = after.map_or(now, |after| &after.before);
            let next = ending.predictions.newest(assumptions.predictions());
            let until = match (next, after) {
                (Some(_), _) => self.segments[index].from,
                (None, Some(after)) => after.from,
                (None, None) => self.settled + self.acts.len() as u64,
            };
            let count = until.saturating_sub(self.settled) as usize;
            settled.extend(self.acts.drain(..count));
            self.settled += count as u64;
            if next.is_some() {
                self.watching = next.filter(|_| !self.acts.is_empty());
                self.watching.inspect(|&id| assumptions.watch(id, watcher));
                // Segments without a checkpoint before this one have nothing to say any more.
                let needless = self.segments.iter().take(index);
                let needless = needless
                    .take_while(|segment| segment.ckpt.is_none())
                    .count();
                self.segments.drain(..needless);
                break;
            }
        }
        settled
    }

    /// Whether acts that are added now have to be watched for.
    pub fn is_unwatched(&self) -> bool {
        self.watching.is_none()
    }

    /// Takes back all since the segment in which the group came to depend on `id`.
    pub fn undo(&mut self, group: GroupId, id: Id, assumptions: &mut Assumptions) -> Undone {
        let gained = |segment: &Segment| segment.gained.contains(id);
        let index = self.segments.iter().rposition(gained);
        let index = index.expect("what a group depends on, one of its segments gained");
        let mut undone = self.segments.split_off(index);
        for segment in &mut undone {
            segment.unwatch(group, assumptions);
        }
        let to = undone.pop_front().expect("it was found");
        let needless = undone.iter().filter_map(|segment| {
            let ckpt = segment.ckpt?;
            Some((segment.serial, ckpt))
        });
        let needless = needless.collect();
        let from = to.from.saturating_sub(self.settled) as usize;
        let acts = self.acts.split_off(from.min(self.acts.len())).into();
        if self.acts.is_empty()
            && let Some(id) = self.watching.take()
        {
            assumptions.unwatch(id, Watcher::Acts(group));
        }
        if self.segments.is_empty() {
            // Of all before nothing is undecided, or the group is not to be at all.
            self.segments
                .push_back(Segment::first(to.serial, Extents::default()));
        }
        Undone { to, needless, acts }
    }

    /// Gives up all checkpoints: the group has ended. What it did may still be undone.
    pub fn give_up(&mut self, group: GroupId, assumptions: &mut Assumptions) -> Vec<(u64, CkptId)> {
        let give_up = |segment: &mut Segment| {
            segment.unwatch(group, assumptions);
            let ckpt = segment.ckpt.take()?;
            Some((segment.serial, ckpt))
        };
        self.segments.iter_mut().filter_map(give_up).collect()
    }
}
