//! The outbox of a domain: output held at the boundary, kept durably, and delivered at most once, in
//! causal order.
//!
//! A **hold** is one held channel: a connection, a datagram socket, the command's output. The relay
//! of a running domain makes holds and appends what the program sends ([`Outbox`]); `list` and `diff`
//! show them, also meanwhile ([`load`]). Who knows on what a person's consent depends is told what
//! waits for it ([`Outbox::open_told`]); once the person agrees ([`Outbox::agree`]), the relay releases
//! that while its programs run ([`Outbox::steps_in_order`], [`Outbox::mark_sending`],
//! [`Outbox::mark_sent`]), and a [`Delivery`] sends what is left by programs that have ended.
//!
//! Causal order is the order in which bytes came to the boundary, over all holds: what the program
//! did later, which may depend on what it did earlier, leaves later.
//!
//! The file is described in the module `record`.
#![forbid(unsafe_code)]

mod delivery;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod held;
mod history;
mod outbox;
mod record;
mod target;
mod waits;
mod writer;

pub use delivery::{Cause, Delivered, Delivery, DeliveryError, Failure, Limits, Unreachable};
pub use error::OutboxError;
pub use held::{Held, HeldChannel, HeldState, load};
pub use outbox::{Outbox, Pending, Piece, Resend, Step};
pub use target::{End, HoldId, Host, Sender, Target};
pub use waits::Told;

use std::path::{Path, PathBuf};

/// Bytes of the longest piece: what one frame of data holds.
pub const PIECE_MAX: usize = 64 << 10;

/// Bytes appended and not yet written at which [`Outbox::has_room`] says no.
pub const QUEUE_MAX: usize = 4 << 20;

fn path_in(directory: &Path) -> PathBuf {
    directory.join("outbox")
}
