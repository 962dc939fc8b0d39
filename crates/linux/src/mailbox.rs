//! Messages to a thread that waits in `poll`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};

use rustix::event::{EventfdFlags, eventfd};

/// Makes a mailbox and the first of its senders.
///
/// # Errors
/// As `eventfd`.
pub fn mailbox<T>() -> io::Result<(Sender<T>, Mailbox<T>)> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    let bell = Arc::new(eventfd(0, flags)?);
    let (sender, messages) = mpsc::channel();
    let sender = Sender {
        messages: sender,
        bell: Arc::clone(&bell),
    };
    Ok((sender, Mailbox { messages, bell }))
}

/// Puts messages into a [`Mailbox`].
#[derive(Debug)]
pub struct Sender<T> {
    messages: mpsc::Sender<T>,
    bell: Arc<OwnedFd>,
}

impl<T> Sender<T> {
    /// Never waits. False when nobody reads the mailbox any more.
    pub fn send(&self, message: T) -> bool {
        let sent = self.messages.send(message).is_ok();
        // Fails only when the count is at its limit: then the bell rings already.
        let _ = rustix::io::write(&*self.bell, &1_u64.to_ne_bytes());
        sent
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self {
            messages: self.messages.clone(),
            bell: Arc::clone(&self.bell),
        }
    }
}

/// Messages, and a descriptor that says when to look.
#[derive(Debug)]
pub struct Mailbox<T> {
    messages: Receiver<T>,
    bell: Arc<OwnedFd>,
}

impl<T> Mailbox<T> {
    /// All messages that there are.
    pub fn take(&self) -> impl Iterator<Item = T> {
        // Silenced before the look, so that a message that comes after it rings again.
        let _ = rustix::io::read(&*self.bell, &mut [0_u8; 8]);
        self.messages.try_iter()
    }

    /// The next message. The bell is silenced only when there is none.
    pub fn next(&self) -> Option<T> {
        self.messages.try_recv().ok().or_else(|| self.take().next())
    }
}

/// Readable while there may be a message.
impl<T> AsFd for Mailbox<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
