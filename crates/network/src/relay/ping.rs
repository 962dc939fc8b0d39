//! Pings: one socket of the host for each program that pings.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketType, ipproto};
use surmise_sys::sockets::next_undelivered;

use super::core::Core;
use super::poller::{Kind, Token};
use super::slab::Key;
use super::sockets;
use super::sources::{IDLE, Sources};
use crate::packet::{self, Packet, Ping, Why};
use crate::policy::Verdict;

/// How many sockets there are at most; then the one that was idle longest makes room.
const SOURCES_MAX: usize = 64;

/// How many pings wait for an answer at once; more are lost, as pings may be.
const WAITING_MAX: usize = 64;

/// How many replies one wakeup takes from a socket.
const ROUNDS: usize = 64;

/// The relay of pings.
#[derive(Debug)]
pub(crate) struct Pings {
    /// By address and identifier.
    sources: Sources<(IpAddr, u16), State>,
    waiting: VecDeque<Vec<u8>>,
    sweeping: bool,
}

type Source = super::sources::Source<(IpAddr, u16), State>;

#[derive(Debug)]
struct State {
    /// The identifier outside, for a socket that gets every reply that comes to the host.
    raw: Option<u16>,
    last_packet: Vec<u8>,
}

impl Pings {
    pub(crate) fn new() -> Self {
        Self {
            sources: Sources::new(Kind::Ping, SOURCES_MAX),
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
        core.answer(packet, why);
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
        let Some(source) = self.sources.get_mut(key) else {
            return;
        };
        if flags.contains(EventFlags::ERR) {
            pass_errors(source, core);
        }
        for _ in 0..ROUNDS {
            let buffer = core.scratch.bytes();
            let (length, from) =
                match rustix::net::recvfrom(&source.socket, &mut *buffer, RecvFlags::empty()) {
                    Ok((length, _, Some(from))) => (length, from),
                    Ok((_, _, None)) | Err(Errno::INTR) => continue,
                    Err(Errno::AGAIN) => return,
                    Err(_) => return pass_errors(source, core),
                };
            let Ok(from) = SocketAddr::try_from(from) else {
                continue;
            };
            let Some((sequence, payload)) = read_reply(source, &buffer[..length]) else {
                continue;
            };
            let pong = packet::pong(&Ping {
                source: source.inside.0,
                destination: from.ip(),
                identifier: source.inside.1,
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
        self.sources.sweep(core);
        self.sweeping = !self.sources.is_empty();
        if self.sweeping {
            core.timers.set(core.now + IDLE, Token::only(Kind::Ping));
        }
    }

    fn send(&mut self, core: &mut Core, ping: &Ping<'_>, packet: &[u8]) -> Result<(), Errno> {
        let failed = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
        let inside = (ping.source, ping.identifier);
        let source = self.sources.of(core, inside, || open(ping));
        let source = source.map_err(failed)?;
        source.state.last_packet = packet.to_vec();
        let mut message = packet::echo_request(ping);
        if let Some(identifier) = source.state.raw {
            message[4..6].copy_from_slice(&identifier.to_be_bytes());
            let sum = checksum(&message);
            message[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        let to = SocketAddr::new(ping.destination, 0);
        let sent = source.send(&message, to, || pass_errors(source, core));
        if !std::mem::replace(&mut self.sweeping, true) {
            core.timers.set(core.now + IDLE, Token::only(Kind::Ping));
        }
        sent
    }
}

/// Sequence number and payload of a reply to a source.
fn read_reply<'a>(source: &Source, received: &'a [u8]) -> Option<(u16, &'a [u8])> {
    let Some(identifier) = source.state.raw else {
        return packet::echo_reply(received);
    };
    let message = match source.inside.0 {
        // With its IP header, whose length is in its first byte.
        IpAddr::V4(_) => received.get(usize::from(received.first()? & 15) * 4..)?,
        IpAddr::V6(_) => received,
    };
    let own = message.get(4..6)? == identifier.to_be_bytes();
    own.then(|| packet::echo_reply(message)).flatten()
}

/// Tells the program that its ping did not arrive.
fn pass_errors(source: &Source, core: &Core) {
    let mut payload = [0; 64];
    while let Ok(Some(undelivered)) = next_undelivered(source.socket.as_fd(), &mut payload) {
        let why = match Errno::from_io_error(&undelivered.error) {
            Some(Errno::NETUNREACH) => Why::Network,
            Some(Errno::ACCESS | Errno::PERM) => Why::Prohibited,
            _ => Why::Host,
        };
        core.answer(&source.state.last_packet, why);
    }
}

/// A socket for pings as the host gives one to everybody, or to root.
fn open(ping: &Ping<'_>) -> io::Result<(OwnedFd, bool, State)> {
    let like = SocketAddr::new(ping.source, 0);
    let protocol = match ping.source {
        IpAddr::V4(_) => ipproto::ICMP,
        IpAddr::V6(_) => ipproto::ICMPV6,
    };
    let (socket, raw) = match sockets::open(like, SocketType::DGRAM, Some(protocol)) {
        Ok(socket) => (socket, None),
        Err(error) => {
            let socket = sockets::open(like, SocketType::RAW, Some(protocol)).map_err(|_| error)?;
            let mut identifier = [0; 2];
            rustix::rand::getrandom(&mut identifier, rustix::rand::GetRandomFlags::empty())?;
            (socket, Some(u16::from_ne_bytes(identifier)))
        }
    };
    let last_packet = Vec::new();
    Ok((socket, ping.source.is_ipv6(), State { raw, last_packet }))
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
