//! Why something could not be done with what is kept.

mod decide;
mod state;

pub use decide::DecideError;
pub use state::StateError;
