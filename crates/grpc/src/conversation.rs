//! One call in the protocol of aware servers, from the request to the end of both streams.
//!
//! It is a task of its own, since it outlives the call: the value of a call that was made by a scope
//! which speculates may be there long before that scope is confirmed. Whoever drops its [`Control`]
//! without a commit drops both streams, which is the abort.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use prost::bytes::Bytes;
use surmise_rpc::{Budget, Caller, Offer, Received, Reply, Stamp};
use tokio::sync::{mpsc, oneshot};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::tokio_stream::Stream;
use tonic::metadata::MetadataMap;
use tonic::{Extensions, Request, Status};

use crate::server::Server;
use crate::unsent::was_never_sent;
use crate::wire::{AGAIN, BUDGET, DEPTH, Raw, SURMISE, decode, marked};

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
    pub request: Bytes,
    pub metadata: MetadataMap,
    pub extensions: Extensions,
}

impl Question {
    /// Begins a conversation. What is said in it is heard by the receiver; to drop that before the
    /// actual value is to abort.
    pub fn ask(&self, offer: Offer) -> (Control, mpsc::UnboundedReceiver<Event>) {
        let (events, hear) = mpsc::unbounded_channel();
        let (commit, committed) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let question = self.clone();
        tokio::spawn(async move {
            if let Some(outcome) = question.converse(offer, events, committed).await {
                // Nobody may wait for it.
                let _ = end.send(outcome);
            }
        });
        (Control { commit, ended }, hear)
    }

    /// None, if it was aborted. A reply that has not come by the request's deadline never does.
    async fn converse(
        &self,
        offer: Offer,
        events: mpsc::UnboundedSender<Event>,
        committed: oneshot::Receiver<()>,
    ) -> Option<Result<(), Status>> {
        let hearing = Hearing {
            events,
            is_answered: AtomicBool::new(false),
        };
        tokio::select! {
            biased;
            outcome = self.rounds(offer, &hearing, committed) => outcome,
            () = hearing.misses(timeout(&self.metadata)) => {
                hearing.answer(Err(Status::deadline_exceeded("the call took too long")));
                None
            }
        }
    }

    /// None, if it was aborted.
    async fn rounds(
        &self,
        offer: Offer,
        hearing: &Hearing,
        committed: oneshot::Receiver<()>,
    ) -> Option<Result<(), Status>> {
        let mut committed = Some(committed);
        match self.round(offer, hearing, &mut committed).await? {
            // The server would not wait so long for the decision, and has undone what it did; or it could not
            // read the request.
            Err(status)
                if offer.caller == Caller::Speculative
                    && is_to_come_again(&status)
                    // Else somebody goes on with what it said the first time.
                    && !hearing.is_answered() =>
            {
                if let Some(committed) = committed.take() {
                    committed.await.ok()?;
                }
                let offer = Offer {
                    caller: Caller::Correct,
                    budget: Budget::NONE,
                };
                self.round(offer, hearing, &mut None).await
            }
            outcome => Some(outcome),
        }
    }

