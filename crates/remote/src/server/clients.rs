//! The clients of a server: who is there, and what each has been told of its groups.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use super::{Effect, Later, Link, Moment, Record, Server, part};
use crate::errno::Errno;
use crate::frame::{ClientKey, PROTOCOL, Reason, ToClient, ToServer, Welcome};
use crate::lease::ClientId;
use crate::object::{ObjectId, Prefix};

/// Every client that is known.
#[derive(Debug, Default)]
pub(super) struct Clients {
    clients: BTreeMap<ClientId, Client>,
    keys: HashMap<ClientKey, ClientId>,
    links: HashMap<Link, ClientId>,
    next_id: u32,
    next_prefix: u32,
    /// Until then the clients of before the restart may come again; meanwhile nobody gets a lease.
    grace_ends: Option<Moment>,
    /// Those that did not come are not known any more once this record is made.
    grace_ends_with: Option<u64>,
}

#[derive(Debug)]
struct Client {
    key: ClientKey,
    prefix: Prefix,
    link: Option<Link>,
    heard: Moment,
    /// The last group that came.
    received: u64,
    /// The last record that is about this client.
    last_record: u64,
    /// Groups whose records are not durable, with these.
    undecided: VecDeque<(u64, u64)>,
    /// The last group that was decided.
    decided: u64,
    /// Groups that were refused, while the client may not know that: which operation was in the way, and why.
    refused: BTreeMap<u64, (u32, Errno)>,
    /// The server was restarted since: the client has no leases, but had those for its undecided groups.
    is_resending: bool,
    /// It waits for its welcome until this record is durable.
    coming: Option<u64>,
    /// What it has sent and the server has not taken.
    inbox: VecDeque<ToServer>,
    /// What has to be loaded before the first of these is taken, and what of it could not be.
    missing: BTreeSet<ObjectId>,
    unreadable: BTreeSet<ObjectId>,
}

impl Clients {
    /// The clients that a log tells of.
    pub(super) fn recover(
        log: impl IntoIterator<Item = Record>,
        now: Moment,
        lease_ms: u64,
    ) -> Self {
        let mut clients = Self {
            next_prefix: 1,
            ..Self::default()
        };
        for record in log {
            match record {
                Record::Came(key, prefix) => {
                    let client = clients.add(key, prefix, now);
                    if let Some(client) = clients.clients.get_mut(&client) {
                        client.is_resending = true;
                    }
                }
                Record::Gone(key) => {
                    if let Some(client) = clients.find(key) {
                        clients.remove(client);
                    }
                }
                Record::Made { client: key, .. } | Record::Refused { client: key, .. } => {
                    if let Some(client) = clients.find(key) {
                        clients.received_group(client, &record, 0);
                    }
                }
            }
        }
        for client in clients.clients.values_mut() {
            client.decided = client.received;
            client.undecided.clear();
        }
        if !clients.clients.is_empty() {
            clients.grace_ends = Some(Moment(now.0 + lease_ms));
        }
        clients
    }

    fn add(&mut self, key: ClientKey, prefix: Prefix, now: Moment) -> ClientId {
        let id = ClientId(self.next_id);
        self.next_id += 1;
        self.next_prefix = self.next_prefix.max(prefix.0 + 1);
        let client = Client {
            key,
            prefix,
            link: None,
            heard: now,
            received: 0,
            last_record: 0,
            undecided: VecDeque::new(),
            decided: 0,
            refused: BTreeMap::new(),
            is_resending: false,
            coming: None,
            inbox: VecDeque::new(),
            missing: BTreeSet::new(),
            unreadable: BTreeSet::new(),
        };
        self.clients.insert(id, client);
        self.keys.insert(key, id);
        id
    }

    fn remove(&mut self, client: ClientId) -> Option<Client> {
        let client = self.clients.remove(&client)?;
        self.keys.remove(&client.key);
        if let Some(link) = client.link {
            self.links.remove(&link);
        }
        Some(client)
    }

    fn find(&self, key: ClientKey) -> Option<ClientId> {
        self.keys.get(&key).copied()
    }

    /// The client that speaks on a connection, which was heard just now.
    pub(super) fn heard_on(&mut self, link: Link, now: Moment) -> Option<ClientId> {
        let id = *self.links.get(&link)?;
        self.clients.get_mut(&id)?.heard = now;
        Some(id)
    }

    pub(super) fn heard(&self, client: ClientId) -> Option<Moment> {
        self.clients.get(&client).map(|client| client.heard)
    }

    pub(super) fn link(&self, client: ClientId) -> Option<Link> {
        self.clients.get(&client)?.link
    }

    pub(super) fn key(&self, client: ClientId) -> Option<ClientKey> {
        self.clients.get(&client).map(|client| client.key)
    }

    pub(super) fn prefix(&self, client: ClientId) -> Option<Prefix> {
        self.clients.get(&client).map(|client| client.prefix)
    }

