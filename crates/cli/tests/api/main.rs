//! Programs use Surmise: by the socket, by standard streams, and by the crate.

mod clients;
mod deciding;
mod example;
mod leaving;
mod server;
mod strangers;
