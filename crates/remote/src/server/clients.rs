//! The clients of a server: who is there, and what each has been told of its groups.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use super::{Link, Moment, Record};
use crate::errno::Errno;
use crate::frame::{ClientKey, ToClient, ToServer};
use crate::lease::ClientId;
use crate::object::{ObjectId, Prefix};

/// Every client that is known.
#[derive(Debug, Default)]
pub(super) struct Clients {
    pub(super) clients: BTreeMap<ClientId, Client>,
    pub(super) keys: HashMap<ClientKey, ClientId>,
    pub(super) links: HashMap<Link, ClientId>,
    pub(super) next_id: u32,
    pub(super) next_prefix: u32,
    /// Until then the clients of before the restart may come again; meanwhile no question is answered.
    pub(super) grace_ends: Option<Moment>,
    /// Those that did not come are not known any more once this record is made.
    pub(super) grace_ends_with: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Client {
    pub(super) key: ClientKey,
    pub(super) prefix: Prefix,
    pub(super) link: Option<Link>,
    pub(super) heard: Moment,
    /// The last group that came.
    pub(super) received: u64,
    /// The last record that is about this client.
    pub(super) last_record: u64,
    /// Groups whose records are not durable, with these.
    pub(super) undecided: VecDeque<(u64, u64)>,
    /// The last group that was decided.
    pub(super) decided: u64,
    /// Groups that were refused, while the client may not know that: which operation was in the way, and why.
    pub(super) refused: BTreeMap<u64, (u32, Errno)>,
    /// The server was restarted since: the client has no leases, but had those for its undecided groups.
    pub(super) is_resending: bool,
    /// It waits for its welcome until this record is durable.
    pub(super) coming: Option<u64>,
    /// What it has sent and the server has not taken.
    pub(super) inbox: VecDeque<ToServer>,
    pub(super) inbox_bytes: usize,
    /// For how long it keeps its leases when it is not heard of, by the log.
    pub(super) lease_ms: u64,
    /// What has to be loaded before the first of these is taken, and what of it could not be.
    pub(super) missing: BTreeSet<ObjectId>,
    pub(super) unreadable: BTreeSet<ObjectId>,
    /// The last object that it has made.
    pub(super) made: Option<ObjectId>,
}

/// How many bytes of one client's messages may wait to be taken: more than a client has undecided.
const INBOX_BYTES_MAX: usize = 128 << 20;

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
        // A client relies on what it was told when it came.
        let mut longest_ms = lease_ms;
        for record in log {
            match record {
                Record::Came {
                    client: key,
                    prefix,
                    lease_ms,
                } => {
                    longest_ms = lease_ms.max(longest_ms);
                    let client = clients.add(key, prefix, lease_ms, now);
                    if let Some(client) = clients.clients.get_mut(&client) {
                        client.is_resending = true;
                    }
                }
                Record::Known {
                    client: key,
                    prefix,
                    lease_ms,
                    received,
                    made,
                    refused,
                } => {
                    longest_ms = lease_ms.max(longest_ms);
                    let id = clients.add(key, prefix, lease_ms, now);
                    if let Some(client) = clients.clients.get_mut(&id) {
                        let refused = refused.into_iter();
                        client.is_resending = true;
                        client.received = received;
                        client.made = made;
                        client.refused = refused
                            .map(|(sequence, index, errno)| (sequence, (index, errno)))
                            .collect();
                    }
                }
                Record::Prefixes(next) => clients.next_prefix = clients.next_prefix.max(next.0),
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
            clients.grace_ends = Some(Moment(now.0 + longest_ms));
        }
        clients
    }

    /// The shortest log that tells of the same clients.
    pub(super) fn condensed(&self) -> Vec<Record> {
        let known = self.clients.values().map(|client| Record::Known {
            client: client.key,
            prefix: client.prefix,
            lease_ms: client.lease_ms,
            received: client.received,
            made: client.made,
            refused: client
                .refused
                .iter()
                .map(|(sequence, (index, errno))| (*sequence, *index, *errno))
                .collect(),
        });
        let next = Record::Prefixes(Prefix(self.next_prefix));
        [next].into_iter().chain(known).collect()
    }

