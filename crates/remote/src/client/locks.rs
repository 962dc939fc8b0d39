//! Locks of this client's programs.
//!
//! What the programs hold is noted here, whichever side grants it: a lock when it is granted, and what lifts one when it is called, so
//! that the client never states more than its programs believe to hold. The server's answers come in the order in which it notes what they say.
//! So what is noted is at each moment what the server had noted when it sent the last answer, less what was lifted since.

use std::collections::{BTreeMap, BTreeSet};

use super::requests::Stop;
use super::{Client, Effect, Parked, Request, Response, Step, Token};
use crate::errno::Errno;
use crate::frame::ToServer;
use crate::lease::Mode;
use crate::locks::{Api, Attempt, Hold, How, LOCKS_MAX, Lock, Table, Verdict, WAITS_MAX};
use crate::object::ObjectId;

/// What the programs hold, and what the server was asked for.
#[derive(Debug, Default)]
pub(super) struct Locks {
    objects: BTreeMap<ObjectId, OfObject>,
    /// How many locks are held.
    count: usize,
    /// Open questions, by number, and the number of each call that waits for the answer.
    asked: BTreeMap<u64, Asked>,
    numbers: BTreeMap<Token, u64>,
    /// Calls that the server's answer does not come for, and how they end.
    ended: Vec<(Token, Result<Response, Errno>)>,
}

/// The locks on one object.
#[derive(Debug, Default)]
struct OfObject {
    held: Table<u64>,
    /// Whether this client grants them.
    is_master: bool,
    /// The calls that then wait until another program lifts a lock.
    waiting: BTreeSet<Token>,
}

#[derive(Debug)]
struct Asked {
    /// The call that waits for the answer; `None` if it has its own already.
    token: Option<Token>,
    object: ObjectId,
    attempt: Attempt,
    is_interrupted: bool,
}

impl Locks {
    fn of(&mut self, object: ObjectId) -> &mut OfObject {
        self.objects.entry(object).or_default()
    }

    fn is_master(&self, object: ObjectId) -> bool {
        self.objects.get(&object).is_some_and(|of| of.is_master)
    }

    fn set(&mut self, object: ObjectId, attempt: &Attempt) {
        let held = &mut self.objects.entry(object).or_default().held;
        let before = held.count();
        held.set(attempt.owner, attempt);
        self.count = self.count + held.count() - before;
    }

    /// Leaves nothing stronger than what is attempted.
    fn loosen(&mut self, object: ObjectId, attempt: &Attempt) {
        if let Some(of) = self.objects.get_mut(&object) {
            let before = of.held.count();
            of.held.loosen(attempt.owner, attempt);
            self.count = self.count + of.held.count() - before;
        }
    }

    /// Whether the server is just granting the owner a lock on the object.
    fn asks_for(&self, object: ObjectId, attempt: &Attempt) -> bool {
        self.asked.values().any(|asked| {
            let (one, other) = (&asked.attempt, attempt);
            asked.object == object && (one.api, one.owner) == (other.api, other.owner)
        })
    }

    /// Whether the server has yet to answer that the owner lifts a lock on the object.
    fn is_lifting(&self, object: ObjectId, attempt: &Attempt) -> bool {
        self.asked.values().any(|asked| {
            let (one, other) = (&asked.attempt, attempt);
            let is_owners = (one.api, one.owner) == (other.api, other.owner);
            asked.object == object && is_owners && one.lifts()
        })
    }

    /// Whether one lock more would be too many, with all that the server may grant by then. It can split another one.
    fn is_full(&self) -> bool {
        self.count + 2 * self.asked.len() + 2 > LOCKS_MAX
    }

