//! Who may rely on what: the server's table of leases.
//!
//! A lease is on one object. Any number of clients may hold it to read, or one to write; a writer may read, too. So no
//! client's copy is ever older than another's (the states of a cache line: Papamarcos and Patel, ISCA 1984; leases: Gray
//! and Cheriton, SOSP 1989). A client asks for all the leases that one operation needs at once, and gets them at
//! once. A holder always gives back what is recalled, whatever it waits for itself. So no client keeps what another needs
//! while it waits, and the queue's first ask is always granted in the end.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use serde::{Deserialize, Serialize};

use crate::object::ObjectId;

/// What a client may do with an object that it knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// Name it. What the client has kept of it may be out of date.
    Know,
    /// Rely on what it knows.
    Read,
    /// Change it as well: nobody else relies on it.
    Write,
}

impl Mode {
    /// Whether two clients may have these modes on one object.
    pub fn goes_with(self, other: Self) -> bool {
        self.max(other) < Self::Write || self.min(other) < Self::Read
    }

    /// The highest mode that goes with `other`.
    fn beside(other: Self) -> Self {
        match other {
            Self::Know => Self::Write,
            Self::Read => Self::Read,
            Self::Write => Self::Know,
        }
    }
}

/// One client of a server, as long as it is known there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u32);

/// Leases that a client needs together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// Who needs them.
    pub client: ClientId,
    /// The client's own number of this ask.
    pub request: u64,
    /// On which objects, and for what. Each object at most once.
    pub wants: Vec<(ObjectId, Mode)>,
}

/// What follows from an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Move {
    /// The client has all that it asked for.
    Grant(Ask),
    /// The client has to give a lease back, but for this mode.
    Recall {
        /// The number of the recall, for the answer.
        recall: u64,
        /// Who holds it.
        client: ClientId,
        /// On what.
        object: ObjectId,
        /// What is left to the client.
        to: Mode,
    },
    /// No client relies on what it knows of an object that was revoked, and none will before [`Leases::renewed`].
    Revoked(ObjectId),
}

/// Every lease, and every ask that waits.
#[derive(Debug, Clone, Default)]
pub struct Leases {
    held: HashMap<ObjectId, Holders>,
    waiting: VecDeque<Ask>,
    /// What was recalled and has not come back yet: the number of the recall, and what is left to the holder.
    recalled: BTreeMap<(ClientId, ObjectId), (u64, Mode)>,
    recalls: u64,
    /// Objects on which no lease is given until they are renewed.
    revoked: BTreeSet<ObjectId>,
}

/// Most objects have one holder.
#[derive(Debug, Clone)]
enum Holders {
    One([(ClientId, Mode); 1]),
    Many(Box<[(ClientId, Mode)]>),
}

impl Leases {
    /// What a client may do with an object; `None` if it does not know the object.
    pub fn mode(&self, client: ClientId, object: ObjectId) -> Option<Mode> {
        let holders = self.held.get(&object)?.all();
        let held = holders.iter().find(|(holder, _)| *holder == client)?;
        Some(held.1)
    }

    /// Whether any client may name the object.
    pub fn is_known(&self, object: ObjectId) -> bool {
        self.held.contains_key(&object)
    }

