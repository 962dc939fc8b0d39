//! A predictor that several calls share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use surmise_predict::{Asked, Guess, Predictor, User};

/// What is known of the replies of one method. Clones share it.
#[derive(Debug)]
pub struct Known<P> {
    predictor: Arc<Mutex<P>>,
    start: Instant,
}

impl<P> Known<P> {
    /// Shares a predictor, whose clock begins now.
    pub fn new(predictor: P) -> Self {
        Self {
            predictor: Arc::new(Mutex::new(predictor)),
            start: Instant::now(),
        }
    }

    pub(crate) fn predict<Q, V>(&self, user: &User, request: &Q) -> Vec<Guess<V>>
    where
        P: Predictor<Q, V>,
    {
        self.lock().predict(&self.asked(user, request))
    }

    pub(crate) fn learn<Q, V>(&self, user: &User, request: &Q, actual: &V)
    where
        P: Predictor<Q, V>,
    {
        self.lock().learn(&self.asked(user, request), actual);
    }

    fn asked<'a, Q>(&self, user: &'a User, request: &'a Q) -> Asked<'a, Q> {
        let now_ms = self.start.elapsed().as_millis();
        Asked {
            user,
            request,
            // In 584 million years it is the last moment for ever.
            now_ms: now_ms.try_into().unwrap_or(u64::MAX),
        }
    }

    fn lock(&self) -> MutexGuard<'_, P> {
        // A predictor that panicked may predict nonsense, which harms nobody.
        self.predictor
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P> Clone for Known<P> {
    fn clone(&self) -> Self {
        Self {
            predictor: self.predictor.clone(),
            start: self.start,
        }
    }
}
