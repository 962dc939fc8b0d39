//! The protocol's server.
//!
//! One process listens, each client has a process of its own, and each request a further one, since an operation
//! takes the process that does it: a domain's processes are copies of it. So nothing is shared, and what one client
//! or request does to its process is not felt by others. A client's process waits for nobody: it passes on what
//! comes.
//!
//! When a client has gone, its process ends, and the kernel sends `SIGHUP` to those of its requests: a command hears
//! it as if its terminal had gone, a commit stops between two steps.

mod connection;
mod lines;
mod listener;
mod operations;
mod request;

pub use connection::serve;
pub use listener::{ListenError, Listener};
