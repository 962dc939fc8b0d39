//! The scope that code runs in, and the calls that it makes there.

pub mod allowance;
pub mod call;
pub mod names;
mod running;
pub mod shared;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use prost::Message;
use surmise_rpc::{Caller, Limits, Standing, WaiterId};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{IntoRequest, Status};

use crate::client::Server;
use crate::client::conversation::Question;
use crate::client::line::Line;
use crate::scope::allowance::Allowance;
use crate::scope::names::Name;
use crate::scope::shared::Shared;
use crate::wire::message;
pub use call::Call;

/// Asks an aware server, and waits for its actual reply.
pub type Sending<T> =
    Box<dyn FnMut() -> Pin<Box<dyn Future<Output = Result<T, Status>> + Send>> + Send>;

/// A call to a server that may be aware.
pub type CallTo<T> = Call<T, Sending<T>>;

/// What code rests on: nothing, for a program's own ([`Scope::root`]), or the predictions that it was
/// started with. Code gets its scope as an argument, makes its calls with it, and hands it to what it
/// calls. When a prediction is denied, the futures of its scope are dropped.
///
/// A task of its own that is given a scope is not dropped with it: its calls then fail, with `CANCELLED`. One that is
/// left behind when the code that follows a call has come to its end goes on in the scope of that call, as if
/// nothing had been run ahead.
#[derive(Clone, Debug)]
pub struct Scope {
    pub(crate) shared: Arc<Shared>,
    pub(crate) name: Arc<Name>,
}

impl Scope {
    /// A scope that rests on nothing. Calls of one operation share one; operations that have nothing
    /// to do with each other each have their own.
    pub fn root() -> Self {
        Self::root_with(Limits::default())
    }

    /// A scope that rests on nothing, in which no more is run ahead than this.
    pub fn root_with(limits: Limits) -> Self {
        Self::root_within(limits, Allowance::default())
    }

    pub(crate) fn root_within(limits: Limits, allowance: Allowance) -> Self {
        Self::root_of(Arc::new(Shared::new(Caller::Correct, limits, allowance)))
    }

    /// The root of this tree.
    pub(crate) fn root_of(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            name: Name::root(),
        }
    }

    /// A call in this scope. `send` sends the request and waits for the reply, by whatever client
    /// there is. It is run once; again where order is kept and the reply was read too early; and up to five times more
    /// while its error says that nobody has begun the call.
    ///
    /// The call is [`Unsafe`](surmise_rpc::Safety::Unsafe) unless it is said to be [`Call::safe`].
    pub fn call<T, S, F>(&self, send: S) -> Call<T, S>
    where
        T: Clone + PartialEq,
        S: FnMut() -> F,
        F: Future<Output = Result<T, Status>>,
    {
        Call::new(self.clone(), send)
    }

    /// A call in this scope to a server that may be aware, as [`Scope::call`]. If it is, what it
    /// predicts is run ahead with, it may open branches of its own within this root's budget, and
    /// methods that are [`Call::aware`] are called also by a scope that speculates.
    ///
    /// The request is a message, or a `tonic::Request` of one, with metadata, extensions and a timeout.
    /// The timeout counts until the reply is there, from when the call is sent by a scope that is
    /// confirmed: what is undecided takes nothing off it.
    ///
    /// It has to be made in a Tokio runtime.
    pub fn call_to<'q, Q, T>(
        &self,
        server: &Server,
        path: PathAndQuery,
        request: impl IntoRequest<&'q Q>,
    ) -> CallTo<T>
    where
        Q: Message + 'q,
        T: Message + Default + Clone + PartialEq + 'static,
    {
        let (metadata, extensions, request) = request.into_request().into_parts();
        let peer = server.peer(path.path());
        let question = Question {
            server: server.clone(),
            path,
            metadata,
            extensions,
            request: request.encode_to_vec().into(),
            deadline: Arc::default(),
        };
        let line = Arc::new(Line::new(question, peer, message::<T>));
        let replies = line.clone();
        let send: Sending<T> = Box::new(move || Box::pin(replies.clone().reply()));
        Call::new(self.clone(), send).to(peer, line)
    }

    /// Waits until the servers have ended what was committed to them in this root by now, and with that have said that
    /// they did so. Calls need not wait for this; whoever has to know does. It waits as long as they take: whoever
    /// waits no longer may drop it, and ask again.
    ///
    /// # Errors
    ///
    /// That of the first commit that was lost, to everybody who asks from then on. Its server may have taken back what
    /// it did.
    pub async fn settled(&self) -> Result<(), Status> {
        self.shared.settled().await
    }

    /// Whether anything that this scope rests on is undecided.
    pub fn is_speculative(&self) -> bool {
        self.shared.standing(&self.name) != Some(Standing::Correct)
    }

    /// Waits until nothing that this scope rests on is undecided; then the scope has happened, and
    /// may do what cannot be undone. In a scope that a denied prediction ends, code ends here.
    ///
    /// # Errors
    ///
    /// `CANCELLED`, where the scope is gone and its code runs on because it was moved to a task of
    /// its own, which nobody drops.
    pub async fn confirmed(&self) -> Result<(), Status> {
        let gone = |_| Status::cancelled("what this code rested on was denied");
        let waiter = self.shared.wait(&self.name).map_err(gone)?;
        let confirmed = Confirmed {
            shared: &self.shared,
            waiter,
        };
        confirmed.await.map_err(gone)
    }

    /// Says how to undo something that this scope has done. It is run if the scope is discarded:
    /// after what the scope's calls and later rollbacks undo, and before its futures are dropped; at once, if it was
    /// discarded before. If the scope is confirmed, it is dropped; an error of the code does not run it. It does not
    /// wait, and knows nothing of its scope. What it undoes was there for a while: nobody else should have read it.
    pub fn on_abort(&self, undo: impl FnOnce() + Send + 'static) {
        self.shared.on_abort(&self.name, Box::new(undo));
    }
}

/// Waits at a barrier.
struct Confirmed<'a> {
    shared: &'a Shared,
    waiter: WaiterId,
}

impl Future for Confirmed<'_> {
    type Output = Result<(), surmise_rpc::TreeError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.shared.poll_waiter(self.waiter, context)
    }
}

impl Drop for Confirmed<'_> {
    fn drop(&mut self) {
        self.shared.leave_waiter(self.waiter);
    }
}
