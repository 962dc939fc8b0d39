//! Locks of all clients' programs: who grants those on each object, and those that the server grants.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Effect, Moment, Server};
use crate::errno::Errno;
use crate::frame::ToClient;
use crate::lease::{ClientId, Mode};
use crate::locks::{Api, Attempt, How, LOCKS_MAX, Lock, Table, Verdict, WAITS_MAX};
use crate::object::ObjectId;

/// Every lock that a client has told of, and every attempt that is not answered.
#[derive(Debug, Default)]
pub(super) struct Locks {
    objects: BTreeMap<ObjectId, OfObject>,
    /// The objects on which an attempt waits.
    contended: BTreeSet<ObjectId>,
    /// What was asked before the clients of before a restart had the time to say what they hold.
    held_back: Vec<(ObjectId, Waiting)>,
    /// How many locks each client has here.
    counts: BTreeMap<ClientId, usize>,
    /// The clients whose locks have kept another from one without waiting for it, and when.
    tried: BTreeMap<ClientId, Moment>,
}

/// A client, and its number of a process or an open file.
type Owner = (ClientId, u64);

#[derive(Debug, Default)]
struct OfObject {
    /// Empty while there is a master.
    table: Table<Owner>,
    /// The client that grants these locks.
    master: Option<Master>,
    /// In the order in which they came.
    waiting: VecDeque<Waiting>,
    /// The clients whose locks another's attempt waits for.
    blockers: BTreeSet<ClientId>,
}

#[derive(Debug)]
struct Master {
    client: ClientId,
    /// Whether it was asked to give the locks back.
    is_recalled: bool,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    client: ClientId,
    request: u64,
    attempt: Attempt,
}

impl OfObject {
    /// Whether no other client has or wants a lock.
    fn is_only_of(&self, client: ClientId) -> bool {
        let mut owners = self.table.owners();
        let mut waiting = self.waiting.iter();
        owners.all(|(one, _)| one == client) && waiting.all(|one| one.client == client)
    }

    /// The lock of another owner that is in the way, and whose it is.
    fn obstacle(&self, one: &Waiting) -> Option<(ClientId, Lock)> {
        let owner = (one.client, one.attempt.owner);
        let mut obstacles = self.table.obstacles(owner, &one.attempt);
        let ((client, _), lock) = obstacles.next()?;
        let process = match client == one.client {
            true => lock.process,
            // Its number means nothing on another machine.
            false => 0,
        };
        Some((client, Lock { process, ..lock }))
    }

    fn blockers(&self) -> BTreeSet<ClientId> {
        let master = self.master.iter().map(|master| master.client);
        let waiting = self.waiting.iter().flat_map(|one| self.blockers_of(one));
        waiting.chain(master).collect()
    }

    fn blockers_of(&self, one: &Waiting) -> BTreeSet<ClientId> {
        let owner = (one.client, one.attempt.owner);
        let owners = self.table.obstacles(owner, &one.attempt);
        let clients = owners.map(|((client, _), _)| client);
        clients.filter(|client| *client != one.client).collect()
    }
}

