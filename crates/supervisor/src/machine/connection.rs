//! A connection of two Unix stream sockets inside the domain: bytes are really taken and put while something is undecided, and
//! moved back afterwards.
//!
//! Nothing opens a socket anew. So this program holds both sockets as long as an act is undecided, and nobody is told of the end of
//! the connection meanwhile. Each act is therefore done only while a process that may execute something has the other socket:
//! a task that knows that nobody has it waits.
//!
//! What this program writes is what it has read from the same queue. It is told from what tasks have written by nothing but the
//! credentials of the sender, for which no socket of the domain may have asked.

use std::io::{self, IoSliceMut};
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, epoll};
use rustix::io::{Errno, ioctl_fionread};
use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, SendFlags, recvmsg, sockopt};

use crate::objects::pipe::{Queue, Taken};

/// How much is moved at once.
const PIECE: usize = 64 << 10;

/// Both its sockets.
#[derive(Debug)]
pub(crate) struct Connection {
    sockets: [OwnedFd; 2],
}

impl Connection {
    /// The socket that reads the first queue comes first.
    pub(crate) fn new(sockets: [OwnedFd; 2]) -> Self {
        Self { sockets }
    }

    fn reader(&self, queue: Queue) -> &OwnedFd {
        match queue {
            Queue::First => &self.sockets[0],
            Queue::Second => &self.sockets[1],
        }
    }

    fn writer(&self, queue: Queue) -> &OwnedFd {
        match queue {
            Queue::First => &self.sockets[1],
            Queue::Second => &self.sockets[0],
        }
    }

    /// Something that is readable when a queue has bytes. It keeps no socket open.
    pub(crate) fn await_input(&self, queue: Queue) -> io::Result<OwnedFd> {
        let waits = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let events = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        epoll::add(
            &waits,
            self.reader(queue),
            epoll::EventData::new_u64(0),
            events,
        )?;
        Ok(waits)
    }

    /// Takes at most so many bytes out, unless they could not be put back.
    pub(crate) fn take(&self, queue: Queue, length: usize) -> io::Result<Taken> {
        // Whatever stands in the way of a look, the call itself will meet it.
        let unread = match self.unread(queue) {
            Ok(Some(unread)) if unread <= self.most(queue)? => unread,
            _ => return Ok(Taken::Unmovable),
        };
        let mut bytes = vec![0; length.min(unread)];
        if bytes.is_empty() {
            return Ok(Taken::Nothing);
        }
        let taken = self.read(queue, &mut bytes)?;
        bytes.truncate(taken.unwrap_or(0));
        Ok(match bytes.is_empty() {
            true => Taken::Nothing,
            false => Taken::Bytes(bytes),
        })
    }

    /// Puts bytes in, if there is room for all of them besides `reserved` more.
    pub(crate) fn put(&self, queue: Queue, bytes: &[u8], reserved: usize) -> io::Result<bool> {
        match self.unread(queue) {
            Ok(Some(unread)) if unread + reserved + bytes.len() <= self.most(queue)? => {}
            _ => return Ok(false),
        }
        let written = self.write(queue, bytes);
        if written > 0 && written < bytes.len() {
            self.restore(queue, &[], written)?;
        }
        Ok(written == bytes.len())
    }

    /// Puts bytes back in front, and takes so many from the end away. Nobody reads or writes meanwhile.
    pub(crate) fn restore(&self, queue: Queue, front: &[u8], cut: usize) -> io::Result<()> {
        let mut bytes = front.to_vec();
        let mut piece = vec![0; PIECE];
        while let Some(length @ 1..) = self.read(queue, &mut piece)? {
            bytes.extend(&piece[..length]);
        }
        let length = bytes.len().checked_sub(cut);
        bytes.truncate(length.ok_or(io::ErrorKind::UnexpectedEof)?);
        match self.write(queue, &bytes) == bytes.len() {
            true => Ok(()),
            false => Err(io::ErrorKind::WriteZero.into()),
        }
    }

