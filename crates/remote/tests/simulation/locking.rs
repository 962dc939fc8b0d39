//! Programs that lock. What each believes to hold is kept byte by byte, and never goes against another's belief.

use std::collections::{BTreeMap, BTreeSet};

use surmise_lower::Timestamp;
use surmise_remote::client::{self, Request, Response, Token};
use surmise_remote::errno::Errno;
use surmise_remote::locks::{Api, Attempt, Hold, How};
use surmise_remote::object::ObjectId;

use crate::what::What;
use crate::world::World;

/// Bytes that are told apart; number [`BYTES`] stands for all behind them.
const BYTES: u64 = 6;
const OWNERS: u64 = 3;

/// A program: the session of its client, its number there, and by which call it locks.
type Program = (u64, u64, Api);

#[derive(Default)]
pub struct Locking {
    /// From the answer of the call that sets a lock until the call of the one that lifts it.
    held: BTreeMap<(ObjectId, u64, Program), Hold>,
    /// From the call that sets a lock until the answer of the one that lifts it.
    perhaps: Vec<Perhaps>,
    interrupted: BTreeSet<Token>,
    /// What programs of a client that was given up believe to hold, and have not been told.
    untold: BTreeSet<(usize, ObjectId, u64, Api)>,
    pub granted: u64,
    pub waited: u64,
    pub blocked: u64,
}

/// A lock that the server may have granted at a moment between these.
struct Perhaps {
    object: ObjectId,
    program: Program,
    attempt: Attempt,
    called: u64,
    ended: Option<u64>,
}

fn bytes(attempt: &Attempt) -> impl Iterator<Item = u64> + use<> {
    attempt.first..=attempt.last.min(BYTES)
}

fn goes_with(one: Hold, other: Hold) -> bool {
    (one, other) == (Hold::Shared, Hold::Shared)
}

impl Locking {
    pub fn holds(&self, session: u64, object: ObjectId) -> bool {
        let mut held = self.held.keys();
        held.any(|(one, _, program)| *one == object && program.0 == session)
    }

    fn holds_anything(&self, session: u64, owner: u64) -> bool {
        let mut held = self.held.keys();
        held.any(|(_, _, program)| (program.0, program.1) == (session, owner))
    }

    /// A program calls: it relies from now on on no more than the call leaves to it.
    fn called(&mut self, now: u64, object: ObjectId, program: Program, attempt: &Attempt) {
        if attempt.how == How::Test {
            return;
        }
        for byte in bytes(attempt) {
            let key = (object, byte, program);
            let left = match (self.held.remove(&key), attempt.hold) {
                (Some(held), Some(wanted)) if program.2 == Api::Fcntl || held == wanted => {
                    Some(held.min(wanted))
                }
                _ => None,
            };
            self.held.extend(left.map(|left| (key, left)));
        }
        if attempt.hold.is_some() {
            self.perhaps.push(Perhaps {
                object,
                program,
                attempt: *attempt,
                called: now,
                ended: None,
            });
        }
    }

    /// A program has its lock: nobody else has.
    fn granted(&mut self, object: ObjectId, program: Program, attempt: &Attempt, said: &str) {
        let Some(hold) = attempt.hold else {
            return;
        };
        for byte in bytes(attempt) {
            let others = self.held.range((object, byte, (0, 0, Api::Fcntl))..);
            let others = others.take_while(|((one, at, _), _)| (*one, *at) == (object, byte));
            for ((_, _, other), held) in others {
                let is_apart = *other == program || other.2 != program.2;
                assert!(
                    is_apart || goes_with(*held, hold),
                    "{said}: {other:?} has {held:?} on byte {byte}"
                );
            }
            self.held.insert((object, byte, program), hold);
        }
    }

    fn ended(&mut self, now: u64, object: ObjectId, program: Program, range: &Attempt) {
        for perhaps in &mut self.perhaps {
            let is_within =
                range.first <= perhaps.attempt.first && perhaps.attempt.last <= range.last;
            if perhaps.object == object && perhaps.program == program && is_within {
                perhaps.ended.get_or_insert(now);
            }
        }
    }

