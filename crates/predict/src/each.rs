//! One predictor of several methods, of which those that it is mostly wrong about are not predicted.

use std::fmt;
use std::hash::Hash;
use std::num::NonZeroUsize;

use lru::LruCache;

use crate::predictor::{Asked, Guess, Predictor};
use crate::switch::{Switch, Thresholds};

/// A predictor that says nothing of a method while it is mostly wrong about that, as
/// [`Switched`](crate::Switched) of a single one: what is hard to predict does not silence the rest, and
/// what is easy does not excuse it.
///
/// It knows the success of so many methods, those that were called last. One that was forgotten begins
/// its trial again.
pub struct SwitchedEach<P, Q, K, V> {
    predictor: P,
    thresholds: Thresholds,
    method: fn(&Q) -> K,
    same: fn(&V, &V) -> bool,
    switches: LruCache<K, Switch>,
}

impl<P, Q, K: Hash + Eq, V: PartialEq> SwitchedEach<P, Q, K, V> {
    /// Judges by equal values; `method` says of which method a request is.
    pub fn new(
        predictor: P,
        thresholds: Thresholds,
        methods_max: NonZeroUsize,
        method: fn(&Q) -> K,
    ) -> Self {
        Self::by(predictor, thresholds, methods_max, method, V::eq)
    }
}

impl<P, Q, K: Hash + Eq, V> SwitchedEach<P, Q, K, V> {
    /// Judges by `same`, which should be what its predictions are compared by.
    pub fn by(
        predictor: P,
        thresholds: Thresholds,
        methods_max: NonZeroUsize,
        method: fn(&Q) -> K,
        same: fn(&V, &V) -> bool,
    ) -> Self {
        Self {
            predictor,
            thresholds,
            method,
            same,
            switches: LruCache::new(methods_max),
        }
    }

    /// Its success with a method so far; none, if it knows nothing of that.
    pub fn switch(&self, method: &K) -> Option<&Switch> {
        self.switches.peek(method)
    }
}

impl<P, Q, K, V> Predictor<Q, V> for SwitchedEach<P, Q, K, V>
where
    P: Predictor<Q, V>,
    K: Hash + Eq,
{
    fn predict(&mut self, asked: &Asked<'_, Q>) -> Vec<Guess<V>> {
        let switch = self.switches.peek(&(self.method)(asked.request));
        match switch.is_none_or(Switch::is_on) {
            true => self.predictor.predict(asked),
            false => Vec::new(),
        }
    }

    /// As [`Switched`](crate::Switched) does.
    fn learn(&mut self, asked: &Asked<'_, Q>, actual: &V) {
        let guesses = self.predictor.predict(asked);
        let is_right = guesses.iter().any(|one| (self.same)(&one.value, actual));
        let method = (self.method)(asked.request);
        let unknown = || Switch::new(self.thresholds);
        let switch = self.switches.get_or_insert_mut(method, unknown);
        switch.record(is_right);
        self.predictor.learn(asked, actual);
    }
}

impl<P: fmt::Debug, Q, K, V> fmt::Debug for SwitchedEach<P, Q, K, V> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("SwitchedEach");
        shown.field("predictor", &self.predictor);
        shown.field("thresholds", &self.thresholds);
        shown.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Cache;
    use crate::predictor::User;

    type Each = SwitchedEach<Cache<&'static str, &'static str, u32>, &'static str, char, u32>;

    const FEW: NonZeroUsize = NonZeroUsize::new(2).unwrap();

    /// Of methods that their requests begin with.
    fn each() -> Each {
        let cache = Cache::new(FEW, 1000, |request: &&'static str| *request);
        let method = |request: &&'static str| request.chars().next().unwrap_or_default();
        SwitchedEach::new(cache, Thresholds::default(), FEW, method)
    }

    fn speaks(
        each: &mut Each,
        request: &'static str,
        learned: impl IntoIterator<Item = u32>,
    ) -> bool {
        let user = User::program();
        let asked = Asked {
            user: &user,
            request: &request,
            now_ms: 0,
        };
        learned
            .into_iter()
            .for_each(|value| each.learn(&asked, &value));
        !each.predict(&asked).is_empty()
    }

    #[test]
    fn a_method_that_is_mostly_wrong_is_switched_off_alone() {
        let mut each = each();
        assert!(speaks(&mut each, "steady", [7; 40]));
        assert!(!speaks(&mut each, "wild", 0..40));
        assert!(speaks(&mut each, "steady", []));

        assert!(each.switch(&'s').unwrap().rate() > Some(0.9));
        assert_eq!(each.switch(&'w').unwrap().rate(), Some(0.0));
    }

    #[test]
    fn what_is_forgotten_is_tried_again() {
        let mut each = each();
        assert!(!speaks(&mut each, "wild", 0..40));
        assert!(speaks(&mut each, "steady", [7; 2]) && speaks(&mut each, "other", [7; 2]));
        assert!(each.switch(&'w').is_none());
        assert!(speaks(&mut each, "wild", [1]));
    }
}
