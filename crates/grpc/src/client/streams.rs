//! The streams of one root's calls to aware servers, until they are decided.
//!
//! A stream outlives its call's future where that came to something before its scope was confirmed.
//! And what decides a stream may come before the call's future has opened it, since futures run when
//! they are polled.

use std::collections::{BTreeMap, VecDeque};

use surmise_rpc::{CallId, Caller, Offer};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use tonic::Status;

use crate::client::conversation::Control;

/// Tells that a server has ended its stream, having heard all that was said.
pub type Ended = oneshot::Receiver<Result<(), Status>>;

#[derive(Debug, Default)]
pub struct Streams {
    streams: BTreeMap<CallId, Stream>,
    /// Those that were committed, and of which it is not known that they ended.
    unsettled: VecDeque<Ended>,
    /// From so many on, those that have ended are forgotten.
    forget_from: usize,
    /// The first of those that were committed and lost.
    lost: Option<Status>,
}

#[derive(Debug)]
enum Stream {
    /// To be opened like this, or opened and never more to be decided.
    Due(Offer),
    /// Of a caller that is correct: it only waits for the reply.
    Plain(Control),
    /// A commit or an abort is to come.
    Undecided(Control),
}

impl Streams {
    /// A call is to be sent. Returns what was sent for it before, which was in vain.
    pub fn send(&mut self, call: CallId, offer: Offer) -> Option<Control> {
        let former = self.streams.insert(call, Stream::Due(offer));
        former.and_then(Stream::control)
    }

    /// How the stream of a call is to be opened now; none if it was aborted.
    pub fn offer(&self, call: CallId) -> Option<Offer> {
        self.streams.get(&call).map(|stream| match stream {
            Stream::Due(offer) => *offer,
            // It was opened, and is opened again for want of a connection. Its loan may have been
            // used up with that, so there is none.
            Stream::Plain(_) => unlent(Caller::Correct),
            Stream::Undecided(_) => unlent(Caller::Speculative),
        })
    }

    /// A stream was opened as it was offered. Returns it if it was committed meanwhile. If it was
    /// aborted, it is dropped.
    pub fn opened(&mut self, call: CallId, offer: Offer, control: Control) -> Option<Control> {
        let stream = self.streams.get_mut(&call)?;
        let is_committed = matches!(stream, Stream::Due(now) if now.caller == Caller::Correct);
        match offer.caller {
            Caller::Correct => *stream = Stream::Plain(control),
            Caller::Speculative if is_committed => return Some(control),
            Caller::Speculative => *stream = Stream::Undecided(control),
        }
        None
    }

    /// A call's server is to hear that its caller is confirmed. If the call's future still runs, it
    /// may have to send again, and then without a commit to come.
    pub fn commit(&mut self, call: CallId, runs: bool) -> Option<oneshot::Sender<()>> {
        let stream = self.streams.remove(&call)?;
        if runs {
            let budget = match &stream {
                Stream::Due(offer) => offer.budget,
                _ => unlent(Caller::Correct).budget,
            };
            let caller = Caller::Correct;
            let due = Stream::Due(Offer { caller, budget });
            self.streams.insert(call, due);
        }
        stream.control().map(|control| self.settle(control))
    }

    /// Commits a stream that was opened too late to hear of it otherwise, or that nothing has to be said in.
    pub fn commit_now(&mut self, control: Control) {
        // If it is lost, it has said so at its end.
        let _ = self.settle(control).send(());
    }

    /// A call is aborted.
    pub fn remove(&mut self, call: CallId) -> Option<Control> {
        self.streams.remove(&call).and_then(Stream::control)
    }

    /// A call's future is gone. What is undecided stays until it is decided. What was answered, if the call was, is
    /// heard to its end: its server may have committed something to others, and says there whether they heard it.
    pub fn leave(&mut self, call: CallId, is_answered: bool) -> Option<Control> {
        if matches!(self.streams.get(&call)?, Stream::Undecided(_)) {
            return None;
        }
        match self.streams.remove(&call)? {
            Stream::Plain(control) if is_answered => {
                self.commit_now(control);
                None
            }
            other => other.control(),
        }
    }

    /// The first error of what was committed and lost.
    pub fn lost(&self) -> Result<(), Status> {
        self.lost.clone().map_or(Ok(()), Err)
    }

    /// What is to be waited for next. Whoever takes it says how it [ended](Self::ended), or brings it
    /// [back](Self::unsettle).
    pub fn next_unsettled(&mut self) -> Option<Ended> {
        self.unsettled.pop_front()
    }

    pub fn unsettle(&mut self, ended: Ended) {
        self.unsettled.push_front(ended);
    }

    pub fn ended(&mut self, end: Result<(), Status>) {
        if let Err(failed) = end {
            self.lost.get_or_insert(failed);
        }
    }

    fn settle(&mut self, control: Control) -> oneshot::Sender<()> {
        // Of those that have ended only an error is kept, so there are at most twice as many as are open.
        if self.unsettled.len() >= self.forget_from {
            self.forget_ended();
            self.forget_from = 2 * self.unsettled.len().max(1);
        }
        self.unsettled.push_back(control.ended);
        control.commit
    }

    fn forget_ended(&mut self) {
        let lost = &mut self.lost;
        self.unsettled.retain_mut(|ended| {
            let failed = match ended.try_recv() {
                Ok(Ok(())) => return false,
                Ok(Err(status)) => status,
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Closed) => unheard(),
            };
            lost.get_or_insert(failed);
            false
        });
    }
}

impl Stream {
    fn control(self) -> Option<Control> {
        match self {
            Self::Due(_) => None,
            Self::Plain(control) | Self::Undecided(control) => Some(control),
        }
    }
}

/// Nobody is left who would know whether a server has heard a commit.
pub fn unheard() -> Status {
    Status::aborted("a stream was ended before its commit was heard")
}

fn unlent(caller: Caller) -> Offer {
    let budget = surmise_rpc::Budget::NONE;
    Offer { caller, budget }
}
