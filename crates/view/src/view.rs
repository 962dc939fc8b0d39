//! The view itself: map, store and lower side joined under one lock.
//!
//! Every method takes `&self`. Data are read and written outside the lock, and so is the lower side asked
//! ([`facts`]). Errors carry the number that the caller's system call shall fail with.

mod attributes;
mod believed;
mod change;
mod concealing;
mod copying;
mod core;
mod data;
mod decider;
mod directories;
mod directory;
mod facts;
mod families;
mod files;
mod held;
mod listings;
mod log;
mod names;
mod objects;
mod openers;
mod opening;
mod outside;
mod passthrough;
mod postponing;
mod programs;
mod reads;
mod relocate;
mod running;
mod showing;
mod touches;
mod undo;
mod uses;
mod xattrs;

pub use attributes::SetAttributes;
pub use directory::OpenDirectory;
pub use listings::DirectoryEntry;
pub use names::{NewNode, RenameMode};
pub use opening::{OpenHow, Opened};
pub use passthrough::Way;
pub use running::{Stale, StaleEntry};
pub use touches::{End, Look, Manner, Share, Target, Touches};

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};

use rustix::io::Errno;
use surmise_fuse::Notifier;
use surmise_journal::{Format, Journal, OpenError as JournalError};
use surmise_lower::{Local, Lower};

use crate::listers::Listers;
use crate::map::Map;
use crate::reads::Reads;
use crate::record::{Operation, Record};
use crate::store::ObjectStore;
use crate::types::{Attributes, InodeKey, Lifetime, NodeId};
use change::Changes;
use core::Core;
use decider::Decider;

/// The format of the view's log.
pub(crate) const LOG_FORMAT: Format = Format {
    tag: "VIEW",
    version: 2,
};

/// Where a view keeps its changes and what it shows.
#[derive(Debug, Clone)]
pub struct ViewConfig {
    /// The state directory: the log and the object store are made in it when first needed.
    pub directory: PathBuf,
    /// What the view shows.
    pub lower: Arc<dyn Lower>,
    /// Real inodes that do not exist in the view: Surmise's own state.
    pub hidden: Vec<InodeKey>,
    /// Groups that an ordinary user is in but cannot have inside a user namespace, shown as
    /// `own_group`, so that what they grant stays granted.
    pub foreign_groups: Vec<u32>,
    /// The user's own group.
    pub own_group: u32,
    /// How many descriptors of real directories, and as many of files, are kept open.
    pub descriptors: usize,
    /// Whether changes may have to be undone ([`Notifier::mark`](crate::Notifier::mark)).
    pub speculates: bool,
    /// An event that happens whenever a name is looked up that leads to a FIFO of the real file system: what
    /// opens it is never seen here.
    pub fifos: Option<Arc<OwnedFd>>,
}

impl ViewConfig {
    /// The real directory `lower` of this host. Nothing is hidden, and the user is in no group that is shown
    /// as another.
    pub fn new(directory: impl Into<PathBuf>, lower: impl Into<PathBuf>) -> Self {
        Self::over(directory, Arc::new(Local::at(lower)))
    }

    /// Likewise, of any lower side.
    pub fn over(directory: impl Into<PathBuf>, lower: Arc<dyn Lower>) -> Self {
        Self {
            directory: directory.into(),
            lower,
            hidden: Vec::new(),
            foreign_groups: Vec::new(),
            own_group: rustix::process::getegid().as_raw(),
            descriptors: 64,
            speculates: false,
            fifos: None,
        }
    }
}

/// Why a view's log could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The log itself.
    #[error("{}: {source}", path.display())]
    Log {
        /// The log's path.
        path: PathBuf,
        /// What is wrong.
        source: JournalError,
    },
    /// The log's frames are whole, but not what a view writes.
    #[error("{}: operation {operation}: {reason}", path.display())]
    Content {
        /// The log's path.
        path: PathBuf,
        /// Which operation, counted from 1.
        operation: u64,
        /// What is wrong.
        reason: String,
    },
    /// The object store or the real root directory.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A panic under the lock may have left the map and the log at odds: to go on would be to guess.
