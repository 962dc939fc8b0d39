//! A far directory with one copy's truth, without a disk or a connection: pure state machines.
//!
//! A [`server::Server`] serves one directory, the **export**, to any number of [`client::Client`]s. Programs at every client
//! see at every moment what one copy of the export would show them. Yet most calls send no message: an object on which no
//! other client relies, a client may change as if the object were its own. The paper "Speculative Execution in a
//! Distributed File System" (sections 4 and 5) guessed the answer of each call and had the guess checked. Here a lease
//! makes the guess certain.
//!
//! * [`object`]: what an export holds. [`operation`]: changes. [`tree`]: what changes make of objects, the same code at
//!   both ends.
//! * [`lease`]: who may rely on what. [`locks`]: who may lock what, and who decides that.
//! * [`frame`]: what goes over a connection. [`piece`]: what a client's machine keeps over unmounts, and when that is used.
//! * [`lost`]: changes that a client has lost. [`replay`]: how they are made again.
//!
//! # What is promised
//!
//! 1. A call at any client has the outcome that it would have on one copy, at a moment between its start and its end. Two
//!    errors are the exception. `ESTALE`: the object has lost its last name. `EIO`: the client was given up, and nobody knows
//!    whether the change was made.
//! 2. What is synced is durable at the server.
//! 3. What one client has seen of another's changes is durable at the server.
//! 4. A group of changes is made once, as a whole or not at all, however often it is sent.
//! 5. Changes that are not synced can be lost with their client, as on a local disk. No other client has seen them.
#![forbid(unsafe_code)]

mod bytes;
pub mod client;
pub mod errno;
pub mod frame;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod lease;
pub mod locks;
pub mod lost;
pub mod object;
pub mod opening;
pub mod operation;
pub mod piece;
pub mod ranges;
pub mod replay;
pub mod server;
pub mod tree;
