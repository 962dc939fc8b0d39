//! The predicted values of one call, and what its actual value says of them.
//!
//! A [`Tree`](crate::Tree) knows no values. Each call's are kept here, with the branches that run
//! with them.

use std::fmt;

use crate::id::ScopeId;

/// What the actual answer of a call says of its predictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is what this branch was started with; every other prediction is denied.
    Affirms(ScopeId),
    /// Every prediction is denied.
    DeniesAll,
    /// There is no value, but an error; every prediction is denied.
    Fails,
}

/// The values that branches of one call run with.
pub struct Predictions<V> {
    /// Whether what was done with the first is what would have been done with the second.
    same: fn(&V, &V) -> bool,
    values: Vec<(ScopeId, V)>,
}

impl<V: PartialEq> Predictions<V> {
    /// No predictions yet, compared as messages. Their encodings would not do: equal protobuf
    /// messages may be different bytes.
    pub fn new() -> Self {
        Self::by(V::eq)
    }
}

impl<V: PartialEq> Default for Predictions<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V> Predictions<V> {
    /// No predictions yet. Values are the same where `same` says so: it leaves out what always
    /// differs and what nobody looks at, such as the header of a reply from etcd. It has to be an
    /// equivalence.
    pub fn by(same: fn(&V, &V) -> bool) -> Self {
        Self {
            same,
            values: Vec::new(),
        }
    }

    /// The branch that runs with this value, if there is one. Another would do the same again.
    pub fn branch(&self, value: &V) -> Option<ScopeId> {
        let found = self.values.iter().find(|(_, one)| (self.same)(one, value));
        found.map(|(branch, _)| *branch)
    }

    /// A branch has been started with a value.
    pub fn insert(&mut self, branch: ScopeId, value: V) {
        self.values.push((branch, value));
    }

    /// A branch has been discarded.
    pub fn remove(&mut self, branch: ScopeId) {
        self.values.retain(|(one, _)| *one != branch);
    }

    /// What the actual answer says. An error denies whatever was predicted.
    pub fn verdict<E>(&self, actual: &Result<V, E>) -> Verdict {
        let Ok(value) = actual else {
            return Verdict::Fails;
        };
        match self.branch(value) {
            Some(branch) => Verdict::Affirms(branch),
            None => Verdict::DeniesAll,
        }
    }
}

impl<V> fmt::Debug for Predictions<V> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let branches = self.values.iter().map(|(branch, _)| branch);
        formatter.debug_list().entries(branches).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_actual_answer_affirms_the_equal_prediction_only() {
        let mut predictions = Predictions::new();
        predictions.insert(ScopeId(1), "a");
        predictions.insert(ScopeId(2), "b");
        assert_eq!(
            predictions.verdict(&Ok::<_, ()>("b")),
            Verdict::Affirms(ScopeId(2))
        );
        assert_eq!(predictions.verdict(&Ok::<_, ()>("c")), Verdict::DeniesAll);
        assert_eq!(predictions.verdict(&Err(())), Verdict::Fails);
        predictions.remove(ScopeId(2));
        assert_eq!(predictions.verdict(&Ok::<_, ()>("b")), Verdict::DeniesAll);
    }

    #[test]
    fn a_projection_leaves_out_what_always_differs() {
        let mut predictions = Predictions::by(|one: &(u32, &str), other| one.1 == other.1);
        predictions.insert(ScopeId(1), (7, "a"));
        assert_eq!(
            predictions.verdict(&Ok::<_, ()>((8, "a"))),
            Verdict::Affirms(ScopeId(1))
        );
    }
}