    /// Asks once. None, if it was aborted; `committed` is taken when it is decided.
    async fn round(
        &self,
        offer: Offer,
        hearing: &Hearing,
        committed: &mut Option<oneshot::Receiver<()>>,
    ) -> Option<Result<(), Status>> {
        let (say, said) = mpsc::unbounded_channel();
        let request = match offer.caller {
            Caller::Correct => self.request.clone(),
            Caller::Speculative => marked(&self.request),
        };
        // The receiver is here until the request takes it.
        let _ = say.send(request);
        let mut say = (offer.caller == Caller::Speculative).then_some(say);
        let mut exchange = pin!(self.exchange(offer, Said(said), hearing));
        loop {
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
                () = hearing.events.closed(), if !hearing.is_answered() => {
                    if !hearing.is_answered() {
                        return None;
                    }
                }
                outcome = &mut exchange => return Some(outcome),
            }
        }
    }

    /// Sends, and tells of each reply.
    async fn exchange(&self, offer: Offer, said: Said, hearing: &Hearing) -> Result<(), Status> {
        let outcome = self.hear(offer, said, hearing).await;
        match outcome {
            Err(status) if !hearing.is_answered() && is_to_come_again(&status) => Err(status),
            Err(status) if !hearing.is_answered() => {
                // What was never sent has no effects whose commit could be lost.
                let lost = (!was_never_sent(&status)).then(|| status.clone());
                hearing.answer(Err(status));
                lost.map_or(Ok(()), Err)
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
            self.server.learn(false);
            let again = AGAIN.parse().expect("it is ASCII");
            status.metadata_mut().insert(SURMISE, again);
        }
        status
    }

    async fn hear(&self, offer: Offer, said: Said, hearing: &Hearing) -> Result<(), Status> {
        let mut client = Grpc::new(self.server.channel.clone());
        let ready = client.ready().await;
        ready.map_err(|error| Status::unavailable(error.to_string()))?;
        let (metadata, extensions) = (self.metadata.clone(), self.extensions.clone());
        let mut request = Request::from_parts(metadata, extensions, said);
        announce(offer, request.metadata_mut());
        let reply = client.streaming(request, self.path.clone(), Raw).await;
        let reply = reply.map_err(|status| self.refused(offer, status))?;
        let is_aware = is_echoed(reply.metadata());
        self.server.learn(is_aware);
        let mut frames = reply.into_inner();
        let mut received = Received::new();
        while let Some(message) = frames.message().await? {
            if !is_aware {
                hearing.answer(Ok((message, None)));
                continue;
            }
            let heard = received.receive(decode(message)?);
            match heard.map_err(|error| Status::internal(error.to_string()))? {
                Reply::Prediction(value) => drop(hearing.events.send(Event::Prediction(value))),
                Reply::Actual(value, stamp) => hearing.answer(Ok((value, stamp))),
            }
        }
        match is_aware && !received.is_answered() {
            true => Err(Status::internal("the stream ended without an actual reply")),
            false => Ok(()),
        }
    }
}

/// Whoever hears the replies.
struct Hearing {
    events: mpsc::UnboundedSender<Event>,
    is_answered: AtomicBool,
}

impl Hearing {
    fn is_answered(&self) -> bool {
        self.is_answered.load(Ordering::Relaxed)
    }

    fn answer(&self, actual: Result<(Bytes, Option<Stamp>), Status>) {
        self.is_answered.store(true, Ordering::Relaxed);
        // If nobody hears it, the scope has gone on without it or is discarded.
        let _ = self.events.send(Event::Actual(actual));
    }

    /// Comes to its end if there is no answer within this time.
    async fn misses(&self, limit: Option<Duration>) {
        if let Some(limit) = limit {
            tokio::time::sleep(limit).await;
            if !self.is_answered() {
                return;
            }
        }
        std::future::pending().await
    }
}

/// What [`Request::set_timeout`] has said: up to eight digits and a unit (gRPC over HTTP2, "Requests").
fn timeout(metadata: &MetadataMap) -> Option<Duration> {
    let text = metadata.get("grpc-timeout")?.to_str().ok()?;
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u64 = number.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number.saturating_mul(3600)),
        "M" => Duration::from_secs(number.saturating_mul(60)),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
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

fn announce(offer: Offer, metadata: &mut MetadataMap) {
    metadata.insert(SURMISE, offer.surmise().parse().expect("it is ASCII"));
    metadata.insert(DEPTH, offer.budget.depth.into());
    metadata.insert(BUDGET, offer.budget.branches.into());
}

/// The request stream. It ends when nobody can say more.
struct Said(mpsc::UnboundedReceiver<Bytes>);

impl Stream for Said {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.0.poll_recv(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_what_was_set() {
        let read = |text: &str| {
            let mut metadata = MetadataMap::new();
            metadata.insert("grpc-timeout", text.parse().unwrap());
            timeout(&metadata)
        };
        for set in [
            Duration::from_millis(20),
            Duration::from_secs(90),
            Duration::from_nanos(7),
        ] {
            let mut request = Request::new(());
            request.set_timeout(set);
            assert_eq!(timeout(request.metadata()), Some(set));
        }
        assert_eq!(read("2H"), Some(Duration::from_secs(7200)));
        assert_eq!(
            read("18446744073709551615H"),
            Some(Duration::from_secs(u64::MAX))
        );
        for wrong in ["", "S", "1", "1.5S", "1 S", "1d"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
