//! Making what the log says that an earlier server did not make, or that a loss of power has taken.
//!
//! Names are changed in the order of the log, and [`Progress`](super::progress::Progress) tells how far that came. So of all
//! operations on names only one is in doubt, and it looks whether it was made. Changes of inodes are made once more from
//! the beginning of the log, since a file system may make data durable long after names: each says what is to be, so making them
//! again, in their order and to the last, comes to the same.
//!
//! An object that a client made since the log began is found by its name: the log says which name it had when the making stopped.

use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd;

use rustix::io::Errno;
use surmise_remote::object::ObjectId;
use surmise_remote::operation::{Change, Operation, Place as Named};

use super::collisions::is_failure;
use super::make::Begun;
use super::places::Place;
use super::rights::SEARCH;
use super::{Directory, stat};
use crate::notice::notice;
use crate::patience::{Pauses, awaited};

/// How much is shown of an operation, in characters.
const WHAT_MAX: usize = 300;

/// Why the directory is not, and does not become, what the log says.
#[derive(Debug, thiserror::Error)]
pub enum Stuck {
    /// An operation that was promised fails.
    #[error("change {number} of the log can't be made: {what}: {source}")]
    Operation {
        /// Which, counted from 1 since the directory was first served.
        number: u64,
        /// What it is.
        what: String,
        /// Why not.
        source: std::io::Error,
    },
    /// Changes were made that the log does not have.
    #[error("{made} changes were made, and the log has those from {from} to {upto}")]
    Lost {
        /// How many were made.
        made: u64,
        /// The first that the log has.
        from: u64,
        /// The last one.
        upto: u64,
    },
    /// The file system fails.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl Stuck {
    pub(crate) fn at(number: u64, operation: &Operation, errno: Errno) -> Self {
        let what = format!("{:?}", operation.change);
        // Data can be long.
        let what = what.chars().take(WHAT_MAX).collect();
        Self::Operation {
            number,
            what,
            source: errno.into(),
        }
    }
}

impl Stuck {
    /// What is waited for if the failure passes.
    pub(crate) fn awaited(&self) -> Option<&'static str> {
        match self {
            Self::Operation { source, .. } | Self::Io(source) => awaited(source),
            Self::Lost { .. } => None,
        }
    }
}

impl From<Errno> for Stuck {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}

/// What an earlier server has left.
#[derive(Debug, Default)]
pub(crate) struct Earlier<'l> {
    /// How many operations had been made when the log began.
    pub(crate) base: u64,
    /// Which inodes the objects were then that clients had made.
    pub(crate) pairs: Vec<(ObjectId, u64)>,
    /// The operations of the log.
    pub(crate) operations: Vec<&'l Operation>,
    /// Whether there are clients that may come again.
    pub(crate) has_clients: bool,
    /// When the last record was appended, in seconds and nanoseconds by the clock of the file system.
    pub(crate) ended: Option<(i64, u32)>,
}

impl Directory {
    /// Makes what the log says.
    ///
    /// # Errors
    /// When that can't be: others have changed the directory, or the file system fails.
    pub(crate) fn redo(&mut self, earlier: &Earlier<'_>) -> Result<(), Stuck> {
        let made = self.progress.get()?;
        let operations = &earlier.operations;
        let upto = earlier.base + operations.len() as u64;
        if made < earlier.base || upto < made {
            let from = earlier.base + 1;
            return Err(Stuck::Lost { made, from, upto });
        }
        for (id, inode) in &earlier.pairs {
            self.ids.pair(*id, *inode);
        }
        for inode in self.overtaken.gone() {
            self.ids.forget_inode(inode);
        }
        self.find_nameless()?;
        self.may_walk = earlier.has_clients || !operations.is_empty();
        self.made = made;
        self.set_bits_back()?;
        let done = usize::try_from(made - earlier.base).unwrap_or(usize::MAX);
        let doubtful = (done..operations.len()).find(|index| is_on_names(operations[*index]));
        self.forget_younger(earlier)?;
        let mut bindings = Bindings::default();
        for operation in &operations[..done] {
            bindings.apply(&operation.change);
        }
        if let Some(doubtful) = doubtful {
            let number = earlier.base + doubtful as u64 + 1;
            let change = &operations[doubtful].change;
            if self.was_made(number, change, &mut bindings)? {
                bindings.apply(change);
            }
        }
        for id in bindings.created.clone() {
            self.resolve(id, &mut bindings)?;
        }
        self.collisions.log = earlier.base;
        let settled = self.find_overtaken(earlier, done)?;
        let mut gone = Gone::of(operations);
        for (index, operation) in operations.iter().enumerate() {
            let number = earlier.base + index as u64 + 1;
            let begun = match Some(index) == doubtful {
                true => Begun::Maybe,
                false => Begun::No,
            };
            let outcome = if index < done {
                self.redo_made(number, operation, index < settled)
            } else if gone.is_needless(operation) && !self.is_reachable(operation)? {
                // A removed directory, which no client sees again, or what has gone since.
                self.made = self.made.max(number);
                Ok(())
            } else {
                self.redo_next(operation, begun)
            };
            match outcome {
                Err(errno) if index < done && !is_failure(errno) => gone.note(number, operation),
                outcome => outcome.map_err(|errno| Stuck::at(number, operation, errno))?,
            }
        }
        // The clients come again, and learn what is so.
        self.take_unmade();
        Ok(self.patiently(None, Begun::No, |directory, _| directory.settle())?)
    }

