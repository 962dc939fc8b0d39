//! Sends what is held, on a thread of its own.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, Shutdown, SocketType};
use rustix::time::Timespec;
use surmise_linux::mailbox;
use surmise_outbox::{End, HoldId, Host, Outbox, Pending, Step, Target};
use surmise_sync::Epochs;

use super::epochs;
use super::interface::{Message, Released};
use super::sockets::{self, Progress, Read};
use crate::resolver::Resolver;

/// How long a receiver has to take a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// How long a receiver may take nothing.
const SEND_LIMIT: Duration = Duration::from_secs(30);

/// How long the reply to a program that has ended is waited for before the next hold of its receiver.
const REPLY_LIMIT: Duration = Duration::from_secs(2);

/// How long the replies to programs that have ended are waited for in the end.
const DISCARD_LIMIT: Duration = Duration::from_secs(10);

/// How much of a reply is kept while more is being sent: a receiver that does not read on before its
/// reply is taken would wait for ever otherwise.
const REPLIES_MAX: usize = 16 << 20;

/// What is to be sent.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) outbox: Outbox,
    pub(crate) resolver: Resolver,
    pub(crate) epochs: Option<Epochs>,
    pub(crate) items: Vec<Item>,
    /// What is sent of them, in this order.
    pub(crate) steps: Vec<Step>,
}

/// One hold to be sent.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) pending: Pending,
    /// The program has the connection still open; it gets the replies.
    pub(crate) is_open: bool,
    /// An earlier release's socket; for datagrams, the one that the source's replies come to.
    pub(crate) socket: Option<OwnedFd>,
}

/// What has become of one hold.
#[derive(Debug)]
pub(crate) struct Delivered {
    pub(crate) hold: HoldId,
    pub(crate) result: Result<Arrival, String>,
}

/// One hold has been sent.
#[derive(Debug, Default)]
pub(crate) struct Arrival {
    /// The connection, where the program gets replies.
    pub(crate) socket: Option<OwnedFd>,
    /// Replies that have come meanwhile.
    pub(crate) replies: Vec<u8>,
    /// Where datagrams were sent to.
    pub(crate) to: Option<SocketAddr>,
}

/// A hold under way.
#[derive(Debug)]
struct Sending {
    item: Item,
    socket: OwnedFd,
    to: SocketAddr,
    replies: Vec<u8>,
    /// Bytes of the hold that have left.
    sent: u64,
}

impl Plan {
    /// Sends piece by piece. A hold's connection is made when its first piece is due:
    /// servers that take one connection after the other get one after the other.
    pub(crate) fn carry_out(self, mailer: &mailbox::Sender<Message>) {
        // After the steps were chosen: nothing that comes later is sent.
        if let Err(stopped) = epochs::release(self.epochs.as_ref()) {
            return self.fail(&stopped.to_string(), mailer);
        }
        let items = self.items.into_iter();
        let mut delivery = Delivery {
            outbox: self.outbox,
            resolver: self.resolver,
            mailer,
            released: Released::default(),
            waiting: items.map(|item| (item.pending.hold, item)).collect(),
            sending: HashMap::new(),
            stalled: HashSet::new(),
            discarded: HashMap::new(),
            silent: HashSet::new(),
        };
        let mut buffer = Vec::new();
        for step in self.steps {
            delivery.take(&step, &mut buffer);
        }
        let Delivery {
            released,
            discarded,
            ..
        } = delivery;
        mailer.send(Message::Released(released));
        let mut discarded = discarded.into_values().flatten().collect();
        discard_replies(&mut discarded, DISCARD_LIMIT);
    }

    /// Nothing is sent; it stays in the outbox.
    fn fail(self, error: &str, mailer: &mailbox::Sender<Message>) {
        let mut released = Released::default();
        let holds: Vec<_> = self.items.iter().map(|item| item.pending.hold).collect();
        self.outbox.keep(&holds);
        for Item { pending, .. } in self.items {
            let failed = (pending.target, 0, error.to_owned());
            released.failed.push(failed);
            mailer.send(Message::Delivered(Delivered {
                hold: pending.hold,
                result: Err(error.to_owned()),
            }));
        }
        mailer.send(Message::Released(released));
    }
}

