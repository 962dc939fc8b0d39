//! A client's side of calls to servers that may be aware.

pub mod conversation;
mod endpoint;
pub mod line;
mod server;
pub mod streams;
pub mod unsent;

pub use endpoint::bear_cancelled_calls;
pub use server::Server;
