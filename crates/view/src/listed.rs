//! Which directories the kernel has listed, and in which state, so that it may list them again from
//! its own memory.

use std::collections::HashMap;
use std::time::Duration;

use crate::types::{Identity, NodeId, Timestamp};

/// A directory that changed more recently than this may change again within the same tick of the file
/// system's clock, and show the same times.
const TICK: Duration = Duration::from_millis(20);

/// What the kernel has listed.
#[derive(Debug, Default)]
pub(crate) struct Listed(HashMap<NodeId, State>);

/// What a listing depends on besides what the domain does, which the kernel sees by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing: only the view has the directory.
    Own,
    /// The real directory, last modified and changed then.
    Real([Timestamp; 2]),
}

impl Listed {
    /// Notes that a directory is about to be listed, in this state if it is a real one, and tells
    /// whether it was in the same when it was last listed.
    pub(crate) fn note(&mut self, id: NodeId, real: Option<&Identity>, now: Timestamp) -> bool {
        let state = match real {
            None => State::Own,
            Some(identity) => State::Real([identity.modified, identity.changed]),
        };
        let is_same = self.0.get(&id) == Some(&state);
        match state {
            State::Real([_, changed]) if now.since(changed) < TICK => {
                self.0.remove(&id);
                false
            }
            _ => {
                self.0.insert(id, state);
                is_same
            }
        }
    }

    /// The kernel does not know the directory any more.
    pub(crate) fn forget(&mut self, id: NodeId) {
        self.0.remove(&id);
    }

    /// What was listed is not to be listed so again.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::FileKind;

    fn at(seconds: i64) -> Timestamp {
        Timestamp {
            seconds,
            nanoseconds: 0,
        }
    }

    fn directory(seconds: i64) -> Identity {
        Identity {
            device: 1,
            inode: 2,
            kind: FileKind::Directory,
            size: 4096,
            modified: at(seconds),
            changed: at(seconds),
        }
    }

    #[test]
    fn a_listing_holds_until_the_directory_changes() {
        let mut listed = Listed::default();
        let (node, now) = (NodeId(3), at(1000));
        assert!(!listed.note(node, Some(&directory(10)), now));
        assert!(listed.note(node, Some(&directory(10)), now));
        assert!(!listed.note(node, Some(&directory(11)), now));
        assert!(listed.note(node, Some(&directory(11)), now));
        listed.forget(node);
        assert!(!listed.note(node, Some(&directory(11)), now));
        listed.clear();
        assert!(!listed.note(node, Some(&directory(11)), now));
        assert!(!listed.note(NodeId(4), None, now));
        assert!(listed.note(NodeId(4), None, now));
    }

    #[test]
    fn what_changed_just_now_is_listed_anew() {
        let mut listed = Listed::default();
        for _ in 0..3 {
            // Also one from the future, by a clock that was set back.
            for changed in [1000, 1001] {
                assert!(!listed.note(NodeId(3), Some(&directory(changed)), at(1000)));
            }
        }
        assert!(!listed.note(NodeId(3), Some(&directory(1000)), at(2000)));
        assert!(listed.note(NodeId(3), Some(&directory(1000)), at(2000)));
    }
}
