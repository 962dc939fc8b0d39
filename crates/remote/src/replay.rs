//! Lost changes are made again, by path and in their order, where others may have changed the same meanwhile.
//!
//! What is there keeps its name and its content. Where a change needs a name that something else has by now, or would take away
//! what others have written, the object of the change is made or goes on as `NAME.conflict-N` beside it. A change that
//! nothing is there for is left out; none that carries data is, while there is a directory that it can go to.
//!
//! A replay takes [`Step`]s. The caller notes each before it is carried out. So a replay that was interrupted takes up the step that
//! was noted last, of which it is not known whether it was carried out; every step can be carried out once more.

mod already;
mod carry;
mod decide;
mod names;
mod shown;
mod stamps;

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};
use surmise_lower::{FileKind, Timestamp};

use crate::errno::Errno;
use crate::lost::{LostChanges, Undecided};
use crate::object::{Name, ObjectId};
use crate::operation::{Change, NewKind, Place, SetAttributes};
use crate::tree::without_set_ids;
use names::Names;
pub use shown::{Line, lines};
pub use stamps::Stamp;

/// Where changes are made: a directory. A path is the names from there on, and no symbolic link on it is followed.
///
/// An error is the file system's.
pub trait Target {
    /// What a path leads to.
    fn look(&mut self, path: &[Name]) -> Result<Option<Found>, Errno>;
    /// Makes an object without data, for its owner alone; `EEXIST` where there is one.
    fn make(&mut self, path: &[Name], kind: &NewKind) -> Result<(), Errno>;
    /// Makes a copy of a file, as far as that is not done; `again` tells that a file of the name may be such a copy. `EEXIST` where
    /// that is something else.
    fn copy(&mut self, from: &[Name], to: &[Name], again: bool) -> Result<(), Errno>;
    /// How many of the first of these bytes the file has there.
    fn same(&mut self, path: &[Name], offset: u64, data: &[u8]) -> Result<u64, Errno>;
    /// Writes bytes of a file.
    fn write(&mut self, path: &[Name], offset: u64, data: &[u8]) -> Result<(), Errno>;
    /// Gives a file another size.
    fn resize(&mut self, path: &[Name], size: u64) -> Result<(), Errno>;
    /// Sets attributes.
    fn set_attributes(&mut self, path: &[Name], set: &SetAttributes) -> Result<(), Errno>;
    /// Sets an extended attribute, or removes it.
    fn set_extended(
        &mut self,
        path: &[Name],
        name: &Name,
        value: Option<&[u8]>,
    ) -> Result<(), Errno>;
    /// Gives an object one more name; `EEXIST` where that is taken.
    fn link(&mut self, from: &[Name], to: &[Name]) -> Result<(), Errno>;
    /// Takes a name away.
    fn remove(&mut self, path: &[Name], directory: bool) -> Result<(), Errno>;
    /// Moves a name.
    fn rename(&mut self, from: &[Name], to: &[Name], how: Moves) -> Result<(), Errno>;
}

/// How a name moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Moves {
    /// To one that nothing has; `EEXIST` otherwise.
    ToFree,
    /// Also to one that something has, which then goes.
    Over,
    /// Both names change places.
    Exchange,
}

/// What is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What it is.
    pub kind: FileKind,
    /// Its number, `st_ino`.
    pub number: u64,
    /// In bytes.
    pub size: u64,
    /// Last change of its content.
    pub modified: Timestamp,
    /// Where a symbolic link leads.
    pub target: Option<Vec<u8>>,
}

/// What a replay does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// The next change is made.
    Make {
        /// With this name in the place of its own, which something else has.
        beside: Option<Name>,
        /// How a name moves, if one does, and the number of what has the name.
        moves: Option<(Moves, u64)>,
    },
    /// What the next change needs is gone, and is made anew with this name.
    Anew {
        /// What is gone.
        object: ObjectId,
        /// Where it is from now on.
        place: Place,
        /// Whether it is a directory, and not a file.
        directory: bool,
    },
    /// The file of the next change was changed by others. Here it goes on in a copy.
    Copy {
        /// Which file.
        object: ObjectId,
        /// Where the copy is.
        place: Place,
    },
    /// The next change is left out.
    Leave(Why),
}

