//! Pings: one socket of the host for each program that pings.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketType, ipproto};
use surmise_sys::sockets::{keep_errors, next_undelivered};

use super::core::Core;
use super::poller::{Kind, Token};
use super::slab::{Key, Slab};
use super::sockets;
use crate::packet::{self, Packet, Ping, Why};
use crate::policy::Verdict;

/// How many sockets there are at most; then the one that was idle longest makes room.
const SOURCES_MAX: usize = 64;

/// How many pings wait for an answer at once; more are lost, as pings may be.
const WAITING_MAX: usize = 64;

/// How long a socket is kept for replies, and how often they are looked through.
const IDLE: Duration = Duration::from_secs(60);

/// How many replies one wakeup takes from a socket.
const ROUNDS: usize = 64;

/// The relay of pings.
#[derive(Debug)]
pub(crate) struct Pings {
    sources: Slab<Source>,
    by_inside: HashMap<(IpAddr, u16), Key>,
    waiting: VecDeque<Vec<u8>>,
    sweeping: bool,
}

#[derive(Debug)]
struct Source {
    inside: IpAddr,
    identifier: u16,
    socket: OwnedFd,
    /// The identifier outside, for a socket that gets every reply that comes to the host.
    raw: Option<u16>,
    last_used: Instant,
    last_packet: Vec<u8>,
}

impl Pings {
    pub(crate) fn new() -> Self {
        Self {
            sources: Slab::new(),
            by_inside: HashMap::new(),
            waiting: VecDeque::new(),
            sweeping: false,
        }
    }

    /// Takes an echo request that came out of the TUN in `packet`.
    pub(crate) fn take(&mut self, core: &mut Core, ping: &Ping<'_>, packet: &[u8]) {
        let why = match core.judge_ping(ping.destination) {
            Verdict::Allow => match self.send(core, ping, packet) {
                Ok(()) | Err(Errno::AGAIN | Errno::NOBUFS) => return,
                Err(Errno::NETUNREACH) => Why::Network,
                Err(Errno::ACCESS | Errno::PERM) => Why::Prohibited,
                Err(_) => Why::Host,
            },
            // The reply is all that a ping is for, and nobody can hold that.
            Verdict::Deny | Verdict::Hold => Why::Prohibited,
            Verdict::Ask => {
                if self.waiting.len() < WAITING_MAX {
                    self.waiting.push_back(packet.to_vec());
                }
                return;
            }
        };
        answer(core, packet, why);
    }

    /// Policy has changed: what waits may go on.
    pub(crate) fn reconsider(&mut self, core: &mut Core) {
        for packet in std::mem::take(&mut self.waiting) {
            if let Packet::Ping(ping) = packet::parse(&packet) {
                self.take(core, &ping, &packet);
            }
        }
    }

    /// Replies, or errors, have come to a socket.
    pub(crate) fn ready(&mut self, core: &mut Core, key: Key, flags: EventFlags) {
        let Some(source) = self.sources.get(key) else {
            return;
        };
        if flags.contains(EventFlags::ERR) {
            source.pass_errors(core);
        }
        for _ in 0..ROUNDS {
            let buffer = core.scratch.bytes();
            let (length, from) =
                match rustix::net::recvfrom(&source.socket, &mut *buffer, RecvFlags::empty()) {
                    Ok((length, _, Some(from))) => (length, from),
                    Ok((_, _, None)) | Err(Errno::INTR) => continue,
                    Err(Errno::AGAIN) => return,
                    Err(_) => return source.pass_errors(core),
                };
            let Ok(from) = SocketAddr::try_from(from) else {
                continue;
            };
            let Some((sequence, payload)) = source.read_reply(&buffer[..length]) else {
                continue;
            };
            let pong = packet::pong(&Ping {
                source: source.inside,
                destination: from.ip(),
                identifier: source.identifier,
                sequence,
                payload,
            });
            if let Some(pong) = pong {
                core.send_packet(&pong);
            }
        }
    }

    /// Closes what is idle.
    pub(crate) fn sweep(&mut self, core: &mut Core) {
        for key in self.sources.keys() {
            let source = self.sources.get(key).expect("listed just now");
            if core.now.saturating_duration_since(source.last_used) > IDLE {
                self.close(core, key);
            }
        }
        self.sweeping = self.sources.len() > 0;
        if self.sweeping {
            core.timers.set(core.now + IDLE, Token::only(Kind::Ping));
        }
    }

