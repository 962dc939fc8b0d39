//! The server of an export, as a pure state machine: told what came and what the disk has done, it says what to
//! send and what to put on disk.
//!
//! The tree is ahead of the disk. A group is checked and applied to the tree when it comes, goes into the log as one
//! record, and is decided once the record is durable. Then the shell makes the changes in the directory. A lease
//! leaves a client when the changes that it made under the lease are in the directory. So what one client shows,
//! no crash of the server takes back from another.

mod asks;
mod besides;
mod clients;
mod comings;
mod events;
mod foreign;
mod groups;
mod locks;
mod room;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};

use crate::errno::Errno;
use crate::frame::{DATA_BYTES_MAX, PROTOCOL, Reason, SHARE_MAX, ToClient, ToServer, Urgency};
use crate::lease::{ClientId, Leases, Mode, Move};
use crate::object::ObjectId;
use crate::piece::Digest;
use crate::tree::Tree;
use asks::Asks;
use clients::Clients;
pub use events::{Config, Effect, Event, Link, Loaded, Moment, Record};
use foreign::Foreign;
use locks::Locks;
use room::Room;

/// The server.
#[derive(Debug)]
pub struct Server {
    config: Config,
    tree: Tree,
    leases: Leases,
    locks: Locks,
    clients: Clients,
    asks: Asks,
    /// Objects that have no name and that a client knows.
    nameless: BTreeSet<ObjectId>,
    /// A record could not be made: nothing is promised any more.
    is_broken: bool,
    /// The newest record, and up to where records are durable and made.
    recorded: u64,
    durable: u64,
    applied: u64,
    /// What waits until records are made.
    later: VecDeque<(u64, Later)>,
    room: Room,
    foreign: Foreign,
    now: Moment,
}

#[derive(Debug)]
enum Later {
    Lower(ClientId, u64, ObjectId, Mode),
    Forget(ClientId, ObjectId),
    /// A client that is not known any more gives all back.
    Expire(ClientId),
    /// A client that has left hears that its changes are made.
    Farewell(ClientId, Link),
    Fetch {
        client: ClientId,
        request: u64,
        object: ObjectId,
        offset: u64,
        length: u32,
        urgency: Urgency,
        kept: Option<Digest>,
    },
    /// Nobody relies on what is known of the object.
    Renew(ObjectId),
}

impl Server {
    /// A server that starts with the log of an earlier one, or an empty one. All that the log says has been made in
    /// the directory.
    pub fn new(config: Config, log: impl IntoIterator<Item = Record>, now: Moment) -> Self {
        Self {
            tree: Tree::whole(config.limits.clone()),
            leases: Leases::default(),
            locks: Locks::default(),
            clients: Clients::recover(log, now, config.lease_ms),
            config,
            asks: Asks::default(),
            nameless: BTreeSet::new(),
            is_broken: false,
            recorded: 0,
            durable: 0,
            applied: 0,
            later: VecDeque::new(),
            room: Room::unknown(),
            foreign: Foreign::default(),
            now,
        }
    }

    /// Takes an event at a moment that is not before the last one's; appends what is to be done.
    pub fn event(&mut self, now: Moment, event: Event, effects: &mut Vec<Effect>) {
        self.now = self.now.max(now);
        if self.is_broken && !matches!(event, Event::Received(..)) {
            return;
        }
        match event {
            Event::Received(link, message) => self.receive(link, message, effects),
            Event::Closed(link) => self.clients.closed(link),
            Event::Loaded(object, outcome) => self.loaded(object, outcome, effects),
            Event::Read {
                client,
                request,
                object,
                offset,
                length,
                data,
            } => self.has_read((client, request), object, (offset, length), data, effects),
            Event::Space {
                client,
                request,
                space,
            } => {
                let message = match space {
                    Ok(space) => ToClient::Space { request, space },
                    Err(errno) => failed(request, self.config.root, errno),
                };
                self.send(client, message, effects);
            }
            Event::Durable(upto) => self.durable(upto, effects),
            Event::Applied(upto) => {
                self.applied = self.applied.max(upto);
                self.room.made(upto);
                self.go_on(effects);
            }
            Event::Changed(object) => self.changed(object, effects),
            Event::AnyChanged => self.any_changed(effects),
            Event::Unmade(key) => {
                if let Some(client) = self.clients.find(key) {
                    self.send(client, ToClient::Unmade, effects);
                }
            }
            Event::Broken => {
                self.is_broken = true;
                for link in self.clients.part_with_all() {
                    self.part(link, Reason::Stopped, effects);
                }
            }
            Event::Room(bytes) => self.room.is(bytes),
            Event::Tick => {}
        }
        self.expire(effects);
    }

