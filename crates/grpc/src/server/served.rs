//! One call at an aware server, from its request to the end of both streams.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context as Task, Poll};
use std::time::Duration;

use prost::Message;
use prost::bytes::Bytes;
use surmise_rpc::{Caller, Decision, Heard, Offer, Standing};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tonic::codegen::tokio_stream::Stream;
use tonic::server::{StreamingService, UnaryService};
use tonic::{Request, Response, Status, Streaming};

use crate::deadline::{exceeded, passed, timeout};
use crate::scope::Scope;
use crate::scope::names::Name;
use crate::scope::shared::Shared;
use crate::server::callers::Callers;
use crate::server::context::{Context, Frames, Replies, Sizes};
use crate::server::origin::Origin;
use crate::wire::{AGAIN, SURMISE, message, unmarked};

pub type Pinned<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Serves a caller that knows nothing of speculation.
pub struct Plain<H, Q, T> {
    scope: Scope,
    /// Until it is called, once.
    handler: Option<H>,
    messages: PhantomData<fn(Q) -> T>,
}

impl<H, Q, T> Plain<H, Q, T> {
    pub fn new(scope: Scope, handler: H) -> Self {
        Self {
            scope,
            handler: Some(handler),
            messages: PhantomData,
        }
    }
}

impl<H, Q, T, F> UnaryService<Bytes> for Plain<H, Q, T>
where
    Q: Message + Default,
    T: Message + 'static,
    H: FnOnce(Context<T>, Request<Q>) -> F + Send + 'static,
    F: Future<Output = Result<T, Status>> + Send + 'static,
{
    type Response = Bytes;
    type Future = Pinned<Result<Response<Bytes>, Status>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let handler = self.handler.take().expect("a call is served once");
        let context = Context::new(self.scope.clone(), Arc::new(Replies::new(None)));
        Box::pin(async move {
            let (metadata, extensions, bytes) = request.into_parts();
            let request = Request::from_parts(metadata, extensions, message(bytes)?);
            let reply = handler(context, request).await?;
            Ok(Response::new(reply.encode_to_vec().into()))
        })
    }
}

/// Serves a caller that takes predictions, and may speculate.
pub struct Ahead<H, Q, T> {
    callers: Callers,
    offer: Offer,
    sizes: Sizes,
    /// Until it is called, once.
    handler: Option<H>,
    messages: PhantomData<fn(Q) -> T>,
}

impl<H, Q, T> Ahead<H, Q, T> {
    pub fn new(callers: Callers, offer: Offer, sizes: Sizes, handler: H) -> Self {
        Self {
            callers,
            offer,
            sizes,
            handler: Some(handler),
            messages: PhantomData,
        }
    }
}

impl<H, Q, T, F> StreamingService<Bytes> for Ahead<H, Q, T>
where
    Q: Message + Default + 'static,
    T: Message + 'static,
    H: FnOnce(Context<T>, Request<Q>) -> F + Send + 'static,
    F: Future<Output = Result<T, Status>> + Send + 'static,
{
    type Response = Bytes;
    type ResponseStream = Served;
    type Future = Pinned<Result<Response<Served>, Status>>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        let handler = self.handler.take().expect("a call is served once");
        let (callers, offer, sizes) = (self.callers.clone(), self.offer, self.sizes);
        Box::pin(async move {
            let origin = Origin::of(&request);
            let (metadata, extensions, mut said) = request.into_parts();
            let first = said.message().await?;
            let first = first.ok_or_else(|| Status::invalid_argument("there is no request"))?;
            let first = match offer.caller {
                Caller::Correct => first,
                Caller::Speculative => unmarked(first)
                    .ok_or_else(|| Status::invalid_argument("the request is not marked"))?,
            };
            let request = Request::from_parts(metadata, extensions, message(first)?);

            let mut limits = callers.granted().limits;
            limits.budget = offer.budget;
            let shared = Arc::new(Shared::new(offer.caller, limits, callers.allowance()));
            let (send, frames) = mpsc::unbounded_channel();
            let replies = Arc::new(Replies::new(Some(Frames { send, sizes })));
            let context = Context::new(Scope::root_of(shared.clone()), replies.clone());
            let call = Call {
                said: (offer.caller == Caller::Speculative).then_some(said),
                timeout: timeout(request.metadata()),
                shared,
                replies,
            };
            let work = async move {
                let limit = tokio::time::sleep(callers.granted().undecided_for);
                let mut call = call;
                let is_undecided = call.said.is_some();
                let admitted = is_undecided.then(|| callers.admit(origin)).flatten();
                let is_put_off = is_undecided && admitted.is_none();
                if is_put_off && !call.is_decided_by(limit).await {
                    return;
                }
                let limit = tokio::time::sleep(callers.granted().undecided_for);
                call.serve(handler(context, request), limit).await;
                drop(admitted);
            };
            let mut response = Response::new(Served {
                work: Some(Box::pin(work)),
                frames,
            });
            let echo = "1".parse().expect("it is ASCII");
            response.metadata_mut().insert(SURMISE, echo);
            Ok(response)
        })
    }
}

