//! A call, and what is known of its reply before it comes.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;

use prost::Message;
use surmise_predict::{Guess, User};
use surmise_rpc::{Order, Peer, Request, Safety, Stamp};
use tonic::Status;

use crate::client::line::Line;
use crate::client::not_begun::Tries;
use crate::known::Known;
use crate::scope::Scope;
use crate::scope::running::{Foresee, Running, Watched};
use crate::server::Context;

/// A predicted value, when it comes.
pub(crate) type Foreseeing<T> = Pin<Box<dyn Future<Output = Option<T>> + Send>>;

/// What is done with the actual value, to predict better next time.
pub(crate) type Learning<T> = Box<dyn FnOnce(&T) + Send>;

/// A call that is not made yet; [`Call::then`] makes it.
#[must_use = "a call is made by `then` or `value`"]
pub struct Call<T, S> {
    scope: Scope,
    name: Option<&'static str>,
    send: S,
    request: Request,
    same: fn(&T, &T) -> bool,
    stamp: fn(&T) -> Option<Stamp>,
    values: Vec<T>,
    predictors: Vec<Foreseeing<T>>,
    learn: Vec<Learning<T>>,
    line: Option<Arc<Line<T>>>,
}

impl<T: Clone + PartialEq, S> Call<T, S> {
    pub(crate) fn new(scope: Scope, send: S) -> Self {
        Self {
            scope,
            name: None,
            send,
            request: Request::default(),
            same: T::eq,
            stamp: |_| None,
            values: Vec::new(),
            predictors: Vec::new(),
            learn: Vec::new(),
            line: None,
        }
    }

    pub(crate) fn to(mut self, peer: Peer, line: Arc<Line<T>>) -> Self {
        self.request.peer = peer;
        self.line = Some(line);
        self
    }
}

impl<T, S> Call<T, S> {
    /// Names the method where it is told what is run ahead, such as `weather.Weather/Find`. A call by
    /// [`Scope::call_to`] is named by its path.
    pub fn named(mut self, method: &'static str) -> Self {
        self.name = Some(method);
        self
    }

    /// The method has no effects, so it may be called by a scope that speculates. Reads that take
    /// locks have effects.
    pub fn safe(self) -> Self {
        self.safety(Safety::Safe)
    }

    /// The server keeps the effects of the method back, or undoes them, unless the caller is
    /// confirmed. So a scope that speculates may call it, once the server has shown that it is aware.
    pub fn aware(self) -> Self {
        self.safety(Safety::Aware)
    }

    /// The method is of this class; see [`Methods`](crate::Methods). Toward a server that is not
    /// known to be aware, an aware method is unsafe. See [`Scope::call_to`].
    pub fn safety(mut self, class: Safety) -> Self {
        self.request.safety = class;
        self
    }

    /// A reply that the call may have. Each value that differs gets a branch of its own, as far as
    /// limits allow; best first.
    pub fn predict(mut self, value: T) -> Self {
        self.values.push(value);
        self
    }

    /// A prediction that takes a while, such as a call of its own to a replica that is near. It
    /// starts with the call, and is dropped when the reply comes first. It has to be safe.
    pub fn predict_with(
        mut self,
        prediction: impl Future<Output = Option<T>> + Send + 'static,
    ) -> Self {
        self.predictors.push(Box::pin(prediction));
        self
    }

    /// Has a predictor predict the reply to this request of this user, and learn the actual one.
    pub fn predict_by<Q, P>(mut self, known: &Known<P>, user: User, request: Q) -> Self
    where
        P: surmise_predict::Predictor<Q, T> + Send + 'static,
        Q: Send + 'static,
        T: 'static,
    {
        let guesses = known.predict(&user, &request);
        self.values
            .extend(guesses.into_iter().map(|guess: Guess<T>| guess.value));
        let known = known.clone();
        self.learn
            .push(Box::new(move |actual| known.learn(&user, &request, actual)));
        self
    }

    /// Compares predictions with the reply by `same`, an equivalence, instead of all of the message:
    /// for replies of which a part always differs. What follows goes on with the message that was predicted, so it may
    /// use no more of it than what is compared.
    pub fn compared_by(mut self, same: fn(&T, &T) -> bool) -> Self {
        self.same = same;
        self
    }

    /// The reply may not be older than those that this scope rests on, as far as their calls are ordered too, by the
    /// stamp in it. One that is older, or shows nothing, is asked for again when nothing is undecided that this rests on.
    /// For [`Order::Snapshot`] the request has to ask for that very state. A stamp that an aware server gives
    /// ([`Context::stamp`]) counts more than this one.
    pub fn ordered(mut self, order: Order, stamp: fn(&T) -> Option<Stamp>) -> Self {
        self.request.order = order;
        self.stamp = stamp;
        self
    }