struct Delivery<'a> {
    outbox: Outbox,
    resolver: Resolver,
    mailer: &'a mailbox::Sender<Message>,
    released: Released,
    /// Nothing of them has left.
    waiting: HashMap<HoldId, Item>,
    sending: HashMap<HoldId, Sending>,
    /// Receivers that did not take a connection in time; nobody waits for them again.
    stalled: HashSet<Target>,
    /// Connections of programs that have ended: their replies are for nobody.
    discarded: HashMap<Target, Vec<OwnedFd>>,
    /// Receivers that did not answer in time; nobody waits for them again before the next.
    silent: HashSet<Target>,
}

impl Delivery<'_> {
    fn take(&mut self, step: &Step, buffer: &mut Vec<u8>) {
        if let Some(item) = self.waiting.remove(&step.hold) {
            self.open(item);
        }
        // One that has failed is no longer there.
        let Some(sending) = self.sending.get_mut(&step.hold) else {
            return;
        };
        let sent = match &step.piece {
            Some(piece) => match self.outbox.read(piece, buffer) {
                Ok(()) => sending.send(buffer),
                Err(error) => Err(io::Error::other(error)),
            },
            None => Ok(()),
        };
        match sent {
            Ok(()) if step.is_last => self.complete(step.hold),
            Ok(()) => self.outbox.mark_left(step.hold, sending.sent),
            Err(error) => {
                // The hold then counts as interrupted, which is as bad and as true.
                let _ = self.outbox.mark_failed(step.hold, sending.sent, &error);
                self.give_up(step.hold, &error.to_string());
            }
        }
    }

    fn open(&mut self, mut item: Item) {
        let hold = item.pending.hold;
        self.await_earlier(&item.pending.target);
        match self.connection(&mut item) {
            Ok((socket, to)) => {
                let sent = item.pending.sent;
                let sending = Sending {
                    item,
                    socket,
                    to,
                    replies: Vec::new(),
                    sent,
                };
                self.sending.insert(hold, sending);
                if let Err(error) = self.outbox.mark_sending(&[hold]) {
                    self.give_up(hold, &error.to_string());
                }
            }
            Err(error) => {
                let target = item.pending.target;
                if error.kind() == io::ErrorKind::TimedOut {
                    self.stalled.insert(target.clone());
                }
                let error = error.to_string();
                self.released.failed.push((target, 0, error.clone()));
                if item.is_open {
                    // Its program sees the connection fail, and may try again.
                    let _ = self.outbox.drop_hold(hold);
                } else {
                    self.outbox.keep(&[hold]);
                }
                self.tell(hold, Err(error));
            }
        }
    }

    /// Waits until the receiver has answered the programs that have ended, so that it has seen them
    /// before it sees the next one, even if it takes several at once.
    fn await_earlier(&mut self, target: &Target) {
        if self.silent.contains(target) {
            return;
        }
        if let Some(before) = self.discarded.get_mut(target) {
            discard_replies(before, REPLY_LIMIT);
            if !before.is_empty() {
                self.silent.insert(target.clone());
            }
        }
    }

    fn connection(&self, item: &mut Item) -> io::Result<(OwnedFd, SocketAddr)> {
        match (item.socket.take(), &item.pending.target) {
            (None, target) if self.stalled.contains(target) => {
                let why = "its receiver took too long for an earlier one";
                Err(io::Error::new(io::ErrorKind::TimedOut, why))
            }
            (None, Target::Tcp(host, port)) => connect(&self.resolver, host, *port),
            (Some(socket), Target::Tcp(host, port)) => Ok((socket, unresolved(host, *port))),
            (socket, Target::Udp(host, port)) => {
                datagram_socket(&self.resolver, socket, host, *port)
            }
            (_, Target::Output | Target::Error | Target::Terminal) => {
                unreachable!("whoever plans a delivery takes none of these")
            }
        }
    }

    fn complete(&mut self, hold: HoldId) {
        let Some(mut sending) = self.sending.remove(&hold) else {
            return;
        };
        if let Err(error) = self.outbox.mark_sent(hold, sending.sent) {
            self.sending.insert(hold, sending);
            return self.give_up(hold, &error.to_string());
        }
        let pending = &sending.item.pending;
        let bytes = sending.sent - pending.sent;
        self.released.sent.push((pending.target.clone(), bytes));
        let mut arrival = Arrival::default();
        if pending.target.is_datagrams() {
            arrival.to = Some(sending.to);
        } else if pending.end == Some(End::Reset) {
            sockets::reset(sending.socket);
        } else {
            if pending.end == Some(End::Closed) {
                // Fails when the receiver has closed: then it needs no end.
                let _ = rustix::net::shutdown(&sending.socket, Shutdown::Write);
            }
            if sending.item.is_open {
                arrival.socket = Some(sending.socket);
                arrival.replies = std::mem::take(&mut sending.replies);
            } else {
                let target = pending.target.clone();
                self.discarded
                    .entry(target)
                    .or_default()
                    .push(sending.socket);
            }
        }
        self.tell(hold, Ok(arrival));
    }

    fn give_up(&mut self, hold: HoldId, error: &str) {
        if let Some(sending) = self.sending.remove(&hold) {
            let pending = &sending.item.pending;
            let (target, sent) = (pending.target.clone(), sending.sent - pending.sent);
            self.released.failed.push((target, sent, error.to_owned()));
            sockets::reset(sending.socket);
            self.tell(hold, Err(error.to_owned()));
        }
    }

    fn tell(&self, hold: HoldId, result: Result<Arrival, String>) {
        // A relay that has ended needs no news.
        let delivered = Delivered { hold, result };
        self.mailer.send(Message::Delivered(delivered));
    }
}