    fn send(&mut self, core: &mut Core, ping: &Ping<'_>, packet: &[u8]) -> Result<(), Errno> {
        let failed = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
        let key = self.source(core, ping).map_err(failed)?;
        let source = self.sources.get_mut(key).expect("made or found just now");
        source.last_used = core.now;
        source.last_packet = packet.to_vec();
        let mut message = packet::echo_request(ping);
        if let Some(identifier) = source.raw {
            message[4..6].copy_from_slice(&identifier.to_be_bytes());
            let sum = checksum(&message);
            message[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        let to = SocketAddr::new(ping.destination, 0);
        let send = || rustix::net::sendto(&source.socket, &message, SendFlags::NOSIGNAL, &to);
        let mut sent = send();
        if matches!(sent, Err(Errno::CONNREFUSED | Errno::HOSTUNREACH)) {
            // That was about an earlier one.
            source.pass_errors(core);
            sent = send();
        }
        if !std::mem::replace(&mut self.sweeping, true) {
            core.timers.set(core.now + IDLE, Token::only(Kind::Ping));
        }
        sent.map(drop)
    }

    fn source(&mut self, core: &mut Core, ping: &Ping<'_>) -> io::Result<Key> {
        let inside = (ping.source, ping.identifier);
        if let Some(&key) = self.by_inside.get(&inside) {
            return Ok(key);
        }
        if self.sources.len() >= SOURCES_MAX {
            let sources = self.sources.iter();
            let oldest = sources.min_by_key(|(_, source)| source.last_used);
            let oldest = oldest.map(|(key, _)| key);
            oldest.into_iter().for_each(|key| self.close(core, key));
        }
        let (socket, raw) = open(ping)?;
        keep_errors(socket.as_fd(), ping.source.is_ipv6())?;
        let key = self.sources.insert(Source {
            inside: ping.source,
            identifier: ping.identifier,
            socket,
            raw,
            last_used: core.now,
            last_packet: Vec::new(),
        });
        let socket = &self.sources.get(key).expect("just inserted").socket;
        let token = Token::new(Kind::Ping, key);
        if let Err(error) = core.poller.add(socket, token, EventFlags::IN) {
            self.sources.remove(key);
            return Err(error);
        }
        self.by_inside.insert(inside, key);
        Ok(key)
    }

    fn close(&mut self, core: &mut Core, key: Key) {
        if let Some(source) = self.sources.remove(key) {
            self.by_inside.remove(&(source.inside, source.identifier));
            core.released_descriptors = true;
        }
    }
}

impl Source {
    /// Sequence number and payload of a reply to this source.
    fn read_reply<'a>(&self, received: &'a [u8]) -> Option<(u16, &'a [u8])> {
        let Some(identifier) = self.raw else {
            return packet::echo_reply(received);
        };
        let message = match self.inside {
            // With its IP header, whose length is in its first byte.
            IpAddr::V4(_) => received.get(usize::from(received.first()? & 15) * 4..)?,
            IpAddr::V6(_) => received,
        };
        let own = message.get(4..6)? == identifier.to_be_bytes();
        own.then(|| packet::echo_reply(message)).flatten()
    }

    /// Tells the program that its ping did not arrive.
    fn pass_errors(&self, core: &Core) {
        let mut payload = [0; 64];
        while let Ok(Some(undelivered)) = next_undelivered(self.socket.as_fd(), &mut payload) {
            let why = match Errno::from_io_error(&undelivered.error) {
                Some(Errno::NETUNREACH) => Why::Network,
                Some(Errno::ACCESS | Errno::PERM) => Why::Prohibited,
                _ => Why::Host,
            };
            answer(core, &self.last_packet, why);
        }
    }
}

/// A socket for pings as the host gives one to everybody, or to root.
fn open(ping: &Ping<'_>) -> io::Result<(OwnedFd, Option<u16>)> {
    let like = SocketAddr::new(ping.source, 0);
    let protocol = match ping.source {
        IpAddr::V4(_) => ipproto::ICMP,
        IpAddr::V6(_) => ipproto::ICMPV6,
    };
    match sockets::open(like, SocketType::DGRAM, Some(protocol)) {
        Ok(socket) => Ok((socket, None)),
        Err(error) => {
            let socket = sockets::open(like, SocketType::RAW, Some(protocol)).map_err(|_| error)?;
            let mut identifier = [0; 2];
            rustix::rand::getrandom(&mut identifier, rustix::rand::GetRandomFlags::empty())?;
            Ok((socket, Some(u16::from_ne_bytes(identifier))))
        }
    }
}

/// The internet checksum of a message whose own place for it is zero. Of ICMPv6 the kernel makes
/// another one.
fn checksum(message: &[u8]) -> u16 {
    let words = message.chunks(2);
    let mut sum: u32 = words
        .map(|word| u32::from(u16::from_be_bytes([word[0], *word.get(1).unwrap_or(&0)])))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn answer(core: &Core, packet: &[u8], why: Why) {
    if let Some(answer) = packet::unreachable(packet, why) {
        core.send_packet(&answer);
    }
}