    /// A log that says of the clients what all records so far have said, those included that are not durable. When these
    /// are made, it can take their place.
    pub fn condensed(&self) -> Vec<Record> {
        self.clients.condensed()
    }

    /// Whether any client may come again.
    pub fn knows_clients(&self) -> bool {
        !self.clients.clients.is_empty()
    }

    /// When time alone makes a difference next.
    pub fn wakes_at(&self) -> Option<Moment> {
        let owing = self.leases.owing().chain(self.locks.owing());
        let owing = owing.filter_map(|client| self.clients.heard(client));
        let expires = owing.map(|heard| Moment(heard.0 + self.config.lease_ms + 1));
        let grace = self.clients.grace_may_end(self.now, self.config.lease_ms);
        expires.chain(grace).min()
    }

    fn receive(&mut self, link: Link, message: ToServer, effects: &mut Vec<Effect>) {
        if self.is_broken {
            return self.part(link, Reason::Stopped, effects);
        }
        if let ToServer::Hello {
            protocol,
            client,
            prefix,
            decided,
        } = message
        {
            if protocol != PROTOCOL {
                return self.part(link, Reason::Protocol(PROTOCOL), effects);
            }
            return self.hello(link, client, prefix, decided, effects);
        }
        let Some(client) = self.clients.heard_on(link, self.now) else {
            return self.part(link, Reason::Breach, effects);
        };
        if !self.clients.queue(client, message) {
            return self.part(link, Reason::Breach, effects);
        }
        self.take_messages(client, effects);
    }

    fn take_message(&mut self, client: ClientId, message: ToServer, effects: &mut Vec<Effect>) {
        match message {
            ToServer::Hello { .. } => {}
            ToServer::Group {
                sequence,
                operations,
            } => self.group(client, sequence, operations, effects),
            ToServer::Perform {
                sequence,
                operation,
            } => self.group(client, sequence, vec![operation], effects),
            ToServer::Ask {
                request,
                wants,
                ahead,
            } => self.ask(client, request, wants, ahead, effects),
            ToServer::Explore {
                request,
                directory,
                most,
            } => self.explore(client, request, directory, most, effects),
            ToServer::Fetch {
                request,
                object,
                offset,
                length,
                urgency,
                kept,
            } => {
                let later = Later::Fetch {
                    client,
                    request,
                    object,
                    offset,
                    length: length.min(DATA_BYTES_MAX as u32),
                    urgency,
                    kept,
                };
                // What another client wrote before its lease came here is made by then.
                let upto = self.clients.last_record(client);
                self.later(upto, later, effects);
            }
            ToServer::Space { request } => effects.push(Effect::Space { client, request }),
            ToServer::Lower { recall, object, to } => {
                let upto = self.clients.last_record(client);
                self.later(upto, Later::Lower(client, recall, object, to), effects);
            }
            ToServer::Forget(objects) => self.forget(client, &objects, effects),
            ToServer::Share(objects) => self.share(client, &objects, effects),
            ToServer::Lock {
                request,
                object,
                attempt,
            } => self.lock(client, request, (object, attempt), effects),
            ToServer::Unwait { request } => self.unwait(client, request, effects),
            ToServer::GiveLocks { object, held } => {
                self.take_locks(client, object, &held, effects);
            }
            ToServer::Locks(all) => self.state_locks(client, all, effects),
            ToServer::Bye => self.leave(client, effects),
            ToServer::Resent => self.resent(client, effects),
            ToServer::Ping { number, decided } => {
                self.clients.has_verdicts(client, decided);
                self.send(client, ToClient::Pong(number), effects);
            }
        }
    }

    fn forget(&mut self, client: ClientId, objects: &[ObjectId], effects: &mut Vec<Effect>) {
        let upto = self.clients.last_record(client);
        for object in objects {
            // Another could be on its way to the client as part of a listing.
            if self.nameless.contains(object) {
                self.later(upto, Later::Forget(client, *object), effects);
            }
        }
    }

    fn share(&mut self, client: ClientId, objects: &[ObjectId], effects: &mut Vec<Effect>) {
        let upto = self.clients.last_record(client);
        for object in objects.iter().take(SHARE_MAX) {
            // From here on the client gets no lease to change the object, so none is on its way when this one goes.
            if let Some(recall) = self.leases.give_unasked(client, *object) {
                let lower = Later::Lower(client, recall, *object, Mode::Read);
                self.later(upto, lower, effects);
            }
        }
    }

    fn record(&mut self, record: Record, effects: &mut Vec<Effect>) {
        self.recorded += 1;
        effects.push(Effect::Record(self.recorded, record));
    }

