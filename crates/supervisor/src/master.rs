//! The role that a supervisor works for.

use std::io;
use std::os::fd::AsFd;

/// What a supervisor is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// To decide all that is undecided, and to say so ([`Master::settled`]): somebody is about to stop all
    /// tasks, which nobody may trace then.
    Settle,
    /// To go on as before: all tasks do.
    GoOn,
    /// To end.
    End,
}

/// The role that a supervisor works for; its descriptor is readable when there is a wish.
pub trait Master: AsFd {
    /// The wish.
    ///
    /// # Errors
    /// As for reading.
    fn wish(&self) -> io::Result<Wish>;

    /// Nothing is undecided, and will not be for a second or more.
    ///
    /// # Errors
    /// As for writing.
    fn settled(&self) -> io::Result<()>;
}
