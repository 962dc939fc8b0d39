//! Held datagrams: one hold for each sender and receiver.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use surmise_linux::network::gate::Protocol;
use surmise_outbox::{End, HoldId, Sender, Target};

use super::core::Core;
use super::deliver::Delivered;
use super::held::QUIET;
use super::interface::Event;
use super::poller::{Kind, Token};
use super::questions::Scope;
use super::slab::{Key, Slab};
use super::sources::IDLE;
use crate::packet::Datagram;

/// How many are held at once; datagrams of more senders or to more receivers are lost.
const HELD_MAX: usize = 4096;

/// How often a sender that was told to wait is looked at: that it has closed its socket is told to
/// nobody.
const LOOK: Duration = Duration::from_millis(500);

/// The held datagrams.
#[derive(Debug)]
pub(crate) struct HeldDatagrams {
    entries: Slab<Held>,
    by_ends: HashMap<(SocketAddr, SocketAddr), Key>,
    by_hold: HashMap<HoldId, Key>,
}

#[derive(Debug)]
struct Held {
    source: SocketAddr,
    destination: SocketAddr,
    hold: HoldId,
    target: Target,
    sender: Option<Sender>,
    inode: Option<u64>,
    bytes: u64,
    last_used: Instant,
    told: bool,
    /// When the next look is, if there is one.
    look_at: Option<Instant>,
}

impl HeldDatagrams {
    pub(crate) fn new() -> Self {
        Self {
            entries: Slab::new(),
            by_ends: HashMap::new(),
            by_hold: HashMap::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.len() == 0
    }

    /// Keeps a datagram. It is lost where the outbox has no room or has failed, as datagrams may be.
    pub(crate) fn take(&mut self, core: &mut Core, datagram: &Datagram<'_>) {
        if !core.outbox.has_room() || core.outbox.failed().is_some() {
            return;
        }
        let ends = (datagram.source, datagram.destination);
        let key = match self.by_ends.get(&ends) {
            Some(&key) => key,
            None if self.entries.len() >= HELD_MAX => return,
            None => self.begin(core, ends),
        };
        let held = self.entries.get_mut(key).expect("made or found just now");
        core.outbox.append(held.hold, datagram.payload);
        held.bytes += datagram.payload.len() as u64;
        held.last_used = core.now;
        held.settle(core);
        held.expect(core, key, QUIET);
    }

    /// It is time to look at a sender: does it wait for a reply?
    pub(crate) fn look(&mut self, core: &mut Core, key: Key) {
        let Some(held) = self.entries.get_mut(key) else {
            return;
        };
        if held.look_at.is_some_and(|at| at > core.now) {
            // An earlier look was asked for later.
            return;
        }
        held.look_at = None;
        let quiet_since = core.now.saturating_duration_since(held.last_used);
        if quiet_since < QUIET {
            return held.expect(core, key, QUIET - quiet_since);
        }
        let inode = core
            .attribution
            .inode(Protocol::Udp, held.source, held.destination);
        if inode.is_none() {
            // Its socket is closed; or the kernel can't tell, and then nobody is said to wait.
            return held.settle(core);
        }
        if !std::mem::replace(&mut held.told, true) {
            core.tell(Event::Waiting {
                hold: held.hold,
                target: held.target.clone(),
                sender: held.sender.clone(),
                bytes: held.bytes,
                inode: held.inode.unwrap_or(0),
            });
        }
        held.expect(core, key, LOOK);
    }

    /// Ends what nobody has sent to for long.
    pub(crate) fn sweep(&mut self, core: &mut Core) {
        for key in self.entries.keys() {
            let held = self.entries.get(key).expect("listed just now");
            if core.now.saturating_duration_since(held.last_used) > IDLE {
                self.end(core, key);
            }
        }
    }

    /// A hold is about to be sent; gives its ends, if it is one of these.
    pub(crate) fn begin_delivery(&mut self, hold: HoldId) -> Option<(SocketAddr, SocketAddr)> {
        let held = self.entries.get(*self.by_hold.get(&hold)?)?;
        Some((held.source, held.destination))
    }

    /// A hold was sent, or could not be: then what is sent from now on is another.
    pub(crate) fn end_delivery(
        &mut self,
        core: &Core,
        delivered: &Delivered,
    ) -> Option<(SocketAddr, SocketAddr)> {
        let key = *self.by_hold.get(&delivered.hold)?;
        let held = self.entries.get_mut(key)?;
        held.settle(core);
        let ends = (held.source, held.destination);
        if delivered.result.is_err() {
            self.end(core, key);
        }
        Some(ends)
    }

    /// What the hold is for.
    pub(crate) fn target(&self, hold: HoldId) -> Option<Target> {
        let held = self.entries.get(*self.by_hold.get(&hold)?)?;
        Some(held.target.clone())
    }

    /// Throws away what is held for a host.
    pub(crate) fn refuse(&mut self, core: &mut Core, scope: &Scope) {
        for key in self.entries.keys() {
            let held = self.entries.get(key).expect("listed just now");
            let Target::Udp(host, port) = &held.target else {
                continue;
            };
            if scope.covers(host, *port) {
                let hold = held.hold;
                self.end(core, key);
                // It was sent, or could not be kept: then there is nothing to drop.
                let _ = core.outbox.drop_hold(hold);
            }
        }
    }

    fn begin(&mut self, core: &mut Core, ends: (SocketAddr, SocketAddr)) -> Key {
        let (source, destination) = ends;
        let (sender, inode) = core.sender(Protocol::Udp, source, destination);
        let target = Target::Udp(core.host(destination.ip()), destination.port());
        let hold = core.outbox.hold(target.clone(), sender.clone());
        let key = self.entries.insert(Held {
            source,
            destination,
            hold,
            target,
            sender,
            inode,
            bytes: 0,
            last_used: core.now,
            told: false,
            look_at: None,
        });
        self.by_ends.insert(ends, key);
        self.by_hold.insert(hold, key);
        key
    }

    fn end(&mut self, core: &Core, key: Key) {
        if let Some(mut held) = self.entries.remove(key) {
            self.by_ends.remove(&(held.source, held.destination));
            self.by_hold.remove(&held.hold);
            core.outbox.finish(held.hold, End::Closed);
            held.settle(core);
        }
    }
}

impl Held {
    /// Who was told that the program waits is told that it doesn't.
    fn settle(&mut self, core: &Core) {
        if std::mem::replace(&mut self.told, false) {
            core.tell(Event::Settled { hold: self.hold });
        }
    }

    fn expect(&mut self, core: &mut Core, key: Key, rest: Duration) {
        let at = core.now + rest;
        if self.look_at.is_none_or(|before| at < before) {
            self.look_at = Some(at);
            let token = Token::new(Kind::HeldDatagrams, key);
            core.timers.set(at, token);
        }
    }
}
