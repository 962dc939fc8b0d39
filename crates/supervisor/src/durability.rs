//! What orders durability: calls that wait for an epoch.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

use surmise_engine::{
    Decision, Effect, Engine, EngineError, Id, Kind, Kinds, Node, ObjectId, Owner, Volume, WaiterId,
};
use surmise_sys::seccomp::{Answer, Notification};
use surmise_syscalls::Row;

use crate::call::Call;

/// Calls that wait for an epoch are objects of the engine's, with numbers above this.
const OBJECTS_BEFORE: u64 = 1 << 62;
/// A domain has one volume.
const VOLUME: Volume = Volume(0);

/// What becomes of a call that asks for durability, or has to come after what was promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// This, now.
    Now(Answer),
    /// This, once all is durable that was promised before.
    OnceDurable(Answer),
}

/// Promises durability to the calls of a domain, and keeps its promises by commits.
pub trait Durability: fmt::Debug {
    /// What becomes of a call.
    fn meet(&mut self, call: &Notification, row: &Row) -> Verdict;

    /// How many promises there have been, of which not all are kept, and wants them kept soon; `None` if all are. A
    /// number that is never reached after the last commit there will be.
    fn outstanding(&mut self) -> Option<u64>;

    /// How many promises are kept.
    fn kept(&self) -> u64;

    /// What is readable when a commit was made, or none will be any more.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Hears of a commit: the descriptor is not readable any more, until the next one. False if none will come any
    /// more, since another role has seen to that.
    ///
    /// # Errors
    /// A commit has failed: what was promised is not durable, and nobody knows what is.
    fn hear(&mut self) -> io::Result<bool>;

    /// Commits once more, and returns when that is done.
    ///
    /// # Errors
    /// As [`Self::hear`].
    fn end(&mut self) -> io::Result<()>;
}

/// Durability, and the engine's numbers of what waits for it.
#[derive(Debug)]
pub(crate) struct Durable {
    durability: Box<dyn Durability>,
    /// The epochs that something waits for, by how many promises each includes.
    epochs: BTreeMap<u64, Id>,
    /// The calls that wait.
    calls: HashMap<WaiterId, ObjectId>,
}

impl Durable {
    pub(crate) fn new(durability: Box<dyn Durability>) -> Self {
        Self {
            durability,
            epochs: BTreeMap::new(),
            calls: HashMap::new(),
        }
    }

    pub(crate) fn durability(&mut self) -> &mut dyn Durability {
        self.durability.as_mut()
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.durability.descriptor()
    }

    pub(crate) fn meet(&mut self, call: &Call) -> Verdict {
        self.durability.meet(&call.notification, call.row)
    }

    /// A call waits for all that was promised so far. Each call is an object of its own: what is promised later is
    /// nothing that it waits for.
    pub(crate) fn wait(
        &mut self,
        engine: &mut Engine,
        waiter: WaiterId,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EngineError> {
        let call = ObjectId(OBJECTS_BEFORE + waiter.0);
        self.calls.insert(waiter, call);
        if let Some(promises) = self.durability.outstanding() {
            let epoch = match self.epochs.get(&promises) {
                Some(&epoch) => epoch,
                None => {
                    let epoch = engine.assume(Owner::Outside, Kind::Epoch(VOLUME))?;
                    self.epochs.insert(promises, epoch);
                    epoch
                }
            };
            let answer = engine.depend(Node::Object(call), epoch, effects)?;
            debug_assert_eq!(answer, surmise_engine::Answer::Go);
        }
        engine.barrier(Node::Object(call), waiter, Kinds::EPOCHS, effects)
    }

    /// A call waits no more.
    pub(crate) fn woken(&mut self, engine: &mut Engine, waiter: WaiterId) {
        if let Some(call) = self.calls.remove(&waiter) {
            let mut effects = Vec::new();
            engine.forget(call, &mut effects);
            debug_assert!(effects.is_empty(), "nothing was done to it: {effects:?}");
        }
    }

    /// Promises were kept.
    pub(crate) fn committed(
        &mut self,
        engine: &mut Engine,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EngineError> {
        let kept = self.durability.kept();
        let later = match kept.checked_add(1) {
            Some(next) => self.epochs.split_off(&next),
            None => BTreeMap::new(),
        };
        let affirmed = std::mem::replace(&mut self.epochs, later);
        // The newest includes all earlier ones.
        match affirmed.last_key_value() {
            Some((_, &newest)) => engine.decide(newest, Decision::Affirm, effects),
            None => Ok(()),
        }
    }
}