    pub(super) fn add(
        &mut self,
        key: ClientKey,
        prefix: Prefix,
        lease_ms: u64,
        now: Moment,
    ) -> ClientId {
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
            inbox_bytes: 0,
            lease_ms,
            missing: BTreeSet::new(),
            unreadable: BTreeSet::new(),
            made: None,
        };
        self.clients.insert(id, client);
        self.keys.insert(key, id);
        id
    }

    pub(super) fn remove(&mut self, client: ClientId) -> Option<Client> {
        let client = self.clients.remove(&client)?;
        self.keys.remove(&client.key);
        if let Some(link) = client.link {
            self.links.remove(&link);
        }
        Some(client)
    }

    pub(super) fn find(&self, key: ClientKey) -> Option<ClientId> {
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

    /// Whether the clients of before the restart may still come.
    pub(super) fn is_in_grace(&self) -> bool {
        self.grace_ends.is_some()
    }

    /// When time alone may end the grace.
    pub(super) fn grace_may_end(&self, now: Moment, lease_ms: u64) -> Option<Moment> {
        if self.grace_ends_with.is_some() {
            return None;
        }
        let resending = self.clients.values().filter(|client| client.is_resending);
        let heard = resending.map(|client| Moment(client.heard.0 + lease_ms + 1));
        self.grace_ends
            .map(|ends| ends.max(heard.max().unwrap_or(now)))
    }

    pub(super) fn closed(&mut self, link: Link) {
        if let Some(client) = self.links.remove(&link)
            && let Some(client) = self.clients.get_mut(&client)
        {
            client.link = None;
        }
    }

    /// Keeps a message until it is taken; whether there was room for it.
    pub(super) fn queue(&mut self, client: ClientId, message: ToServer) -> bool {
        match self.clients.get_mut(&client) {
            Some(client) if client.inbox_bytes < INBOX_BYTES_MAX => {
                client.inbox_bytes += message.bytes();
                client.inbox.push_back(message);
                true
            }
            _ => false,
        }
    }

    /// The last object that a client has made. It counts up, so that no id is given to two objects.
    pub(super) fn last_made(&self, client: ClientId) -> Option<ObjectId> {
        self.clients.get(&client)?.made
    }

    /// Ends all connections.
    pub(super) fn part_with_all(&mut self) -> Vec<Link> {
        let links = std::mem::take(&mut self.links).into_keys();
        let mut links: Vec<_> = links.collect();
        links.sort();
        for client in self.clients.values_mut() {
            client.link = None;
        }
        links
    }

    /// The next message to take; `None` while something has to be loaded first.
    pub(super) fn next_message(&mut self, client: ClientId) -> Option<ToServer> {
        let client = self.clients.get_mut(&client)?;
        if !client.missing.is_empty() {
            return None;
        }
        let message = client.inbox.pop_front()?;
        client.inbox_bytes -= message.bytes();
        Some(message)
    }

    /// Puts a message back until these have been loaded.
    pub(super) fn wait_for(
        &mut self,
        client: ClientId,
        message: ToServer,
        missing: BTreeSet<ObjectId>,
    ) {
        if let Some(client) = self.clients.get_mut(&client) {
            client.inbox_bytes += message.bytes();
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
            Record::Made {
                sequence,
                operations,
                ..
            } => {
                client.received = *sequence;
                let made = operations.iter().filter_map(|one| one.change.makes());
                client.made = client.made.max(made.max());
            }
            Record::Refused {
                sequence,
                index,
                errno,
                ..
            } => {
                client.received = *sequence;
                client.refused.insert(*sequence, (*index, *errno));
            }
            Record::Came { .. } | Record::Known { .. } | Record::Prefixes(_) | Record::Gone(_) => {}
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
    /// The verdicts of all decided groups after `after`, which is before the last of them; for a client with a
    /// connection.
    pub(super) fn verdicts(&self, after: u64) -> Vec<(Link, ToClient)> {
        let Some(link) = self.link else {
            return Vec::new();
        };
        let refused = self.refused.range(after + 1..=self.decided);
        let refused = refused.map(|(sequence, (index, errno))| ToClient::Refused {
            sequence: *sequence,
            index: *index,
            errno: *errno,
        });
        let all = refused.chain([ToClient::Decided { upto: self.decided }]);
        all.map(|message| (link, message)).collect()
    }
}