impl Locks {
    /// The clients that keep another's attempt waiting, or kept it from a lock while they were silent.
    pub(super) fn owing(&self) -> impl Iterator<Item = ClientId> + '_ {
        let contended = self.contended.iter();
        let objects = contended.filter_map(|object| self.objects.get(object));
        let blockers = objects.flat_map(|of| of.blockers.iter().copied());
        blockers.chain(self.tried.keys().copied())
    }

    /// Clients that were heard of since are asked again.
    pub(super) fn forget_tried(&mut self, heard: impl Fn(ClientId) -> Option<Moment>) {
        self.tried
            .retain(|client, at| heard(*client).is_some_and(|heard| heard < *at));
    }

    fn set(&mut self, object: ObjectId, client: ClientId, attempt: &Attempt) {
        let table = &mut self.objects.entry(object).or_default().table;
        let before = table.count();
        table.set((client, attempt.owner), attempt);
        let after = table.count();
        let count = self.counts.entry(client).or_default();
        *count = *count + after - before;
    }

    fn count(&self, client: ClientId) -> usize {
        self.counts.get(&client).copied().unwrap_or_default()
    }

    fn lift_all(&mut self, object: ObjectId, client: ClientId) {
        if let Some(of) = self.objects.get_mut(&object) {
            let lifted = of.table.lift_all(|(one, _)| one == client);
            if let Some(count) = self.counts.get_mut(&client) {
                *count -= lifted;
            }
        }
    }

    fn waits_of(&self, client: ClientId) -> usize {
        let held_back = self.held_back.iter().map(|(_, one)| one.client);
        let objects = self.contended.iter().filter_map(|id| self.objects.get(id));
        let waiting = objects.flat_map(|of| of.waiting.iter().map(|one| one.client));
        held_back
            .chain(waiting)
            .filter(|one| *one == client)
            .count()
    }

    /// Takes an attempt out that is not answered.
    fn take_waiting(&mut self, client: ClientId, request: u64) -> Option<ObjectId> {
        let is_it = |one: &Waiting| (one.client, one.request) == (client, request);
        if let Some(at) = self.held_back.iter().position(|(_, one)| is_it(one)) {
            return Some(self.held_back.remove(at).0);
        }
        let found = self.contended.iter().find_map(|object| {
            let waiting = &self.objects.get(object)?.waiting;
            Some((*object, waiting.iter().position(is_it)?))
        });
        let (object, at) = found?;
        self.objects.get_mut(&object)?.waiting.remove(at);
        Some(object)
    }

    /// Forgets what a client waits for. Returns the objects on which it waited, or has or grants locks.
    fn forget_waiting(&mut self, client: ClientId) -> Vec<ObjectId> {
        self.held_back.retain(|(_, one)| one.client != client);
        let mut touched = Vec::new();
        for (object, of) in &mut self.objects {
            let before = of.waiting.len();
            of.waiting.retain(|one| one.client != client);
            let is_master = of.master.as_ref().is_some_and(|one| one.client == client);
            let has_any = of.table.owners().any(|(one, _)| one == client);
            if of.waiting.len() < before || is_master || has_any {
                touched.push(*object);
            }
        }
        touched
    }
}

impl Server {
    /// A client's program wants a lock, or lifts one.
    pub(super) fn lock(
        &mut self,
        client: ClientId,
        request: u64,
        (object, attempt): (ObjectId, Attempt),
        effects: &mut Vec<Effect>,
    ) {
        let is_master = self.locks.objects.get(&object).is_some_and(|of| {
            let master = of.master.as_ref();
            master.is_some_and(|master| master.client == client)
        });
        let is_lifted = attempt.lifts() && !is_master;
        let refused = if attempt.first > attempt.last {
            Some(Errno::INVAL)
        } else if self.leases.mode(client, object).is_none() && !attempt.lifts() {
            Some(Errno::STALE)
        } else if !is_lifted && self.locks.waits_of(client) >= WAITS_MAX
            || self.locks.count(client) + 2 > LOCKS_MAX && !(attempt.lifts() && attempt.first == 0)
        {
            Some(Errno::NOLCK)
        } else {
            None
        };
        if let Some(errno) = refused {
            return self.say_locked(client, request, Err(errno), effects);
        }
        let one = Waiting {
            client,
            request,
            attempt,
        };
        if is_lifted {
            self.locks.set(object, client, &attempt);
            self.say_locked(client, request, Ok(Verdict::Done), effects);
            return self.settle_locks(object, effects);
        }
        if self.clients.is_in_grace() {
            return self.locks.held_back.push((object, one));
        }
        self.take_attempt(object, one, effects);
    }

    fn take_attempt(&mut self, object: ObjectId, one: Waiting, effects: &mut Vec<Effect>) {
        let of = self.locks.objects.entry(object).or_default();
        if of.master.is_some() || of.is_only_of(one.client) {
            of.waiting.push_back(one);
            return self.settle_locks(object, effects);
        }
        // What waits already waits for what has not changed.
        let earlier = std::mem::take(&mut of.waiting);
        of.waiting.push_back(one);
        let loosened = self.grant_locks(object, effects);
        let of = self.locks.objects.entry(object).or_default();
        let waits = std::mem::replace(&mut of.waiting, earlier);
        let waits_too = !waits.is_empty();
        of.waiting.extend(waits);
        if loosened {
            self.settle_locks(object, effects);
        } else if waits_too {
            self.note_waiting(object, Some(&one));
        }
    }

