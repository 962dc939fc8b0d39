//! A server, as a client that may speculate knows it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use surmise_rpc::Peer;
use tonic::client::Grpc;
use tonic::codec::CompressionEncoding;
use tonic::service::Interceptor;
use tonic::transport::Channel;
use tonic::{Request, Status};

use crate::methods::bare;
use crate::wire::SIZE_MAX_USUAL;

type Intercept = dyn Fn(Request<()>) -> Result<Request<()>, Status> + Send + Sync;

/// A client's way to a server of which methods may be aware: by the answer to the first call of a method it is found out
/// whether that one is. Clones know the same. What is known of one channel is not known of another, so there is one of
/// these for a server, made once. (tonic's `Server`, which serves, is another.)
///
/// What a client that tonic generates is told by `with_interceptor`, `send_compressed`,
/// `accept_compressed` and the sizes of messages, a server is told here by the same names.
#[derive(Clone)]
pub struct Server {
    pub(crate) client: Grpc<Channel>,
    intercept: Option<Arc<Intercept>>,
    /// The paths that may be called with predicted arguments, if not all.
    ahead: Option<Arc<BTreeSet<String>>>,
    /// The largest frame that is taken, in bytes.
    decoding_max: usize,
    /// The paths whose last answers were in the protocol of Surmise.
    aware: Arc<RwLock<BTreeSet<String>>>,
}

impl Server {
    /// The server at the other end of a channel, of which nothing is known yet.
    pub fn new(channel: Channel) -> Self {
        Self {
            client: Grpc::new(channel),
            intercept: None,
            ahead: None,
            decoding_max: SIZE_MAX_USUAL,
            aware: Arc::default(),
        }
    }

    /// Has this add to the metadata of each call, or refuse it, whenever it is sent. So it is run again
    /// for a call that is sent again, and for calls that turn out never to have been made.
    pub fn with_interceptor<I>(mut self, interceptor: I) -> Self
    where
        I: Interceptor + Clone + Send + Sync + 'static,
    {
        // One that keeps a state has a copy for each call, as in tonic's clients, which are cloned.
        self.intercept = Some(Arc::new(move |request| interceptor.clone().call(request)));
        self
    }

    /// Shows predicted arguments to these methods of the server alone, such as `/shop.Store/Get`; to none,
    /// if there are none. A call of another one waits until its scope is confirmed, whatever its class.
    pub fn ahead_only<P: Into<String>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        let paths = paths.into_iter().map(|path| bare(&path.into()).to_owned());
        self.ahead = Some(Arc::new(paths.collect()));
        self
    }

    /// Compresses requests. The server has to support it.
    pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
        self.client = self.client.send_compressed(encoding);
        self
    }

    /// Takes replies that are compressed like this.
    pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
        self.client = self.client.accept_compressed(encoding);
        self
    }

    /// The largest reply that is taken, in bytes; 4 MiB, if nothing is said. Of an aware server, frames are
    /// counted, which are up to 32 bytes larger than what they carry. It does not send predictions that are larger.
    pub fn max_decoding_message_size(mut self, bytes: usize) -> Self {
        self.decoding_max = bytes;
        self.client = self.client.max_decoding_message_size(bytes);
        self
    }

    /// The largest request that is sent, in bytes.
    pub fn max_encoding_message_size(mut self, bytes: usize) -> Self {
        self.client = self.client.max_encoding_message_size(bytes);
        self
    }

    /// Whether the last answer of this method was in the protocol of Surmise.
    pub fn is_aware(&self, path: &str) -> bool {
        let aware = self.aware.read().unwrap_or_else(PoisonError::into_inner);
        aware.contains(bare(path))
    }

    pub(crate) fn intercept(&self, request: Request<()>) -> Result<Request<()>, Status> {
        match &self.intercept {
            Some(intercept) => intercept(request),
            None => Ok(request),
        }
    }

    /// Whether a method may be shown arguments that are only predicted.
    pub(crate) fn may_see_ahead(&self, path: &str) -> bool {
        let ahead = self.ahead.as_ref();
        ahead.is_none_or(|paths| paths.contains(bare(path)))
    }

    pub(crate) fn decoding_max(&self) -> usize {
        self.decoding_max
    }

    pub(crate) fn peer(&self, path: &str) -> Peer {
        match self.is_aware(path) {
            true => Peer::Aware,
            false => Peer::Plain,
        }
    }

    /// Most answers say what was known.
    pub(crate) fn learn(&self, path: &str, is_aware: bool) {
        if self.is_aware(path) == is_aware {
            return;
        }
        let mut aware = self.aware.write().unwrap_or_else(PoisonError::into_inner);
        match is_aware {
            true => aware.insert(bare(path).to_owned()),
            false => aware.remove(bare(path)),
        };
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Server");
        shown.field("client", &self.client);
        shown.field("aware", &self.aware);
        shown.finish_non_exhaustive()
    }
}
