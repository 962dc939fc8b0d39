//! What other threads tell the relay's loop.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};

use rustix::event::EventfdFlags;

/// The receiving end: a queue, and a descriptor that is readable while there is something in it.
#[derive(Debug)]
pub(crate) struct Inbox<T> {
    messages: Receiver<T>,
    bell: Arc<OwnedFd>,
}

/// A sending end.
#[derive(Debug)]
pub(crate) struct Mailer<T> {
    messages: Sender<T>,
    bell: Arc<OwnedFd>,
}

/// An inbox and the first of its senders.
///
/// # Errors
/// As `eventfd`.
pub(crate) fn inbox<T>() -> io::Result<(Inbox<T>, Mailer<T>)> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    let bell = Arc::new(rustix::event::eventfd(0, flags)?);
    let (sender, receiver) = mpsc::channel();
    let inbox = Inbox {
        messages: receiver,
        bell: Arc::clone(&bell),
    };
    let mailer = Mailer {
        messages: sender,
        bell,
    };
    Ok((inbox, mailer))
}

impl<T> Inbox<T> {
    /// Everything that has come. The bell is silenced first, so that a message that comes meanwhile
    /// rings again.
    pub(crate) fn take(&self) -> Vec<T> {
        // Fails when the bell did not ring.
        let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
        self.messages.try_iter().collect()
    }
}

impl<T> AsFd for Inbox<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl<T> Mailer<T> {
    /// Whether there is still somebody to take `message`.
    pub(crate) fn send(&self, message: T) -> bool {
        let sent = self.messages.send(message).is_ok();
        // Fails when the counter is full: then it rings anyway.
        let _ = rustix::io::write(&*self.bell, &1_u64.to_ne_bytes());
        sent
    }
}

impl<T> Clone for Mailer<T> {
    fn clone(&self) -> Self {
        Self {
            messages: self.messages.clone(),
            bell: Arc::clone(&self.bell),
        }
    }
}
