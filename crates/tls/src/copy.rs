//! Bytes between a connection by TLS and a Unix socket, both ways, until either side has ended.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustls::Connection;

const CHUNK: usize = 64 << 10;

/// A connection that both sides have agreed to.
#[derive(Debug)]
pub struct Copying {
    tls: Connection,
    stream: TcpStream,
    plain: UnixStream,
    /// What came and was not given to the Unix socket.
    inward: Vec<u8>,
    /// Whether the other side may say more, and whether this one may.
    hears: bool,
    speaks: bool,
}

impl Copying {
    /// One end of a pair for the bytes as they are, and what is to be copied from and to it.
    pub(crate) fn new(mut tls: Connection, stream: TcpStream) -> io::Result<(UnixStream, Self)> {
        let (ours, theirs) = UnixStream::pair()?;
        // No more than one chunk is ever in it.
        tls.set_buffer_limit(None);
        ours.set_nonblocking(true)?;
        stream.set_nonblocking(true)?;
        let copying = Self {
            tls,
            stream,
            plain: ours,
            inward: Vec::new(),
            hears: true,
            speaks: true,
        };
        Ok((theirs, copying))
    }

    /// Copies until either side has ended, and what was said last has left.
    ///
    /// When this side has ended, the other one has `linger` to take that and to close.
    ///
    /// # Errors
    /// When the connection broke.
    pub fn run(mut self, linger: Duration) -> io::Result<()> {
        let copied = self.copy(linger);
        // Both are closed in any case.
        let _ = self.stream.shutdown(Shutdown::Both);
        let _ = self.plain.shutdown(Shutdown::Both);
        copied
    }

    fn copy(&mut self, linger: Duration) -> io::Result<()> {
        let mut until = None;
        // It may have come with the last words of the handshake.
        self.take()?;
        loop {
            self.give()?;
            if !self.hears && self.inward.is_empty() && self.speaks {
                // The reader there sees the end, and closes.
                let _ = self.plain.shutdown(Shutdown::Write);
            }
            self.send()?;
            let has_sent = !self.speaks && !self.tls.wants_write();
            if has_sent && !self.hears {
                return Ok(());
            }
            if has_sent && until.is_none() {
                // To close a socket that has more to read could take back what was sent last.
                let _ = self.stream.shutdown(Shutdown::Write);
                until = Some(Instant::now() + linger);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(());
            }
            let (may_read, may_hear) = self.wait(left)?;
            if may_hear {
                self.hear()?;
            }
            if may_read {
                self.read()?;
            }
        }
    }

    /// Waits until something can be done; whether there is something to read from the Unix socket, and from the other side.
    fn wait(&self, at_most: Option<Duration>) -> io::Result<(bool, bool)> {
        let mut plain = PollFlags::empty();
        let mut stream = PollFlags::empty();
        if !self.inward.is_empty() {
            plain |= PollFlags::OUT;
        }
        // One side waits until the other takes what was said.
        if self.speaks && !self.tls.wants_write() {
            plain |= PollFlags::IN;
        }
        if self.hears && self.inward.is_empty() {
            stream |= PollFlags::IN;
        }
        if self.tls.wants_write() {
            stream |= PollFlags::OUT;
        }
        // What is not waited for would report its end nevertheless, again and again.
        let wanted = [(self.plain.as_fd(), plain), (self.stream.as_fd(), stream)];
        let mut events: Vec<_> = wanted
            .into_iter()
            .filter(|(_, flags)| !flags.is_empty())
            .map(|(socket, flags)| PollFd::from_borrowed_fd(socket, flags))
            .collect();
        let timeout = at_most.and_then(|left| Timespec::try_from(left).ok());
        match rustix::event::poll(&mut events, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut ready = events.iter().map(PollFd::revents);
        let mut has_come = |wanted: PollFlags| {
            let ready = match wanted.is_empty() {
                true => None,
                false => ready.next(),
            };
            let ready = ready.unwrap_or(PollFlags::empty());
            wanted.contains(PollFlags::IN) && ready.intersects(!PollFlags::OUT)
        };
        let from_plain = has_come(plain);
        Ok((from_plain, has_come(stream)))
    }

    /// Takes what the other side says.
    fn hear(&mut self) -> io::Result<()> {
        loop {
            match self.tls.read_tls(&mut self.stream) {
                // The reader tells of the end.
                Ok(length) => {
                    if let Err(error) = self.tls.process_new_packets() {
                        let _ = self.send();
                        return Err(io::Error::new(ErrorKind::InvalidData, error));
                    }
                    self.take()?;
                    if length == 0 || !self.hears || self.inward.len() >= CHUNK {
                        return Ok(());
                    }
                }
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    ErrorKind::WouldBlock => return Ok(()),
                    _ => return Err(error),
                },
            }
        }
    }

    /// Takes out of the TLS what is plain by now.
    fn take(&mut self) -> io::Result<()> {
        let mut chunk = [0; 16 << 10];
        loop {
            match self.tls.reader().read(&mut chunk) {
                Ok(0) => {
                    self.hears = false;
                    return Ok(());
                }
                // Nobody listens any more.
                Ok(_) if !self.speaks => {}
                Ok(length) => self.inward.extend_from_slice(&chunk[..length]),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return Ok(()),
                    // A peer that was killed says no goodbye. The messages inside tell whether anything is missing.
                    ErrorKind::UnexpectedEof => {
                        self.hears = false;
                        return Ok(());
                    }
                    _ => return Err(error),
                },
            }
        }
    }

    /// Gives what came to the Unix socket.
    fn give(&mut self) -> io::Result<()> {
        let mut given = 0;
        while given < self.inward.len() {
            match self.plain.write(&self.inward[given..]) {
                Ok(length) => given += length,
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    ErrorKind::WouldBlock => break,
                    // Nobody listens any more. What that side has said still leaves.
                    _ => given = self.inward.len(),
                },
            }
        }
        self.inward.drain(..given);
        Ok(())
    }

    /// Has the TLS take what the Unix socket says.
    fn read(&mut self) -> io::Result<()> {
        let mut chunk = [0; CHUNK];
        match self.plain.read(&mut chunk) {
            Ok(0) => {
                self.plain_ends();
                Ok(())
            }
            Ok(length) => self.tls.writer().write_all(&chunk[..length]),
            Err(error) => match error.kind() {
                ErrorKind::Interrupted | ErrorKind::WouldBlock => Ok(()),
                // It has closed its end without reading all. What it said last is still to be sent.
                ErrorKind::ConnectionReset => {
                    self.plain_ends();
                    Ok(())
                }
                _ => Err(error),
            },
        }
    }

    fn plain_ends(&mut self) {
        self.speaks = false;
        self.inward.clear();
        self.tls.send_close_notify();
    }

    /// Sends what there is to send, as far as the other side takes it.
    fn send(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.stream) {
                Ok(_) => {}
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    ErrorKind::WouldBlock => break,
                    _ => return Err(error),
                },
            }
        }
        Ok(())
    }
}