    /// As flock(2) does it: a lock of another kind goes before the new one is looked at. Whether there was one.
    fn convert(&mut self, object: ObjectId, attempt: &Attempt) -> bool {
        let Some(of) = self.objects.get(&object) else {
            return false;
        };
        let holds = |hold| of.held.holds_all(attempt.owner, attempt, hold);
        let is_other = match attempt.hold {
            Some(Hold::Exclusive) => holds(Hold::Shared) && !holds(Hold::Exclusive),
            Some(Hold::Shared) => holds(Hold::Exclusive),
            None => false,
        };
        let converts = attempt.api == Api::Flock && attempt.how != How::Test && is_other;
        if converts {
            let hold = None;
            self.set(object, &Attempt { hold, ..*attempt });
        }
        converts
    }

    /// Forgets what is not needed to remember.
    fn tidy(&mut self, object: ObjectId) {
        let of = self.objects.get(&object);
        if of.is_some_and(|of| !of.is_master && of.held.is_empty() && of.waiting.is_empty()) {
            self.objects.remove(&object);
        }
    }

    fn take(&mut self, request: u64) -> Option<Asked> {
        let asked = self.asked.remove(&request)?;
        if let Some(token) = asked.token {
            self.numbers.remove(&token);
        }
        Some(asked)
    }

    /// No answer comes any more. The calls that still need one ask again.
    pub(super) fn cut(&mut self) {
        self.numbers.clear();
        for (_, asked) in std::mem::take(&mut self.asked) {
            let Asked {
                object, attempt, ..
            } = asked;
            // The server may have done it, and may have granted a lock to another by now. A call that only weakens a lock and then
            // fails leaves its program with the weaker one.
            if attempt.how != How::Test {
                self.loosen(object, &attempt);
                self.tidy(object);
            }
            let answer = match (attempt.lifts(), asked.is_interrupted) {
                (true, _) => Ok(Response::Done),
                (false, true) => Err(Errno::INTR),
                (false, false) => continue,
            };
            self.ended.extend(asked.token.map(|token| (token, answer)));
        }
    }
}

impl Client {
    /// How far a call for a lock gets.
    pub(super) fn lock(
        &mut self,
        token: Token,
        object: ObjectId,
        attempt: &Attempt,
        effects: &mut Vec<Effect>,
    ) -> Result<Step, Stop> {
        if self.locks.numbers.contains_key(&token) {
            return Ok(Step::Wait);
        }
        if attempt.lifts() {
            return Ok(self.lift(token, object, attempt, effects));
        }
        // The server takes no lock on what the client does not know.
        if !self.leases.contains_key(&object) {
            self.known(object, Mode::Read)?;
        }
        if attempt.how != How::Test && self.locks.is_full() {
            return Err(Errno::NOLCK.into());
        }
        if self.locks.is_master(object) {
            // The program went on before the server had heard that its lock is lifted. The answer to that lifts it once more.
            if self.locks.is_lifting(object, attempt) {
                self.locks.of(object).waiting.insert(token);
                return Ok(Step::Wait);
            }
            return Ok(self.decide(token, object, attempt, effects));
        }
        if self.locks.asked.len() >= WAITS_MAX {
            return Err(Errno::NOLCK.into());
        }
        if self.connection.is_up() {
            self.locks.convert(object, attempt);
            self.ask_lock(token, object, attempt, effects);
        }
        Ok(Step::Wait)
    }

    fn ask_lock(
        &mut self,
        token: Token,
        object: ObjectId,
        attempt: &Attempt,
        effects: &mut Vec<Effect>,
    ) {
        // The object may be new.
        self.cut_group(effects);
        let request = self.request();
        let asked = Asked {
            token: Some(token),
            object,
            attempt: *attempt,
            is_interrupted: false,
        };
        self.locks.asked.insert(request, asked);
        self.locks.numbers.insert(token, request);
        effects.push(Effect::Send(ToServer::Lock {
            request,
            object,
            attempt: *attempt,
        }));
    }

