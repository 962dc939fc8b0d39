//! Held output that is sent while its programs still run.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;

use surmise_outbox::{End, HoldId, Host, Pending, Target};

use super::core::Core;
use super::deliver::{Arrival, Delivered, Item, Plan};
use super::epochs;
use super::flow::Flow;
use super::held::{Held, HeldConnections, Upstream};
use super::interface::{Event, Released};
use super::poller::Registration;
use super::pump::Pump;
use super::questions::Scope;
use super::slab::Key;
use super::udp::Datagrams;

/// What becomes of a connection whose held output was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// Replies flow; what is sent from now on is held again.
    Hold,
    /// It is a relayed connection like others.
    Relay,
}

/// Which holds are to be sent.
#[derive(Clone, Debug)]
pub(crate) enum Selection {
    /// Those that a person has agreed to, in the order in which they are to leave.
    Agreed(Vec<HoldId>),
    /// Those for one host, which is allowed from now on.
    Covered(Scope),
}

/// The releases: one at a time, so that each sees what the one before it has left.
#[derive(Debug, Default)]
pub(crate) struct Releases {
    under_way: Option<Selection>,
    waiting: VecDeque<Selection>,
}

impl Selection {
    /// What of it is still to be sent, in its order, if it has one; who sends it is this relay.
    fn choose(&self, pending: Vec<Pending>) -> Vec<Pending> {
        let ours = pending
            .into_iter()
            .filter(|one| peer(&one.target).is_some());
        match self {
            Self::Agreed(holds) => {
                let mut ours: HashMap<_, _> = ours.map(|one| (one.hold, one)).collect();
                holds.iter().filter_map(|hold| ours.remove(hold)).collect()
            }
            Self::Covered(scope) => {
                let is_covered = |one: &Pending| {
                    peer(&one.target).is_some_and(|(host, port)| scope.covers(host, port))
                };
                ours.filter(is_covered).collect()
            }
        }
    }

    fn then(&self) -> Then {
        match self {
            Self::Agreed(_) => Then::Hold,
            Self::Covered(_) => Then::Relay,
        }
    }

    /// The caller that ordered a release waits for its end.
    fn tell(&self, core: &Core, released: Released) {
        if let Self::Agreed(_) = self {
            core.tell(Event::Released(released));
        }
    }
}

impl Releases {
    /// Sends the holds of `selection`, after those of selections before it.
    pub(crate) fn begin(
        &mut self,
        core: &mut Core,
        held: &mut HeldConnections,
        datagrams: &mut Datagrams,
        selection: Selection,
    ) {
        if self.under_way.is_some() {
            self.waiting.push_back(selection);
            return;
        }
        let chosen = selection.choose(core.outbox.pending());
        // By now: what is appended from here on waits for another release.
        let steps = match &selection {
            Selection::Agreed(_) => core.outbox.steps_in_order(&chosen),
            Selection::Covered(_) => {
                let holds: Vec<_> = chosen.iter().map(|one| one.hold).collect();
                core.outbox.allow(&holds);
                core.outbox.steps(chosen.iter())
            }
        };
        let items: Vec<_> = chosen
            .into_iter()
            .map(|pending| match pending.target {
                Target::Udp(..) => datagrams.item(core, pending),
                _ => held.item(core, pending, selection.then()),
            })
            .collect();
        if let Selection::Agreed(_) = selection {
            core.tell(Event::Releasing);
        }
        let plan = Plan {
            outbox: core.outbox.clone(),
            resolver: core.jobs.resolver.clone(),
            epochs: core.waiting.epochs().cloned(),
            items,
            steps,
        };
        let holds: Vec<_> = plan.items.iter().map(|item| item.pending.hold).collect();
        match core.jobs.deliver(plan) {
            Ok(()) => self.under_way = Some(selection),
            Err(error) => {
                core.outbox.keep(&holds);
                let failed = held.release_failed(core, &error.to_string());
                let sent = Vec::new();
                selection.tell(core, Released { sent, failed });
            }
        }
    }

    /// Whether something is being sent.
    pub(crate) fn are_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// A release is over; gives the one that waited for it.
    pub(crate) fn done(&mut self, core: &Core, released: Released) -> Option<Selection> {
        if let Some(selection) = self.under_way.take() {
            selection.tell(core, released);
        }
        self.waiting.pop_front()
    }
}

