//! A gRPC service that knows nothing of speculation, on this machine's loopback, and a client of it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use prost::bytes::{Buf, BufMut};
use surmise_grpc::bear_cancelled_calls;
use tokio::net::TcpListener;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::tokio_stream::Stream;
use tonic::codegen::tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::codegen::{Service, http};
use tonic::server::{NamedService, UnaryService};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

/// A request or a reply.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Entry {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
    /// Of the store, when it was read.
    #[prost(uint64, tag = "3")]
    pub revision: u64,
}

/// The service: `Get` takes a while, `Put` has an effect.
#[derive(Clone, Default)]
pub struct Store {
    pub entries: Arc<Mutex<BTreeMap<String, String>>>,
    /// What was replaced, each with the first revision without it, oldest first.
    former: Arc<Mutex<Vec<Entry>>>,
    pub revision: Arc<AtomicUsize>,
    /// What a `Get` waits for before it reads: the test decides when it is answered.
    pub gates: Arc<Mutex<BTreeMap<String, Arc<tokio::sync::Semaphore>>>>,
    pub gets: Arc<AtomicUsize>,
    pub puts: Arc<AtomicUsize>,
    /// Handlers of `Get` that are running.
    pub running: Arc<AtomicUsize>,
}

impl Store {
    pub fn with(entries: &[(&str, &str)]) -> Self {
        let store = Self::default();
        let owned = entries
            .iter()
            .map(|(key, value)| (key.to_string(), value.to_string()));
        store.entries.lock().unwrap().extend(owned);
        store
    }

    /// From now on, reads of this key wait until they are let through.
    pub fn close(&self, key: &str) {
        let gate = Arc::new(tokio::sync::Semaphore::new(0));
        self.gates.lock().unwrap().insert(key.to_owned(), gate);
    }

    /// Lets one read of this key through.
    pub fn let_through(&self, key: &str) {
        self.gates.lock().unwrap()[key].add_permits(1);
    }

    pub async fn serve(&self) -> Client {
        Client::connect(self.listen().await).await
    }

    pub async fn listen(&self) -> SocketAddr {
        self.listen_as(Server::builder()).await
    }

    pub async fn listen_as(&self, mut server: Server) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address: SocketAddr = listener.local_addr().unwrap();
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let server = server.add_service(self.clone());
        tokio::spawn(server.serve_with_incoming(incoming));
        address
    }

    /// The newest value; for another revision than 0, that of then.
    async fn get(&self, key: &str, revision: u64) -> Result<Entry, Status> {
        self.gets.fetch_add(1, Ordering::SeqCst);
        self.running.fetch_add(1, Ordering::SeqCst);
        let _running = Running(self.running.clone());
        let gate = self.gates.lock().unwrap().get(key).cloned();
        if let Some(gate) = gate {
            gate.acquire().await.unwrap().forget();
        }
        let entries = self.entries.lock().unwrap();
        let newest = self.revision.load(Ordering::SeqCst) as u64;
        let former = match revision {
            0 => None,
            revision => self.former(key, revision),
        };
        let value = former.or_else(|| entries.get(key).cloned());
        Ok(Entry {
            key: key.to_owned(),
            value: value.ok_or_else(|| Status::not_found(key))?,
            revision: if revision == 0 { newest } else { revision },
        })
    }

    /// What was the value at a revision, if it has been replaced since.
    fn former(&self, key: &str, revision: u64) -> Option<String> {
        let former = self.former.lock().unwrap();
        let mut replaced = former.iter().filter(|former| former.key == key);
        let of_then = replaced.find(|former| former.revision > revision)?;
        Some(of_then.value.clone())
    }

    async fn put(&self, entry: Entry) -> Result<Entry, Status> {
        self.puts.fetch_add(1, Ordering::SeqCst);
        let mut entries = self.entries.lock().unwrap();
        let revision = self.revision.fetch_add(1, Ordering::SeqCst) as u64 + 1;
        let former = entries.insert(entry.key.clone(), entry.value.clone());
        let former = former.map(|value| Entry {
            key: entry.key.clone(),
            value,
            revision,
        });
        self.former.lock().unwrap().extend(former);
        Ok(entry)
    }
}

struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// An ordinary client.
#[derive(Clone)]
pub struct Client(Channel);

impl Client {
    pub async fn connect(address: SocketAddr) -> Self {
        let endpoint = Channel::from_shared(format!("http://{address}")).unwrap();
        let endpoint = bear_cancelled_calls(endpoint.tcp_nodelay(true));
        Self(endpoint.connect().await.unwrap())
    }

    pub async fn get(&self, key: &str) -> Result<Entry, Status> {
        self.get_at(key, 0).await
    }

    /// As of a revision; 0 is the newest.
    pub async fn get_at(&self, key: &str, revision: u64) -> Result<Entry, Status> {
        let request = Entry {
            key: key.to_owned(),
            value: String::new(),
            revision,
        };
        self.call("/test.Store/Get", request).await
    }