    fn durable(&mut self, upto: u64, effects: &mut Vec<Effect>) {
        self.durable = self.durable.max(upto);
        for (link, message) in self.clients.decide(self.durable) {
            effects.push(Effect::Send(link, message));
        }
        self.welcome(effects);
    }

    /// Does something once all records up to `upto` are made.
    fn later(&mut self, upto: u64, later: Later, effects: &mut Vec<Effect>) {
        self.later.push_back((upto, later));
        self.go_on(effects);
    }

    fn go_on(&mut self, effects: &mut Vec<Effect>) {
        let mut moves = Vec::new();
        let mut renewed = Vec::new();
        let mut waiting = VecDeque::new();
        for (upto, later) in std::mem::take(&mut self.later) {
            if upto > self.applied {
                waiting.push_back((upto, later));
                continue;
            }
            match later {
                Later::Lower(client, recall, object, to) => {
                    if to < Mode::Read {
                        self.asks.had.forget(client);
                    }
                    self.leases.lower(client, recall, object, to, &mut moves);
                }
                Later::Forget(client, object) => {
                    self.leases.forget(client, object, &mut moves);
                    self.forget_locks(client, object, effects);
                    self.drop_unknown(object, effects);
                }
                Later::Expire(client) => {
                    self.asks.had.forget(client);
                    self.leases.expire(client, &mut moves);
                    self.expire_locks(client, effects);
                    self.drop_all_unknown(effects);
                }
                Later::Renew(object) => renewed.push(object),
                Later::Farewell(_, link) => {
                    effects.push(Effect::Send(link, ToClient::Farewell(Reason::Left)));
                    effects.push(Effect::Close(link));
                }
                Later::Fetch {
                    client,
                    request,
                    object,
                    offset,
                    length,
                    urgency,
                    kept,
                } => {
                    if self.leases.mode(client, object) >= Some(Mode::Read) {
                        effects.push(Effect::Read {
                            client,
                            request,
                            object,
                            offset,
                            length,
                            urgency,
                            kept,
                        });
                    } else {
                        self.send(client, failed(request, object, Errno::STALE), effects);
                    }
                }
            }
        }
        self.later = waiting;
        self.carry_out(moves, effects);
        for object in renewed {
            self.renew(object, effects);
        }
    }

    fn drop_all_unknown(&mut self, effects: &mut Vec<Effect>) {
        for object in self.nameless.clone() {
            self.drop_unknown(object, effects);
        }
    }

    /// An object without a name lives as long as a client can name it.
    fn drop_unknown(&mut self, object: ObjectId, effects: &mut Vec<Effect>) {
        if !self.leases.is_known(object) && self.nameless.remove(&object) {
            self.tree.forget(object);
            effects.push(Effect::Drop(object));
        }
    }

    /// Notes an object that has lost its last name, and tells the clients that know it, since they may keep it needlessly.
    fn note_nameless(&mut self, object: ObjectId, effects: &mut Vec<Effect>) {
        let known = self.tree.get(object);
        if known.is_some_and(|known| known.attributes.links == 0) && self.nameless.insert(object) {
            for client in self.leases.knowing(object) {
                self.send(client, ToClient::Nameless(vec![object]), effects);
            }
        }
    }

    fn carry_out(&mut self, moves: Vec<Move>, effects: &mut Vec<Effect>) {
        for one in moves {
            match one {
                Move::Grant(ask) => self.grant(&ask, effects),
                Move::Recall {
                    recall,
                    client,
                    object,
                    to,
                } => {
                    let message = ToClient::Recall { recall, object, to };
                    self.send(client, message, effects);
                }
                Move::Revoked(object) => self.later(self.recorded, Later::Renew(object), effects),
            }
        }
    }

    /// Has nothing more to do with a connection.
    fn part(&mut self, link: Link, reason: Reason, effects: &mut Vec<Effect>) {
        self.clients.closed(link);
        effects.push(Effect::Send(link, ToClient::Farewell(reason)));
        effects.push(Effect::Close(link));
    }

    fn send(&self, client: ClientId, message: ToClient, effects: &mut Vec<Effect>) {
        // What a client without a connection does not get, it learns when it comes again.
        if let Some(link) = self.clients.link(client) {
            effects.push(Effect::Send(link, message));
        }
    }
}

impl Later {
    fn client(&self) -> Option<ClientId> {
        match self {
            Self::Lower(client, ..)
            | Self::Forget(client, _)
            | Self::Expire(client)
            | Self::Farewell(client, _)
            | Self::Fetch { client, .. } => Some(*client),
            Self::Renew(_) => None,
        }
    }
}

fn failed(request: u64, object: ObjectId, errno: Errno) -> ToClient {
    ToClient::Failed {
        request,
        object,
        errno,
    }
}
