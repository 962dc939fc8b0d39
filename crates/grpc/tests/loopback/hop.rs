//! An aware server that asks the next one, and one that asks nobody.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context as Task, Poll};

use surmise_grpc::{CallTo, Callers, Context, Scope, Server, Status, bear_cancelled_calls};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tonic::body::Body;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::{Service, http};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{self, Channel};
use tonic::{Request, Response};
use tonic_prost::ProstCodec;

use crate::store::{Entry, Pinned, entry, until};

/// `Do` is an aware method: it is logged, and undone if its caller is aborted.
#[derive(Clone)]
pub struct Hop {
    pub callers: Callers,
    /// Whose reply it goes on with.
    pub next: Option<Server>,
    /// Whom it calls with that reply.
    pub then: Option<Server>,
    /// What the last one says before it knows.
    pub predicts: Option<&'static str>,
    /// What the last one waits for.
    pub gate: Arc<Semaphore>,
    pub log: Arc<Mutex<Vec<String>>>,
    pub running: Arc<AtomicUsize>,
    /// What was begun for a caller that was not confirmed.
    pub ahead: Arc<Mutex<Vec<String>>>,
    /// Whether it answers as the version before this that knew nothing of speculation.
    pub is_old: Arc<AtomicBool>,
    /// Whether it does not wait for the next one's reply, which a task of its own logs.
    pub leaves: bool,
}

/// Tells that a handler is dropped.
struct Running(Hop, String);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.say("drop", &self.1);
        self.0.running.fetch_sub(1, SeqCst);
    }
}

impl Hop {
    pub fn last() -> Self {
        Self {
            callers: Callers::default(),
            next: None,
            then: None,
            predicts: None,
            gate: Arc::new(Semaphore::new(0)),
            log: Arc::default(),
            running: Arc::default(),
            ahead: Arc::default(),
            is_old: Arc::default(),
            leaves: false,
        }
    }

    pub fn before(next: Server) -> Self {
        let next = Some(next);
        Self {
            next,
            ..Self::last()
        }
    }

    pub async fn listen(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let server = transport::Server::builder().add_service(self.clone());
        tokio::spawn(server.serve_with_incoming(incoming));
        address
    }

    /// Serves, and returns what its clients know of it: that it is aware.
    pub async fn serve(&self) -> Server {
        let server = connect(self.listen().await).await;
        self.gate.add_permits(1);
        make(&Scope::root(), &server, "first")
            .value()
            .await
            .unwrap();
        assert!(server.is_aware("/test.Hop/Do"));
        until(|| self.running.load(SeqCst) == 0).await;
        self.log.lock().unwrap().clear();
        server
    }

    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    fn say(&self, what: &str, key: &str) {
        self.log.lock().unwrap().push(format!("{what} {key}"));
    }

    pub async fn answer(self, context: Context<Entry>, key: String) -> Result<Entry, Status> {
        self.running.fetch_add(1, SeqCst);
        let _running = Running(self.clone(), key.clone());
        self.say("do", &key);
        if context.is_speculative() {
            self.ahead.lock().unwrap().push(key.clone());
        }
        let (undo, undone) = (self.clone(), key.clone());
        context.on_abort(move || undo.say("undo", &undone));
        let Some(next) = &self.next else {
            if let Some(value) = self.predicts {
                context.predict(&entry(&key, value));
            }
            self.gate.acquire().await.unwrap().forget();
            return Ok(entry(&key, "end"));
        };
        let call = make(&context, next, &key);
        if self.leaves {
            let hop = self.clone();
            tokio::spawn(
                async move { hop.say("left behind", &format!("{:?}", call.value().await)) },
            );
            return Ok(entry(&key, "left"));
        }
        call.then_reply(&context, async |scope: Scope, reply: Entry| {
            if let Some(then) = &self.then {
                make(&scope, then, &key).value().await?;
                self.say("then", &key);
            }
            Ok(entry(&key, &format!("{}<", reply.value)))
        })
        .await
    }
}

pub async fn connect(address: SocketAddr) -> Server {
    let endpoint = Channel::from_shared(format!("http://{address}")).unwrap();
    let endpoint = bear_cancelled_calls(endpoint.tcp_nodelay(true));
    Server::new(endpoint.connect().await.unwrap())
}

/// The call of `Do`.
pub fn make(scope: &Scope, server: &Server, key: &str) -> CallTo<Entry> {
    let path = PathAndQuery::from_static("/test.Hop/Do");
    scope.call_to(server, path, &entry(key, "")).aware()
}

impl NamedService for Hop {
    const NAME: &'static str = "test.Hop";
}

impl Service<http::Request<Body>> for Hop {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pinned<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Task<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let hop = self.clone();
        if hop.is_old.load(SeqCst) {
            let codec = ProstCodec::<Entry, Entry>::default();
            return Box::pin(async move { Ok(Grpc::new(codec).unary(Old(hop), request).await) });
        }
        Box::pin(async move {
            let callers = hop.callers.clone();
            let handler = |context: Context<Entry>, request: Request<Entry>| {
                if let Some(tenant) = request.metadata().get("tenant") {
                    hop.say("tenant", tenant.to_str().unwrap());
                }
                hop.answer(context, request.into_inner().key)
            };
            Ok(callers.unary(request, handler).await)
        })
    }
}

/// The version before, which does what it is asked for.
struct Old(Hop);

impl UnaryService<Entry> for Old {
    type Response = Entry;
    type Future = Pinned<Result<Response<Entry>, Status>>;

    fn call(&mut self, request: Request<Entry>) -> Self::Future {
        let key = request.into_inner().key;
        self.0.say("do", &key);
        Box::pin(async move { Ok(Response::new(entry(&key, "old"))) })
    }
}
