//! An aware server's side of calls.

mod callers;
pub mod context;
mod messages;
mod methods;
mod origin;
mod served;

pub use callers::{Callers, Granted};
pub use context::Context;
pub use methods::AwareMethods;
