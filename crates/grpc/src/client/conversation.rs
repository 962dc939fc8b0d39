//! One call in the protocol of aware servers, from the request to the end of both streams.
//!
//! It is a task of its own, since it outlives the call: the value of a call that was made by a scope
//! which speculates may be there long before that scope is confirmed. Whoever drops its [`Control`]
//! without a commit drops both streams, which is the abort.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use prost::bytes::Bytes;
use surmise_rpc::{Budget, Caller, Offer, Received, Reply, Stamp};
use tokio::sync::{mpsc, oneshot};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::tokio_stream::Stream;
use tonic::metadata::MetadataMap;
use tonic::{Extensions, Request, Status};

use crate::client::Server;
use crate::client::not_begun::was_not_begun;
use crate::deadline::{Deadline, exceeded, is_expired, passed, timeout};
use crate::wire::{AGAIN, BUDGET, DEPTH, Raw, SIZE, SIZE_MAX_USUAL, SURMISE, decode, marked};

/// What a server said.
pub enum Event {
    Prediction(Bytes),
    /// The last event.
    Actual(Result<(Bytes, Option<Stamp>), Status>),
}

/// Decides a conversation. To drop it is to abort.
#[derive(Debug)]
pub struct Control {
    pub commit: oneshot::Sender<()>,
    /// Both streams have come to their ends, so the server has heard all that was said.
    pub ended: oneshot::Receiver<Result<(), Status>>,
}

/// What is asked, and of whom.
#[derive(Clone, Debug)]
pub struct Question {
    pub server: Server,
    pub path: PathAndQuery,
    pub metadata: MetadataMap,
    pub extensions: Extensions,
    pub request: Bytes,
    pub deadline: Arc<Deadline>,
}

impl Question {
    /// Begins a conversation. What is said in it is heard by the receiver; to drop that before the
    /// actual value is to abort.
    pub fn ask(&self, offer: Offer) -> (Control, mpsc::UnboundedReceiver<Event>) {
        let (events, hear) = mpsc::unbounded_channel();
        let (commit, committed) = oneshot::channel();
        let (mut end, ended) = oneshot::channel();
        let question = self.clone();
        tokio::spawn(async move {
            let outcome = tokio::select! {
                biased;
                outcome = question.converse(offer, events, committed) => outcome,
                // A server that has nothing to hear any more may take as long as it likes for the end of its stream.
                () = end.closed(), if offer.caller == Caller::Correct => None,
            };
            if let Some(outcome) = outcome {
                // Nobody may wait for it.
                let _ = end.send(outcome);
            }
        });
        (Control { commit, ended }, hear)
    }

    /// None, if it was aborted.
    async fn converse(
        &self,
        offer: Offer,
        events: mpsc::UnboundedSender<Event>,
        committed: oneshot::Receiver<()>,
    ) -> Option<Result<(), Status>> {
        let mut committed = Some(committed);
        let is_answered = AtomicBool::new(false);
        let round = self.round(offer, &events, &mut committed, &is_answered);
        match round.await? {
            // The server would not wait so long for the decision, and has undone what it did; or it could not
            // read the request; or it has not begun to answer, and undoes it now, as no commit was sent.
            Err(status)
                if offer.caller == Caller::Speculative
                    && (is_to_come_again(&status)
                        || is_expired(&status) && committed.is_some())
                    // Else somebody goes on with what it said the first time.
                    && !is_answered.load(Ordering::Relaxed) =>
            {
                if let Some(committed) = committed.take() {
                    committed.await.ok()?;
                }
                let offer = Offer {
                    caller: Caller::Correct,
                    budget: Budget::NONE,
                };
                self.round(offer, &events, &mut None, &is_answered).await
            }
            outcome => Some(outcome),
        }
    }

    /// Asks once. None, if it was aborted; `committed` is taken when it is decided.
    async fn round(
        &self,
        offer: Offer,
        events: &mpsc::UnboundedSender<Event>,
        committed: &mut Option<oneshot::Receiver<()>>,
        is_answered: &AtomicBool,
    ) -> Option<Result<(), Status>> {
        let (say, said) = mpsc::unbounded_channel();
        let request = match offer.caller {
            Caller::Correct => self.request.clone(),
            Caller::Speculative => marked(&self.request),
        };
        // The receiver is here until the request takes it.
        let _ = say.send(request);
        let mut say = (offer.caller == Caller::Speculative).then_some(say);
        let request = self.dress(offer, Said(said));
        let asked = request.as_ref().ok();
        let timeout = asked.and_then(|request| timeout(request.metadata()));
        let mut exchange = pin!(self.exchange(offer, request, events, is_answered));
        let mut due = pin!(passed(None));
        let mut is_timed = false;
        loop {
            if say.is_none() && !is_timed {
                is_timed = true;
                due.set(passed(
                    timeout.and_then(|timeout| self.deadline.of(timeout)),
                ));
            }
            tokio::select! {
                biased;
                is_committed = decision(committed) => {
                    is_committed.then_some(())?;
                    *committed = None;
                    if let Some(say) = say.take() {
                        // If the request has failed, so does the exchange.
                        let _ = say.send(Bytes::new());
                    }
                }
                // Whoever has had the answer hears no more. That may be while this waits, so it is
                // looked at again.
                () = events.closed(), if !is_answered.load(Ordering::Relaxed) => {
                    if !is_answered.load(Ordering::Relaxed) {
                        return None;
                    }
                }
                outcome = &mut exchange => {
                    let is_late = matches!(&outcome, Err(status) if is_expired(status));
                    if is_late && say.is_none() {
                        return Some(self.end_late(events));
                    }
                    return Some(outcome);
                }
                () = &mut due, if !is_answered.load(Ordering::Relaxed) => {
                    // As above, the answer may have come while this waited.
                    if !is_answered.load(Ordering::Relaxed) {
                        return Some(self.end_late(events));
                    }
                }
            }
        }
    }