const WHOLE: &str = "the view is whole";

/// What a lookup or a creation found.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The node.
    pub node: NodeId,
    /// What is known of it.
    pub attributes: Attributes,
    /// The inode number to show: unique within the view.
    pub inode: u64,
    /// How long its attributes hold.
    pub attributes_lifetime: Lifetime,
    /// How long the name holds.
    pub name_lifetime: Lifetime,
}

/// A view that is open for use.
#[derive(Debug)]
pub struct View {
    core: Mutex<Core>,
    /// Tells those who wait for the end of a commit that the domain goes on.
    gone_on: Condvar,
    /// Changes of data that happen outside the lock.
    changes: Changes,
    /// The kernel that asks.
    kernel: OnceLock<Notifier>,
    /// Wakes threads that wait until a file is open no more, or until the kernel has its data.
    settled: Condvar,
    /// Held by a thread that waits for the former.
    waits_for_readers: Mutex<()>,
    /// What is read. Locked after the core, where both are.
    reads: Mutex<Reads>,
    /// What each task that lists directories does with that. Locked after the core, where both are.
    listers: Mutex<Listers>,
    /// The role that can have everything decided.
    decider: Decider,
    lower: Arc<dyn Lower>,
    /// Is told of look-ups of FIFOs.
    fifos: Option<Arc<OwnedFd>>,
}

/// Reads the map of a view that may be in use, without changing anything. A state directory without
/// a log holds no changes.
pub fn load(directory: &Path) -> Result<Map, LoadError> {
    let path = directory.join("log");
    if !path.try_exists()? {
        return Ok(Map::default());
    }
    let mut fold = Fold::default();
    let read = surmise_journal::read_at(&path, LOG_FORMAT, |sequence, payload| {
        fold.take(sequence, payload);
    });
    match read {
        // A kill inside the first write, or the view is at it: no operation took place.
        Err(error) if error.is_cut_short() => return Ok(Map::default()),
        Err(source) => return Err(LoadError::Log { path, source }),
        Ok(_) => {}
    }
    let mut map = fold.finish(&path)?;
    undo_undecided(&mut map);
    map.prune();
    Ok(map)
}

/// What can be read of a view whose log is damaged.
#[derive(Debug)]
pub struct Salvaged {
    /// What the operations that can be read make, as far as they fit together.
    pub map: Map,
    /// Operations that can be read.
    pub operations: u64,
    /// Of these, those that rest on one that cannot be, and are not in the map.
    pub unfitting: u64,
    /// Bytes of the log that cannot be read.
    pub unread_bytes: u64,
}

/// Reads what can be read of a damaged view, without changing anything. Only to be shown: nothing says that
/// the map is one that ever was.
///
/// # Errors
/// When there is a log, and it cannot be read at all or is one of another version.
pub fn salvage(directory: &Path) -> Result<Salvaged, LoadError> {
    let path = directory.join("log");
    let mut map = Map::default();
    let mut unfitting = 0;
    let salvage = surmise_journal::salvage_at(&path, LOG_FORMAT, |_, payload| {
        let operation = Operation::decode(payload);
        let fits = operation.is_ok_and(|operation| map.apply(&operation).is_ok());
        unfitting += u64::from(!fits);
    });
    let salvage = match salvage {
        Err(JournalError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
            Default::default()
        }
        salvage => salvage.map_err(|source| LoadError::Log { path, source })?,
    };
    undo_undecided(&mut map);
    map.prune();
    Ok(Salvaged {
        map,
        operations: salvage.frames,
        unfitting,
        unread_bytes: salvage.unread_bytes,
    })
}