    /// How many bytes are in a queue. `None` if there is more than bytes, such as descriptors, or if no byte could be put there: either
    /// side was shut down.
    fn unread(&self, queue: Queue) -> io::Result<Option<usize>> {
        let reader = self.reader(queue);
        let mut events = [PollFd::new(reader, PollFlags::RDHUP)];
        rustix::event::poll(&mut events, Some(&Timespec::default()))?;
        if !events[0].revents().is_empty() {
            return Ok(None);
        }
        let unread = ioctl_fionread(reader)? as usize;
        if unread == 0 {
            return Ok(Some(0));
        }
        // A read ends behind the first descriptors that were sent, and at a byte out of band.
        let mut bytes = vec![0; unread];
        let mut pieces = [IoSliceMut::new(&mut bytes)];
        let mut control = RecvAncillaryBuffer::default();
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let seen = match recvmsg(reader, &mut pieces, &mut control, flags) {
            Err(Errno::AGAIN) => return Ok(None),
            seen => seen?,
        };
        let is_plain = seen.bytes == unread && !seen.flags.contains(ReturnFlags::CTRUNC);
        Ok(is_plain.then_some(unread))
    }

    /// How many bytes a queue may have so that they can be written anew. In few large buffers they take little more room than
    /// they are long, but the kernel makes a buffer of up to 16 KiB up to twice as large as it need be.
    fn most(&self, queue: Queue) -> io::Result<usize> {
        const SIZE_MIN: usize = 64 << 10;
        let size = sockopt::socket_send_buffer_size(self.writer(queue))?;
        Ok(if size < SIZE_MIN { 0 } else { size / 2 })
    }

