//! Servers that know of speculation, each of which asks the next one before it answers.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Duration;

use surmise_grpc::{CallTo, Callers, Context, Scope, Server, Status};
use tonic::Request;
use tonic::body::Body;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::{Service, http};
use tonic::server::NamedService;

use super::service::{Place, Worked, Working, serve};

const PATH: &str = "/bench.Hop/Next";

/// Answers with one more than the next one does, and says beforehand what that will be.
#[derive(Clone)]
pub struct Hop {
    callers: Callers,
    takes: Duration,
    next: Option<Server>,
    /// How many servers there are from this one on.
    servers: u32,
    worked: Worked,
}

impl Hop {
    /// So many servers in a row, whose handlers take so long each: the first of them, and how long the
    /// handlers of each have run, those of the last one first.
    pub async fn row(length: u32, takes: Duration) -> Result<(Server, Vec<Worked>), String> {
        let (mut next, mut all) = (None, Vec::new());
        for servers in 1..=length {
            let worked = Worked::default();
            all.push(Arc::clone(&worked));
            let hop = Self {
                callers: Callers::default(),
                takes,
                next: next.take(),
                servers,
                worked,
            };
            next = Some(Server::new(serve(hop).await?));
        }
        Ok((next.ok_or("a row of no servers")?, all))
    }

    async fn answer(self, context: Context<Place>, number: u64) -> Result<Place, Status> {
        context.predict(&Place {
            number: number + u64::from(self.servers),
        });
        let work = async |number: u64| {
            let _working = Working::new(&self.worked);
            if !self.takes.is_zero() {
                tokio::time::sleep(self.takes).await;
            }
            Ok(Place { number: number + 1 })
        };
        let Some(next) = &self.next else {
            return work(number).await;
        };
        call(&context, next, number)
            .then_reply(&context, async |_: Scope, found: Place| {
                work(found.number).await
            })
            .await
    }
}

/// A call of the next one.
pub fn call(scope: &Scope, server: &Server, number: u64) -> CallTo<Place> {
    let path = PathAndQuery::from_static(PATH);
    scope.call_to(server, path, &Place { number }).aware()
}

type Pinned<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl NamedService for Hop {
    const NAME: &'static str = "bench.Hop";
}

impl Service<http::Request<Body>> for Hop {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pinned<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let hop = self.clone();
        Box::pin(async move {
            let callers = hop.callers.clone();
            let handler = |context: Context<Place>, request: Request<Place>| {
                hop.answer(context, request.into_inner().number)
            };
            Ok(callers.unary(request, handler).await)
        })
    }
}
