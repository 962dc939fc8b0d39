//! The server of a far directory: the shell of [`surmise_remote::server`].
//!
//! One thread has the state machine; all others bring it events and carry out its effects. A thread appends records to the
//! log and makes them durable, all that have come with one flush. A thread makes them in the directory, and reads there. Each
//! connection has a thread that reads and one that writes.
//!
//! [`serve`] is a server, and [`Relay`] brings the streams of one client to it. A [`Listener`] brings those that come by TLS.
#![forbid(unsafe_code)]

mod budget;
mod clock;
mod connection;
mod directory;
mod disk;
mod error;
mod input;
mod limits;
mod log;
mod notice;
mod patience;
mod probe;
mod recorder;
mod relay;
mod serve;
mod start;
mod state;
mod tls;
mod watcher;

pub use directory::Stuck;
pub use error::ServeError;
pub use relay::Relay;
pub use serve::{Options, serve, serve_also};
pub use tls::{BadUser, ListenError, Listener, users};