    /// `None` if there is nothing.
    fn read(&self, queue: Queue, bytes: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            return match rustix::net::recv(self.reader(queue), &mut *bytes, RecvFlags::DONTWAIT) {
                Ok((_, length)) => Ok(Some(length)),
                Err(Errno::AGAIN) => Ok(None),
                Err(Errno::INTR) => continue,
                Err(errno) => Err(errno.into()),
            };
        }
    }

    /// Returns how many bytes were written: all, unless there is no room or no memory, or nobody would read them.
    fn write(&self, queue: Queue, bytes: &[u8]) -> usize {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let mut written = 0;
        while written < bytes.len() {
            match rustix::net::send(self.writer(queue), &bytes[written..], flags) {
                Ok(length) => written += length,
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, Shutdown, sendmsg};

    use super::*;

    /// A connection, with the sockets of tasks: the first one reads the first queue.
    fn pair() -> (UnixStream, UnixStream, Connection) {
        let (one, other) = UnixStream::pair().expect("a pair");
        for socket in [&one, &other] {
            socket.set_nonblocking(true).expect("set");
        }
        let sockets = [&one, &other].map(|socket| socket.try_clone().expect("duplicate").into());
        (one, other, Connection::new(sockets))
    }

    fn all(mut socket: &UnixStream) -> String {
        let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
        while let Ok(length @ 1..) = socket.read(&mut piece) {
            bytes.extend(&piece[..length]);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn taken(text: &str) -> Taken {
        Taken::Bytes(text.into())
    }

    #[test]
    fn each_queue_is_restored_by_itself() {
        let (one, mut other, connection) = pair();
        other.write_all(b"abcdef").expect("write");
        assert_eq!(connection.take(Queue::First, 2).expect("take"), taken("ab"));
        assert_eq!(connection.take(Queue::First, 1).expect("take"), taken("c"));
        assert!(connection.put(Queue::First, b"gh", 3).expect("put"));
        assert!(connection.put(Queue::Second, b"xyz", 0).expect("put"));
        connection.restore(Queue::Second, &[], 1).expect("restore");
        connection.restore(Queue::First, &[], 1).expect("restore");
        connection.restore(Queue::First, b"c", 0).expect("restore");
        connection.restore(Queue::First, b"ab", 1).expect("restore");
        assert_eq!(all(&one), "abcdef");
        assert_eq!(all(&other), "xy");
        assert!(
            connection.restore(Queue::First, &[], 1).is_err(),
            "there is nothing"
        );
        let nothing = connection.take(Queue::First, 9).expect("take");
        assert_eq!(nothing, Taken::Nothing);
    }

    /// Bytes that came one by one take much more room than they do when they are written anew.
    #[test]
    fn all_that_may_be_undecided_has_room_when_it_is_put_back() {
        let (one, mut other, connection) = pair();
        let most = connection.most(Queue::First).expect("its size");
        while other.write(b"x").is_ok() {}
        let Taken::Bytes(mut bytes) = connection.take(Queue::First, most).expect("take") else {
            panic!("there are bytes");
        };
        let rest = vec![b'y'; most - bytes.len()];
        assert!(
            !connection
                .put(Queue::First, &[&rest[..], b"z"].concat(), bytes.len())
                .expect("put")
        );
        assert!(
            connection
                .put(Queue::First, &rest, bytes.len())
                .expect("put")
        );
        connection
            .restore(Queue::First, &bytes, 0)
            .expect("restore");
        bytes.extend(rest);
        assert_eq!(all(&one).len(), most);
        // More than could be put back was there before.
        while other.write(&[b'x'; 4096]).is_ok() {}
        let unmovable = connection.take(Queue::First, 1).expect("take");
        assert_eq!(unmovable, Taken::Unmovable);
        assert!(!connection.put(Queue::First, b"a", 0).expect("put"));
    }

    #[test]
    fn a_small_buffer_is_left_as_it_is() {
        let (one, mut other, connection) = pair();
        sockopt::set_socket_send_buffer_size(&other, 16 << 10).expect("set");
        assert!(!connection.put(Queue::First, b"a", 0).expect("put"));
        other.write_all(b"a").expect("write");
        let unmovable = connection.take(Queue::First, 1).expect("take");
        assert_eq!(unmovable, Taken::Unmovable);
        assert!(connection.put(Queue::Second, b"b", 0).expect("put"));
        assert_eq!((all(&one), all(&other)), ("a".into(), "b".into()));
        // The smallest that counts, with as many bytes as may be there, in two buffers.
        sockopt::set_socket_send_buffer_size(&one, 32 << 10).expect("set");
        let most = connection.most(Queue::Second).expect("its size");
        assert_eq!(most, 32 << 10);
        for length in [most, most - 1, 20 << 10, 17 << 10, 16 << 10, 8200, 4100] {
            let bytes = vec![b'c'; length];
            assert!(connection.put(Queue::Second, &bytes, 0).expect("put"));
            let bytes = vec![b'd'; most - length];
            connection
                .restore(Queue::Second, &bytes, 0)
                .expect("it has room");
            assert_eq!(all(&other).len(), most);
        }
    }

    #[test]
    fn what_is_more_than_bytes_is_left_where_it_is() {
        let (one, mut other, connection) = pair();
        other.write_all(b"before").expect("write");
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let sent = [std::os::fd::AsFd::as_fd(&one)];
        assert!(control.push(SendAncillaryMessage::ScmRights(&sent)));
        let pieces = [io::IoSlice::new(b"with")];
        sendmsg(&other, &pieces, &mut control, SendFlags::empty()).expect("send");
        for after in ["", "after"] {
            other.write_all(after.as_bytes()).expect("write");
            let refused = connection.take(Queue::First, 1).expect("take");
            assert_eq!(refused, Taken::Unmovable);
            assert!(!connection.put(Queue::First, b"a", 0).expect("put"));
        }
        assert!(connection.put(Queue::Second, b"a", 0).expect("put"));

        let (_one, other, connection) = pair();
        let flags = SendFlags::OOB;
        rustix::net::send(&other, b"now", flags).expect("send");
        let refused = connection.take(Queue::First, 1).expect("take");
        assert_eq!(refused, Taken::Unmovable);
    }

    #[test]
    fn a_queue_that_was_shut_down_is_left_as_it_is() {
        let (one, mut other, connection) = pair();
        other.write_all(b"last").expect("write");
        rustix::net::shutdown(&other, Shutdown::Write).expect("shut down");
        let refused = connection.take(Queue::First, 9).expect("take");
        assert_eq!(refused, Taken::Unmovable);
        assert!(!connection.put(Queue::First, b"a", 0).expect("put"));
        assert!(connection.put(Queue::Second, b"a", 0).expect("put"));
        assert_eq!(all(&one), "last");

        let (one, _other, connection) = pair();
        rustix::net::shutdown(&one, Shutdown::Read).expect("shut down");
        assert!(!connection.put(Queue::First, b"a", 0).expect("put"));
    }

    #[test]
    fn what_waits_for_input_keeps_nothing_open() {
        let (one, mut other, connection) = pair();
        let waits = connection.await_input(Queue::First).expect("wait");
        drop(connection);
        let ready = || {
            let mut events = [PollFd::new(&waits, PollFlags::IN)];
            rustix::event::poll(&mut events, Some(&Timespec::default())).expect("poll") == 1
        };
        assert!(!ready());
        other.write_all(b"a").expect("write");
        assert!(ready());
        assert_eq!(all(&one), "a");
        drop(one);
        assert!(other.write_all(b"a").is_err(), "nobody has it");
    }
}
