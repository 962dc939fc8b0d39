//! What the scopes that code holds are in the tree by now.
//!
//! A branch that is affirmed and has come to its end is part of its call's scope. Tasks of its own may go on and hold
//! it still. What they do then, they do in that scope, as those of a program that runs nothing ahead do.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use surmise_rpc::ScopeId;

/// Which scope that code holds is meant. It is read and changed with the lock on its tree.
#[derive(Debug)]
pub struct Name(AtomicU64);

impl Name {
    pub fn root() -> Arc<Self> {
        Self::of(ScopeId::ROOT)
    }

    /// Of one that will not be another.
    pub fn of(scope: ScopeId) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(scope.0)))
    }

    pub fn scope(&self) -> ScopeId {
        ScopeId(self.0.load(Ordering::Relaxed))
    }
}

/// The names of all scopes but the root, which stays what it is.
#[derive(Debug, Default)]
pub struct Names(BTreeMap<ScopeId, Vec<Weak<Name>>>);

impl Names {
    /// For the code of a new branch.
    pub fn give(&mut self, branch: ScopeId) -> Arc<Name> {
        let name = Name::of(branch);
        self.0.insert(branch, vec![Arc::downgrade(&name)]);
        name
    }

    /// The branch is part of this scope from now on.
    pub fn merge(&mut self, branch: ScopeId, into: ScopeId) {
        let mut held = self.0.remove(&branch).unwrap_or_default();
        held.retain(|name| {
            let held = name.upgrade();
            held.inspect(|name| name.0.store(into.0, Ordering::Relaxed))
                .is_some()
        });
        // Mostly nobody holds it any more.
        if !held.is_empty() && into != ScopeId::ROOT {
            self.0.entry(into).or_default().append(&mut held);
        }
    }

    /// The scope is discarded: what is done in it from now on is done in none.
    pub fn discard(&mut self, scope: ScopeId) {
        self.0.remove(&scope);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}
