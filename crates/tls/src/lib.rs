//! Connections by TLS between the server of a far directory and its clients.
//!
//! TLS 1.3 alone, with a certificate on either side. What goes over a connection is copied from and to a Unix socket, so that
//! neither the server nor the client differs from what they are over ssh. No type of the TLS library is seen from
//! outside.
//!
//! * [`Terms`] and [`Terms::accept`]: a server's side. [`Target`] and [`Target::connect`]: a client's.
//! * [`make`]: certificates for those who have no authority that makes them.
#![forbid(unsafe_code)]

mod accept;
mod connect;
mod copy;
mod files;
mod handshake;
pub mod make;
mod names;
mod socket;

pub use accept::{Accepted, Files, NotAccepted, Terms, TermsError, Users};
pub use connect::{ConnectError, Target};
pub use copy::Copying;
pub use files::FileError;

/// Where a server listens if nothing else is said.
pub const PORT: u16 = 7459;
