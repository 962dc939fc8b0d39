//! Clients that come, come again, and are given up.

use super::clients::Client;
use super::{Effect, Later, Link, Record, Server};
use crate::frame::{ClientKey, FORGET_MAX, PROTOCOL, Reason, ToClient, Welcome};
use crate::lease::ClientId;
use crate::object::Prefix;

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
            return self.part(link, Reason::Breach, effects);
        }
        let known = self.clients.find(key);
        let id = known.unwrap_or_else(|| {
            let prefix = Prefix(self.clients.next_prefix);
            let lease_ms = self.config.lease_ms;
            let id = self.clients.add(key, prefix, lease_ms, self.now);
            let record = Record::Came {
                client: key,
                prefix,
                lease_ms,
            };
            self.record(record, effects);
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
        let owed = self.leases.owed_by(id);
        self.carry_out(owed, effects);
        let nameless = self.nameless.iter().copied();
        let known: Vec<_> = nameless
            .filter(|object| self.leases.mode(id, *object).is_some())
            .collect();
        for part in known.chunks(FORGET_MAX) {
            self.send(id, ToClient::Nameless(part.to_vec()), effects);
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
            lease_ms: self.config.lease_ms.min(client.lease_ms),
            limits: self.config.limits.clone(),
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
        self.locks.forget_tried(|client| self.clients.heard(client));
        let owing = self.leases.owing().chain(self.locks.owing());
        let silent: Vec<_> = owing.filter(is_silent).collect();
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
        let clients = &self.clients.clients;
        let resending = || clients.iter().filter(|(_, client)| client.is_resending);
        // A client that was heard of lately is still sending its groups, or its kernel is still forgetting.
        let lease_ms = self.config.lease_ms;
        let is_heard = |client: &Client| client.heard.0 + lease_ms >= self.now.0;
        let may_come = self.now < ends && resending().next().is_some();
        if may_come || resending().any(|(_, client)| is_heard(client)) {
            return;
        }
        let late: Vec<_> = resending().map(|(id, _)| *id).collect();
        let has_late = !late.is_empty();
        for client in late {
            self.let_go(client, effects);
        }
        // Until then a crash would make the late clients known again. And the directory lacks what was sent again: nobody gives a
        // lease back behind that, so no lease is to show it, and no bytes are to be read, before it is made.
        let ends_with = &mut self.clients.grace_ends_with;
        if has_late || ends_with.is_none() {
            *ends_with = Some(self.recorded);
        }
        if *ends_with <= Some(self.applied) {
            self.clients.grace_ends = None;
            self.note_early_changes(effects);
            self.prepare_all(effects);
            self.grant_held_back(effects);
        }
    }

    /// Knows a client no more that was not heard of. What it had not sent is lost, and nobody has seen it.
    pub(super) fn let_go(&mut self, id: ClientId, effects: &mut Vec<Effect>) {
        if let Some(link) = self.forget_client(id, effects) {
            self.part(link, Reason::Expired, effects);
        }
    }

    /// Knows a client no more that has nothing more to say.
    pub(super) fn leave(&mut self, id: ClientId, effects: &mut Vec<Effect>) {
        if let Some(link) = self.forget_client(id, effects) {
            self.clients.closed(link);
            self.later(self.recorded, Later::Farewell(id, link), effects);
        }
    }

    /// Returns the connection that the client has.
    fn forget_client(&mut self, id: ClientId, effects: &mut Vec<Effect>) -> Option<Link> {
        let client = self.clients.remove(id)?;
        self.record(Record::Gone(client.key), effects);
        self.later.retain(|(_, later)| later.client() != Some(id));
        self.forget_asks(id, effects);
        self.forget_lock_attempts(id, effects);
        // Its leases are free when the changes that it had sent are in the directory, and when the record of its end is
        // durable. Otherwise a crash would make it known again, and it would go on as if it had kept its leases.
        self.later(self.recorded, Later::Expire(id), effects);
        client.link
    }
}
