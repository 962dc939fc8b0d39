//! Where output goes that the caller shall not see yet.

use std::io;

/// Takes what a channel puts out. The thread of that channel calls it, and no other.
pub trait Sink: Send {
    /// Takes all of `bytes`. It may wait for room: that stalls this channel and no other.
    ///
    /// # Errors
    /// When the bytes cannot be kept; the channel is then closed, as for a reader that is gone.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// The caller shall see what was taken so far, after all: [`Self::next`] gives it. What is taken
    /// from now on is kept as before.
    ///
    /// # Errors
    /// When that cannot be noted; all of it stays here.
    fn release(&mut self) -> io::Result<()>;

    /// Puts the next piece of what was released into `piece`, in place of what that holds; the one
    /// before has been seen. False when there is no more, and all has been seen.
    ///
    /// # Errors
    /// When it cannot be read.
    fn next(&mut self, piece: &mut Vec<u8>) -> io::Result<bool>;

    /// The caller has seen this much of the last piece, and is shown no more: the rest stays here. So does what was
    /// taken since, also if a [`Self::release`] of that was ordered and has not begun.
    fn keep_rest(&mut self, seen: usize);

    /// Nothing more will come.
    fn close(&mut self) {}
}
