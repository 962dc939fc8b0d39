//! The view's files, as those see them who may have to undo what a task did to them.

use std::fmt;
use std::io;
use std::os::fd::AsFd;

use rustix::process::Pid;
use surmise_engine::ObjectId;

/// All files of the view are one object: while one process has changed something that is undecided, nobody
/// else looks.
pub(crate) const FILES: ObjectId = ObjectId(1);

/// Whoever keeps the undo log of a domain's files; its descriptor is readable when a call waits there until
/// nothing is undecided.
pub trait Files: AsFd + fmt::Debug {
    /// Later changes can be undone to here. All of them are this process', by its number here; `has_borne`
    /// says that it may share what it has open with children. Returns the mark, a number above all earlier
    /// ones.
    ///
    /// # Errors
    /// There is no mark: nothing may be changed that might have to be undone.
    fn mark(&self, process: Pid, has_borne: bool) -> io::Result<u64>;

    /// What was changed between a mark and the next newer one stays.
    ///
    /// # Errors
    /// The domain cannot go on.
    fn keep(&self, mark: u64) -> io::Result<()>;

    /// Calls that wait there for a decision fail until something is undone: their process is about to be
    /// stopped and rolled back.
    ///
    /// # Errors
    /// The domain cannot go on.
    fn give_up(&self) -> io::Result<()>;

    /// Undoes what was changed since a mark; it and newer ones are gone. The process stands still.
    ///
    /// # Errors
    /// The domain cannot go on.
    fn undo(&self, mark: u64) -> io::Result<()>;

    /// Hears that a call waits: the descriptor is not readable any more, until the next one does.
    ///
    /// # Errors
    /// As for reading.
    fn asked(&self) -> io::Result<()>;
}
