//! Order stamps: whether an answer may stand after another one.
//!
//! Equal values are not enough. A prediction can be right by value, and what was read behind it can
//! still have been read before the predicted value was: a writer in between, and the two were never
//! true one after the other. Sequential calls cannot show that; stamps keep speculative ones from it.

/// A position in the history of one store: a revision, a log sequence number, a commit timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// Whose history it is. Positions in different histories say nothing of each other.
    pub clock: u64,
    /// Rises with every change.
    pub at: u64,
}

/// What the answer of a call must show, to stand after the calls that its scope rests on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Nothing: the value is all that counts.
    #[default]
    None,
    /// A stamp that is not before theirs.
    Stamp,
    /// The very stamp that theirs have: all of them read one snapshot.
    Snapshot,
}

impl Order {
    /// Whether an answer of a call in this order is shown not to be older than an `earlier` one of a
    /// call whose answers have stamps. What cannot be compared shows nothing.
    pub fn permits(self, later: Option<Stamp>, earlier: Option<Stamp>) -> bool {
        let (later, earlier) = match (self, later, earlier) {
            (Self::None, ..) => return true,
            (_, Some(later), Some(earlier)) => (later, earlier),
            _ => return false,
        };
        let is_after = match self {
            Self::None => true,
            Self::Stamp => later.at >= earlier.at,
            Self::Snapshot => later.at == earlier.at,
        };
        later.clock == earlier.clock && is_after
    }
}

/// An answer that a scope has had, as far as order is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub order: Order,
    pub stamp: Option<Stamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_compared_is_not_in_order() {
        let at = |clock, at| Some(Stamp { clock, at });
        assert!(Order::Stamp.permits(at(1, 7), at(1, 7)));
        assert!(Order::Stamp.permits(at(1, 8), at(1, 7)));
        assert!(!Order::Stamp.permits(at(1, 6), at(1, 7)));
        assert!(!Order::Stamp.permits(at(2, 8), at(1, 7)));
        assert!(!Order::Stamp.permits(None, at(1, 7)));
        assert!(!Order::Stamp.permits(at(1, 7), None));
        assert!(!Order::Snapshot.permits(at(1, 8), at(1, 7)));
        assert!(Order::Snapshot.permits(at(1, 7), at(1, 7)));
        assert!(Order::None.permits(None, at(1, 7)));
    }
}
