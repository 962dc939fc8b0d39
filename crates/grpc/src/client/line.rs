//! A call's end of its conversation with a server.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use prost::bytes::Bytes;
use surmise_rpc::{Caller, Offer, Peer, Stamp};
use tokio::sync::mpsc::UnboundedReceiver;
use tonic::Status;

use crate::client::conversation::{Control, Event, Question};
use crate::methods::bare;

/// Says what a call's future has it say, and keeps what the server says until that takes it.
pub struct Line<T> {
    question: Question,
    /// What was known of the server's method when the call was made.
    peer: Peer,
    decode: fn(Bytes) -> Result<T, Status>,
    heard: Mutex<Heard<T>>,
}

struct Heard<T> {
    events: Option<UnboundedReceiver<Event>>,
    predictions: VecDeque<T>,
    stamp: Option<Stamp>,
}

impl<T> Line<T> {
    pub fn new(question: Question, peer: Peer, decode: fn(Bytes) -> Result<T, Status>) -> Self {
        let heard = Heard {
            events: None,
            predictions: VecDeque::new(),
            stamp: None,
        };
        Self {
            question,
            peer,
            decode,
            heard: Mutex::new(heard),
        }
    }

    /// Begins the conversation, or another one in its place.
    ///
    /// A method that is not known to be aware would wait for the end of the request, which a
    /// speculative caller owes it. Such a call is only made of a safe method, and for that it makes
    /// no difference who asks.
    pub fn open(&self, mut offer: Offer) -> Control {
        if self.peer == Peer::Plain {
            offer.caller = Caller::Correct;
        }
        let (control, events) = self.question.ask(offer);
        let former = self.lock().events.replace(events);
        drop(former);
        control
    }

    /// The full name of the method.
    pub fn method(&self) -> &str {
        bare(self.question.path.path())
    }

    /// Whether the server may see the request while its arguments are only predicted.
    pub fn may_go_ahead(&self) -> bool {
        let Question { server, path, .. } = &self.question;
        server.may_see_ahead(path.path())
    }

    /// The call is made, or made again for another reason than that nobody had begun it.
    pub fn renew(&self) {
        self.question.deadline.renew();
    }

    /// Waits for the actual reply. Predictions that come before are kept.
    pub async fn reply(self: Arc<Self>) -> Result<T, Status> {
        poll_fn(|context| self.poll_reply(context)).await
    }

    /// Predictions that came since the last time.
    pub fn take_predictions(&self) -> VecDeque<T> {
        std::mem::take(&mut self.lock().predictions)
    }

    /// The stamp that the server gave the reply.
    pub fn stamp(&self) -> Option<Stamp> {
        self.lock().stamp
    }

    fn poll_reply(&self, context: &mut Context<'_>) -> Poll<Result<T, Status>> {
        let mut heard = self.lock();
        loop {
            let Some(events) = &mut heard.events else {
                return Poll::Pending;
            };
            let Poll::Ready(event) = events.poll_recv(context) else {
                return Poll::Pending;
            };
            match event {
                // What cannot be read is no prediction. The call does not fail for it.
                Some(Event::Prediction(value)) => {
                    heard.predictions.extend((self.decode)(value));
                }
                Some(Event::Actual(Ok((value, stamp)))) => {
                    heard.stamp = stamp;
                    return Poll::Ready((self.decode)(value));
                }
                Some(Event::Actual(Err(status))) => return Poll::Ready(Err(status)),
                None => return Poll::Ready(Err(Status::cancelled("the call was ended"))),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Heard<T>> {
        // Whoever panicked with it has left nothing half done.
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