    /// A program waits no more.
    pub(super) fn unwait(&mut self, client: ClientId, request: u64, effects: &mut Vec<Effect>) {
        if let Some(object) = self.locks.take_waiting(client, request) {
            self.say_locked(client, request, Err(Errno::INTR), effects);
            self.settle_locks(object, effects);
        }
    }

    /// A master gives the locks on an object back.
    pub(super) fn take_locks(
        &mut self,
        client: ClientId,
        object: ObjectId,
        held: &[Lock],
        effects: &mut Vec<Effect>,
    ) {
        let of = self.locks.objects.get_mut(&object);
        let is_master =
            |of: &&mut OfObject| of.master.as_ref().is_some_and(|one| one.client == client);
        // It gave them back unasked, and was asked meanwhile.
        let Some(of) = of.filter(is_master) else {
            return;
        };
        of.master = None;
        let is_noted = self.note_locks(client, object, held);
        self.settle_locks(object, effects);
        if !is_noted {
            self.let_go(client, effects);
        }
    }

    /// A client that has come again states what its programs hold: nothing else that is known of it is so any more.
    pub(super) fn state_locks(
        &mut self,
        client: ClientId,
        all: Vec<(ObjectId, Vec<Lock>)>,
        effects: &mut Vec<Effect>,
    ) {
        let mut touched = self.locks.forget_waiting(client);
        for object in &touched {
            self.locks.lift_all(*object, client);
            if let Some(of) = self.locks.objects.get_mut(object) {
                of.master.take_if(|master| master.client == client);
            }
        }
        let mut is_noted = true;
        for (object, held) in all {
            touched.push(object);
            let noted = self.note_locks(client, object, &held);
            if noted && !held.is_empty() && self.clients.is_resending(client) {
                // It had a lease on the object before the restart.
                self.leases.offer(client, object, Mode::Know);
            }
            is_noted &= noted;
        }
        for object in touched {
            self.settle_locks(object, effects);
        }
        // An honest client states what it was granted.
        if !is_noted {
            self.let_go(client, effects);
        }
    }

    /// Notes what a client's programs hold. Whether nothing is in the way, and it is not too much.
    fn note_locks(&mut self, client: ClientId, object: ObjectId, held: &[Lock]) -> bool {
        for lock in held {
            let attempt = lock.attempt();
            let of = self.locks.objects.entry(object).or_default();
            let mut others = of.table.obstacles((client, attempt.owner), &attempt);
            let is_blocked = others.next().is_some();
            drop(others);
            if attempt.first > attempt.last
                || is_blocked
                || of.master.is_some()
                || self.locks.count(client) >= LOCKS_MAX
            {
                return false;
            }
            self.locks.set(object, client, &attempt);
        }
        true
    }

    /// Answers what can be answered of that which waits for locks on an object, in its order.
    fn settle_locks(&mut self, object: ObjectId, effects: &mut Vec<Effect>) {
        let Some(of) = self.locks.objects.get_mut(&object) else {
            return;
        };
        let first = of.waiting.front().copied();
        if let (Some(master), Some(_)) = (&mut of.master, first) {
            let is_others = |one: &Waiting| one.client != master.client;
            if !master.is_recalled && of.waiting.iter().any(is_others) {
                master.is_recalled = true;
                let client = master.client;
                self.send(client, ToClient::RecallLocks(object), effects);
            } else if !master.is_recalled {
                let client = master.client;
                self.make_master(object, client, effects);
            }
        } else if let Some(first) = first.filter(|first| of.is_only_of(first.client)) {
            self.make_master(object, first.client, effects);
        } else {
            while self.grant_locks(object, effects) {}
        }
        self.note_waiting(object, None);
    }

    /// Only this client has or wants locks on an object: it grants them, and what waits here is its to decide.
    fn make_master(&mut self, object: ObjectId, client: ClientId, effects: &mut Vec<Effect>) {
        self.locks.lift_all(object, client);
        let Some(of) = self.locks.objects.get_mut(&object) else {
            return;
        };
        of.master = Some(Master {
            client,
            is_recalled: false,
        });
        for one in std::mem::take(&mut of.waiting) {
            self.say_locked(client, one.request, Ok(Verdict::Yours), effects);
        }
    }