    /// Makes the call. What follows it runs with each predicted value and with the actual one, in a
    /// scope of its own; the one that had the actual value counts, as if there had been no others. It makes all its
    /// calls by the scope that it is given: a call past that is sent for every value, and cannot be taken back.
    ///
    /// `follow` is run several times, at once: `async |scope, value| …`, which borrows what it uses,
    /// or `move |scope, value| async move { … }` with clones.
    ///
    /// # Errors
    ///
    /// The call's own, however it was predicted, and those of what follows it.
    pub async fn then<K, F, B, R, E>(self, follow: K) -> Result<R, E>
    where
        T: Clone,
        S: FnMut() -> F,
        F: Future<Output = Result<T, Status>>,
        K: Fn(Scope, T) -> B,
        B: Future<Output = Result<R, E>>,
        E: From<Status>,
    {
        self.run(follow, None).await
    }

    /// As [`Call::then`], in a handler whose reply is what this comes to, unchanged: as the last
    /// thing that the handler does, or a branch whose own call was made so. What a branch comes to
    /// while its prediction is undecided is then a prediction for the handler's caller.
    ///
    /// # Errors
    ///
    /// The call's own, however it was predicted, and those of what follows it.
    pub async fn then_reply<K, F, B, R>(
        mut self,
        context: &Context<R>,
        follow: K,
    ) -> Result<R, Status>
    where
        T: Clone,
        S: FnMut() -> F,
        F: Future<Output = Result<T, Status>>,
        K: Fn(Scope, T) -> B,
        B: Future<Output = Result<R, Status>>,
        R: Message,
    {
        self.request.is_tail = true;
        let foresee = |outcome: &Result<R, Status>| {
            // Errors are not predicted.
            if let Ok(value) = outcome {
                context.predict(value);
            }
        };
        self.run(follow, Some(&foresee)).await
    }

    async fn run<K, F, B, R, E>(self, follow: K, foresee: Option<Foresee<'_, R, E>>) -> Result<R, E>
    where
        T: Clone,
        S: FnMut() -> F,
        F: Future<Output = Result<T, Status>>,
        K: Fn(Scope, T) -> B,
        B: Future<Output = Result<R, E>>,
        E: From<Status>,
    {
        let is_alone = self.line.is_none() && self.request.order == Order::None;
        if is_alone && self.scope.shared.is_sequential(&self.scope.name) {
            return self.run_alone(follow).await;
        }
        let Self {
            scope, mut request, ..
        } = self;
        if self.line.as_ref().is_some_and(|line| !line.may_go_ahead()) {
            request.safety = Safety::Unsafe;
        }
        let shared = scope.shared;
        let gone = |_| Status::cancelled("what this code rested on was denied");
        let call = shared.call(&scope.name, request).map_err(gone)?;
        let watched = Watched {
            name: self.name,
            send: self.send,
            line: self.line,
            stamp: self.stamp,
            predictors: self.predictors,
            learn: self.learn,
        };
        let mut running = Running::new(shared, call, watched, self.same);
        running.predict_all(self.values, &follow);
        poll_fn(|task| running.poll(task, &follow, foresee)).await
    }

    /// As the sequential program does, whose scopes are one: for what follows can never be taken back.
    async fn run_alone<K, F, B, R, E>(mut self, follow: K) -> Result<R, E>
    where
        S: FnMut() -> F,
        F: Future<Output = Result<T, Status>>,
        K: Fn(Scope, T) -> B,
        B: Future<Output = Result<R, E>>,
        E: From<Status>,
    {
        self.scope.shared.called_in_turn();
        let mut tries = Tries::default();
        let actual = loop {
            let answer = (self.send)().await;
            if !tries.again(&answer) {
                break answer?;
            }
        };
        for learn in self.learn {
            learn(&actual);
        }
        follow(self.scope, actual).await
    }

    /// Makes the call, and runs nothing ahead.
    ///
    /// # Errors
    ///
    /// The call's own.
    pub async fn value<F>(self) -> Result<T, Status>
    where
        T: Clone,
        S: FnMut() -> F,
        F: Future<Output = Result<T, Status>>,
    {
        self.then(async |_, value| Ok(value)).await
    }
}

impl<T, S> fmt::Debug for Call<T, S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Call");
        shown.field("request", &self.request);
        shown.field("predictions", &self.values.len());
        shown.finish_non_exhaustive()
    }
}
