//! Predictors that are mostly wrong are not listened to, until they would have been right again.

use crate::predictor::{Asked, Guess, Predictor};

/// When a predictor is listened to, by its success in its last 64 calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Below this rate it is switched off.
    pub off_below: f64,
    /// At this rate it is switched on again. More than the other, so that it does not flicker.
    pub on_from: f64,
    /// Calls before it is judged, of which 64 are remembered: more than that are as many as that.
    pub trial: u32,
}

impl Default for Thresholds {
    /// Off below 20 %, on again from 40 %, after 16 calls.
    fn default() -> Self {
        Self {
            off_below: 0.2,
            on_from: 0.4,
            trial: 16,
        }
    }
}

/// The success of one predictor, and whether that is enough.
#[derive(Clone, Debug)]
pub struct Switch {
    thresholds: Thresholds,
    /// A bit for each of the last calls, the newest lowest: whether it was predicted right.
    hits: u64,
    /// How many of the bits mean something.
    known: u32,
    is_on: bool,
}

impl Switch {
    /// On, and nothing known.
    pub fn new(thresholds: Thresholds) -> Self {
        Self {
            thresholds,
            hits: 0,
            known: 0,
            is_on: true,
        }
    }

    /// Whether the predictor is to be listened to.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// The share of right predictions among the last calls; none before the first.
    pub fn rate(&self) -> Option<f64> {
        let right = f64::from(self.hits.count_ones());
        (self.known > 0).then(|| right / f64::from(self.known))
    }

    /// A call was answered, and this is whether the predictor had it right, listened to or not.
    pub fn record(&mut self, is_right: bool) {
        self.hits = self.hits << 1 | u64::from(is_right);
        self.known = u64::BITS.min(self.known + 1);
        let trial = self.thresholds.trial.min(u64::BITS);
        let Some(rate) = self.rate().filter(|_| self.known >= trial) else {
            return;
        };
        if rate < self.thresholds.off_below {
            self.is_on = false;
        } else if rate >= self.thresholds.on_from {
            self.is_on = true;
        }
    }
}

/// A predictor that says nothing while it is mostly wrong. It is asked and told all the same, which
/// costs no call, so it comes back by itself.
#[derive(Debug)]
pub struct Switched<P, V> {
    predictor: P,
    switch: Switch,
    same: fn(&V, &V) -> bool,
}

impl<P, V: PartialEq> Switched<P, V> {
    /// Judges a predictor by equal values.
    pub fn new(predictor: P, thresholds: Thresholds) -> Self {
        Self::by(predictor, thresholds, V::eq)
    }
}

impl<P, V> Switched<P, V> {
    /// Judges a predictor by `same`, which should be what its predictions are compared by.
    pub fn by(predictor: P, thresholds: Thresholds, same: fn(&V, &V) -> bool) -> Self {
        Self {
            predictor,
            switch: Switch::new(thresholds),
            same,
        }
    }

    /// Its success so far.
    pub fn switch(&self) -> &Switch {
        &self.switch
    }
}

impl<Q, V, P: Predictor<Q, V>> Predictor<Q, V> for Switched<P, V> {
    fn predict(&mut self, asked: &Asked<'_, Q>) -> Vec<Guess<V>> {
        if self.switch.is_on() {
            self.predictor.predict(asked)
        } else {
            Vec::new()
        }
    }

    /// Judges the predictor by what it would say now, before it learns. A call that said nothing
    /// for want of knowledge counts as well: what is never known is not worth asking.
    fn learn(&mut self, asked: &Asked<'_, Q>, actual: &V) {
        let guesses = self.predictor.predict(asked);
        let mut values = guesses.iter().map(|guess| &guess.value);
        self.switch
            .record(values.any(|value| (self.same)(value, actual)));
        self.predictor.learn(asked, actual);
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;
    use crate::last_value::LastValue;
    use crate::predictor::User;

    /// Whether the predictor speaks after each of these values.
    fn speaks(values: impl IntoIterator<Item = u32>) -> Vec<bool> {
        let last = LastValue::new(NonZeroUsize::MIN);
        let mut predictor = Switched::new(last, Thresholds::default());
        let user = User::program();
        let asked = Asked {
            user: &user,
            request: &(),
            now_ms: 0,
        };
        let speaks = values.into_iter().map(|value| {
            predictor.learn(&asked, &value);
            !predictor.predict(&asked).is_empty()
        });
        speaks.collect()
    }

    #[test]
    fn what_is_never_right_is_switched_off_after_its_trial() {
        let speaks = speaks(0..20);
        assert_eq!(speaks.iter().position(|speaks| !speaks), Some(15));
        assert!(!speaks[15..].contains(&true));
    }

    #[test]
    fn what_is_mostly_right_stays_on() {
        assert!(!speaks((0..200).map(|call| call / 3)).contains(&false));
    }

    #[test]
    fn what_would_have_been_right_comes_back() {
        let speaks = speaks((0..64).chain([64; 64]));
        assert!(!speaks[63]);
        // 26 of 64 are more than 40 %; the first of the equal ones was not foreseen.
        assert!(!speaks[64 + 25] && speaks[64 + 26]);
    }

    #[test]
    fn a_trial_of_more_calls_than_are_remembered_comes_to_its_end() {
        let trial = 1000;
        let mut switch = Switch::new(Thresholds {
            trial,
            ..Thresholds::default()
        });
        (0..64).for_each(|_| switch.record(false));
        assert!(!switch.is_on());
    }

    #[test]
    fn the_rate_is_of_the_last_calls() {
        let mut switch = Switch::new(Thresholds::default());
        assert_eq!(switch.rate(), None);
        (0..100).for_each(|_| switch.record(false));
        (0..32).for_each(|_| switch.record(true));
        assert_eq!(switch.rate(), Some(0.5));
    }
}
