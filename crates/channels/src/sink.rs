//! Where output goes that the caller shall not see yet.

use std::io;

/// Takes what a channel puts out. The thread of that channel calls it, and no other.
pub trait Sink: Send {
    /// Takes all of `bytes`. It may wait for room: that stalls this channel and no other.
    ///
    /// # Errors
    /// When the bytes cannot be kept; the channel is then closed, as for a reader that is gone.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Nothing more will come.
    fn close(&mut self) {}
}
