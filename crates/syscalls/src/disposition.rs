//! What happens to a call, for each kind of assumption that is undecided.

use std::fmt;

use crate::errno::Errno;

/// The kinds of assumption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A person will agree; decided whenever they like.
    Consent,
    /// A guessed result; decided soon by its owner.
    Prediction,
    /// A batch of changes is durable; never denied.
    Epoch,
}

impl Kind {
    /// Every kind, in the order of the table's columns.
    pub const ALL: [Self; 3] = [Self::Consent, Self::Prediction, Self::Epoch];

    /// The word used in documents and output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Consent => "consent",
            Self::Prediction => "prediction",
            Self::Epoch => "epoch",
        }
    }
}

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Disposition {
    /// It runs: its effects are the caller's own, or the view or a namespace contains them.
    Allow,
    /// It runs, and dependencies are noted: it observes or modifies an object.
    Track,
    /// It runs, and its output stays at the boundary until what it depends on is decided.
    Hold,
    /// It runs once nothing that its caller depends on is undecided.
    Wait,
    /// It does not run, and answers with this error.
    Refuse(Errno),
}

// The table's spelling of refusals: one word a cell keeps its columns readable.
pub(crate) const EACCES: Disposition = Disposition::Refuse(Errno::Acces);
pub(crate) const EAFNOSUPPORT: Disposition = Disposition::Refuse(Errno::AfNoSupport);
pub(crate) const ENOSYS: Disposition = Disposition::Refuse(Errno::NoSys);
pub(crate) const EPERM: Disposition = Disposition::Refuse(Errno::Perm);

impl fmt::Display for Disposition {
    /// `Allow`, `Track`, `Hold`, `Wait`, or `Refuse(EPERM)`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allow => formatter.pad("Allow"),
            Self::Track => formatter.pad("Track"),
            Self::Hold => formatter.pad("Hold"),
            Self::Wait => formatter.pad("Wait"),
            Self::Refuse(errno) => formatter.pad(&format!("Refuse({errno})")),
        }
    }
}

/// The disposition of a number that has no row: a call newer than the table.
///
/// Waiting is always correct where somebody can end the wait. Under consent nobody inside can,
/// and ENOSYS is what an older kernel would say, which programs must cope with anyway.
pub const fn disposition_of_unknown(kind: Kind) -> Disposition {
    match kind {
        Kind::Consent => ENOSYS,
        Kind::Prediction | Kind::Epoch => Disposition::Wait,
    }
}
