//! Held connections: accepted at once; what they send goes to the outbox.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use surmise_linux::network::gate::Protocol;
use surmise_outbox::{End, HoldId, Sender, Target};

use super::core::Core;
use super::epochs;
use super::flow::Flow;
use super::interface::Event;
use super::poller::{Kind, Registration, Token};
use super::release::Then;
use super::slab::{Key, Slab};
use super::sockets::{self, Read};

/// A program that sent nothing for so long waits, probably for a reply.
pub(crate) const QUIET: Duration = Duration::from_millis(50);

/// How often a half-closed connection is looked at: its full close is told to nobody.
const HALF_CLOSED: Duration = Duration::from_millis(500);

/// How often one wakeup reads the same connection.
const ROUNDS: usize = 8;

/// The held connections.
#[derive(Debug)]
pub(crate) struct HeldConnections {
    pub(super) entries: Slab<Held>,
    pub(super) by_hold: HashMap<HoldId, Key>,
    /// Those that wait for the outbox.
    starved: Vec<Key>,
    room: Registration,
}

/// One held connection.
#[derive(Debug)]
pub(crate) struct Held {
    pub(super) client: OwnedFd,
    registration: Registration,
    source: SocketAddr,
    destination: SocketAddr,
    pub(super) hold: HoldId,
    pub(super) target: Target,
    sender: Option<Sender>,
    inode: Option<u64>,
    bytes: u64,
    /// The program has closed its side.
    pub(super) ended: bool,
    /// When to look whether the program waits.
    look_at: Option<Instant>,
    timer: bool,
    told: bool,
    /// The program is gone; what it sent after a release waits for the next one.
    pub(super) gone: bool,
    /// Replies that the program has not taken, while more is being sent.
    pub(super) earlier_replies: Option<Flow>,
    /// Where replies come from, once what was held has been sent.
    pub(super) upstream: Option<Upstream>,
    /// What was held is being sent; nothing is read meanwhile.
    pub(super) delivering: Option<Then>,
}

/// The outer end of a held connection that was released: replies flow in, nothing flows out.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(super) socket: OwnedFd,
    pub(super) registration: Registration,
    pub(super) replies: Flow,
}

/// Whether a connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    GoesOn,
    /// Its program has closed it.
    Closed,
    /// Its program has reset it, or its output could not be kept.
    Broken,
    /// Its receiver, which had got something by a release, has reset it.
    BrokenOutside,
}

impl HeldConnections {
    pub(crate) fn new() -> Self {
        Self {
            entries: Slab::new(),
            by_hold: HashMap::new(),
            starved: Vec::new(),
            room: Registration::default(),
        }
    }

    /// Holds what `client`, a connection from the first of two addresses to the other, sends.
    pub(crate) fn add(
        &mut self,
        core: &mut Core,
        client: OwnedFd,
        (source, destination): (SocketAddr, SocketAddr),
        (sender, inode): (Option<Sender>, Option<u64>),
    ) {
        // Urgent bytes are kept where they stand. No error that matters.
        let _ = rustix::net::sockopt::set_socket_oobinline(&client, true);
        let target = Target::Tcp(core.host(destination.ip()), destination.port());
        let hold = core.outbox.hold(target.clone(), sender.clone());
        let key = self.entries.insert(Held {
            client,
            registration: Registration::default(),
            source,
            destination,
            hold,
            target,
            sender,
            inode,
            bytes: 0,
            ended: false,
            look_at: None,
            timer: false,
            told: false,
            gone: false,
            earlier_replies: None,
            upstream: None,
            delivering: None,
        });
        self.by_hold.insert(hold, key);
        self.expect(core, key, QUIET);
        self.register(core, key);
    }

    /// Something came from the program, or it takes more.
    pub(crate) fn ready_inside(&mut self, core: &mut Core, key: Key, flags: EventFlags) {
        let Some(held) = self.entries.get_mut(key) else {
            return;
        };
        held.registration.saw(flags);
        let mut fate = Fate::GoesOn;
        if flags.contains(EventFlags::OUT)
            && let Some(upstream) = &mut held.upstream
            && upstream
                .replies
                .flush(&held.client, &mut core.scratch)
                .is_err()
        {
            fate = Fate::Broken;
        }
        let input = EventFlags::IN | EventFlags::HUP | EventFlags::RDHUP | EventFlags::ERR;
        if fate == Fate::GoesOn && flags.intersects(input) {
            fate = self.take_input(core, key);
        }
        self.settle_fate(core, key, fate);
    }

    /// A reply came, or its end.
    pub(crate) fn ready_outside(&mut self, core: &mut Core, key: Key, flags: EventFlags) {
        let Some(held) = self.entries.get_mut(key) else {
            return;
        };
        let Some(upstream) = &mut held.upstream else {
            return;
        };
        upstream.registration.saw(flags);
        let hung_up = flags.intersects(EventFlags::HUP | EventFlags::RDHUP);
        let forwarded =
            upstream
                .replies
                .forward(&upstream.socket, &held.client, hung_up, &mut core.scratch);
        let fate = if forwarded.is_ok() {
            Fate::GoesOn
        } else {
            Fate::BrokenOutside
        };
        self.settle_fate(core, key, fate);
    }

