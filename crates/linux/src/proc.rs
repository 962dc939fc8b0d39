//! What /proc tells.

pub(crate) mod tasks;

pub use tasks::{Task, tasks};
