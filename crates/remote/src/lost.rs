//! Changes that a client has lost, with what it takes to make them again by path.
//!
//! # Format
//! A file of lost changes is a log of `surmise-journal`, format `LOST`, version 1. A frame is an [`Entry`] in the wire format
//! of the crate `postcard` (version 1). The first one is `Begins`; behind it come `Places`, then `Change`s, in their order, and
//! `NoVerdict` where the server may have made some.
//! The client makes all of these durable before the file gets its name, so that a file which lacks any is damaged. A replay
//! appends `Replays`, `Directory` and `Progress`, now and then `Synced`, and at its end `Over`. One onto another directory begins anew.

use serde::{Deserialize, Serialize};
use surmise_lower::Timestamp;

use crate::object::ObjectId;
use crate::operation::{Operation, Place};
use crate::replay::Progress;

/// How many places one [`Entry::Places`] has at most.
const PLACES_EACH: usize = 10_000;

/// A change that its client has made, and that the server has not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undecided {
    /// The change.
    pub operation: Operation,
    /// What [`crate::operation::Change::takes`] was, unless it was a directory.
    pub before: Option<Before>,
}

/// An object before a change: by this it shows whether others have changed the object since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before {
    /// In bytes.
    pub size: u64,
    /// How many names it had.
    pub links: u32,
    /// Last change of the content.
    pub modified: Timestamp,
}

/// Changes that were lost together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LostChanges {
    /// Where objects were before the first of the changes, as far as the client knew: those that the changes are about, and the
    /// directories above them.
    pub places: Vec<(ObjectId, Place)>,
    /// The changes, in their order.
    pub changes: Vec<Undecided>,
}

/// What a file of lost changes has in a frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entry {
    /// The first one.
    Begins(Begins),
    /// Some of [`LostChanges::places`].
    Places(Vec<(ObjectId, Place)>),
    /// The next change.
    Change(Undecided),
    /// A replay begins here, or goes on.
    Replays(Replays),
    /// What it does.
    Progress(Progress),
    /// All of its progress so far is durable where it replays.
    Synced,
    /// It has come to its end.
    Over,
    /// No verdict on the changes has come: the server may have made the first of them, in their order.
    NoVerdict,
    /// Behind `Replays`: which directory it is.
    Directory(Directory),
}

/// Where lost changes come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begins {
    /// What was mounted, as it was asked for.
    pub source: String,
    /// Where: a path.
    pub mount_point: Vec<u8>,
    /// The directory that the mount showed.
    pub root: ObjectId,
    /// When they were lost.
    pub at: Timestamp,
    /// Why, for people.
    pub why: String,
}

/// Where lost changes are replayed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replays {
    /// The directory: a path.
    pub onto: Vec<u8>,
    /// Which start of the machine this is, and behind that which mount the directory is in. In another one, what was not synced there
    /// may be missing.
    pub boot: Vec<u8>,
}

/// By what a directory is known again. The device is that of the mount in [`Replays::boot`], and another one on the next mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directory {
    /// `st_ino`.
    pub number: u64,
    /// When it was made, where the file system tells.
    pub born: Option<Timestamp>,
}

/// A file of lost changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostFile {
    /// Where they come from.
    pub begins: Begins,
    /// The changes.
    pub lost: LostChanges,
    /// Whether the server may have made the first of them.
    pub may_be_made: bool,
    /// Where they were replayed, if they were.
    pub onto: Option<Vec<u8>>,
    /// Which directory that was.
    pub directory: Option<Directory>,
    /// What a replay has done so far.
    pub progress: Vec<Progress>,
    /// Whether it has come to its end.
    pub is_over: bool,
}

/// Why frames are no file of lost changes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LostFileError {
    /// A frame does not decode, or has bytes behind its end.
    #[error("entry {0} can't be read")]
    Entry(u64),
    /// The frames are not in the order of such a file.
    #[error("entry {0} is not what follows there")]
    Order(u64),
    /// There is none.
    #[error("it has no entries")]
    Empty,
}

