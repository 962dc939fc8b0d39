//! Delivery of what is held for programs that have ended.
//!
//! Each hold is delivered at most once. A note that its sending begins is durable before its first byte
//! leaves. A note that the sending has ended comes afterwards. A reader who finds a beginning without an end knows
//! that some of the hold may have left, reports that, and does not send the hold again.
//!
//! Nothing here waits for ever: see [`Limits`].

mod acknowledged;
mod connections;
mod courier;
mod reach;

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use crate::{HoldId, Outbox, OutboxError, Pending, Target};
use courier::Courier;
use reach::Reached;

/// The delivery of some holds: prepared, and not begun.
#[derive(Debug)]
pub struct Delivery {
    outbox: Outbox,
    limits: Limits,
    holds: BTreeMap<HoldId, Pending>,
    interrupted: Vec<Failure>,
    reached: Reached,
}

/// How long a delivery waits, at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// For a connection to one address.
    pub connect: Duration,
    /// For a receiver to take the next byte.
    pub write_idle: Duration,
    /// For the next byte of a reply, or its end.
    pub reply_idle: Duration,
    /// For a reply's end, whatever comes.
    pub reply_total: Duration,
    /// Bytes of a reply that are read, once all is sent.
    pub reply_bytes_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            write_idle: Duration::from_secs(10),
            reply_idle: Duration::from_secs(2),
            reply_total: Duration::from_secs(10),
            reply_bytes_max: 64 << 20,
        }
    }
}

/// Why nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// The outbox could not be used.
    #[error(transparent)]
    Outbox(#[from] OutboxError),
    /// These targets cannot be reached.
    #[error("{}", list(.0))]
    Unreachable(Vec<Unreachable>),
}

/// A target that cannot be reached.
#[derive(Debug, thiserror::Error)]
#[error("cannot reach {target}: {source}")]
pub struct Unreachable {
    /// Which.
    pub target: Target,
    /// What its name or the network says.
    pub source: io::Error,
}

/// What a delivery did, in the order in which the holds were opened.
#[derive(Debug, Default)]
pub struct Delivered {
    /// Targets that all was sent to, with the bytes.
    pub sent: Vec<(Target, u64)>,
    /// Holds that were not sent, or not as a whole.
    pub failed: Vec<Failure>,
}

/// A hold that was not sent, or not as a whole.
#[derive(Debug, thiserror::Error)]
#[error("{target}: {source}")]
pub struct Failure {
    /// Which.
    pub hold: HoldId,
    /// Where it was to go.
    pub target: Target,
    /// Bytes of it that are known to have left.
    pub sent: u64,
    /// Whether it is pending still, since none of it left; the next delivery tries it again.
    pub is_held: bool,
    /// Why.
    pub source: Cause,
}

/// Why a hold was not sent, or not as a whole.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// What the network, or whoever shows output, says.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The outbox could not be read or written.
    #[error(transparent)]
    Outbox(#[from] OutboxError),
    /// An earlier delivery ended in its midst: it may have been sent in part, or as a whole.
    #[error("an earlier delivery was interrupted; it may have been sent in part")]
    Interrupted,
}

impl Delivery {
    /// Prepares the delivery of everything that is pending in the state directory `directory`, whose
    /// domain has ended: resolves names by `resolve` and connects once to every TCP target, to at
    /// most 256 different ones. Nothing is sent.
    ///
    /// # Errors
    /// [`DeliveryError::Unreachable`] names every target that cannot be reached.
    pub fn prepare(
        directory: &Path,
        resolve: &mut dyn FnMut(&str) -> io::Result<Vec<IpAddr>>,
    ) -> Result<Self, DeliveryError> {
        let outbox = Outbox::open(directory)?;
        Self::of(&outbox, &|_| true, Limits::default(), resolve)
    }

    /// As [`Delivery::prepare`], for those holds of an open outbox that `wanted` picks: the ones of a
    /// running domain whose programs have ended. Sending them blocks, so it is done on a thread of
    /// its own.
    ///
    /// # Errors
    /// As for [`Delivery::prepare`].
    pub fn of(
        outbox: &Outbox,
        wanted: &dyn Fn(HoldId) -> bool,
        limits: Limits,
        resolve: &mut dyn FnMut(&str) -> io::Result<Vec<IpAddr>>,
    ) -> Result<Self, DeliveryError> {
        let interrupted = outbox.interrupted().into_iter();
        let interrupted = interrupted
            .filter(|(hold, _, _)| wanted(*hold))
            .map(|(hold, target, sent)| Failure {
                hold,
                target,
                sent,
                is_held: false,
                source: Cause::Interrupted,
            })
            .collect();
        let pending = outbox.pending().into_iter();
        let holds: BTreeMap<_, _> = pending
            .filter(|pending| wanted(pending.hold))
            .map(|pending| (pending.hold, pending))
            .collect();
        let targets = holds.values().map(|pending| &pending.target);
        let reached =
            reach::reach(targets, &limits, resolve).map_err(DeliveryError::Unreachable)?;
        Ok(Self {
            outbox: outbox.clone(),
            limits,
            holds,
            interrupted,
            reached,
        })
    }

    /// Whether there is nothing to deliver, and nothing to report.
    pub fn is_empty(&self) -> bool {
        self.holds.is_empty() && self.interrupted.is_empty()
    }

    /// Sends everything, in causal order over all holds.
    ///
    /// A TCP hold is sent over a connection of its own; after its last byte the connection is
    /// half-closed, and the reply is read and discarded. Another hold for the same target waits for
    /// that reply's end, so that a receiver has seen the one before the other. A hold that the
    /// program reset is reset once the receiver has all of it. A reset by the receiver that answers
    /// nothing is a failure. A UDP hold is sent from one socket, a datagram for each append.
    /// Standard output, standard error and the terminal are given to `show`.
    ///
    /// A failure ends the delivery of its hold and of no other; after one by a time limit, the
    /// target's remaining holds stay held.
    pub fn deliver(self, show: &mut dyn FnMut(&Target, &[u8]) -> io::Result<()>) -> Delivered {
        Courier::new(self, show).run()
    }
}

fn list(unreachable: &[Unreachable]) -> String {
    let each: Vec<_> = unreachable.iter().map(ToString::to_string).collect();
    each.join("; ")
}