    /// Grants a lock or not, as the master.
    fn decide(
        &mut self,
        token: Token,
        object: ObjectId,
        attempt: &Attempt,
        effects: &mut Vec<Effect>,
    ) -> Step {
        let held = &self.locks.of(object).held;
        let blocked = held.obstacles(attempt.owner, attempt).next();
        let blocked = blocked.map(|(_, lock)| lock);
        let had_any = held.holds_any(attempt.owner, attempt);
        match (attempt.how, blocked) {
            (How::Test, blocked) => Step::Done(Ok(Response::Blocked(blocked))),
            (_, None) => {
                self.locks.set(object, attempt);
                if had_any {
                    self.wake(object, effects);
                }
                Step::Done(Ok(Response::Done))
            }
            (how, Some(_)) => {
                if self.locks.convert(object, attempt) {
                    self.wake(object, effects);
                }
                if how == How::Try {
                    return Step::Done(Err(Errno::AGAIN));
                }
                self.locks.of(object).waiting.insert(token);
                Step::Wait
            }
        }
    }

    /// Lifts locks. That waits for no other lock, and for no connection: over the next one the client tells what its programs
    /// hold. While there is a connection it waits until the server has heard, so that a later call on any machine finds them lifted.
    fn lift(
        &mut self,
        token: Token,
        object: ObjectId,
        attempt: &Attempt,
        effects: &mut Vec<Effect>,
    ) -> Step {
        let of = self.locks.objects.get(&object);
        let is_master = of.is_some_and(|of| of.is_master);
        let holds = of.is_some_and(|of| of.held.holds_any(attempt.owner, attempt));
        if holds && attempt.first > 0 && self.locks.count + 2 > LOCKS_MAX {
            return Step::Done(Err(Errno::NOLCK));
        }
        if holds {
            self.locks.set(object, attempt);
        }
        if is_master {
            if holds {
                self.wake(object, effects);
            }
            return Step::Done(Ok(Response::Done));
        }
        self.locks.tidy(object);
        // Where nothing is held, the server may just be granting it.
        let is_heard = holds || self.locks.asks_for(object, attempt);
        if !is_heard || !self.connection.is_up() {
            return Step::Done(Ok(Response::Done));
        }
        self.ask_lock(token, object, attempt, effects);
        Step::Wait
    }

    /// Tries the calls again that wait for a lock which the client grants itself, in their order.
    fn wake(&mut self, object: ObjectId, effects: &mut Vec<Effect>) {
        for token in std::mem::take(&mut self.locks.of(object).waiting) {
            self.go_on(token, effects);
        }
    }

    /// The server has answered.
    pub(super) fn locked(
        &mut self,
        request: u64,
        verdict: Result<Verdict, Errno>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(Asked {
            token,
            object,
            attempt,
            is_interrupted,
        }) = self.locks.take(request)
        else {
            return;
        };
        let is_test = attempt.how == How::Test;
        let waits = token.is_some_and(|token| self.parked.contains_key(&token));
        let answer = match verdict {
            Ok(Verdict::Yours) => {
                self.locks.of(object).is_master = true;
                if attempt.lifts() {
                    self.locks.set(object, &attempt);
                    self.wake(object, effects);
                }
                if !is_interrupted {
                    token.inspect(|token| self.go_on(*token, effects));
                    return;
                }
                Err(Errno::INTR)
            }
            Ok(Verdict::Done) if is_test => Ok(Response::Blocked(None)),
            Ok(Verdict::Blocked(lock)) if is_test => Ok(Response::Blocked(Some(lock))),
            Ok(Verdict::Blocked(_)) => Err(Errno::AGAIN),
            Ok(Verdict::Done) if waits || attempt.lifts() => {
                self.locks.set(object, &attempt);
                self.locks.tidy(object);
                Ok(Response::Done)
            }
            // Nobody knows of this lock, or it is lifted here and not there. Over another connection the client states those
            // that are held.
            Ok(Verdict::Done) => {
                self.cut();
                effects.push(Effect::Reconnect);
                return;
            }
            Err(_) if attempt.lifts() => {
                self.cut();
                effects.push(Effect::Reconnect);
                return;
            }
            Err(errno) => Err(errno),
        };
        if let Some(token) = token
            && self.parked.remove(&token).is_some()
        {
            effects.push(Effect::Answer(token, answer));
        }
    }

