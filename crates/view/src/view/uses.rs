//! Names of real files that were opened, and what they led to at first.
//!
//! An editor outside replaces a file by another inode, so the inode alone does not tell of a conflict.

use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroUsize;

use lru::LruCache;

use crate::types::{Identity, NodeId};

/// How many opened names are remembered with the state of their first use, some 120 bytes each.
const NAMES_MAX: NonZeroUsize = NonZeroUsize::new(1 << 16).expect("a positive constant");

/// The names that were used.
#[derive(Debug)]
pub(super) struct UsedNames {
    /// By a hash: two names of one hash, which nobody will meet, would make a conflict where there is none.
    first: LruCache<u64, Identity>,
    hashing: RandomState,
}

impl Default for UsedNames {
    fn default() -> Self {
        Self {
            first: LruCache::new(NAMES_MAX),
            hashing: RandomState::new(),
        }
    }
}

impl UsedNames {
    /// A name is used, and leads to an inode in this state.
    pub(super) fn note(&mut self, parent: NodeId, name: &OsStr, identity: Identity) {
        let name = self.hashing.hash_one((parent, name));
        self.first.get_or_insert(name, || identity);
    }

    /// What a name led to at its first use.
    pub(super) fn first(&self, parent: NodeId, name: &OsStr) -> Option<&Identity> {
        self.first.peek(&self.hashing.hash_one((parent, name)))
    }

    /// A new consent begins.
    pub(super) fn clear(&mut self) {
        self.first.clear();
    }
}