    pub(super) fn received(&self, client: ClientId) -> u64 {
        self.clients
            .get(&client)
            .map_or(0, |client| client.received)
    }

    pub(super) fn last_record(&self, client: ClientId) -> u64 {
        self.clients
            .get(&client)
            .map_or(0, |client| client.last_record)
    }

    pub(super) fn is_resending(&self, client: ClientId) -> bool {
        self.clients
            .get(&client)
            .is_some_and(|client| client.is_resending)
    }

    pub(super) fn grace_ends(&self) -> Option<Moment> {
        self.grace_ends
    }

    pub(super) fn closed(&mut self, link: Link) {
        if let Some(client) = self.links.remove(&link)
            && let Some(client) = self.clients.get_mut(&client)
        {
            client.link = None;
        }
    }

    pub(super) fn queue(&mut self, client: ClientId, message: ToServer) {
        if let Some(client) = self.clients.get_mut(&client) {
            client.inbox.push_back(message);
        }
    }

    /// The next message to take; `None` while something has to be loaded first.
    pub(super) fn next_message(&mut self, client: ClientId) -> Option<ToServer> {
        let client = self.clients.get_mut(&client)?;
        if client.missing.is_empty() {
            client.inbox.pop_front()
        } else {
            None
        }
    }

    /// Puts a message back until these have been loaded.
    pub(super) fn wait_for(
        &mut self,
        client: ClientId,
        message: ToServer,
        missing: BTreeSet<ObjectId>,
    ) {
        if let Some(client) = self.clients.get_mut(&client) {
            client.inbox.push_front(message);
            client.missing = missing;
        }
    }

    /// A message was taken.
    pub(super) fn taken(&mut self, client: ClientId) {
        if let Some(client) = self.clients.get_mut(&client) {
            client.unreadable.clear();
        }
    }

    /// Whether the client's next message has to do without this object.
    pub(super) fn is_unreadable(&self, client: ClientId, object: ObjectId) -> bool {
        let client = self.clients.get(&client);
        client.is_some_and(|client| client.unreadable.contains(&object))
    }

    /// The clients of which messages can be taken again, since this object was loaded, or cannot be.
    pub(super) fn loaded(&mut self, object: ObjectId, is_there: bool) -> Vec<ClientId> {
        let mut ready = Vec::new();
        for (id, client) in &mut self.clients {
            if client.missing.remove(&object) {
                if !is_there {
                    client.unreadable.insert(object);
                }
                if client.missing.is_empty() {
                    ready.push(*id);
                }
            }
        }
        ready
    }

    /// Notes a group whose outcome is in the record of this number.
    pub(super) fn received_group(&mut self, client: ClientId, record: &Record, number: u64) {
        let Some(client) = self.clients.get_mut(&client) else {
            return;
        };
        match record {
            Record::Made { sequence, .. } => client.received = *sequence,
            Record::Refused {
                sequence,
                index,
                errno,
                ..
            } => {
                client.received = *sequence;
                client.refused.insert(*sequence, (*index, *errno));
            }
            Record::Came(..) | Record::Gone(_) => {}
        }
        client.last_record = number;
        client.undecided.push_back((number, client.received));
    }

    /// The client has every verdict up to this group.
    pub(super) fn has_verdicts(&mut self, client: ClientId, decided: u64) {
        if let Some(client) = self.clients.get_mut(&client) {
            client.refused = client.refused.split_off(&decided.saturating_add(1));
        }
    }

    /// What is to be told once all records up to `durable` are durable.
    pub(super) fn decide(&mut self, durable: u64) -> Vec<(Link, ToClient)> {
        let mut tell = Vec::new();
        for client in self.clients.values_mut() {
            let before = client.decided;
            while let Some((record, sequence)) = client.undecided.front().copied()
                && record <= durable
            {
                client.undecided.pop_front();
                client.decided = sequence;
            }
            if client.decided > before {
                tell.extend(client.verdicts(before));
            }
        }
        tell
    }
}

impl Client {
    /// The verdicts of all decided groups after `after`, for a client with a connection.
    fn verdicts(&self, after: u64) -> Vec<(Link, ToClient)> {
        let Some(link) = self.link else {
            return Vec::new();
        };
        let refused = self.refused.range(after + 1..=self.decided.max(after + 1));
        let refused = refused.filter(|(sequence, _)| **sequence <= self.decided);
        let refused = refused.map(|(sequence, (index, errno))| ToClient::Refused {
            sequence: *sequence,
            index: *index,
            errno: *errno,
        });
        let all = refused.chain([ToClient::Decided { upto: self.decided }]);
        all.map(|message| (link, message)).collect()
    }
}

