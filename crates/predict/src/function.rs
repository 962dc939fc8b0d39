//! What follows from the request alone.

use std::fmt;

use crate::predictor::{Asked, Guess, Predictor};

/// Predicts what a function says of the request. It learns nothing, so there is nothing that it
/// could tell the wrong user; what the function captures is its author's affair.
pub struct Function<F> {
    function: F,
}

impl<F> Function<F> {
    /// `function` returns the likely values, the likeliest first.
    pub fn new(function: F) -> Self {
        Self { function }
    }
}

impl<Q, V, F> Predictor<Q, V> for Function<F>
where
    F: FnMut(&Asked<'_, Q>) -> Vec<Guess<V>>,
{
    fn predict(&mut self, asked: &Asked<'_, Q>) -> Vec<Guess<V>> {
        (self.function)(asked)
    }

    fn learn(&mut self, _asked: &Asked<'_, Q>, _actual: &V) {}
}

impl<F> fmt::Debug for Function<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Function").finish_non_exhaustive()
    }
}
