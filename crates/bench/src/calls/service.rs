//! A service that knows nothing of speculation, on loopback, and an ordinary client of it.

use std::convert::Infallible;
use std::future::Future;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use surmise_grpc::{Status, bear_cancelled_calls};
use tokio::net::TcpListener;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codegen::{Service, http};
use tonic::server::{NamedService, UnaryService};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};
use tonic::{Request, Response};
use tonic_prost::ProstCodec;

const PATH: &str = "/bench.Step/Next";

/// A request, or a reply.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Place {
    #[prost(uint64, tag = "1")]
    pub number: u64,
}

/// For how long handlers have run, in ns.
pub type Worked = Arc<AtomicU64>;

/// The same in ms.
#[expect(clippy::cast_precision_loss, reason = "exact below 100 days")]
pub fn ms(worked: &AtomicU64) -> f64 {
    worked.load(Ordering::Relaxed) as f64 / 1e6
}

/// Counts how long a handler has run when it ends, or is ended.
pub struct Working<'a> {
    worked: &'a AtomicU64,
    since: Instant,
}

impl<'a> Working<'a> {
    pub fn new(worked: &'a AtomicU64) -> Self {
        let since = Instant::now();
        Self { worked, since }
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        let ns = u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.worked.fetch_add(ns, Ordering::Relaxed);
    }
}

/// Serves on a port of loopback, and connects to it.
pub async fn serve<S>(service: S) -> Result<Channel, String>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>
        + NamedService
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
{
    let wrong = |error: &dyn std::fmt::Display| format!("serve: {error}");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let listener = listener.map_err(|error| wrong(&error))?;
    let address = listener.local_addr().map_err(|error| wrong(&error))?;
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let server = Server::builder().add_service(service);
    tokio::spawn(server.serve_with_incoming(incoming));
    let endpoint = Channel::from_shared(format!("http://{address}"));
    let endpoint = endpoint.map_err(|error| wrong(&error))?.tcp_nodelay(true);
    let connected = bear_cancelled_calls(endpoint).connect().await;
    connected.map_err(|error| wrong(&error))
}

/// Answers a number with the next one, after a while; or with what another one makes of the next one.
#[derive(Clone)]
pub struct Step {
    takes: Duration,
    next: Option<Client>,
    worked: Worked,
}

impl Step {
    /// So many services in a row, each of which asks the next one before it works for so long: a client of
    /// the first, and how long the handlers of each have run, those of the last one first.
    pub async fn row(length: u32, takes: Duration) -> Result<(Client, Vec<Worked>), String> {
        let (mut next, mut all) = (None, Vec::new());
        for _ in 0..length {
            let worked = Worked::default();
            all.push(Arc::clone(&worked));
            let step = Self {
                takes,
                next: next.take(),
                worked,
            };
            next = Some(Client(serve(step).await?));
        }
        Ok((next.ok_or("a row of no services")?, all))
    }

    async fn answer(self, mut number: u64) -> Result<Place, Status> {
        if let Some(next) = &self.next {
            number = next.next(number).await?;
        }
        let _working = Working::new(&self.worked);
        if !self.takes.is_zero() {
            tokio::time::sleep(self.takes).await;
        }
        Ok(Place { number: number + 1 })
    }
}

#[derive(Clone)]
pub struct Client(Channel);

impl Client {
    /// What comes after a number.
    pub async fn next(&self, number: u64) -> Result<u64, Status> {
        let mut client = Grpc::new(self.0.clone());
        let ready = client.ready().await;
        ready.map_err(|error| Status::unavailable(error.to_string()))?;
        let path = http::uri::PathAndQuery::from_static(PATH);
        let codec = ProstCodec::<Place, Place>::default();
        let request = Request::new(Place { number });
        Ok(client
            .unary(request, path, codec)
            .await?
            .into_inner()
            .number)
    }
}

type Pinned<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl NamedService for Step {
    const NAME: &'static str = "bench.Step";
}

impl Service<http::Request<Body>> for Step {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pinned<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let handler = Handler(self.clone());
        Box::pin(async move {
            let codec = ProstCodec::<Place, Place>::default();
            let mut server = tonic::server::Grpc::new(codec);
            Ok(server.unary(handler, request).await)
        })
    }
}

struct Handler(Step);

impl UnaryService<Place> for Handler {
    type Response = Place;
    type Future = Pinned<Result<Response<Place>, Status>>;

    fn call(&mut self, request: Request<Place>) -> Self::Future {
        let Self(step) = self;
        let answer = step.clone().answer(request.into_inner().number);
        Box::pin(async move { answer.await.map(Response::new) })
    }
}
