//! Queries for names: the policy is about names, so they are read here and not relayed unseen.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketType};
use surmise_linux::network::gate::Protocol;

use super::core::Core;
use super::dns_streams::Streams;
use super::epochs::Piece;
use super::poller::{Kind, Token};
use super::slab::{Key, Slab};
use super::sockets::{self, Read};
use crate::names::{self, Kind as Wanted, Query};
use crate::packet::{self, Datagram};
use crate::peer::is_localhost;
use crate::policy::Verdict;

/// How long a nameserver has to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// How often each nameserver is asked.
const ATTEMPTS: usize = 2;

/// How many queries are under way at once; the askers of more ask again.
const QUERIES_MAX: usize = 1024;

/// How many queries wait for an answer of a person.
const WAITING_MAX: usize = 256;

/// A program asks again, or gives up, after less.
const WAITING_LIMIT: Duration = Duration::from_secs(30);

/// The type of queries for the names of addresses.
const POINTER: u16 = 12;

/// The proxy for names.
#[derive(Debug)]
pub(crate) struct Dns {
    servers: Vec<SocketAddr>,
    /// The proxy's own socket, where the host's nameserver is one on its loopback.
    socket: Option<OwnedFd>,
    queries: Slab<Forwarded>,
    waiting: Vec<Waiting>,
    pub(super) streams: Streams,
}

/// Who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// A datagram out of the TUN.
    Gate {
        inside: SocketAddr,
        server: SocketAddr,
    },
    /// A datagram to the proxy's own socket.
    Proxy(SocketAddr),
    /// A connection, and its ends.
    Stream(Key, (SocketAddr, SocketAddr)),
}

/// A query that a nameserver of the host was asked.
#[derive(Debug)]
struct Forwarded {
    asker: Asker,
    /// As it was asked inside.
    query: Query,
    /// As it is asked outside, under another number.
    own: Query,
    /// None for one over TCP, which a helper thread asks.
    socket: Option<OwnedFd>,
    attempt: usize,
    deadline: Instant,
}

#[derive(Debug)]
struct Waiting {
    asker: Asker,
    query: Query,
    since: Instant,
}

impl Dns {
    /// A proxy that asks `servers`, of which there is at least one.
    pub(crate) fn new(servers: Vec<SocketAddr>) -> Self {
        Self {
            servers,
            socket: None,
            queries: Slab::new(),
            waiting: Vec::new(),
            streams: Streams::new(),
        }
    }

    /// Serves the proxy's own sockets, too.
    ///
    /// # Errors
    /// As `epoll_ctl`.
    pub(crate) fn serve(
        &mut self,
        core: &Core,
        (socket, listener): (OwnedFd, OwnedFd),
    ) -> io::Result<()> {
        let token = Token::only(Kind::NamesDatagrams);
        core.poller.add(&socket, token, EventFlags::IN)?;
        self.socket = Some(socket);
        self.streams.listen(core, listener)
    }

    /// Takes a datagram to a nameserver that came out of the TUN.
    pub(crate) fn take(&mut self, core: &mut Core, datagram: &Datagram<'_>) {
        let asker = Asker::Gate {
            inside: datagram.source,
            server: datagram.destination,
        };
        self.ask(core, asker, datagram.payload);
    }

    /// Takes what came to the proxy's own socket.
    pub(crate) fn ready(&mut self, core: &mut Core) {
        let mut buffer = vec![0; 64 << 10];
        while let Some(socket) = &self.socket {
            match rustix::net::recvfrom(socket, &mut buffer[..], RecvFlags::empty()) {
                Ok((length, _, Some(from))) => {
                    if let Ok(from) = SocketAddr::try_from(from) {
                        self.take_query(core, Asker::Proxy(from), &buffer[..length]);
                    }
                }
                Ok((_, _, None)) | Err(Errno::INTR) => {}
                // EAGAIN, or the error of an earlier answer.
                Err(_) => return,
            }
        }
    }

    /// Reads what came on a connection.
    pub(crate) fn stream_ready(&mut self, core: &mut Core, key: Key, flags: EventFlags) {
        let Some(ends) = self.streams.ends(key) else {
            return;
        };
        for message in self.streams.ready(core, key, flags) {
            self.take_query(core, Asker::Stream(key, ends), &message);
        }
    }