/// Why a change is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Why {
    /// Its object has no name any more, by an earlier one of the changes. Nobody misses it.
    Nameless,
    /// Its object is gone.
    Gone,
    /// It would take away what others have changed.
    Changed,
    /// The file system does not take it.
    Refused(Errno),
}

/// What is noted of a replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Progress {
    /// This is carried out. What was noted before has been.
    Begins(Step),
    /// What was begun last is not carried out, for this reason.
    Failed(Errno),
    /// So many of the changes were made before the replay.
    Already(u64),
    /// What was begun last is carried out, and its file is so.
    Has(ObjectId, Stamp),
    /// What was begun last is decided anew, since others may have changed the same.
    Unsure,
}

/// Something that a person has to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// What it is about, with slashes.
    pub path: Vec<u8>,
    /// What became of it.
    pub what: Became,
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Became {
    /// Something else has its name, so its object has this one.
    Beside(Name),
    /// Its directory or file is gone, and was made anew with this name.
    Anew(Name),
    /// Others have changed the file, so it is made in a copy of this name.
    Copied(Name),
    /// It was left out: this was to be done.
    Left(&'static str, Why),
}

/// How often a step is tried.
const TRIES: u32 = 4;

/// How often something is made anew for one change. Others may remove each at once.
const ANEW_MAX: u32 = 2048;

/// A replay.
#[derive(Debug)]
pub struct Replay<'l> {
    lost: &'l LostChanges,
    names: Names,
    /// Files that no others have changed, since the replay has made them, or has looked.
    ours: HashSet<ObjectId>,
    /// Files as the replay has left them.
    stamps: HashMap<ObjectId, Stamp>,
    /// The file that the last step was about.
    touched: Option<ObjectId>,
    /// Objects that the replay has made. They get their permissions at the end.
    made: HashSet<ObjectId>,
    /// What objects get at the end.
    last: BTreeMap<ObjectId, SetAttributes>,
    /// The next change.
    next: usize,
    /// What was begun, and may have been carried out.
    begun: Option<Step>,
    /// How often it has failed, and why.
    failures: (u32, Option<Errno>),
    told: Vec<Told>,
    /// How often something was made anew for the next change.
    anew: u32,
    /// Where a step that is decided first looks for a free name. Earlier ones were taken by then.
    free: HashMap<(ObjectId, Vec<u8>), u32>,
}

impl<'l> Replay<'l> {
    /// From the beginning. `root` is the directory that the places end at.
    pub fn new(root: ObjectId, lost: &'l LostChanges) -> Self {
        Self {
            lost,
            names: Names::new(root, &lost.places),
            ours: HashSet::new(),
            stamps: HashMap::new(),
            touched: None,
            made: HashSet::new(),
            last: BTreeMap::new(),
            next: 0,
            begun: None,
            failures: (0, None),
            told: Vec::new(),
            anew: 0,
            free: HashMap::new(),
        }
    }

    /// Takes note of what was done earlier, in its order.
    pub fn note(&mut self, progress: Progress) {
        match progress {
            Progress::Begins(step) => {
                if let Some(done) = self.begun.replace(step) {
                    self.did(&done);
                }
            }
            Progress::Failed(errno) => self.fail(errno),
            Progress::Already(count) => {
                // What was read from a file may have more.
                let count = usize::try_from(count).unwrap_or(usize::MAX);
                self.were_made(count.min(self.lost.changes.len()));
            }
            Progress::Has(object, stamp) => {
                if let Some(done) = self.begun.take() {
                    self.did(&done);
                }
                self.stamps.insert(object, stamp);
            }
            Progress::Unsure => self.begun = None,
        }
    }

    /// How many changes were made or left out.
    pub fn done(&self) -> usize {
        self.next
    }

    /// What people have to know so far.
    pub fn told(&self) -> &[Told] {
        &self.told
    }

