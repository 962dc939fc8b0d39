//! What orders durability: calls that wait for an epoch.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

use surmise_engine::{
    Decision, Effect, Engine, EngineError, Id, Kind, Kinds, Node, ObjectId, Owner, Volume, WaiterId,
};
use surmise_sys::seccomp::{Answer, Notification};
use surmise_syscalls::Row;

use crate::call::Call;

/// All that a domain's tasks have changed, as one object of the engine's: nobody hears of each change.
pub(crate) const DOMAIN: Node = Node::Object(ObjectId(1 << 62));
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
}

impl Durable {
    pub(crate) fn new(durability: Box<dyn Durability>) -> Self {
        Self {
            durability,
            epochs: BTreeMap::new(),
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

    /// A call waits for all that was promised so far, and not for what is promised later.
    pub(crate) fn wait(
        &mut self,
        engine: &mut Engine,
        waiter: WaiterId,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EngineError> {
        if let Some(promises) = self.durability.outstanding()
            && !self.epochs.contains_key(&promises)
        {
            let epoch = engine.assume(Owner::Outside, Kind::Epoch(VOLUME))?;
            self.epochs.insert(promises, epoch);
            let answer = engine.depend(DOMAIN, epoch, effects)?;
            debug_assert_eq!(answer, surmise_engine::Answer::Go);
        }
        engine.barrier(DOMAIN, waiter, Kinds::EPOCHS, effects)
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
