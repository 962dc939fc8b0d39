//! What a method answered last: for values that seldom change, whatever is asked.

use std::num::NonZeroUsize;

use lru::LruCache;

use crate::predictor::{Asked, Guess, Predictor, User};

/// Predicts that a method answers a user what it answered that user last.
#[derive(Debug)]
pub struct LastValue<V> {
    values: LruCache<User, V>,
}

impl<V> LastValue<V> {
    /// Remembers the values of this many users; those of whom nothing was heard longest are
    /// forgotten.
    pub fn new(users_max: NonZeroUsize) -> Self {
        Self {
            values: LruCache::new(users_max),
        }
    }
}

impl<Q, V: Clone> Predictor<Q, V> for LastValue<V> {
    fn predict(&mut self, asked: &Asked<'_, Q>) -> Vec<Guess<V>> {
        let value = self.values.get(asked.user).cloned();
        let guess = value.map(|value| Guess {
            value,
            confidence: 0.5,
        });
        guess.into_iter().collect()
    }

    fn learn(&mut self, asked: &Asked<'_, Q>, actual: &V) {
        self.values.put(asked.user.clone(), actual.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_has_their_own_and_few_are_remembered() {
        let mut predictor = LastValue::new(NonZeroUsize::new(2).unwrap());
        let users = ["a", "b", "c"].map(User::of);
        let [first, second, third] = [0, 1, 2].map(|user| Asked {
            user: &users[user],
            request: &(),
            now_ms: 0,
        });
        predictor.learn(&first, &1);
        predictor.learn(&second, &2);
        assert_eq!(predictor.predict(&first)[0].value, 1);
        assert_eq!(predictor.predict(&second)[0].value, 2);
        assert_eq!(predictor.predict(&third), []);
        predictor.learn(&third, &3);
        assert_eq!(predictor.predict(&first), []);
        assert_eq!(predictor.predict(&second)[0].value, 2);
    }
}