    /// Whether another's lock may have been in the way at a moment since `called`.
    fn was_blocked(
        &self,
        called: u64,
        object: ObjectId,
        program: Program,
        attempt: &Attempt,
    ) -> bool {
        self.perhaps.iter().any(|one| {
            let (mine, other) = (attempt, &one.attempt);
            one.object == object
                && one.program != program
                && one.program.2 == program.2
                && one.ended.is_none_or(|ended| ended >= called)
                && mine.first <= other.last
                && other.first <= mine.last
                && !(mine.hold == Some(Hold::Shared) && other.hold == Some(Hold::Shared))
        })
    }

    /// The server grants what a client's programs held to others, whether they know or not. Where they live, they are to be
    /// told.
    pub fn given_up(&mut self, session: u64, machine: Option<usize>) {
        let gone = self.held.keys().filter(|(.., one)| one.0 == session);
        let gone = gone.map(|(object, _, (_, owner, api))| (*object, *owner, *api));
        let untold = gone.filter_map(|(object, owner, api)| Some((machine?, object, owner, api)));
        self.untold.extend(untold);
        self.held.retain(|(_, _, program), _| program.0 != session);
    }

    pub fn told(&mut self, machine: usize) {
        self.untold.retain(|(one, ..)| *one != machine);
    }

    /// Whether all programs of this machine that have lost locks were told.
    pub fn all_told(&self, machine: usize) -> bool {
        self.untold.iter().all(|(one, ..)| *one != machine)
    }
}

impl World {
    /// What a program wants of a lock, if one has nothing else to do. A program that holds any does not wait for more: no two
    /// wait for each other.
    pub fn next_lock(&mut self, machine: usize) -> Option<Request> {
        let one = &self.machines[machine];
        let random = &mut self.random;
        let owner = random.u64(0..OWNERS);
        let is_busy = |(request, _): &(Request, _)| matches!(request, Request::Lock(_, attempt) if attempt.owner == owner);
        if one.calls.values().any(is_busy) {
            return None;
        }
        let seen: Vec<_> = one.seen.iter().copied().collect();
        let object = match random.bool() {
            true => self.root,
            false => random.choice(seen)?,
        };
        let api = random.choice([Api::Fcntl, Api::Flock])?;
        let first = random.u64(0..BYTES);
        let (first, last) = match api {
            Api::Flock => (0, u64::MAX),
            Api::Fcntl if random.bool() => (first, u64::MAX),
            Api::Fcntl => (first, random.u64(first..BYTES)),
        };
        let hold = random.choice([Hold::Shared, Hold::Exclusive, Hold::Exclusive]);
        let how = match random.u8(0..8) {
            0 => How::Test,
            1..=4 if !self.locking.holds_anything(one.session, owner) => How::Wait,
            _ => How::Try,
        };
        let hold = hold.filter(|_| how != How::Try || random.u8(0..4) > 0);
        let attempt = Attempt {
            api,
            owner,
            first,
            last,
            hold,
            how,
            process: 1,
        };
        Some(Request::Lock(object, attempt))
    }

    pub fn lock_called(&mut self, machine: usize, token: Token, request: &Request) {
        let Request::Lock(object, attempt) = request else {
            return;
        };
        let program = (self.machines[machine].session, attempt.owner, attempt.api);
        let key = (machine, *object, attempt.owner, attempt.api);
        if attempt.how != How::Test {
            // It may lift what it has lost, and then has lost nothing.
            self.locking.untold.remove(&key);
        }
        self.locking.called(self.now, *object, program, attempt);
        if self.random.u8(0..4) == 0 {
            let after = self.random.u64(0..150);
            self.at(after, What::Signal(machine, token));
        }
    }