    /// The server grants the locks on an object from now on. Before anything else it is to know those that are held.
    pub(super) fn give_locks(&mut self, object: ObjectId, effects: &mut Vec<Effect>) {
        let of = self.locks.objects.get_mut(&object);
        let Some(of) = of.filter(|of| of.is_master) else {
            return;
        };
        of.is_master = false;
        let held = of.held.all(|owner| owner);
        effects.push(Effect::Send(ToServer::GiveLocks { object, held }));
        self.wake(object, effects);
        self.locks.tidy(object);
    }

    /// The kernel does not know the object any more, so no program has it open.
    pub(super) fn forget_locks(&mut self, object: ObjectId, effects: &mut Vec<Effect>) {
        let is_free = |of: &OfObject| of.held.is_empty() && of.waiting.is_empty();
        if !self.locks.objects.get(&object).is_some_and(is_free) {
            return;
        }
        if self.locks.is_master(object) && self.connection.is_up() {
            let held = Vec::new();
            effects.push(Effect::Send(ToServer::GiveLocks { object, held }));
        }
        self.locks.objects.remove(&object);
    }

    /// States all locks over a new connection.
    pub(super) fn state_locks(&mut self, effects: &mut Vec<Effect>) {
        for of in self.locks.objects.values_mut() {
            of.is_master = false;
            of.waiting.clear();
        }
        let objects = &mut self.locks.objects;
        objects.retain(|_, of| !of.held.is_empty());
        let held = |of: &OfObject| of.held.all(|owner| owner);
        let all: Vec<(ObjectId, Vec<Lock>)> =
            objects.iter().map(|(id, of)| (*id, held(of))).collect();
        effects.push(Effect::Send(ToServer::Locks(all)));
    }

    /// The server has forgotten the client, and may have granted its locks to others.
    pub(super) fn lose_locks(&mut self, effects: &mut Vec<Effect>) {
        let lost = std::mem::take(&mut self.locks.count);
        self.locks.objects.clear();
        if lost > 0 {
            effects.push(Effect::LocksLost(lost));
            self.fail_syncs(effects);
        }
    }

    /// A call for a lock waits no more.
    pub(super) fn interrupt(&mut self, token: Token, effects: &mut Vec<Effect>) {
        let Some(Parked {
            request: Request::Lock(object, _),
            ..
        }) = self.parked.get(&token)
        else {
            return;
        };
        let object = *object;
        let relies = self.may_rely();
        let number = self.locks.numbers.get(&token).copied();
        let asked = number.and_then(|number| self.locks.asked.get_mut(&number));
        let answer = match (number, asked) {
            (Some(_), Some(asked)) if asked.attempt.lifts() => {
                // It is lifted, and the server hears of it.
                asked.token = None;
                self.locks.numbers.remove(&token);
                Ok(Response::Done)
            }
            (Some(request), Some(asked)) => {
                let is_told = std::mem::replace(&mut asked.is_interrupted, true);
                if !relies {
                    // The answer would not come over this connection.
                    self.cut();
                    effects.push(Effect::Reconnect);
                } else if !is_told {
                    effects.push(Effect::Send(ToServer::Unwait { request }));
                }
                return;
            }
            _ => Err(Errno::INTR),
        };
        if let Some(of) = self.locks.objects.get_mut(&object) {
            of.waiting.remove(&token);
        }
        self.parked.remove(&token);
        effects.push(Effect::Answer(token, answer));
    }

    pub(super) fn answer_ended(&mut self, effects: &mut Vec<Effect>) {
        for (token, answer) in std::mem::take(&mut self.locks.ended) {
            if self.parked.remove(&token).is_some() {
                effects.push(Effect::Answer(token, answer));
            }
        }
    }
}
