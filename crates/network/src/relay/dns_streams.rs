//! Connections that ask for names: DNS over TCP, each message with its length before it.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::core::Core;
use super::poller::{Kind, Registration, Token};
use super::slab::{Key, Slab};
use super::sockets::{self, Read};

/// How many connections there are at most; more are closed.
const STREAMS_MAX: usize = 128;

/// How long one may be silent.
const IDLE: Duration = Duration::from_secs(30);

/// How much may wait to be written on one; then it does not read its replies, and is closed.
const OUTPUT_MAX: usize = 1 << 20;

/// The connections that ask for names.
#[derive(Debug)]
pub(crate) struct Streams {
    listener: Option<(OwnedFd, Registration)>,
    streams: Slab<Stream>,
    sweeping: bool,
}

#[derive(Debug)]
struct Stream {
    socket: OwnedFd,
    ends: (SocketAddr, SocketAddr),
    registration: Registration,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Queries that were not answered yet.
    open: usize,
    ended: bool,
    last_used: Instant,
}

impl Streams {
    pub(crate) fn new() -> Self {
        Self {
            listener: None,
            streams: Slab::new(),
            sweeping: false,
        }
    }

    /// Takes connections from the proxy's own listener.
    ///
    /// # Errors
    /// As `epoll_ctl`.
    pub(crate) fn listen(&mut self, core: &Core, listener: OwnedFd) -> io::Result<()> {
        self.listener = Some((listener, Registration::default()));
        self.resume(core)
    }

    /// Takes connections again after a pause for lack of descriptors.
    ///
    /// # Errors
    /// As `epoll_ctl`.
    pub(crate) fn resume(&mut self, core: &Core) -> io::Result<()> {
        let token = Token::only(Kind::NamesListener);
        match &mut self.listener {
            Some((socket, registration)) => {
                registration.set(&core.poller, &*socket, token, EventFlags::IN)
            }
            None => Ok(()),
        }
    }

    /// Takes what came to the proxy's own listener.
    pub(crate) fn accept(&mut self, core: &mut Core) {
        while let Some((listener, registration)) = &mut self.listener {
            match sockets::accept(listener) {
                Ok((socket, ends)) => self.add(core, socket, ends),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::AGAIN) => return,
                // Out of descriptors: until some come back.
                Err(_) => return registration.remove(&core.poller, &*listener),
            }
        }
    }

    /// Serves a connection between these ends, the program's first.
    pub(crate) fn add(&mut self, core: &mut Core, socket: OwnedFd, ends: (SocketAddr, SocketAddr)) {
        if self.streams.len() >= STREAMS_MAX {
            return sockets::reset(socket);
        }
        let key = self.streams.insert(Stream {
            socket,
            ends,
            registration: Registration::default(),
            input: Vec::new(),
            output: Vec::new(),
            open: 0,
            ended: false,
            last_used: core.now,
        });
        self.register(core, key);
        if !std::mem::replace(&mut self.sweeping, true) {
            let token = Token::only(Kind::NamesStream);
            core.timers.set(core.now + IDLE, token);
        }
    }

    /// The program's end and the nameserver's.
    pub(crate) fn ends(&self, key: Key) -> Option<(SocketAddr, SocketAddr)> {
        self.streams.get(key).map(|stream| stream.ends)
    }

    /// Reads and writes what there is; gives the whole messages that have come.
    pub(crate) fn ready(&mut self, core: &mut Core, key: Key, flags: EventFlags) -> Vec<Vec<u8>> {
        let Some(stream) = self.streams.get_mut(key) else {
            return Vec::new();
        };
        stream.registration.saw(flags);
        stream.last_used = core.now;
        let went = stream.flush();
        let messages = went.and_then(|()| stream.read_messages(core.scratch.bytes()));
        match messages {
            Ok(messages) => {
                stream.open += messages.len();
                self.register(core, key);
                messages
            }
            Err(_) => {
                self.close(core, key);
                Vec::new()
            }
        }
    }

    /// Writes a reply.
    pub(crate) fn send(&mut self, core: &mut Core, key: Key, message: &[u8]) {
        let Some(stream) = self.streams.get_mut(key) else {
            return;
        };
        let Ok(length) = u16::try_from(message.len()) else {
            return;
        };
        stream.last_used = core.now;
        stream.open = stream.open.saturating_sub(1);
        stream.output.extend(length.to_be_bytes());
        stream.output.extend(message);
        if stream.flush().is_err() || stream.output.len() > OUTPUT_MAX {
            return self.close(core, key);
        }
        self.register(core, key);
    }

    /// Closes what is silent.
    pub(crate) fn sweep(&mut self, core: &mut Core) {
        for key in self.streams.keys() {
            let stream = self.streams.get(key).expect("listed just now");
            if core.now.saturating_duration_since(stream.last_used) > IDLE {
                self.close(core, key);
            }
        }
        self.sweeping = self.streams.len() > 0;
        if self.sweeping {
            let token = Token::only(Kind::NamesStream);
            core.timers.set(core.now + IDLE, token);
        }
    }

    fn register(&mut self, core: &mut Core, key: Key) {
        let Some(stream) = self.streams.get_mut(key) else {
            return;
        };
        if stream.ended && stream.open == 0 && stream.output.is_empty() {
            return self.close(core, key);
        }
        let mut wanted = EventFlags::empty();
        if !stream.ended {
            wanted |= EventFlags::IN;
        }
        if !stream.output.is_empty() {
            wanted |= EventFlags::OUT;
        }
        let token = Token::new(Kind::NamesStream, key);
        let set = stream
            .registration
            .set(&core.poller, &stream.socket, token, wanted);
        if set.is_err() {
            self.close(core, key);
        }
    }

    fn close(&mut self, core: &mut Core, key: Key) {
        if self.streams.remove(key).is_some() {
            core.released_descriptors = true;
        }
    }
}

impl Stream {
    fn flush(&mut self) -> io::Result<()> {
        if !self.output.is_empty() {
            let written = sockets::write(&self.socket, &self.output)?;
            self.output.drain(..written);
        }
        Ok(())
    }

    fn read_messages(&mut self, buffer: &mut [u8]) -> io::Result<Vec<Vec<u8>>> {
        if !self.ended {
            match sockets::read(&self.socket, buffer)? {
                Read::Some(length) => self.input.extend_from_slice(&buffer[..length]),
                Read::Nothing => {}
                Read::End => self.ended = true,
            }
        }
        Ok(take_messages(&mut self.input))
    }
}

/// Takes the whole messages from the beginning of what has come.
fn take_messages(input: &mut Vec<u8>) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    let mut rest = &input[..];
    while let Some((length, behind)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*length));
        let Some((message, behind)) = behind.split_at_checked(length) else {
            break;
        };
        messages.push(message.to_vec());
        rest = behind;
    }
    let taken = input.len() - rest.len();
    input.drain(..taken);
    messages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_by_their_lengths() {
        let whole = [&[0, 2][..], b"ab", &[0, 0], &[0, 3], b"cde"].concat();
        for cut in 0..=whole.len() {
            let mut input = whole[..cut].to_vec();
            let mut messages = take_messages(&mut input);
            input.extend_from_slice(&whole[cut..]);
            messages.extend(take_messages(&mut input));
            assert_eq!(messages, [&b"ab"[..], b"", b"cde"]);
            assert!(input.is_empty());
        }
    }
}
