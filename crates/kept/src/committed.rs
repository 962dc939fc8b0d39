//! What a commit of a domain comes to.

use crate::doorway::Done;

/// What a commit did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// What has become real, and what has not.
    pub done: Done,
    /// What has become of the domain.
    pub domain: After,
}

/// What has become of a domain that was committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// It is no more.
    Gone,
    /// It runs on, under a new consent.
    RunsOn,
    /// It is kept with the held output that could not be sent ([`Status::Unsent`](crate::Status::Unsent)).
    Unsent,
}
