//! A client's side of calls to servers that may be aware.

pub mod conversation;
mod endpoint;
pub mod line;
pub mod not_begun;
mod server;
pub mod streams;

pub use endpoint::bear_cancelled_calls;
pub use server::Server;
