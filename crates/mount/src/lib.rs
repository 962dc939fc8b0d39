//! A far directory as a file system of this machine.
//!
//! [`surmise_remote::client`] decides; this crate is what surrounds the client:
//!
//! * [`filesystem`]: what the kernel asks, as calls of the client. [`shell`]: the client behind its lock, and the calls that
//!   wait. [`kernel`]: what the kernel is to forget.
//! * [`connection`]: bytes to and from the server, and another connection when one breaks.
//! * [`store`]: what is kept of files' data while the mount lasts. [`cache`]: what is kept for the next one.
//! * [`lost`]: changes that were lost are kept in files. [`replay`] makes them again, in a directory ([`onto`]).
//! * [`run`]: a mount from its beginning to its end, which `ending` brings about. [`device`] mounts; [`status`] tells how a mount is; [`source`] is what people
//!   write.
#![forbid(unsafe_code)]

pub mod cache;
mod clock;
pub mod connection;
pub mod device;
mod ending;
pub mod filesystem;
pub mod kernel;
pub mod lost;
pub mod nodes;
pub mod onto;
mod own;
pub mod owners;
pub mod replay;
pub mod run;
pub mod shell;
mod signals;
pub mod source;
pub mod status;
pub mod store;
