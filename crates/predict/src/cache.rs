//! What a request was answered last: bounded, and for a bounded time.

use std::fmt;
use std::hash::Hash;
use std::num::NonZeroUsize;

use lru::LruCache;

use crate::predictor::{Asked, Guess, Predictor, User};

/// Predicts that a request of a user is answered as an equal one of that user was.
pub struct Cache<Q, K: Hash + Eq, V> {
    answers: LruCache<(User, K), Answer<V>>,
    ttl_ms: u64,
    key: fn(&Q) -> K,
}

struct Answer<V> {
    value: V,
    learned_ms: u64,
}

impl<Q, K: Hash + Eq, V> Cache<Q, K, V> {
    /// Remembers this many answers, each for `ttl_ms` after it was had. Requests with the same key
    /// are predicted the same answer. A key may leave out what makes no difference to it, such as a
    /// trace's id.
    pub fn new(entries_max: NonZeroUsize, ttl_ms: u64, key: fn(&Q) -> K) -> Self {
        Self {
            answers: LruCache::new(entries_max),
            ttl_ms,
            key,
        }
    }

    fn key(&self, asked: &Asked<'_, Q>) -> (User, K) {
        (asked.user.clone(), (self.key)(asked.request))
    }
}

impl<Q, K: Hash + Eq, V: Clone> Predictor<Q, V> for Cache<Q, K, V> {
    fn predict(&mut self, asked: &Asked<'_, Q>) -> Vec<Guess<V>> {
        let key = self.key(asked);
        let Some(answer) = self.answers.get(&key) else {
            return Vec::new();
        };
        let age_ms = asked.now_ms.saturating_sub(answer.learned_ms);
        if age_ms >= self.ttl_ms {
            self.answers.pop(&key);
            return Vec::new();
        }
        // The older, the likelier it has changed.
        let confidence = 1.0 - 0.5 * age_ms as f64 / self.ttl_ms as f64;
        let value = answer.value.clone();
        vec![Guess { value, confidence }]
    }

    fn learn(&mut self, asked: &Asked<'_, Q>, actual: &V) {
        let answer = Answer {
            value: actual.clone(),
            learned_ms: asked.now_ms,
        };
        self.answers.put(self.key(asked), answer);
    }
}

impl<Q, K: Hash + Eq, V> fmt::Debug for Cache<Q, K, V> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Answers are users' data: they are not printed.
        let mut shown = formatter.debug_struct("Cache");
        shown.field("entries", &self.answers.len());
        shown.field("ttl_ms", &self.ttl_ms).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> Cache<(u32, u32), u32, char> {
        // What is asked second makes no difference.
        Cache::new(NonZeroUsize::new(2).unwrap(), 100, |request| request.0)
    }

    fn asked<'a>(user: &'a User, request: &'a (u32, u32), now_ms: u64) -> Asked<'a, (u32, u32)> {
        Asked {
            user,
            request,
            now_ms,
        }
    }

    #[test]
    fn answers_are_forgotten_when_they_are_old() {
        let (mut cache, user) = (cache(), User::program());
        cache.learn(&asked(&user, &(1, 0), 10), &'x');
        let young = cache.predict(&asked(&user, &(1, 9), 10));
        let older = cache.predict(&asked(&user, &(1, 9), 109));
        assert_eq!((young[0].value, older[0].value), ('x', 'x'));
        assert!(young[0].confidence > older[0].confidence);
        assert_eq!(cache.predict(&asked(&user, &(1, 9), 110)), []);
        assert_eq!(cache.predict(&asked(&user, &(1, 9), 10)), []);
    }

    #[test]
    fn no_user_is_shown_what_another_was_answered() {
        let (mut cache, alice, bob) = (cache(), User::of("alice"), User::of("bob"));
        cache.learn(&asked(&alice, &(1, 0), 0), &'x');
        assert_eq!(cache.predict(&asked(&bob, &(1, 0), 0)), []);
        cache.learn(&asked(&bob, &(1, 0), 0), &'y');
        assert_eq!(cache.predict(&asked(&alice, &(1, 0), 0))[0].value, 'x');
    }

    #[test]
    fn the_least_recently_used_answer_goes_first() {
        let (mut cache, user) = (cache(), User::program());
        for request in [(1, 0), (2, 0)] {
            cache.learn(&asked(&user, &request, 0), &'x');
        }
        cache.predict(&asked(&user, &(1, 0), 0));
        cache.learn(&asked(&user, &(3, 0), 0), &'x');
        assert_eq!(cache.predict(&asked(&user, &(2, 0), 0)), []);
        assert_eq!(cache.predict(&asked(&user, &(1, 0), 0)).len(), 1);
    }

    #[test]
    fn answers_are_not_printed() {
        let (mut cache, user) = (cache(), User::of("alice"));
        cache.learn(&asked(&user, &(1, 0), 0), &'x');
        assert_eq!(format!("{cache:?}"), "Cache { entries: 1, ttl_ms: 100 }");
    }
}