    /// A nameserver has answered a datagram.
    pub(crate) fn answered(&mut self, core: &mut Core, key: Key) {
        loop {
            let Some(forwarded) = self.queries.get(key) else {
                return;
            };
            let Some(socket) = &forwarded.socket else {
                return;
            };
            match sockets::read(socket, core.scratch.bytes()) {
                Ok(Read::Nothing) => return,
                Ok(Read::Some(length)) => {
                    let message = core.scratch.bytes()[..length].to_vec();
                    if self.take_answer(core, key, message) {
                        return;
                    }
                }
                Ok(Read::End) => {}
                // Nobody has the port.
                Err(_) => return self.ask_next(core, key),
            }
        }
    }

    /// A nameserver has answered over TCP.
    pub(crate) fn answered_over_tcp(
        &mut self,
        core: &mut Core,
        key: Key,
        result: io::Result<Vec<u8>>,
    ) {
        let taken = result.is_ok_and(|message| self.take_answer(core, key, message));
        if !taken {
            self.ask_next(core, key);
        }
    }

    /// A nameserver has had its time.
    pub(crate) fn look(&mut self, core: &mut Core, key: Key) {
        let late = |one: &Forwarded| one.socket.is_some() && one.deadline <= core.now;
        if self.queries.get(key).is_some_and(late) {
            self.ask_next(core, key);
        }
    }

    /// Policy has changed: what waits may go on.
    pub(crate) fn reconsider(&mut self, core: &mut Core) {
        for waiting in std::mem::take(&mut self.waiting) {
            if core.now.saturating_duration_since(waiting.since) < WAITING_LIMIT {
                self.decide(core, waiting.asker, waiting.query, waiting.since);
            }
        }
    }

    /// Takes what was just read of a program.
    fn take_query(&mut self, core: &mut Core, asker: Asker, message: &[u8]) {
        let piece = || Piece::Query(asker, message.to_vec());
        if !core.waiting.takes(piece) {
            self.ask(core, asker, message);
        }
    }

    /// Takes a query that may leave.
    pub(super) fn ask(&mut self, core: &mut Core, asker: Asker, message: &[u8]) {
        match Query::parse(message) {
            Some(query) => self.decide(core, asker, query, core.now),
            None => {
                if let Some(error) = names::format_error(message) {
                    self.reply(core, asker, &error);
                }
            }
        }
    }

    fn decide(&mut self, core: &mut Core, asker: Asker, query: Query, since: Instant) {
        let question = query.question().clone();
        let (name, kind) = (question.name, question.kind);
        if is_localhost(&name) && kind != Wanted::Other(POINTER) {
            let here = ["127.0.0.1", "::1"].map(|address| address.parse().expect("an address"));
            return self.reply(core, asker, &query.addresses(&here));
        }
        let reverse = kind == Wanted::Other(POINTER) && name.ends_with(".arpa");
        if reverse && core.policy.decide_name(&name) == Verdict::Ask {
            // Programs ask so for every peer in their logs; a person would be asked for each.
            return self.reply(core, asker, &query.no_such_name());
        }
        let sender = |core: &mut Core| {
            let (protocol, inside, server) = match asker {
                Asker::Gate { inside, server } => (Protocol::Udp, inside, server),
                Asker::Proxy(inside) => (Protocol::Udp, inside, core.names_address()?),
                Asker::Stream(_, (inside, server)) => (Protocol::Tcp, inside, server),
            };
            core.sender(protocol, inside, server).0
        };
        match core.judge_name(&query, sender) {
            Verdict::Allow => self.forward(core, asker, query),
            Verdict::Deny => self.reply(core, asker, &query.refused()),
            Verdict::Hold => {
                let now = core.now;
                let address = match kind {
                    Wanted::V4 => core.names.synthetic(now, &name).map(Into::into),
                    Wanted::V6 | Wanted::Other(_) => None,
                };
                let exhausted = kind == Wanted::V4 && address.is_none();
                let reply = if exhausted {
                    query.failed()
                } else {
                    query.addresses(address.as_slice())
                };
                self.reply(core, asker, &reply);
            }
            Verdict::Ask => {
                let same =
                    |one: &Waiting| one.asker == asker && one.query.question() == query.question();
                self.waiting.retain(|one| !same(one));
                if self.waiting.len() < WAITING_MAX {
                    self.waiting.push(Waiting {
                        asker,
                        query,
                        since,
                    });
                }
            }
        }
    }