impl LostChanges {
    /// The frames of a new file, in their order.
    pub fn frames(&self, begins: Begins) -> impl Iterator<Item = Vec<u8>> + '_ {
        let places = self.places.chunks(PLACES_EACH);
        let places = places.map(|places| Entry::Places(places.to_vec()).encode());
        // Each by a copy of its own: all together they may be large.
        let changes = self.changes.iter().cloned();
        let changes = changes.map(|change| Entry::Change(change).encode());
        std::iter::once(Entry::Begins(begins).encode())
            .chain(places)
            .chain(changes)
    }

    /// How many bytes of data they carry.
    pub fn bytes(&self) -> usize {
        let bytes = |change: &Undecided| change.operation.change.data_bytes();
        self.changes.iter().map(bytes).sum()
    }
}

impl LostFile {
    /// What was made is in another directory.
    fn begin_anew(&mut self) {
        self.progress.clear();
        self.is_over = false;
        self.directory = None;
    }
}

impl Entry {
    /// The payload of a frame.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("a vector takes all, and no type of ours fails")
    }
}

/// Takes a file of lost changes out of its frames.
#[derive(Debug)]
pub struct Reader {
    /// Which start of the machine this is, as in [`Replays::boot`], or only the first part of that.
    boot: Vec<u8>,
    file: Option<LostFile>,
    frames: u64,
    /// How much of the progress is durable where it was made, and in which start of the machine the rest was made.
    synced: usize,
    made_in: Vec<u8>,
}

impl Reader {
    /// For a program that runs in this start of the machine, and replays on this mount, if on any.
    pub fn new(boot: Vec<u8>) -> Self {
        Self {
            boot,
            file: None,
            frames: 0,
            synced: 0,
            made_in: Vec::new(),
        }
    }

    /// Takes the next frame.
    ///
    /// # Errors
    /// [`LostFileError`].
    pub fn take(&mut self, frame: &[u8]) -> Result<(), LostFileError> {
        self.frames += 1;
        let number = self.frames;
        let (entry, behind) =
            postcard::take_from_bytes(frame).map_err(|_| LostFileError::Entry(number))?;
        if !behind.is_empty() {
            return Err(LostFileError::Entry(number));
        }
        let Some(file) = &mut self.file else {
            let Entry::Begins(begins) = entry else {
                return Err(LostFileError::Order(number));
            };
            self.file = Some(LostFile {
                begins,
                lost: LostChanges::default(),
                may_be_made: false,
                onto: None,
                directory: None,
                progress: Vec::new(),
                is_over: false,
            });
            return Ok(());
        };
        let is_replayed = file.onto.is_some();
        match entry {
            Entry::Places(places) if !is_replayed && file.lost.changes.is_empty() => {
                file.lost.places.extend(places);
            }
            Entry::Change(change) if !is_replayed => file.lost.changes.push(change),
            Entry::NoVerdict if !is_replayed => file.may_be_made = true,
            Entry::Replays(replays) => {
                if file.onto.as_ref().is_some_and(|onto| *onto != replays.onto) {
                    file.begin_anew();
                    self.synced = 0;
                } else if self.made_in != replays.boot {
                    file.progress.truncate(self.synced);
                }
                self.made_in = replays.boot;
                file.onto = Some(replays.onto);
            }
            Entry::Directory(directory) if is_replayed => {
                if file.directory.is_some_and(|before| before != directory) {
                    file.begin_anew();
                    self.synced = 0;
                }
                file.directory = Some(directory);
            }
            Entry::Progress(progress) if is_replayed => file.progress.push(progress),
            Entry::Synced if is_replayed => self.synced = file.progress.len(),
            Entry::Over if is_replayed => {
                self.synced = file.progress.len();
                file.is_over = true;
            }
            _ => return Err(LostFileError::Order(number)),
        }
        Ok(())
    }

    /// All frames were taken.
    ///
    /// # Errors
    /// [`LostFileError`].
    pub fn end(self) -> Result<LostFile, LostFileError> {
        let mut file = self.file.ok_or(LostFileError::Empty)?;
        if !file.is_over && !self.made_in.starts_with(&self.boot) {
            file.progress.truncate(self.synced);
        }
        Ok(file)
    }
}