    /// The clients that have been asked for a lease and have not given it back.
    pub fn owing(&self) -> impl Iterator<Item = ClientId> + '_ {
        self.recalled.keys().map(|(client, _)| *client)
    }

    /// The recalls that a client has not answered.
    pub fn owed_by(&self, client: ClientId) -> Vec<Move> {
        let owed = self.recalled.iter();
        owed.filter(|((holder, _), _)| *holder == client)
            .map(|(&(client, object), &(recall, to))| Move::Recall {
                recall,
                client,
                object,
                to,
            })
            .collect()
    }

    /// The clients that know an object.
    pub fn knowing(&self, object: ObjectId) -> Vec<ClientId> {
        let holders = self.held.get(&object).map_or(&[][..], Holders::all);
        holders.iter().map(|(holder, _)| *holder).collect()
    }

    /// A client asks.
    pub fn ask(&mut self, ask: Ask, moves: &mut Vec<Move>) {
        self.waiting.push_back(ask);
        self.settle(moves);
    }

    /// A client that asked does not wait any more.
    pub fn withdraw(&mut self, client: ClientId, request: u64, moves: &mut Vec<Move>) {
        self.waiting
            .retain(|ask| (ask.client, ask.request) != (client, request));
        self.settle(moves);
    }

    /// Gives a lease that nobody asked for, if that takes nothing from anybody. Whether it was given.
    pub fn offer(&mut self, client: ClientId, object: ObjectId, mode: Mode) -> bool {
        let is_wanted = |ask: &Ask| {
            ask.client != client
                && ask
                    .wants
                    .iter()
                    .any(|(want, wanted)| *want == object && !wanted.goes_with(mode))
        };
        if self.waiting.iter().any(is_wanted)
            || self.revoked.contains(&object)
            || self.recalled.contains_key(&(client, object))
            || self.conflicts(client, object, mode).next().is_some()
        {
            return false;
        }
        self.raise(client, object, mode);
        true
    }

    /// A client makes an object: it alone knows it.
    pub fn made(&mut self, client: ClientId, object: ObjectId) {
        self.held
            .insert(object, Holders::One([(client, Mode::Write)]));
    }

    /// A client answers a recall: it gives a lease back, but for `to`. Another answer to the same recall, or to one that was
    /// overtaken by the next, changes nothing.
    pub fn lower(
        &mut self,
        client: ClientId,
        recall: u64,
        object: ObjectId,
        to: Mode,
        moves: &mut Vec<Move>,
    ) {
        let key = (client, object);
        let owed = self.recalled.get(&key);
        if owed.is_some_and(|(number, left)| *number == recall && to <= *left) {
            self.recalled.remove(&key);
            self.keep(client, object, Some(to));
            self.tell_revoked(object, moves);
            self.settle(moves);
        }
    }

    /// A client gives a lease back, but for reading, and was not asked to. Returns the number of the recall that this answers.
    pub fn give_unasked(&mut self, client: ClientId, object: ObjectId) -> Option<u64> {
        let key = (client, object);
        if self.mode(client, object) != Some(Mode::Write) || self.recalled.contains_key(&key) {
            return None;
        }
        self.recalls += 1;
        self.recalled.insert(key, (self.recalls, Mode::Read));
        Some(self.recalls)
    }

    /// Takes every lease on an object back, and says [`Move::Revoked`] once that is done.
    pub fn revoke(&mut self, object: ObjectId, moves: &mut Vec<Move>) {
        self.revoked.insert(object);
        let holders = self.held.get(&object).map_or(&[][..], Holders::all);
        let mut holders = holders.to_vec();
        holders.retain(|(_, mode)| *mode >= Mode::Read);
        for (holder, _) in holders {
            self.recall(holder, object, Mode::Know, moves);
        }
        self.tell_revoked(object, moves);
    }

    /// Leases on an object are given again.
    pub fn renewed(&mut self, object: ObjectId, moves: &mut Vec<Move>) {
        self.revoked.remove(&object);
        self.settle(moves);
    }

    fn tell_revoked(&self, object: ObjectId, moves: &mut Vec<Move>) {
        let holders = self.held.get(&object).map_or(&[][..], Holders::all);
        let is_free = holders.iter().all(|(_, mode)| *mode < Mode::Read);
        if is_free && self.revoked.contains(&object) {
            moves.push(Move::Revoked(object));
        }
    }

    /// A client does not know an object any more.
    pub fn forget(&mut self, client: ClientId, object: ObjectId, moves: &mut Vec<Move>) {
        self.recalled.remove(&(client, object));
        self.keep(client, object, None);
        self.tell_revoked(object, moves);
        self.settle(moves);
    }

    fn keep(&mut self, client: ClientId, object: ObjectId, to: Option<Mode>) {
        let Some(holders) = self.held.get_mut(&object) else {
            return;
        };
        let mut left = holders.all().to_vec();
        left.retain_mut(|(holder, mode)| {
            if *holder != client {
                return true;
            }
            *mode = to.map_or(*mode, |to| to.min(*mode));
            to.is_some()
        });
        match Holders::of(left) {
            Some(left) => *holders = left,
            None => {
                self.held.remove(&object);
            }
        }
    }

    /// A client is not known any more: it holds nothing and waits for nothing.
    pub fn expire(&mut self, client: ClientId, moves: &mut Vec<Move>) {
        self.held.retain(|_, holders| {
            let mut left = holders.all().to_vec();
            left.retain(|(holder, _)| *holder != client);
            match Holders::of(left) {
                Some(left) => {
                    *holders = left;
                    true
                }
                None => false,
            }
        });
        self.waiting.retain(|ask| ask.client != client);
        self.recalled.retain(|(holder, _), _| *holder != client);
        for object in &self.revoked {
            self.tell_revoked(*object, moves);
        }
        self.settle(moves);
    }

    /// Grants what can be granted, in the order of the asks, and recalls what is in the way of the others. An ask never
    /// overtakes an earlier one that wants the same object, so each is granted in the end.
    fn settle(&mut self, moves: &mut Vec<Move>) {
        let mut before: HashSet<(ObjectId, Mode)> = HashSet::new();
        let mut still_waiting = VecDeque::new();
        for ask in std::mem::take(&mut self.waiting) {
            let mut is_free = true;
            for &(object, mode) in &ask.wants {
                let has_earlier = [Mode::Read, Mode::Write]
                    .into_iter()
                    .any(|earlier| !earlier.goes_with(mode) && before.contains(&(object, earlier)));
                let conflicts: Vec<_> = self.conflicts(ask.client, object, mode).collect();
                // A client is not given what it still owes. It could not tell which of the two came first.
                let is_owed = self.recalled.contains_key(&(ask.client, object));
                let is_revoked = self.revoked.contains(&object);
                is_free &= !has_earlier && !is_owed && !is_revoked && conflicts.is_empty();
                for holder in conflicts {
                    self.recall(holder, object, Mode::beside(mode), moves);
                }
            }
            if is_free {
                for &(object, mode) in &ask.wants {
                    self.raise(ask.client, object, mode);
                }
                moves.push(Move::Grant(ask));
            } else {
                before.extend(ask.wants.iter().copied());
                still_waiting.push_back(ask);
            }
        }
        self.waiting = still_waiting;
    }

    fn recall(&mut self, client: ClientId, object: ObjectId, to: Mode, moves: &mut Vec<Move>) {
        let owed = self.recalled.get(&(client, object));
        if owed.is_none_or(|(_, left)| *left > to) {
            self.recalls += 1;
            let recall = self.recalls;
            self.recalled.insert((client, object), (recall, to));
            moves.push(Move::Recall {
                recall,
                client,
                object,
                to,
            });
        }
    }

    /// The other clients whose lease on the object does not go with this one.
    fn conflicts(
        &self,
        client: ClientId,
        object: ObjectId,
        mode: Mode,
    ) -> impl Iterator<Item = ClientId> + '_ {
        let holders = self.held.get(&object).map_or(&[][..], Holders::all);
        holders
            .iter()
            .filter(move |(holder, held)| *holder != client && !held.goes_with(mode))
            .map(|(holder, _)| *holder)
    }

    fn raise(&mut self, client: ClientId, object: ObjectId, mode: Mode) {
        let mut holders = self
            .held
            .get(&object)
            .map_or(Vec::new(), |holders| holders.all().to_vec());
        match holders.iter_mut().find(|(holder, _)| *holder == client) {
            Some((_, held)) => *held = mode.max(*held),
            None => holders.push((client, mode)),
        }
        self.held
            .extend(Holders::of(holders).map(|all| (object, all)));
    }
}

impl Holders {
    fn of(all: Vec<(ClientId, Mode)>) -> Option<Self> {
        match all[..] {
            [] => None,
            [one] => Some(Self::One([one])),
            _ => Some(Self::Many(all.into())),
        }
    }

    fn all(&self) -> &[(ClientId, Mode)] {
        match self {
            Self::One(one) => one,
            Self::Many(all) => all,
        }
    }
}