    fn change(&self) -> Option<&'l Undecided> {
        self.lost.changes.get(self.next)
    }

    fn fail(&mut self, errno: Errno) {
        self.begun = None;
        self.failures = (self.failures.0 + 1, Some(errno));
    }

    /// A step was carried out.
    fn did(&mut self, step: &Step) {
        self.failures = (0, None);
        self.anew = match step {
            Step::Anew { .. } | Step::Copy { .. } => self.anew + 1,
            Step::Make { .. } | Step::Leave(_) => 0,
        };
        self.tell(step);
        self.touched = match step {
            Step::Anew { object, .. } | Step::Copy { object, .. } => Some(*object),
            Step::Make { .. } => self.change().and_then(|one| written(&one.operation.change)),
            Step::Leave(_) => None,
        };
        match step {
            Step::Anew {
                object,
                place,
                directory,
            } => {
                self.stamps.remove(object);
                self.names.put_beside(*object, place.clone());
                self.ours.insert(*object);
                self.made.insert(*object);
                let permissions = Some(if *directory { 0o755 } else { 0o644 });
                let set = self.last.entry(*object).or_default();
                set.permissions = set.permissions.or(permissions);
            }
            Step::Copy { object, place } => {
                self.stamps.remove(object);
                self.names.put_beside(*object, place.clone());
                self.ours.insert(*object);
            }
            Step::Make { beside, .. } => {
                if let Some(undecided) = self.change() {
                    self.made_change(undecided, beside.as_ref());
                }
                self.next += 1;
            }
            Step::Leave(why) => {
                let undecided = self.change();
                if let Some(undecided) = undecided.filter(|_| *why == Why::Gone) {
                    // Later changes mean it where it would be.
                    self.names.change(undecided, None);
                }
                self.next += 1;
            }
        }
    }

    fn made_change(&mut self, undecided: &Undecided, beside: Option<&Name>) {
        let Undecided { operation, .. } = undecided;
        let (change, at) = (&operation.change, operation.at);
        self.names.change(undecided, beside);
        for place in change.places() {
            if self.made.contains(&place.parent) {
                self.last.entry(place.parent).or_default().modified = Some(at);
            }
        }
        match change {
            Change::Create { object, new, .. } => {
                self.ours.insert(*object);
                self.made.insert(*object);
                let is_link = matches!(new.kind, NewKind::Symlink(_));
                let set = SetAttributes {
                    permissions: (!is_link).then_some(new.permissions),
                    owner: Some(new.owner),
                    group: Some(new.group),
                    accessed: Some(at),
                    modified: Some(at),
                };
                self.last.insert(*object, set);
            }
            Change::Write { object, strip, .. } | Change::Resize { object, strip, .. } => {
                self.ours.insert(*object);
                let set = self.last.entry(*object).or_default();
                set.modified = Some(at);
                if *strip {
                    set.permissions = set.permissions.map(without_set_ids);
                }
            }
            Change::SetAttributes { object, set } => {
                let last = self.last.entry(*object).or_default();
                last.accessed = set.accessed.or(last.accessed);
                last.modified = set.modified.or(last.modified);
                if self.made.contains(object) {
                    last.permissions = set.permissions.or(last.permissions);
                    last.owner = set.owner.or(last.owner);
                    last.group = set.group.or(last.group);
                }
            }
            _ => {}
        }
    }

    fn tell(&mut self, step: &Step) {
        let (path, what) = match step {
            Step::Make {
                beside: Some(name), ..
            } => (
                self.names.shown_last(self.change()),
                Became::Beside(name.clone()),
            ),
            Step::Anew { object, place, .. } => {
                (self.names.shown(*object), Became::Anew(place.name.clone()))
            }
            Step::Copy { object, place } => (
                self.names.shown(*object),
                Became::Copied(place.name.clone()),
            ),
            Step::Leave(why) if *why != Why::Nameless => {
                let change = self.change().map(|one| &one.operation.change);
                let what = change.map_or("change", shown::verb);
                (
                    self.names.shown_last(self.change()),
                    Became::Left(what, *why),
                )
            }
            _ => return,
        };
        self.told.push(Told { path, what });
    }
}

/// What a change makes or writes.
fn written(change: &Change) -> Option<ObjectId> {
    match change {
        Change::Create { object, .. }
        | Change::Write { object, .. }
        | Change::Resize { object, .. } => Some(*object),
        _ => None,
    }
}