impl Sending {
    /// Sends one piece.
    fn send(&mut self, piece: &[u8]) -> io::Result<()> {
        if self.item.pending.target.is_datagrams() {
            self.send_datagram(piece)?;
            self.sent += piece.len() as u64;
            return Ok(());
        }
        let mut rest = piece;
        while !rest.is_empty() {
            let written = sockets::write(&self.socket, rest)?;
            self.sent += written as u64;
            rest = &rest[written..];
            if !rest.is_empty() && written == 0 {
                self.wait()?;
            }
        }
        Ok(())
    }

    fn send_datagram(&self, piece: &[u8]) -> io::Result<()> {
        let send = || rustix::net::sendto(&self.socket, piece, SendFlags::NOSIGNAL, &self.to);
        // An error of an earlier datagram is told once; and a full queue empties itself.
        let deadline = Instant::now() + SEND_LIMIT;
        let mut told = false;
        loop {
            match send() {
                Ok(_) => return Ok(()),
                Err(Errno::AGAIN | Errno::NOBUFS) if Instant::now() < deadline => {
                    wait_for(&self.socket, PollFlags::OUT, Duration::from_millis(10))?;
                }
                Err(Errno::CONNREFUSED) if !told => told = true,
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Waits until more can be sent, and takes the replies that come meanwhile.
    fn wait(&mut self) -> io::Result<()> {
        let both = PollFlags::OUT | PollFlags::IN;
        let keeps = self.replies.len() < REPLIES_MAX;
        let wanted = if keeps { both } else { PollFlags::OUT };
        let ready = wait_for(&self.socket, wanted, SEND_LIMIT)?;
        if ready.is_empty() {
            return Err(Errno::TIMEDOUT.into());
        }
        if ready.contains(PollFlags::IN) {
            let mut buffer = vec![0; 64 << 10];
            match sockets::read(&self.socket, &mut buffer)? {
                Read::Some(length) if self.item.is_open => {
                    self.replies.extend_from_slice(&buffer[..length]);
                }
                Read::Some(_) | Read::Nothing => {}
                // The receiver says no more, but may still listen. Its end stays readable; so only
                // the room is waited for.
                Read::End => {
                    let ready = wait_for(&self.socket, PollFlags::OUT, SEND_LIMIT)?;
                    if ready.is_empty() {
                        return Err(Errno::TIMEDOUT.into());
                    }
                }
            }
        }
        Ok(())
    }
}

fn connect(resolver: &Resolver, host: &Host, port: u16) -> io::Result<(OwnedFd, SocketAddr)> {
    let mut failure = io::ErrorKind::HostUnreachable.into();
    for to in addresses(resolver, host, port)? {
        match connect_to(to) {
            Ok(socket) => return Ok((socket, to)),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn connect_to(to: SocketAddr) -> io::Result<OwnedFd> {
    let (socket, progress) = sockets::connect(to)?;
    if progress == Progress::UnderWay {
        let ready = wait_for(&socket, PollFlags::OUT, CONNECT_LIMIT)?;
        if ready.is_empty() {
            return Err(Errno::TIMEDOUT.into());
        }
        sockets::connected(&socket)?;
    }
    Ok(socket)
}

fn datagram_socket(
    resolver: &Resolver,
    socket: Option<OwnedFd>,
    host: &Host,
    port: u16,
) -> io::Result<(OwnedFd, SocketAddr)> {
    let addresses = addresses(resolver, host, port)?;
    let (socket, to) = match socket {
        Some(socket) => {
            let ipv4 = rustix::net::getsockname(&socket)?.address_family() == AddressFamily::INET;
            let to = addresses.into_iter().find(|to| to.is_ipv4() == ipv4);
            (Some(socket), to)
        }
        None => (None, addresses.into_iter().next()),
    };
    let to = to.ok_or(io::ErrorKind::HostUnreachable)?;
    let socket = socket.map_or_else(|| sockets::open(to, SocketType::DGRAM, None), Ok)?;
    Ok((socket, to))
}

fn addresses(resolver: &Resolver, host: &Host, port: u16) -> io::Result<Vec<SocketAddr>> {
    let addresses = match host {
        Host::Address(address) => vec![*address],
        Host::Name(name) => resolver.lookup(name)?,
    };
    let with_port = |address| SocketAddr::new(address, port);
    Ok(addresses.into_iter().map(with_port).collect())
}

/// For a connection that exists, whose address is of no interest.
fn unresolved(host: &Host, port: u16) -> SocketAddr {
    match host {
        Host::Address(address) => SocketAddr::new(*address, port),
        Host::Name(_) => SocketAddr::from(([0, 0, 0, 0], port)),
    }
}

/// Reads what comes until the receivers have closed, so that none of them sees a reset before it has
/// read all. Those are left that have not closed within `limit`.
fn discard_replies(sockets: &mut Vec<OwnedFd>, limit: Duration) {
    let deadline = Instant::now() + limit;
    let mut buffer = vec![0; 64 << 10];
    while !sockets.is_empty() && Instant::now() < deadline {
        let mut events: Vec<_> = sockets
            .iter()
            .map(|socket| PollFd::new(socket, PollFlags::IN))
            .collect();
        let pause = Timespec {
            tv_sec: 0,
            tv_nsec: 100_000_000,
        };
        // Fails only for lack of memory; then the next turn tries again.
        let _ = rustix::event::poll(&mut events, Some(&pause));
        drop(events);
        sockets.retain(|socket| {
            let read = sockets::read(socket, &mut buffer);
            matches!(read, Ok(Read::Some(_) | Read::Nothing))
        });
    }
}

fn wait_for(socket: &OwnedFd, wanted: PollFlags, limit: Duration) -> io::Result<PollFlags> {
    let limit = Timespec {
        tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    };
    let mut events = [PollFd::new(socket, wanted)];
    loop {
        match rustix::event::poll(&mut events, Some(&limit)) {
            Ok(_) => return Ok(events[0].revents()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}
