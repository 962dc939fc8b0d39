//! Why the outbox could not be used.

use std::io;

use surmise_journal::OpenError;

use crate::HoldId;

/// Why the outbox could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
    /// The file is not an outbox that this version reads, or could not be read.
    #[error("the outbox: {0}")]
    Open(#[from] OpenError),
    /// A frame that no Surmise of this version writes.
    #[error("frame {0} of the outbox is malformed")]
    Malformed(u64),
    /// Output could not be kept: a write failed, and everything behind it is refused.
    #[error("the outbox could not keep output: {0}")]
    NotKept(#[source] io::Error),
    /// The outbox could not note what becomes of a hold, or read what it keeps.
    #[error("the outbox: {0}")]
    Io(#[from] io::Error),
    /// This hold has nothing that may be sent: it does not exist, was dropped, or was sent before.
    #[error("hold {} of the outbox has nothing to send", .0.0)]
    NotPending(HoldId),
}