    /// Whether what an operation is about is in the directory.
    fn is_reachable(&mut self, operation: &Operation) -> Result<bool, Stuck> {
        for object in operation.change.touches() {
            let found = self.inode(object).and_then(|inode| self.open_inode(inode));
            match found {
                Err(errno) if is_failure(errno) => return Err(errno.into()),
                Err(_) => return Ok(false),
                Ok(_) => {}
            }
        }
        Ok(true)
    }

    fn redo_next(&mut self, operation: &Operation, begun: Begun) -> Result<(), Errno> {
        self.patiently(Some(operation), begun, |directory, begun| {
            directory.make_next(operation, begun)
        })
    }

    /// Does something until it does not fail in a way that passes.
    pub(super) fn patiently(
        &mut self,
        operation: Option<&Operation>,
        mut begun: Begun,
        act: impl Fn(&mut Self, Begun) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut pauses = None;
        loop {
            let outcome = act(self, begun);
            let Err(errno) = outcome else {
                return outcome;
            };
            let Some(awaited) = awaited(&errno.into()) else {
                return outcome;
            };
            let pauses = match &mut pauses {
                None => {
                    let what = self.shown(operation);
                    notice(format_args!("{what}: {errno}; waits {awaited}"));
                    pauses.insert(Pauses::new())
                }
                Some(pauses) => {
                    pauses.again();
                    pauses
                }
            };
            self.close_all();
            std::thread::sleep(pauses.left());
            begun = Begun::Maybe;
        }
    }

    /// Whether an operation on names was made, by what is at its names. All those before it were.
    fn was_made(
        &mut self,
        number: u64,
        change: &Change,
        bindings: &mut Bindings,
    ) -> Result<bool, Errno> {
        Ok(match change {
            Change::Create { place, .. } | Change::Link { place, .. } => {
                self.inode_at(place, bindings)?.is_some()
            }
            Change::Remove { place, .. } => self.inode_at(place, bindings)?.is_none(),
            Change::Rename {
                from,
                exchange: false,
                ..
            } => self.inode_at(from, bindings)?.is_none(),
            Change::Rename {
                from,
                exchange: true,
                ..
            } => {
                let before = self.progress.exchanges(number);
                let before = before.map_err(|_| Errno::IO)?;
                before.is_some() && self.inode_at(from, bindings)? != before
            }
            Change::SetAttributes { .. }
            | Change::Resize { .. }
            | Change::Write { .. }
            | Change::SetExtended { .. } => false,
        })
    }

    fn inode_at(&mut self, named: &Named, bindings: &mut Bindings) -> Result<Option<u64>, Errno> {
        let Some(parent) = self.resolve(named.parent, bindings)? else {
            return Ok(None);
        };
        let directory = match self.open_directory(parent) {
            Err(errno) if is_failure(errno) => return Err(errno),
            Err(_) => return Ok(None),
            Ok(directory) => directory,
        };
        // The directory may have lost its bits since the name was given.
        let found = self.with_bits(directory.as_fd(), SEARCH, || {
            stat(directory.as_fd(), named.name.as_bytes())
        });
        match found {
            Ok(found) => Ok(Some(found.stx_ino)),
            Err(errno) if is_failure(errno) => Err(errno),
            Err(_) => Ok(None),
        }
    }