    pub async fn put(&self, key: &str, value: &str) -> Result<Entry, Status> {
        let (key, value) = (key.to_owned(), value.to_owned());
        self.call(
            "/test.Store/Put",
            Entry {
                key,
                value,
                revision: 0,
            },
        )
        .await
    }

    pub async fn call(&self, path: &'static str, request: Entry) -> Result<Entry, Status> {
        Self::unary(Grpc::new(self.0.clone()), path, request).await
    }

    /// The same for a caller that takes compressed replies.
    pub async fn compressed(&self, path: &'static str, request: Entry) -> Result<Entry, Status> {
        let client = Grpc::new(self.0.clone()).accept_compressed(CompressionEncoding::Gzip);
        Self::unary(client, path, request).await
    }

    async fn unary(
        mut client: Grpc<Channel>,
        path: &'static str,
        request: Entry,
    ) -> Result<Entry, Status> {
        let ready = client.ready().await;
        ready.map_err(|error| Status::unavailable(error.to_string()))?;
        let path = http::uri::PathAndQuery::from_static(path);
        let codec = ProstCodec::<Entry, Entry>::default();
        let reply = client.unary(Request::new(request), path, codec).await?;
        Ok(reply.into_inner())
    }
}

impl Client {
    /// The replies to a request with these metadata, all as they are on the wire.
    pub async fn frames(
        &self,
        path: &'static str,
        request: Vec<u8>,
        metadata: &[(&'static str, &'static str)],
    ) -> Result<Vec<Vec<u8>>, Status> {
        let said = tonic::codegen::tokio_stream::once(request);
        self.exchange(path, said, metadata).await
    }

    /// The same for a caller that speculates, and does not decide as long as this is waited for.
    pub async fn hold(&self, path: &'static str, request: Vec<u8>) -> Result<Vec<Vec<u8>>, Status> {
        let (say, said) = tokio::sync::mpsc::unbounded_channel();
        say.send(request).unwrap();
        let said = UnboundedReceiverStream::new(said);
        let replies = self.exchange(path, said, &[("surmise", "spec")]).await;
        drop(say);
        replies
    }

    async fn exchange(
        &self,
        path: &'static str,
        said: impl Stream<Item = Vec<u8>> + Send + 'static,
        metadata: &[(&'static str, &'static str)],
    ) -> Result<Vec<Vec<u8>>, Status> {
        let mut client = Grpc::new(self.0.clone());
        client.ready().await.unwrap();
        let mut request = Request::new(said);
        for (name, value) in metadata {
            let value = value.parse().unwrap();
            request.metadata_mut().insert(*name, value);
        }
        let path = http::uri::PathAndQuery::from_static(path);
        let replies = client.streaming(request, path, Frames).await?;
        let mut replies = replies.into_inner();
        let mut frames = Vec::new();
        while let Some(frame) = replies.message().await? {
            frames.push(frame);
        }
        Ok(frames)
    }
}

/// Sends whatever it is given, and takes whatever comes.
struct Frames;

impl Codec for Frames {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Frames {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, message: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&message);
        Ok(())
    }
}

impl Decoder for Frames {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut bytes = vec![0; buffer.remaining()];
        buffer.copy_to_slice(&mut bytes);
        Ok(Some(bytes))
    }
}

/// What the store answers when nobody writes.
pub fn entry(key: &str, value: &str) -> Entry {
    let (key, value) = (key.to_owned(), value.to_owned());
    Entry {
        key,
        value,
        revision: 0,
    }
}

/// Waits until something is so, which has to be soon.
pub async fn until(what: impl Fn() -> bool) {
    let soon = async {
        while !what() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), soon)
        .await
        .expect("it happens in time");
}

pub type Pinned<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl NamedService for Store {
    const NAME: &'static str = "test.Store";
}

impl Service<http::Request<Body>> for Store {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pinned<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let handler = Handler {
            store: self.clone(),
            writes: request.uri().path().ends_with("Put"),
        };
        Box::pin(async move {
            let codec = ProstCodec::<Entry, Entry>::default();
            Ok(tonic::server::Grpc::new(codec)
                .unary(handler, request)
                .await)
        })
    }
}

struct Handler {
    store: Store,
    writes: bool,
}

impl UnaryService<Entry> for Handler {
    type Response = Entry;
    type Future = Pinned<Result<Response<Entry>, Status>>;

    fn call(&mut self, request: Request<Entry>) -> Self::Future {
        let (store, writes) = (self.store.clone(), self.writes);
        Box::pin(async move {
            let entry = request.into_inner();
            let reply = match writes {
                true => store.put(entry).await,
                false => store.get(&entry.key, entry.revision).await,
            };
            reply.map(Response::new)
        })
    }
}
