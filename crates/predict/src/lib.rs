//! Predictors of results: what a call will probably answer.
//!
//! A [`Predictor`] is asked before a call and told the actual value after it. Predictors are pure:
//! the time is an argument, and nothing here is random. A prediction may be wrong, and then costs
//! what was done with it; it never changes a result. [`Switched`] sees to it that what is mostly
//! wrong is not used.
//!
//! What one user was answered may not be shown to another, not even as a prediction: what follows
//! the call would run with it. So whoever asks says for whom ([`User`]), and what a predictor has
//! learned for one user it says to nobody else. All memory is bounded.
//!
//! ```
//! use std::num::NonZeroUsize;
//! use surmise_predict::*;
//!
//! let entries_max = NonZeroUsize::new(1000).expect("it is not zero");
//! let mut prices = Cache::new(entries_max, 60_000, |request: &String| request.clone());
//! let alice = User::of("alice");
//! let request = "apples".to_owned();
//!
//! prices.learn(&Asked { user: &alice, request: &request, now_ms: 0 }, &3);
//! let later = Asked { user: &alice, request: &request, now_ms: 50_000 };
//! assert_eq!(prices.predict(&later)[0].value, 3);
//! let other = Asked { user: &User::of("bob"), ..later };
//! assert_eq!(prices.predict(&other), []);
//! ```
#![forbid(unsafe_code)]

mod cache;
mod each;
mod function;
mod last_value;
mod predictor;
mod switch;

pub use cache::Cache;
pub use each::SwitchedEach;
pub use function::Function;
pub use last_value::LastValue;
pub use predictor::{Asked, Guess, Predictor, User};
pub use switch::{Switch, Switched, Thresholds};