    /// A signal comes for a program, which may be through with its call.
    pub fn signal(&mut self, machine: usize, token: Token) {
        let call = self.machines[machine].calls.get(&token);
        let Some((Request::Lock(_, attempt), _)) = call else {
            return;
        };
        // One that ends the program: nobody hears of the answer.
        let ends = attempt.lifts();
        if !ends || self.has_faults {
            self.locking.interrupted.insert(token);
            self.tell_client(machine, client::Event::Interrupted(token));
            // Until the call is answered.
            self.at(50, What::Signal(machine, token));
        }
    }

    pub fn lock_answered(
        &mut self,
        machine: usize,
        (token, session): (Token, u64),
        (object, attempt): (ObjectId, Attempt),
        (called, answer, said): (u64, Result<Response, Errno>, &str),
    ) {
        let program = (session, attempt.owner, attempt.api);
        let is_current = self.machines[machine].session == session;
        let now = self.now;
        let was_blocked = || {
            let is_it = self.locking.was_blocked(called, object, program, &attempt);
            // Where nothing fails, a lock is gone when the call that lifts it has returned.
            is_it || self.has_faults
        };
        match answer {
            Ok(Response::Done) if attempt.lifts() => {
                self.locking.ended(now, object, program, &attempt);
            }
            Ok(Response::Done) => {
                // What a client of an earlier session has asked, the one that follows may be granted.
                let session = self.machines[machine].session;
                let program = (session, attempt.owner, attempt.api);
                self.locking.granted(object, program, &attempt, said);
                self.locking.granted += 1;
                self.locking.waited += u64::from(attempt.how == How::Wait && called < now);
                let after = self.random.u64(0..120);
                self.at(after, What::Lift(machine, session, object, attempt));
            }
            Ok(Response::Blocked(None)) => assert_eq!(attempt.how, How::Test, "{said}"),
            Ok(Response::Blocked(Some(lock))) => {
                assert!(was_blocked(), "{said}");
                assert_eq!((attempt.how, lock.api), (How::Test, attempt.api), "{said}");
                assert!(
                    lock.first <= attempt.last && attempt.first <= lock.last,
                    "{said}"
                );
                assert!(lock.process <= 1, "{said}");
            }
            Err(Errno::AGAIN) => {
                assert_eq!(attempt.how, How::Try, "{said}");
                assert!(was_blocked(), "{said}");
                self.locking.blocked += 1;
                self.end_last(object, program, called);
            }
            Err(Errno::INTR) => {
                assert!(self.locking.interrupted.contains(&token), "{said}");
                self.end_last(object, program, called);
            }
            Err(Errno::STALE) => {
                let known = self.truth.now.tree.get(object);
                let links = known.map(|known| known.attributes.links);
                assert!(links.is_none_or(|links| links == 0), "{said}");
                self.end_last(object, program, called);
            }
            _ => panic!("{said}"),
        }
        assert!(is_current || self.has_faults, "{said}");
    }

    /// A program did not get the lock that it had called for.
    fn end_last(&mut self, object: ObjectId, program: Program, called: u64) {
        let now = self.now;
        let perhaps = self.locking.perhaps.iter_mut();
        let mut its = perhaps.filter(|one| one.object == object && one.program == program);
        if let Some(last) = its.rfind(|one| one.called == called) {
            last.ended.get_or_insert(now);
        }
    }

    /// A program lifts all that it has on an object, once it has nothing else to do.
    pub fn lift(&mut self, machine: usize, session: u64, object: ObjectId, attempt: Attempt) {
        if self.machines[machine].session != session {
            return;
        }
        let is_busy = |(request, _): &(Request, Timestamp)| matches!(request, Request::Lock(_, one) if one.owner == attempt.owner);
        if self.machines[machine].calls.values().any(is_busy) {
            return self.at(20, What::Lift(machine, session, object, attempt));
        }
        let all = Attempt {
            first: 0,
            last: u64::MAX,
            hold: None,
            how: How::Try,
            ..attempt
        };
        self.call(machine, Request::Lock(object, all));
    }
}