    /// Answers a call that has taken too long.
    fn end_late(&self, events: &mpsc::UnboundedSender<Event>) -> Result<(), Status> {
        // As in `exchange`.
        let _ = events.send(Event::Actual(Err(exceeded())));
        Err(exceeded())
    }

    /// The request with its metadata. What the protocol says of it comes last, so nobody can change it.
    fn dress(&self, offer: Offer, said: Said) -> Result<Request<Said>, Status> {
        let (metadata, extensions) = (self.metadata.clone(), self.extensions.clone());
        let bare = Request::from_parts(metadata, extensions, ());
        let (metadata, extensions, ()) = self.server.intercept(bare)?.into_parts();
        let mut request = Request::from_parts(metadata, extensions, said);
        announce(offer, self.server.decoding_max(), request.metadata_mut());
        Ok(request)
    }

    /// Sends, and tells of each reply.
    async fn exchange(
        &self,
        offer: Offer,
        request: Result<Request<Said>, Status>,
        events: &mpsc::UnboundedSender<Event>,
        is_answered: &AtomicBool,
    ) -> Result<(), Status> {
        let answer = |actual: Result<(Bytes, Option<Stamp>), Status>| {
            is_answered.store(true, Ordering::Relaxed);
            // If nobody hears it, the scope has gone on without it or is discarded.
            let _ = events.send(Event::Actual(actual));
        };
        let outcome = match request {
            Ok(request) => self.hear(offer, request, events, &answer).await,
            // It was refused by an interceptor, so it is not known to any server.
            Err(status) => {
                answer(Err(status));
                return Ok(());
            }
        };
        let is_over = is_answered.load(Ordering::Relaxed);
        match outcome {
            Err(status) if !is_over && (is_to_come_again(&status) || is_expired(&status)) => {
                Err(status)
            }
            Err(mut status) if !is_over => {
                // What was not begun has no effects whose commit could be lost, and what a handler came to itself
                // is told when the commit has been heard. Where there was none to say, all is said by the error.
                let is_heard = offer.caller == Caller::Correct
                    || was_not_begun(&status)
                    || is_echoed(status.metadata());
                status.metadata_mut().remove(SURMISE);
                answer(Err(status.clone()));
                if is_heard { Ok(()) } else { Err(status) }
            }
            other => other,
        }
    }

    /// What a request came to that was answered with nothing but a status. A server that is not aware, or no
    /// more, cannot read what is marked: it is asked again when that is not needed.
    fn refused(&self, offer: Offer, mut status: Status) -> Status {
        // A connection that is lost says nothing of its server.
        let is_of_server = !status.metadata().is_empty();
        if offer.caller == Caller::Speculative && is_of_server && !is_echoed(status.metadata()) {
            self.server.learn(self.path.path(), false);
            let again = AGAIN.parse().expect("it is ASCII");
            status.metadata_mut().insert(SURMISE, again);
        }
        status
    }

    async fn hear(
        &self,
        offer: Offer,
        request: Request<Said>,
        events: &mpsc::UnboundedSender<Event>,
        answer: &impl Fn(Result<(Bytes, Option<Stamp>), Status>),
    ) -> Result<(), Status> {
        let mut client = self.server.client.clone();
        let ready = client.ready().await;
        ready.map_err(|error| Status::unavailable(error.to_string()))?;
        let reply = client.streaming(request, self.path.clone(), Raw).await;
        let reply = reply.map_err(|status| self.refused(offer, status))?;
        let is_aware = is_echoed(reply.metadata());
        self.server.learn(self.path.path(), is_aware);
        let mut frames = reply.into_inner();
        let mut received = Received::new();
        while let Some(message) = frames.message().await? {
            if !is_aware {
                answer(Ok((message, None)));
                continue;
            }
            let heard = received.receive(decode(message)?);
            match heard.map_err(|error| Status::internal(error.to_string()))? {
                Reply::Prediction(value) => drop(events.send(Event::Prediction(value))),
                Reply::Actual(value, stamp) => answer(Ok((value, stamp))),
            }
        }
        match is_aware && !received.is_answered() {
            true => Err(Status::internal("the stream ended without an actual reply")),
            false => Ok(()),
        }
    }
}

fn is_echoed(metadata: &MetadataMap) -> bool {
    metadata.get(SURMISE).is_some_and(|echo| echo == "1")
}

/// Waits for the decision, and whether it is a commit; for ever, where there is none to come.
async fn decision(committed: &mut Option<oneshot::Receiver<()>>) -> bool {
    match committed {
        Some(committed) => committed.await.is_ok(),
        None => std::future::pending().await,
    }
}

fn is_to_come_again(status: &Status) -> bool {
    status
        .metadata()
        .get(SURMISE)
        .is_some_and(|said| said == AGAIN)
}

fn announce(offer: Offer, size: usize, metadata: &mut MetadataMap) {
    metadata.insert(SURMISE, offer.surmise().parse().expect("it is ASCII"));
    metadata.insert(DEPTH, offer.budget.depth.into());
    metadata.insert(BUDGET, offer.budget.branches.into());
    if size != SIZE_MAX_USUAL {
        metadata.insert(SIZE, size.into());
    }
}

/// The request stream. It ends when nobody can say more.
struct Said(mpsc::UnboundedReceiver<Bytes>);

impl Stream for Said {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.0.poll_recv(context)
    }
}