    /// Looks at all that waits once. Whether that took a lock from somebody, so that another may have one now.
    fn grant_locks(&mut self, object: ObjectId, effects: &mut Vec<Effect>) -> bool {
        let Some(of) = self.locks.objects.get_mut(&object) else {
            return false;
        };
        let mut loosened = false;
        for one in std::mem::take(&mut of.waiting) {
            let Some(of) = self.locks.objects.get_mut(&object) else {
                return false;
            };
            let attempt = one.attempt;
            let owner = (one.client, attempt.owner);
            let sets = attempt.how != How::Test;
            let held_any = sets && of.table.holds_any(owner, &attempt);
            let verdict = match of.obstacle(&one) {
                None if sets => {
                    loosened |= held_any;
                    self.locks.set(object, one.client, &attempt);
                    Verdict::Done
                }
                None => Verdict::Done,
                Some((blocker, lock)) => {
                    if held_any && attempt.api == Api::Flock {
                        // As flock(2) does it: the lock that it had goes first.
                        let hold = None;
                        let lifts = Attempt { hold, ..attempt };
                        self.locks.set(object, one.client, &lifts);
                        loosened = true;
                    }
                    if attempt.how == How::Wait {
                        let of = self.locks.objects.entry(object).or_default();
                        of.waiting.push_back(one);
                        continue;
                    }
                    self.note_tried(blocker, one.client);
                    Verdict::Blocked(lock)
                }
            };
            self.say_locked(one.client, one.request, Ok(verdict), effects);
        }
        loosened
    }

    /// A client whose lock another did not get is asked for a sign of life, too, if it has not given one for a while.
    fn note_tried(&mut self, blocker: ClientId, client: ClientId) {
        let heard = self.clients.heard(blocker);
        let is_late = heard.is_some_and(|heard| heard.0 + self.config.lease_ms / 2 < self.now.0);
        if is_late && blocker != client {
            self.locks.tried.insert(blocker, self.now);
        }
    }

    /// Notes whom that which waits for locks on an object waits for, if that may have changed for more than `last`.
    fn note_waiting(&mut self, object: ObjectId, last: Option<&Waiting>) {
        let locks = &mut self.locks;
        let Some(of) = locks.objects.get_mut(&object) else {
            return;
        };
        if of.waiting.is_empty() {
            locks.contended.remove(&object);
            of.blockers.clear();
            if of.master.is_none() && of.table.is_empty() {
                locks.objects.remove(&object);
            }
        } else {
            locks.contended.insert(object);
            match last {
                Some(last) => of.blockers.extend(of.blockers_of(last)),
                None => of.blockers = of.blockers(),
            }
        }
    }

    /// Every client of before the restart has said what it holds, or had the time to.
    pub(super) fn grant_held_back(&mut self, effects: &mut Vec<Effect>) {
        for (object, one) in std::mem::take(&mut self.locks.held_back) {
            self.take_attempt(object, one, effects);
        }
    }

    /// Drops what a client asked for that is not known any more.
    pub(super) fn forget_lock_attempts(&mut self, client: ClientId, effects: &mut Vec<Effect>) {
        for object in self.locks.forget_waiting(client) {
            self.settle_locks(object, effects);
        }
    }

    /// A client is not known any more: its programs hold nothing.
    pub(super) fn expire_locks(&mut self, client: ClientId, effects: &mut Vec<Effect>) {
        self.state_locks(client, Vec::new(), effects);
        self.locks.counts.remove(&client);
        self.locks.tried.remove(&client);
    }

    /// A client does not know an object any more.
    pub(super) fn forget_locks(
        &mut self,
        client: ClientId,
        object: ObjectId,
        effects: &mut Vec<Effect>,
    ) {
        let Some(of) = self.locks.objects.get_mut(&object) else {
            return;
        };
        of.master.take_if(|master| master.client == client);
        of.waiting.retain(|one| one.client != client);
        self.locks.lift_all(object, client);
        self.settle_locks(object, effects);
    }

    fn say_locked(
        &self,
        client: ClientId,
        request: u64,
        verdict: Result<Verdict, Errno>,
        effects: &mut Vec<Effect>,
    ) {
        self.send(client, ToClient::Locked { request, verdict }, effects);
    }
}