    /// The outbox takes more.
    pub(crate) fn resume(&mut self, core: &mut Core) {
        if !core.outbox.has_room() {
            return;
        }
        self.room.remove(&core.poller, core.outbox.room());
        for key in std::mem::take(&mut self.starved) {
            self.register(core, key);
        }
    }

    /// It is time to look at a connection: does its program wait?
    pub(crate) fn look(&mut self, core: &mut Core, key: Key) {
        let Some(held) = self.entries.get_mut(key) else {
            return;
        };
        held.timer = false;
        let Some(at) = held.look_at.filter(|_| held.delivering.is_none()) else {
            return;
        };
        if core.now < at {
            let rest = at - core.now;
            return self.expect(core, key, rest);
        }
        if self.starved.contains(&key) {
            // Not the program waits, but what it sent.
            return self.expect(core, key, QUIET);
        }
        held.look_at = None;
        if core.outbox.failed().is_some() {
            return self.settle_fate(core, key, Fate::Broken);
        }
        if held.ended {
            if !held.is_open_inside(core) {
                return self.settle_fate(core, key, Fate::Closed);
            }
            self.tell_waiting(core, key);
            return self.expect(core, key, HALF_CLOSED);
        }
        self.tell_waiting(core, key);
    }

    /// Takes in all that was sent, as long as it comes; says whether anything did.
    pub(crate) fn drain(&mut self, core: &mut Core) -> bool {
        let mut came = false;
        for key in self.entries.keys() {
            while let Some(held) = self.entries.get_mut(key) {
                if held.ended || held.delivering.is_some() {
                    break;
                }
                if !core.outbox.has_room() && core.outbox.flush().is_err() {
                    return false;
                }
                let before = held.bytes;
                let fate = self.take_input(core, key);
                self.settle_fate(core, key, fate);
                let now = self.entries.get(key);
                if now.is_none_or(|held| held.bytes == before) {
                    came |= now.is_none_or(|held| held.ended);
                    break;
                }
                came = true;
            }
        }
        came
    }

    /// What the hold is for.
    pub(crate) fn target(&self, hold: HoldId) -> Option<Target> {
        let held = self.entries.get(*self.by_hold.get(&hold)?)?;
        Some(held.target.clone())
    }

    /// Ends a connection, so that both sides see a reset; nothing of it is sent any more.
    pub(crate) fn refuse(&mut self, core: &mut Core, key: Key) {
        if let Some(held) = self.remove(core, key) {
            core.outbox.finish(held.hold, End::Reset);
            // It was sent, or could not be kept: then there is nothing to drop.
            let _ = core.outbox.drop_hold(held.hold);
            held.reset(core);
        }
    }

    /// Takes a connection out of the table; the poller forgets it, and who was told that its program
    /// waits is told that it doesn't.
    pub(super) fn remove(&mut self, core: &mut Core, key: Key) -> Option<Held> {
        let mut held = self.entries.remove(key)?;
        self.by_hold.remove(&held.hold);
        held.registration.remove(&core.poller, &held.client);
        if let Some(upstream) = &mut held.upstream {
            upstream.registration.remove(&core.poller, &upstream.socket);
        }
        held.settle(core);
        core.released_descriptors = true;
        Some(held)
    }

    /// Tells the poller what a connection waits for.
    pub(super) fn register(&mut self, core: &mut Core, key: Key) {
        let Some(held) = self.entries.get_mut(key).filter(|held| !held.gone) else {
            return;
        };
        let starved = self.starved.contains(&key);
        let mut inside = EventFlags::empty();
        if !held.ended && !starved && held.delivering.is_none() {
            inside |= EventFlags::IN | EventFlags::RDHUP;
        }
        let mut outside = None;
        if let Some(upstream) = &mut held.upstream {
            if upstream.replies.wants_output() {
                inside |= EventFlags::OUT;
            }
            let input = EventFlags::IN | EventFlags::RDHUP;
            let wants = upstream.replies.wants_input();
            let wanted = if wants { input } else { EventFlags::empty() };
            outside = Some((upstream, wanted));
        }
        let token = Token::new(Kind::HeldInside, key);
        let poller = &core.poller;
        let mut registered = held.registration.set(poller, &held.client, token, inside);
        if let Some((upstream, wanted)) = outside {
            let token = Token::new(Kind::HeldOutside, key);
            let set = upstream
                .registration
                .set(poller, &upstream.socket, token, wanted);
            registered = registered.and(set);
        }
        if registered.is_err() {
            self.break_off(core, key);
        }
    }