/// One call, of a caller that takes predictions.
struct Call {
    /// What the caller says, while it is to say something.
    said: Option<Streaming<Bytes>>,
    /// How long it may take, once it is decided.
    timeout: Option<Duration>,
    shared: Arc<Shared>,
    replies: Arc<Replies>,
}

impl Call {
    /// Waits for the caller's decision, with nothing begun. Returns whether the call is to go on.
    async fn is_decided_by(&mut self, limit: impl Future<Output = ()>) -> bool {
        let Some(said) = &mut self.said else {
            return true;
        };
        let decision = tokio::select! {
            decision = hear(said) => decision,
            () = limit => {
                self.replies.fail(undecided());
                return false;
            }
        };
        self.decide(decision)
    }

    /// Runs the handler, and what follows from its caller's decision.
    async fn serve<T, F>(mut self, handler: F, limit: impl Future<Output = ()>)
    where
        T: Message,
        F: Future<Output = Result<T, Status>>,
    {
        let mut handler = Box::pin(handler);
        let mut limit = Box::pin(limit);
        // After the handler, so that it is dropped before it: rollbacks come first.
        let _aborted = Aborted(self.shared.clone());
        let mut outcome = None;
        let mut due = pin!(passed(None));
        while outcome.is_none() || self.said.is_some() {
            if self.said.is_none()
                && let Some(timeout) = self.timeout.take()
            {
                due.set(passed(Instant::now().checked_add(timeout)));
            }
            tokio::select! {
                biased;
                decision = heard(&mut self.said) => if !self.decide(decision) {
                    return;
                },
                () = &mut limit, if self.said.is_some() => {
                    self.replies.fail(undecided());
                    return;
                }
                came = &mut handler, if outcome.is_none() => outcome = Some(came.and_then(|value| {
                    // The caller may go on with it at once, as it is still to commit. An error waits:
                    // it ends the stream, and with that a commit could not be heard.
                    self.replies.actual(value.encode_to_vec().into())
                })),
                () = &mut due, if outcome.is_none() => {
                    self.replies.fail(exceeded());
                    return;
                }
            }
        }
        // The end of the stream says that the commit has been heard, by all further servers, too; so does an error
        // that is the handler's own, and says so.
        let settled = Scope::root_of(self.shared.clone()).settled().await;
        match (outcome, settled) {
            (Some(Err(own)), settled) => {
                let is_heard = settled.is_ok();
                self.replies.fail(if is_heard { echoed(own) } else { own });
            }
            (_, Err(lost)) => self.replies.fail(lost),
            (_, Ok(())) => {}
        }
    }

    /// Whether the call goes on.
    fn decide(&mut self, decision: Decision) -> bool {
        self.said = None;
        let committed = decision == Decision::Commit
            // It is pending until this, and is discarded only with the call.
            && self.shared.tell(|tree, effects| tree.commit(effects)).is_ok();
        if !committed {
            self.replies
                .fail(Status::cancelled("the caller has aborted"));
        }
        committed
    }
}

/// Waits for the decision of a caller that has one to make; else for ever.
async fn heard(said: &mut Option<Streaming<Bytes>>) -> Decision {
    match said {
        Some(said) => hear(said).await,
        None => std::future::pending().await,
    }
}

/// What ends a call that nobody has decided in time. What it did has been undone when this is sent, so
/// its caller may make it again.
fn undecided() -> Status {
    let mut status = Status::aborted("the call was undecided for too long");
    let again = AGAIN.parse().expect("it is ASCII");
    status.metadata_mut().insert(SURMISE, again);
    status
}

/// With this, an error is what the handler of a call came to, of which all was heard.
fn echoed(mut status: Status) -> Status {
    let echo = "1".parse().expect("it is ASCII");
    status.metadata_mut().insert(SURMISE, echo);
    status
}

async fn hear(said: &mut Streaming<Bytes>) -> Decision {
    let heard = match said.message().await {
        Ok(Some(message)) => Heard::Message(message.len()),
        Ok(None) => Heard::End,
        Err(_) => Heard::Lost,
    };
    heard.decision()
}

/// Ends a root whose stream is gone.
struct Aborted(Arc<Shared>);

impl Drop for Aborted {
    fn drop(&mut self) {
        // What was committed stays as it is, and so do tasks that the handler has left behind.
        if self.0.standing(&Name::root()) != Some(Standing::Correct) {
            let _ = self.0.tell(|tree, effects| tree.abort(effects));
        }
    }
}

/// The reply stream. The call is worked on while it is polled, and ends when it is dropped.
pub struct Served {
    work: Option<Pinned<()>>,
    frames: mpsc::UnboundedReceiver<Result<Bytes, Status>>,
}

impl Stream for Served {
    type Item = Result<Bytes, Status>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Option<Self::Item>> {
        if let Some(work) = &mut self.work
            && work.as_mut().poll(task).is_ready()
        {
            self.work = None;
        }
        match self.frames.poll_recv(task) {
            // Somebody may have kept the context, but nothing will be said any more.
            Poll::Pending if self.work.is_none() => Poll::Ready(None),
            next => next,
        }
    }
}