    fn forward(&mut self, core: &mut Core, asker: Asker, query: Query) {
        // A program that asks again has not got another question.
        let same = |one: &Forwarded| {
            one.asker == asker
                && one.query.id() == query.id()
                && one.query.question() == query.question()
        };
        if self.queries.iter().any(|(_, one)| same(one)) {
            return;
        }
        let mut id = [0; 2];
        let random = rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty());
        let own = Query::parse(&query.with_id(u16::from_ne_bytes(id)));
        let (Ok(_), Some(own)) = (random, own) else {
            return self.reply(core, asker, &query.failed());
        };
        if self.queries.len() >= QUERIES_MAX {
            return self.reply(core, asker, &query.failed());
        }
        let key = self.queries.insert(Forwarded {
            asker,
            query,
            own,
            socket: None,
            attempt: 0,
            deadline: core.now,
        });
        self.ask_server(core, key);
    }

    /// Asks the server whose turn it is.
    fn ask_server(&mut self, core: &mut Core, key: Key) {
        let servers = &self.servers;
        let forwarded = self.queries.get_mut(key).expect("the caller has met it");
        let server = servers[forwarded.attempt % servers.len()];
        let own = forwarded.own.with_id(forwarded.own.id());
        if matches!(forwarded.asker, Asker::Stream(..)) {
            return core.jobs.query(server, own, key);
        }
        forwarded.deadline = core.now + ANSWER_LIMIT;
        let token = Token::new(Kind::Query, key);
        core.timers.set(forwarded.deadline, token);
        let begin = || -> io::Result<OwnedFd> {
            // A new one each time: its port, chosen by the kernel, is as good as a second number.
            let socket = sockets::open(server, SocketType::DGRAM, None)?;
            rustix::net::connect(&socket, &server)?;
            rustix::net::send(&socket, &own, SendFlags::NOSIGNAL)?;
            core.poller.add(&socket, token, EventFlags::IN)?;
            Ok(socket)
        };
        match begin() {
            Ok(socket) => forwarded.socket = Some(socket),
            Err(_) => self.ask_next(core, key),
        }
    }

    fn ask_next(&mut self, core: &mut Core, key: Key) {
        let Some(forwarded) = self.queries.get_mut(key) else {
            return;
        };
        forwarded.socket = None;
        forwarded.attempt += 1;
        if forwarded.attempt < self.servers.len() * ATTEMPTS {
            return self.ask_server(core, key);
        }
        if let Some(forwarded) = self.queries.remove(key) {
            core.released_descriptors = true;
            self.reply(core, forwarded.asker, &forwarded.query.failed());
        }
    }

    /// Whether `message` answers the query; then it is passed on, and its addresses are remembered.
    fn take_answer(&mut self, core: &mut Core, key: Key, mut message: Vec<u8>) -> bool {
        let Some(forwarded) = self.queries.get(key) else {
            return true;
        };
        let Some(answer) = forwarded.own.read_answer(&message) else {
            return false;
        };
        let is_last = forwarded.attempt + 1 >= self.servers.len() * ATTEMPTS;
        if answer.failed && !is_last && self.servers.len() > 1 {
            self.ask_next(core, key);
            return true;
        }
        core.names.learn(core.now, &answer.names, &answer.addresses);
        let forwarded = self.queries.remove(key).expect("looked at just now");
        core.released_descriptors = true;
        message[..2].copy_from_slice(&forwarded.query.id().to_be_bytes());
        self.reply(core, forwarded.asker, &message);
        true
    }

    fn reply(&mut self, core: &mut Core, asker: Asker, message: &[u8]) {
        match asker {
            Asker::Gate { inside, server } => {
                if let Some(packet) = packet::datagram(server, inside, message) {
                    core.send_packet(&packet);
                }
            }
            Asker::Proxy(inside) => {
                if let Some(socket) = &self.socket {
                    // An answer may get lost.
                    let _ = rustix::net::sendto(socket, message, SendFlags::NOSIGNAL, &inside);
                }
            }
            Asker::Stream(key, _) => self.streams.send(core, key, message),
        }
    }
}
