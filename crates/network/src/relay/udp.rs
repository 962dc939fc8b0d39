//! Datagrams: one socket of the host for each address and port that sends some.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketType};
use surmise_outbox::Pending;
use surmise_sys::sockets::next_undelivered;

use super::core::Core;
use super::deliver::{Delivered, Item};
use super::held_datagrams::HeldDatagrams;
use super::jobs::Asker;
use super::poller::{Kind, Token};
use super::slab::Key;
use super::sockets;
use super::sources::Sources;
use crate::packet::{self, Datagram, Why};
use crate::policy::Verdict;

/// How many sockets there are at most; then the one that was idle longest makes room.
const SOURCES_MAX: usize = 1024;

/// How many datagrams wait for an answer or for a name at once; more are lost, as datagrams may be.
const WAITING_MAX: usize = 64;

/// How often the table is looked through for idle sockets.
const SWEEP: Duration = Duration::from_secs(10);

/// How many datagrams one wakeup takes from a socket.
const ROUNDS: usize = 64;

/// The relay of datagrams.
#[derive(Debug)]
pub(crate) struct Datagrams {
    sources: Sources<SocketAddr, Aliases>,
    /// For an answer, or for the addresses of a name.
    waiting: VecDeque<Vec<u8>>,
    /// Addresses of names that were sent to by addresses that only stand for them. Empty: asked for.
    resolved: HashMap<String, Vec<IpAddr>>,
    pub(super) held: HeldDatagrams,
    sweeping: bool,
}

type Source = super::sources::Source<SocketAddr, Aliases>;

/// Real addresses, and the ones that the program knows them by.
type Aliases = HashMap<SocketAddr, SocketAddr>;

impl Datagrams {
    pub(crate) fn new() -> Self {
        Self {
            sources: Sources::new(Kind::Datagrams, SOURCES_MAX),
            waiting: VecDeque::new(),
            resolved: HashMap::new(),
            held: HeldDatagrams::new(),
            sweeping: false,
        }
    }

    /// Takes a datagram that came out of the TUN in `packet`.
    pub(crate) fn take(&mut self, core: &mut Core, datagram: &Datagram<'_>, packet: &[u8]) {
        let (source, destination) = (datagram.source, datagram.destination);
        match core.judge_datagram(source, destination) {
            Verdict::Allow => self.send(core, datagram, packet),
            Verdict::Deny => core.answer(packet, Why::Port),
            Verdict::Hold => self.held.take(core, datagram),
            Verdict::Ask => self.wait(packet),
        }
        if !self.sweeping {
            self.sweeping = true;
            core.timers
                .set(core.now + SWEEP, Token::only(Kind::Datagrams));
        }
    }

    /// Whether some wait for the addresses of a name.
    pub(crate) fn are_resolving(&self) -> bool {
        !self.waiting.is_empty() && self.resolved.values().any(Vec::is_empty)
    }

    /// Policy or names have changed: what waits may go on.
    pub(crate) fn reconsider(&mut self, core: &mut Core) {
        for packet in std::mem::take(&mut self.waiting) {
            if let packet::Packet::Datagram(datagram) = packet::parse(&packet) {
                self.take(core, &datagram, &packet);
            }
        }
    }

    /// A name was resolved.
    pub(crate) fn resolved(
        &mut self,
        core: &mut Core,
        name: String,
        result: io::Result<Vec<IpAddr>>,
    ) {
        match result {
            Ok(addresses) if !addresses.is_empty() => {
                self.resolved.insert(name, addresses);
            }
            _ => {
                self.resolved.remove(&name);
                let to_it = |packet: &Vec<u8>| match packet::parse(packet) {
                    packet::Packet::Datagram(one) => {
                        let known = core.names.name_of(core.now, one.destination.ip());
                        known.is_some_and(|known| known == name)
                    }
                    _ => false,
                };
                let (failed, rest): (VecDeque<_>, _) = self.waiting.drain(..).partition(to_it);
                self.waiting = rest;
                for packet in failed {
                    core.answer(&packet, Why::Host);
                }
            }
        }
        self.reconsider(core);
    }