    /// Which inode an object is.
    fn resolve(&mut self, id: ObjectId, bindings: &mut Bindings) -> Result<Option<u64>, Errno> {
        let named = bindings.places.get(&id).and_then(|places| places.last());
        let Some(named) = named.filter(|_| bindings.created.contains(&id)).cloned() else {
            return Ok(self.ids.inode(id));
        };
        // Names that could not be given, since others were in the way, can lead in a circle.
        bindings.created.remove(&id);
        let found = self.resolve_at(id, named, bindings);
        if !matches!(found, Ok(Some(_))) {
            bindings.created.insert(id);
        }
        found
    }

    fn resolve_at(
        &mut self,
        id: ObjectId,
        named: Named,
        bindings: &mut Bindings,
    ) -> Result<Option<u64>, Errno> {
        let Some(inode) = self.inode_at(&named, bindings)? else {
            return Ok(None);
        };
        let Some(parent) = self.ids.inode(named.parent) else {
            return Ok(None);
        };
        self.ids.pair(id, inode);
        let name = named.name;
        self.places.add(inode, Place { parent, name });
        Ok(Some(inode))
    }
}

/// Which objects of a log may not be there any more.
struct Gone {
    /// They have lost a name.
    unnamed: HashSet<ObjectId>,
    /// What was missed and said so.
    missed: HashSet<ObjectId>,
}

impl Gone {
    fn of(operations: &[&Operation]) -> Self {
        let loses = |operation: &&Operation| match &operation.change {
            Change::Remove { object, .. } => Some(*object),
            Change::Rename {
                replaced,
                exchange: false,
                ..
            } => *replaced,
            _ => None,
        };
        Self {
            unnamed: operations.iter().filter_map(loses).collect(),
            missed: HashSet::new(),
        }
    }

    /// Whether an operation only changes objects that have lost a name since.
    fn is_needless(&self, operation: &Operation) -> bool {
        let touched = operation.change.touches();
        !is_on_names(operation) && touched.iter().all(|object| self.unnamed.contains(object))
    }

    /// Nothing was found that this operation could change.
    fn note(&mut self, number: u64, operation: &Operation) {
        // A name that was given and taken again is missed no less than what it led to; its directory is not.
        let change = &operation.change;
        let missed = change
            .makes()
            .map_or_else(|| change.touches(), |object| vec![object]);
        for object in missed {
            // It may also have lost its name before this log, and then been dropped.
            if !self.unnamed.contains(&object) && self.missed.insert(object) {
                notice(format_args!(
                    "change {number} of the log is left out: {object} is not in the directory any more"
                ));
            }
        }
    }
}

fn is_on_names(operation: &Operation) -> bool {
    operation.change.places().next().is_some()
}

/// Which names objects have, as far as operations tell.
#[derive(Debug, Default)]
struct Bindings {
    /// The names of each object that were given to it and not taken again.
    places: HashMap<ObjectId, Vec<Named>>,
    /// Objects that were made, and of which it is not known which inodes they are.
    created: HashSet<ObjectId>,
}

impl Bindings {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Create { place, object, .. } => {
                self.created.insert(*object);
                self.bind(place, *object);
            }
            Change::Link { object, place } => self.bind(place, *object),
            Change::Remove { place, object, .. } => self.unbind(place, *object),
            Change::Rename {
                object, replaced, ..
            } if replaced.as_ref() == Some(object) => {}
            Change::Rename {
                from,
                object,
                to,
                replaced,
                exchange,
            } => {
                self.unbind(from, *object);
                if let Some(replaced) = replaced {
                    self.unbind(to, *replaced);
                }
                self.bind(to, *object);
                if let Some(other) = replaced.filter(|_| *exchange) {
                    self.bind(from, other);
                }
            }
            Change::SetAttributes { .. }
            | Change::Resize { .. }
            | Change::Write { .. }
            | Change::SetExtended { .. } => {}
        }
    }

    fn bind(&mut self, place: &Named, object: ObjectId) {
        self.places.entry(object).or_default().push(place.clone());
    }

    fn unbind(&mut self, place: &Named, object: ObjectId) {
        if let Some(places) = self.places.get_mut(&object) {
            places.retain(|other| other != place);
        }
    }
}