impl HeldConnections {
    /// What the delivery of a hold needs; nothing is read of its connection meanwhile.
    fn item(&mut self, core: &mut Core, pending: Pending, then: Then) -> Item {
        let key = self.by_hold.get(&pending.hold).copied();
        let Some(held) = key.and_then(|key| self.entries.get_mut(key)) else {
            return Item {
                pending,
                is_open: false,
                socket: None,
            };
        };
        held.delivering = Some(then);
        let is_open = !held.gone;
        let socket = held.upstream.take().map(|mut upstream| {
            upstream.registration.remove(&core.poller, &upstream.socket);
            held.earlier_replies = Some(upstream.replies);
            upstream.socket
        });
        if let Some(key) = key {
            self.register(core, key);
        }
        Item {
            pending,
            is_open,
            socket,
        }
    }

    /// A hold was sent, or could not be. Gives the connection that is relayed from now on.
    pub(crate) fn delivered(&mut self, core: &mut Core, delivered: Delivered) -> Option<Pump> {
        let key = *self.by_hold.get(&delivered.hold)?;
        let held = self.entries.get_mut(key)?;
        let then = held.delivering.take()?;
        match delivered.result {
            Ok(Arrival {
                socket: Some(socket),
                replies,
                ..
            }) => self.attach(core, key, then, (socket, replies)),
            // Nobody is there any more.
            Ok(_) => {
                self.remove(core, key);
                None
            }
            Err(_) => {
                if let Some(held) = self.remove(core, key) {
                    core.outbox.finish(held.hold, End::Reset);
                    held.reset(core);
                }
                None
            }
        }
    }

    fn attach(
        &mut self,
        core: &mut Core,
        key: Key,
        then: Then,
        (socket, more): (OwnedFd, Vec<u8>),
    ) -> Option<Pump> {
        let held = self.entries.get_mut(key)?;
        held.settle(core);
        let mut replies = held.earlier_replies.take().unwrap_or_default();
        replies.add(&more, &mut core.scratch);
        if then == Then::Hold && !held.ended {
            held.upstream = Some(Upstream {
                socket,
                registration: Registration::default(),
                replies,
            });
            self.register(core, key);
            return None;
        }
        let held = self.remove(core, key)?;
        let Held { client, ended, .. } = held;
        core.outbox.finish(held.hold, End::Closed);
        // Urgent bytes are passed on as such again. No error that matters.
        let _ = rustix::net::sockopt::set_socket_oobinline(&client, false);
        let outwards = if ended { Flow::over() } else { Flow::default() };
        Some(Pump::resume([client, socket], [outwards, replies]))
    }

    /// Connections that have ended after they were released, and have nothing more to send, pass on
    /// their end.
    pub(crate) fn pass_ends(&mut self, core: &mut Core) -> Vec<Pump> {
        let pending: Vec<_> = core.outbox.pending();
        let has_more = |held: &Held| pending.iter().any(|one| one.hold == held.hold);
        let ended = self.entries.iter().filter(|(_, held)| {
            held.ended && held.delivering.is_none() && held.upstream.is_some() && !has_more(held)
        });
        let keys: Vec<_> = ended.map(|(key, _)| key).collect();
        let mut pumps = Vec::new();
        for key in keys {
            let Some(mut held) = self.remove(core, key) else {
                continue;
            };
            // On the spot: the caller that orders a release waits for it anyway.
            if epochs::release(core.waiting.epochs()).is_err() {
                held.reset(core);
                continue;
            }
            if let Some(upstream) = held.upstream.take() {
                // Fails when the other side has closed, too.
                let _ = rustix::net::shutdown(&upstream.socket, rustix::net::Shutdown::Write);
                let sockets = [held.client, upstream.socket];
                pumps.push(Pump::resume(sockets, [Flow::over(), upstream.replies]));
            }
        }
        pumps
    }

    /// The keys of the connections to one host.
    pub(crate) fn covered(&self, scope: &Scope) -> Vec<Key> {
        let covered = self.entries.iter().filter(|(_, held)| match &held.target {
            Target::Tcp(host, port) => scope.covers(host, *port),
            _ => false,
        });
        covered.map(|(key, _)| key).collect()
    }

    fn release_failed(&mut self, core: &mut Core, error: &str) -> Vec<(Target, u64, String)> {
        let mut failed = Vec::new();
        for key in self.entries.keys() {
            let held = self.entries.get_mut(key).expect("listed just now");
            if held.delivering.take().is_some() {
                failed.push((held.target.clone(), 0, error.to_owned()));
                self.register(core, key);
            }
        }
        failed
    }
}

/// Host and port of what is held for somebody else.
pub(crate) fn peer(target: &Target) -> Option<(&Host, u16)> {
    match target {
        Target::Tcp(host, port) | Target::Udp(host, port) => Some((host, *port)),
        Target::Output | Target::Error | Target::Terminal => None,
    }
}
