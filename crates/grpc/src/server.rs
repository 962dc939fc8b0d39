//! An aware server's side of calls.

mod callers;
pub mod context;
mod messages;
mod origin;
mod served;

pub use callers::{Callers, Granted};
pub use context::Context;
