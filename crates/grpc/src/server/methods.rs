//! Aware methods of a service whose other methods are served as before.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use prost::Message;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::NamedService;
use tonic::{Request, Status};

use crate::server::callers::Callers;
use crate::server::context::Context;
use crate::server::served::Pinned;

type Serve = dyn Fn(http::Request<Body>) -> Pinned<http::Response<Body>> + Send + Sync;

/// A service of which some methods are aware: [`Callers::before`] makes it, and tonic's router takes it in place of the
/// one that it was made before.
#[derive(Clone)]
pub struct AwareMethods<S> {
    callers: Callers,
    /// By their paths.
    methods: Arc<BTreeMap<String, Arc<Serve>>>,
    others: S,
}

impl<S> AwareMethods<S> {
    pub(crate) fn new(callers: Callers, others: S) -> Self {
        Self {
            callers,
            methods: Arc::default(),
            others,
        }
    }
}

impl<S: NamedService> AwareMethods<S> {
    /// Serves a method, by its name in the service, as [`Callers::unary`] does. The service behind is asked for it no
    /// more. Nobody calls a name that the service does not have.
    pub fn unary<Q, T, H, F>(mut self, method: &str, handler: H) -> Self
    where
        Q: Message + Default + 'static,
        T: Message + 'static,
        H: Fn(Context<T>, Request<Q>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<T, Status>> + Send + 'static,
    {
        let callers = self.callers.clone();
        let serve: Arc<Serve> = Arc::new(move |request| {
            let (callers, handler) = (callers.clone(), handler.clone());
            Box::pin(async move { callers.unary(request, handler).await })
        });
        let path = format!("/{}/{method}", S::NAME);
        Arc::make_mut(&mut self.methods).insert(path, serve);
        self
    }
}

impl<S: NamedService> NamedService for AwareMethods<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<http::Request<Body>> for AwareMethods<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pinned<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), Infallible>> {
        self.others.poll_ready(task)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        match self.methods.get(request.uri().path()) {
            Some(serve) => {
                let response = serve(request);
                Box::pin(async move { Ok(response.await) })
            }
            None => Box::pin(self.others.call(request)),
        }
    }
}

impl<S> fmt::Debug for AwareMethods<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("AwareMethods");
        shown.field("callers", &self.callers);
        shown.field("methods", &self.methods.keys());
        shown.finish_non_exhaustive()
    }
}