impl View {
    /// Opens the view of a state directory, new or kept.
    pub fn open(config: ViewConfig) -> Result<Self, LoadError> {
        let path = config.directory.join("log");
        let store = ObjectStore::at(&config.directory);
        if surmise_journal::is_cut_short(&path) {
            // A kill inside the first write: no operation took place.
            std::fs::remove_file(&path)?;
        }
        let has_log = path.try_exists()?;
        // A domain without a log has written nothing that could come from what it read.
        let reads = Reads::open(&config.directory, !has_log);
        let (journal, map) = if has_log {
            let (mut journal, mut map) = recover(&path)?;
            if let Some(undoing) = undo_undecided(&mut map) {
                // What is appended from now on must not seem to lie on what was undecided.
                journal.append(&undoing.encode())?;
            }
            map.prune();
            let wanted: std::collections::HashSet<_> =
                map.nodes().filter_map(|(_, node)| node.object).collect();
            store.sweep(|object| wanted.contains(&object))?;
            (Some(journal), map)
        } else {
            store.sweep(|_| false)?;
            (None, Map::default())
        };
        let core = Core::new(&config, store, journal, map)?;
        Ok(Self {
            core: Mutex::new(core),
            gone_on: Condvar::new(),
            changes: Changes::default(),
            kernel: OnceLock::new(),
            settled: Condvar::new(),
            waits_for_readers: Mutex::default(),
            reads: Mutex::new(reads),
            listers: Mutex::default(),
            decider: Decider::default(),
            lower: config.lower,
            fifos: config.fifos,
        })
    }

    /// The state, for a call: not while the domain is being committed.
    fn core(&self) -> MutexGuard<'_, Core> {
        let core = self.locked();
        let wait = |core: &mut Core| core.commit.is_some();
        self.gone_on.wait_while(core, wait).expect(WHOLE)
    }

    /// The tasks that list, for a moment.
    pub(crate) fn listers(&self) -> MutexGuard<'_, Listers> {
        self.listers.lock().expect(WHOLE)
    }

    fn locked(&self) -> MutexGuard<'_, Core> {
        self.core.lock().expect(WHOLE)
    }
}

/// Reads a log back into a map, and stops taking at the first operation that makes no sense.
#[derive(Default)]
struct Fold {
    map: Map,
    failed: Option<(u64, String)>,
}

impl Fold {
    fn take(&mut self, sequence: u64, payload: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        let applied = Operation::decode(payload)
            .map_err(|error| error.to_string())
            .and_then(|operation| {
                self.map
                    .apply(&operation)
                    .map_err(|error| error.to_string())
            });
        self.failed = applied.err().map(|reason| (sequence, reason));
    }

    fn finish(self, path: &Path) -> Result<Map, LoadError> {
        match self.failed {
            None => Ok(self.map),
            Some((operation, reason)) => Err(LoadError::Content {
                path: path.to_owned(),
                operation,
                reason,
            }),
        }
    }
}

/// Takes back what is undecided, since the role that would have decided is no more. Returns the records of that for
/// the log.
pub(crate) fn undo_undecided(map: &mut Map) -> Option<Operation> {
    let mut marks = map.undecided_marks();
    if marks.is_empty() {
        return None;
    }
    marks.reverse();
    let operation = Operation {
        time: core::now(),
        records: vec![Record::TakeBack(marks)],
    };
    let applied = map.apply(&operation);
    applied.expect("all that is undecided can be taken back together");
    Some(operation)
}

fn recover(path: &Path) -> Result<(Journal<File>, Map), LoadError> {
    let mut fold = Fold::default();
    let opened = Journal::open_at(path, LOG_FORMAT, |sequence, payload| {
        fold.take(sequence, payload);
    });
    let (journal, _) = opened.map_err(|source| LoadError::Log {
        path: path.to_owned(),
        source,
    })?;
    Ok((journal, fold.finish(path)?))
}

fn fail<T, E: From<Errno>>(errno: Errno) -> Result<T, E> {
    Err(errno.into())
}