    /// Replies, or errors, have come to a socket.
    pub(crate) fn ready(&mut self, core: &mut Core, key: Key, flags: EventFlags) {
        let Some(source) = self.sources.get_mut(key) else {
            return;
        };
        source.last_used = core.now;
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
                    // An error that was told by the queue of errors, too.
                    Err(_) => return pass_errors(source, core),
                };
            let Ok(from) = SocketAddr::try_from(from) else {
                continue;
            };
            let from = known_as(source, from);
            let packet = packet::datagram(from, source.inside, &core.scratch.bytes()[..length]);
            if let Some(packet) = packet {
                core.send_packet(&packet);
            }
        }
    }

    /// Closes what is idle.
    pub(crate) fn sweep(&mut self, core: &mut Core) {
        self.sources.sweep(core);
        self.held.sweep(core);
        self.sweeping = !self.sources.is_empty() || !self.held.is_empty();
        if self.sweeping {
            core.timers
                .set(core.now + SWEEP, Token::only(Kind::Datagrams));
        }
    }

    /// What the delivery of held datagrams needs. Replies to them come to their source's socket.
    pub(crate) fn item(&mut self, core: &mut Core, pending: Pending) -> Item {
        let ends = self.held.begin_delivery(pending.hold);
        let socket = ends.and_then(|(source, _)| {
            let source = self.sources.of(core, source, || open(source)).ok()?;
            source.socket.try_clone().ok()
        });
        Item {
            is_open: ends.is_some(),
            pending,
            socket,
        }
    }

    /// Held datagrams were sent, or could not be.
    pub(crate) fn delivered(&mut self, core: &mut Core, delivered: &Delivered) {
        let Some((source, destination)) = self.held.end_delivery(core, delivered) else {
            return;
        };
        if let Ok(arrival) = &delivered.result
            && let Some(to) = arrival.to
            && let Some(source) = self.sources.find(source)
        {
            alias(source, to, destination);
        }
    }

    fn send(&mut self, core: &mut Core, datagram: &Datagram<'_>, packet: &[u8]) {
        let mut to = datagram.destination;
        if let Some(name) = core.names.name_of(core.now, to.ip()) {
            let family = |address: &&IpAddr| address.is_ipv4() == to.is_ipv4();
            match self.resolved.get(&name) {
                Some(addresses) if addresses.is_empty() => return self.wait(packet),
                Some(addresses) => match addresses.iter().find(family) {
                    Some(address) => to.set_ip(*address),
                    None => return core.answer(packet, Why::Host),
                },
                None => {
                    self.resolved.insert(name.clone(), Vec::new());
                    core.jobs.resolve(&name, Asker::Datagrams(name.clone()));
                    return self.wait(packet);
                }
            }
        }
        let inside = datagram.source;
        let Ok(source) = self.sources.of(core, inside, || open(inside)) else {
            // Out of descriptors: a datagram may get lost.
            return;
        };
        alias(source, to, datagram.destination);
        let sent = source.send(datagram.payload, to, || pass_errors(source, core));
        match sent {
            Ok(_) | Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR) => {}
            Err(Errno::NETUNREACH) => core.answer(packet, Why::Network),
            Err(Errno::ACCESS | Errno::PERM) => core.answer(packet, Why::Prohibited),
            Err(_) => core.answer(packet, Why::Host),
        }
    }

    fn wait(&mut self, packet: &[u8]) {
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(packet.to_vec());
        }
    }
}

fn open(inside: SocketAddr) -> io::Result<(OwnedFd, bool, Aliases)> {
    let socket = sockets::open(inside, SocketType::DGRAM, None)?;
    Ok((socket, inside.is_ipv6(), Aliases::new()))
}

/// Remembers that the program knows `to` by another address, if so.
fn alias(source: &mut Source, to: SocketAddr, known_as: SocketAddr) {
    if to != known_as {
        source.state.insert(to, known_as);
    }
}

fn known_as(source: &Source, address: SocketAddr) -> SocketAddr {
    source.state.get(&address).copied().unwrap_or(address)
}

/// Tells the program which of its datagrams did not arrive.
fn pass_errors(source: &Source, core: &Core) {
    let mut payload = [0; 512];
    while let Ok(Some(undelivered)) = next_undelivered(source.socket.as_fd(), &mut payload) {
        let why = match Errno::from_io_error(&undelivered.error) {
            Some(Errno::CONNREFUSED) => Why::Port,
            Some(Errno::NETUNREACH) => Why::Network,
            Some(Errno::ACCESS | Errno::PERM) => Why::Prohibited,
            // The path takes only smaller packets; the kernel knows by now and cuts them.
            Some(Errno::MSGSIZE) => continue,
            _ => Why::Host,
        };
        let to = known_as(source, undelivered.to);
        let length = undelivered.length.min(payload.len());
        if let Some(original) = packet::datagram(source.inside, to, &payload[..length]) {
            core.answer(&original, why);
        }
    }
}