impl Server {
    /// A client comes, or comes again.
    pub(super) fn hello(
        &mut self,
        link: Link,
        key: ClientKey,
        prefix: Option<Prefix>,
        decided: u64,
        effects: &mut Vec<Effect>,
    ) {
        if self.clients.links.contains_key(&link) {
            return part(link, Reason::Breach, effects);
        }
        let known = self.clients.find(key);
        let id = known.unwrap_or_else(|| {
            let prefix = Prefix(self.clients.next_prefix);
            let id = self.clients.add(key, prefix, self.now);
            self.record(Record::Came(key, prefix), effects);
            if let Some(client) = self.clients.clients.get_mut(&id) {
                // Before its ids are used, nobody else can be given the same.
                client.coming = Some(self.recorded);
            }
            id
        });
        self.clients.links.insert(link, id);
        let Some(client) = self.clients.clients.get_mut(&id) else {
            return;
        };
        client.heard = self.now;
        if let Some(old) = client.link.replace(link) {
            self.clients.links.remove(&old);
            effects.push(Effect::Close(old));
        }
        match client.coming {
            Some(_) => {}
            None if prefix == Some(client.prefix) => self.welcome_again(id, decided, effects),
            None => {
                // It missed its welcome, so it has nothing to send again.
                client.is_resending = false;
                self.send_welcome(id, false, effects);
                self.end_grace(effects);
            }
        }
    }

    /// Welcomes the new clients whose records are durable.
    pub(super) fn welcome(&mut self, effects: &mut Vec<Effect>) {
        let durable = self.durable;
        let mut new = Vec::new();
        for (id, client) in &mut self.clients.clients {
            if client.coming.take_if(|record| *record <= durable).is_some() {
                new.push(*id);
            }
        }
        for id in new {
            self.send_welcome(id, false, effects);
        }
    }

    fn welcome_again(&mut self, id: ClientId, decided: u64, effects: &mut Vec<Effect>) {
        self.clients.has_verdicts(id, decided);
        // It asks again for what it still needs.
        self.forget_asks(id, effects);
        self.send_welcome(id, true, effects);
        let Some(client) = self.clients.clients.get(&id) else {
            return;
        };
        if client.decided > decided {
            let verdicts = client.verdicts(decided).into_iter();
            effects.extend(verdicts.map(|(link, message)| Effect::Send(link, message)));
        }
        for (object, to) in self.leases.owed_by(id) {
            self.send(id, ToClient::Recall { object, to }, effects);
        }
    }

    fn send_welcome(&mut self, id: ClientId, is_known: bool, effects: &mut Vec<Effect>) {
        let Some(client) = self.clients.clients.get(&id) else {
            return;
        };
        let welcome = Welcome {
            protocol: PROTOCOL,
            is_known,
            has_leases: !client.is_resending,
            received: client.received,
            root: self.config.root,
            prefix: client.prefix,
            lease_ms: self.config.lease_ms,
            limits: self.config.limits,
        };
        self.send(id, ToClient::Welcome(welcome), effects);
    }

    /// A client has sent all that was undecided when the server was restarted.
    pub(super) fn resent(&mut self, client: ClientId, effects: &mut Vec<Effect>) {
        if let Some(client) = self.clients.clients.get_mut(&client) {
            client.is_resending = false;
        }
        self.end_grace(effects);
    }

    /// Expires the clients that others have waited for too long.
    pub(super) fn expire(&mut self, effects: &mut Vec<Effect>) {
        let is_silent = |client: &ClientId| {
            self.clients
                .heard(*client)
                .is_some_and(|heard| heard.0 + self.config.lease_ms < self.now.0)
        };
        let silent: Vec<_> = self.leases.owing().filter(is_silent).collect();
        for client in silent {
            self.let_go(client, effects);
        }
        self.end_grace(effects);
    }

    /// Gives leases again once every client of before the restart has come, or has had the time to.
    fn end_grace(&mut self, effects: &mut Vec<Effect>) {
        let Some(ends) = self.clients.grace_ends else {
            return;
        };
        let resending = |(id, client): (&ClientId, &Client)| client.is_resending.then_some(*id);
        let late: Vec<_> = self.clients.clients.iter().filter_map(resending).collect();
        if !late.is_empty() && self.now < ends {
            return;
        }
        if !late.is_empty() {
            for client in late {
                self.let_go(client, effects);
            }
            self.clients.grace_ends_with = Some(self.recorded);
        }
        // Until then a crash would make them known again.
        if self.clients.grace_ends_with <= Some(self.applied) {
            self.clients.grace_ends = None;
            self.prepare_all(effects);
        }
    }

    /// Knows a client no more. What it had not sent is lost, and nobody has seen it.
    fn let_go(&mut self, id: ClientId, effects: &mut Vec<Effect>) {
        let Some(client) = self.clients.remove(id) else {
            return;
        };
        self.record(Record::Gone(client.key), effects);
        if let Some(link) = client.link {
            part(link, Reason::Expired, effects);
        }
        self.later.retain(|(_, later)| later.client() != id);
        self.forget_asks(id, effects);
        // What it had sent is made first, as when it gives a lease back. And after a crash it is still forgotten, so
        // that it cannot go on as if it had kept its leases.
        self.later(self.recorded, Later::Expire(id), effects);
    }
}
