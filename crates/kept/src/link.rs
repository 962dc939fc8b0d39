//! Whole messages over a pair of connected sockets: how a running domain is asked from outside, and what its own
//! processes tell each other.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use rustix::time::Timespec;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Longest message, in bytes; a socket's default buffer holds several.
const BYTES_MAX: usize = 64 << 10;

/// One end of a pair of sockets that carry whole messages, and descriptors.
#[derive(Debug)]
pub struct Link(OwnedFd);

impl Link {
    /// Both ends of a new one.
    ///
    /// # Errors
    /// When no more files may be open.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, two) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok((Self(one), Self(two)))
    }

    /// An end of a connection between two programs.
    pub fn of(socket: OwnedFd) -> Self {
        Self(socket)
    }

    /// Waits while the other end has not room for it.
    ///
    /// # Errors
    /// When the other end is closed in all processes.
    ///
    /// # Panics
    /// When the message is longer than 64 KiB.
    pub fn send(&self, message: &impl Serialize) -> io::Result<()> {
        self.send_with(message, SendFlags::empty())
    }

    /// As [`Self::send`], but fails where that would wait.
    ///
    /// # Errors
    /// As [`Self::send`]; `WouldBlock` where the other end has no room.
    pub fn try_send(&self, message: &impl Serialize) -> io::Result<()> {
        self.send_with(message, SendFlags::DONTWAIT)
    }

    fn send_with(&self, message: &impl Serialize, flags: SendFlags) -> io::Result<()> {
        let bytes = serde_json::to_vec(message).expect("a message is plain data");
        assert!(
            bytes.len() <= BYTES_MAX,
            "a message of {} bytes",
            bytes.len()
        );
        // NOSIGNAL: the other role may have died, which is for the caller to deal with.
        let flags = flags | SendFlags::NOSIGNAL;
        rustix::io::retry_on_intr(|| rustix::net::send(&self.0, &bytes, flags))?;
        Ok(())
    }

    /// The next message; `None` when the other end is closed in all processes.
    ///
    /// # Errors
    /// `InvalidData` where it is another message than a `T`.
    pub fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<T>> {
        self.receive_with(RecvFlags::empty())
    }

    /// As [`Self::receive`]; the outer `None` where that would wait.
    ///
    /// # Errors
    /// As [`Self::receive`].
    pub fn try_receive<T: DeserializeOwned>(&self) -> io::Result<Option<Option<T>>> {
        match self.receive_with(RecvFlags::DONTWAIT) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            received => received.map(Some),
        }
    }

    fn receive_with<T: DeserializeOwned>(&self, flags: RecvFlags) -> io::Result<Option<T>> {
        let mut bytes = Vec::with_capacity(BYTES_MAX);
        let received =
            beyond_reset(|| rustix::net::recv(&self.0, spare_capacity(&mut bytes), flags));
        match received {
            Ok((0, _)) => Ok(None),
            Ok(_) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Whether the other end sends no more.
    pub fn is_over(&self) -> bool {
        let mut events = [PollFd::new(&self.0, PollFlags::RDHUP)];
        let polled = rustix::event::poll(&mut events, Some(&Timespec::default()));
        polled.is_err() || !events[0].revents().is_empty()
    }

    /// Has the other end get a copy of a descriptor.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn send_descriptor(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        let fds = [fd];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        rustix::net::sendmsg(
            &self.0,
            &[IoSlice::new(b"\0")],
            &mut control,
            SendFlags::NOSIGNAL,
        )?;
        Ok(())
    }

    /// The descriptor that the other end sends; `None` when it is closed first.
    ///
    /// # Errors
    /// When no more files may be open.
    pub fn receive_descriptor(&self) -> io::Result<Option<OwnedFd>> {
        self.receive_descriptor_with(RecvFlags::empty())
    }

    /// As [`Self::receive_descriptor`]; `None` also where that would wait.
    ///
    /// # Errors
    /// As there.
    pub fn try_receive_descriptor(&self) -> io::Result<Option<OwnedFd>> {
        match self.receive_descriptor_with(RecvFlags::DONTWAIT) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            received => received,
        }
    }

    fn receive_descriptor_with(&self, flags: RecvFlags) -> io::Result<Option<OwnedFd>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        beyond_reset(|| {
            rustix::net::recvmsg(
                &self.0,
                &mut [IoSliceMut::new(&mut byte)],
                &mut control,
                RecvFlags::CMSG_CLOEXEC | flags,
            )
        })?;
        let mut rights = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        Ok(rights.next().and_then(|mut descriptors| descriptors.next()))
    }
}

/// A role that ends with messages unread resets the pair, which the kernel tells once, and before what that role still
/// said.
fn beyond_reset<T>(mut receive: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    match rustix::io::retry_on_intr(&mut receive) {
        Err(Errno::CONNRESET) => rustix::io::retry_on_intr(receive),
        received => received,
    }
}

/// Readable when a message is there or the other end is closed.
impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Serialize, Deserialize)]
    enum Said {
        Go,
        Signal(i32),
    }

    #[test]
    fn what_was_said_is_heard_also_of_one_that_ended_with_messages_unread() {
        let (one, two) = Link::pair().expect("a pair");
        one.send(&Said::Signal(15)).expect("send");
        two.send(&Said::Go).expect("send");
        drop(one);
        assert!(matches!(two.receive(), Ok(Some(Said::Signal(15)))));
        assert!(matches!(two.receive::<Said>(), Ok(None)));

        let (one, two) = Link::pair().expect("a pair");
        one.send_descriptor(two.as_fd()).expect("send");
        two.send(&Said::Go).expect("send");
        drop(one);
        assert!(matches!(two.receive_descriptor(), Ok(Some(_))));
        assert!(matches!(two.receive_descriptor(), Ok(None)));
    }

    #[test]
    fn a_descriptor_that_is_not_there_yet_can_be_asked_for_again() {
        let (one, two) = Link::pair().expect("a pair");
        assert!(matches!(two.try_receive_descriptor(), Ok(None)));
        one.send_descriptor(one.as_fd()).expect("send");
        assert!(matches!(two.try_receive_descriptor(), Ok(Some(_))));
        drop(one);
        assert!(matches!(two.try_receive_descriptor(), Ok(None)));
    }

    #[test]
    fn messages_keep_their_bounds_and_an_end_is_seen() {
        let (one, two) = Link::pair().expect("a pair");
        one.send(&Said::Go).expect("send");
        one.send(&Said::Signal(15)).expect("send");
        assert!(!two.is_over());
        drop(one);
        assert!(two.is_over());
        assert!(matches!(two.receive(), Ok(Some(Said::Go))));
        assert!(matches!(two.receive(), Ok(Some(Said::Signal(15)))));
        assert!(matches!(two.receive::<Said>(), Ok(None)));
    }

    #[test]
    fn a_descriptor_goes_across() {
        let (one, two) = Link::pair().expect("a pair");
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        one.send_descriptor(writer.as_fd()).expect("send");
        let received = two.receive_descriptor().expect("receive").expect("one");
        rustix::io::write(received, b"x").expect("write");
        let mut byte = [0];
        rustix::io::read(reader, &mut byte).expect("read");
        assert_eq!(&byte, b"x");
        drop(one);
        assert!(two.receive_descriptor().expect("receive").is_none());
    }
}