    fn take_input(&mut self, core: &mut Core, key: Key) -> Fate {
        let held = self.entries.get_mut(key).expect("the caller has met it");
        if held.ended || held.delivering.is_some() {
            return Fate::GoesOn;
        }
        for _ in 0..ROUNDS {
            if core.outbox.failed().is_some() {
                return Fate::Broken;
            }
            if !core.outbox.has_room() {
                self.starved.push(key);
                let token = Token::only(Kind::Room);
                let room = core.outbox.room();
                let set = self.room.set(&core.poller, room, token, EventFlags::IN);
                return set.map_or(Fate::Broken, |()| Fate::GoesOn);
            }
            let buffer = core.scratch.bytes();
            let size = buffer.len();
            match sockets::read(&held.client, buffer) {
                Ok(Read::Some(length)) => {
                    core.outbox.append(held.hold, &buffer[..length]);
                    held.bytes += length as u64;
                    held.settle(core);
                    held.look_at = Some(core.now + QUIET);
                    if length < size {
                        break;
                    }
                }
                Ok(Read::Nothing) => break,
                Ok(Read::End) => {
                    held.ended = true;
                    core.outbox.finish(held.hold, End::Closed);
                    if !held.is_open_inside(core) {
                        return Fate::Closed;
                    }
                    held.look_at = Some(core.now + QUIET);
                    break;
                }
                Err(_) => return Fate::Broken,
            }
        }
        if let Some(at) = held.look_at {
            let rest = at.saturating_duration_since(core.now);
            self.expect(core, key, rest);
        }
        Fate::GoesOn
    }

    fn settle_fate(&mut self, core: &mut Core, key: Key, fate: Fate) {
        match fate {
            Fate::GoesOn => self.register(core, key),
            Fate::Closed => self.close(core, key),
            Fate::Broken => self.break_off(core, key),
            // Its program sees so; what it sent since is for nobody.
            Fate::BrokenOutside => self.refuse(core, key),
        }
    }

    /// The program has closed the connection. What it sent after a release stays with the connection
    /// that its receiver knows.
    fn close(&mut self, core: &mut Core, key: Key) {
        let Some(held) = self.entries.get_mut(key) else {
            return;
        };
        let Some(upstream) = &mut held.upstream else {
            self.remove(core, key);
            return;
        };
        upstream.registration.remove(&core.poller, &upstream.socket);
        upstream.replies.forget(&mut core.scratch);
        held.registration.remove(&core.poller, &held.client);
        held.gone = true;
        held.settle(core);
    }

    /// The connection is broken: its program sees that, and so does a reader of the outbox.
    fn break_off(&mut self, core: &mut Core, key: Key) {
        let Some(held) = self.remove(core, key) else {
            return;
        };
        core.outbox.finish(held.hold, End::Reset);
        if let Some(error) = core.outbox.failed() {
            core.tell(Event::Lost {
                hold: held.hold,
                target: held.target.clone(),
                error: error.to_string(),
            });
        }
        held.reset(core);
    }

    fn tell_waiting(&mut self, core: &mut Core, key: Key) {
        let held = self.entries.get_mut(key).expect("the caller has met it");
        if !std::mem::replace(&mut held.told, true) {
            core.tell(Event::Waiting {
                hold: held.hold,
                target: held.target.clone(),
                sender: held.sender.clone(),
                bytes: held.bytes,
                inode: held.inode.unwrap_or(0),
            });
        }
    }

    /// Looks at the connection after `rest`, if nothing comes meanwhile.
    fn expect(&mut self, core: &mut Core, key: Key, rest: Duration) {
        let held = self.entries.get_mut(key).expect("the caller has met it");
        held.look_at = Some(core.now + rest);
        if !std::mem::replace(&mut held.timer, true) {
            let token = Token::new(Kind::HeldInside, key);
            core.timers.set(core.now + rest, token);
        }
    }
}

impl Held {
    /// Who was told that the program waits is told that it doesn't.
    pub(super) fn settle(&mut self, core: &Core) {
        if std::mem::replace(&mut self.told, false) {
            core.tell(Event::Settled { hold: self.hold });
        }
    }

    /// Both sides see a reset.
    pub(super) fn reset(self, core: &mut Core) {
        if let Some(mut upstream) = self.upstream {
            // It may be the program's doing, and that is output, too.
            let _ = epochs::release(core.waiting.epochs());
            upstream.replies.forget(&mut core.scratch);
            sockets::reset(upstream.socket);
        }
        if let Some(mut replies) = self.earlier_replies {
            replies.forget(&mut core.scratch);
        }
        sockets::reset(self.client);
    }

    /// Whether the program, which has closed its side, still has the socket open.
    pub(super) fn is_open_inside(&self, core: &Core) -> bool {
        let inode = core
            .attribution
            .inode(Protocol::Tcp, self.source, self.destination);
        inode.is_some()
    }
}
