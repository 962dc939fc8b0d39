//! An aware server's side of calls: who may call ahead, and how much.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prost::Message;
use surmise_rpc::{Limits, Offer, Waste};
use tonic::body::Body;
use tonic::codec::CompressionEncoding;
use tonic::codegen::http;
use tonic::{Request, Status};

use crate::gate::Gate;
use crate::scope::Scope;
use crate::scope::allowance::Allowance;
use crate::server::context::{Context, Sizes};
use crate::server::messages::Messages;
use crate::server::methods::AwareMethods;
use crate::server::origin::Origin;
use crate::server::served::{Ahead, Plain};
use crate::wire::{BUDGET, DEPTH, SIZE, SIZE_MAX_USUAL, SURMISE};

/// What a server grants its callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// What each call may open for its caller, here and further on, whatever the caller says that it
    /// may.
    pub limits: Limits,
    /// Undecided calls of one caller that are worked on at the same time. More wait for their commit
    /// before their handlers start. A caller is who has one certificate, where the feature `tls` is on
    /// and the server asks for certificates; else, who has one address.
    pub undecided_max: usize,
    /// How long a call may be undecided. Then it is undone, and its caller makes it again when it is
    /// confirmed. If it had been answered, [`Scope::settled`](crate::Scope::settled) tells the caller.
    pub undecided_for: Duration,
    /// What all handlers together may throw away of the calls that they make, if that is bounded; see
    /// [`Gate::wasting_at_most`](crate::Gate::wasting_at_most).
    pub waste: Option<Waste>,
}

impl Default for Granted {
    /// The limits of a program; 64 undecided calls, each for a minute; no bound on waste.
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            undecided_max: 64,
            undecided_for: Duration::from_secs(60),
            waste: None,
        }
    }
}

/// Answers calls of callers that speculate, and of any others. Clones count together.
///
/// [`Callers::before`] makes methods of a generated service aware, whose paths and messages stay as they are. Below it is
/// [`Callers::unary`], which stands where generated code has `tonic::server::Grpc::unary`.
#[derive(Clone, Default)]
pub struct Callers {
    granted: Granted,
    allowance: Allowance,
    messages: Messages,
    gate: Option<Arc<Gate>>,
    undecided: Arc<Mutex<BTreeMap<Origin, usize>>>,
}

impl Callers {
    /// Grants this to each.
    pub fn new(granted: Granted) -> Self {
        Self {
            granted,
            allowance: Allowance::of(granted.waste),
            messages: Messages::default(),
            gate: None,
            undecided: Arc::default(),
        }
    }

    /// While the workers of this gate's runtime are busy, undecided calls wait for their commit before their handlers
    /// start: what may be for nothing is put off first.
    pub fn shedding_by(mut self, gate: Arc<Gate>) -> Self {
        self.gate = Some(gate);
        self
    }

    /// Takes requests that are compressed like this.
    pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
        self.messages.accept(encoding);
        self
    }

    /// Compresses replies to callers that take this.
    pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
        self.messages.send(encoding);
        self
    }

    /// The largest request that is taken, in bytes; 4 MiB, if nothing is said.
    pub fn max_decoding_message_size(mut self, bytes: usize) -> Self {
        self.messages.decode_at_most(bytes);
        self
    }

    /// The largest reply that is sent, in bytes. A larger one is an error, as of any server; a larger prediction,
    /// or one that is larger than its caller takes, is not sent. Of a caller that takes predictions, frames are
    /// counted, before they are compressed; they are up to 32 bytes larger than what they carry.
    pub fn max_encoding_message_size(mut self, bytes: usize) -> Self {
        self.messages.encode_at_most(bytes);
        self
    }

    /// Stands before a service, such as one that tonic has generated, and serves those of its methods that are named
    /// then: [`AwareMethods::unary`]. What was set here counts for these; the service has its own.
    pub fn before<S>(self, service: S) -> AwareMethods<S> {
        AwareMethods::new(self, service)
    }

    /// Serves one call of a unary method. A caller that knows nothing of this gets a plain reply.
    ///
    /// The handler's effects have to be those of an aware method: made after
    /// [`Scope::confirmed`], or undone by [`Scope::on_abort`]. Its errors are told when its caller
    /// is confirmed; its value and its predictions at once.
    pub async fn unary<Q, T, H, F>(
        &self,
        request: http::Request<Body>,
        handler: H,
    ) -> http::Response<Body>
    where
        Q: Message + Default + 'static,
        T: Message + 'static,
        H: FnOnce(Context<T>, Request<Q>) -> F + Send + 'static,
        F: Future<Output = Result<T, Status>> + Send + 'static,
    {
        let mut served = self.messages.served();
        match self.offer(request.headers()) {
            Some(offer) => {
                let sizes = Sizes {
                    sent: self.messages.encoding_max(),
                    taken: taken(request.headers()),
                };
                let service = Ahead::new(self.clone(), offer, sizes, handler);
                served.streaming(service, request).await
            }
            None => {
                let service = Plain::new(self.scope(), handler);
                served.unary(service, request).await
            }
        }
    }

    fn offer(&self, headers: &http::HeaderMap) -> Option<Offer> {
        let header = |name| headers.get(name)?.to_str().ok();
        let granted = self.granted.limits.budget;
        Offer::read(header(SURMISE), header(DEPTH), header(BUDGET), granted)
    }

    /// For a handler whose caller knows nothing of speculation.
    fn scope(&self) -> Scope {
        Scope::root_within(self.granted.limits, self.allowance.clone())
    }

    pub(crate) fn allowance(&self) -> Allowance {
        self.allowance.clone()
    }

    pub(crate) fn granted(&self) -> Granted {
        self.granted
    }

    /// Counts an undecided call of this caller, until what is returned is dropped. None, if there
    /// are enough, or the workers are busy.
    pub(crate) fn admit(&self, origin: Origin) -> Option<Admitted> {
        if self.gate.as_ref().is_some_and(|gate| !gate.has_room()) {
            return None;
        }
        let mut undecided = self.lock();
        let count = undecided.entry(origin.clone()).or_default();
        if *count >= self.granted.undecided_max {
            return None;
        }
        *count += 1;
        let callers = self.clone();
        Some(Admitted { callers, origin })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Origin, usize>> {
        // Nothing panics with it.
        self.undecided
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The largest frame that a caller says it takes.
fn taken(headers: &http::HeaderMap) -> usize {
    let said = headers.get(SIZE).and_then(|said| said.to_str().ok());
    said.and_then(|said| said.parse().ok())
        .unwrap_or(SIZE_MAX_USUAL)
}

impl fmt::Debug for Callers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Callers")
            .field("granted", &self.granted)
            .finish_non_exhaustive()
    }
}

/// One of the undecided calls of a caller.
pub struct Admitted {
    callers: Callers,
    origin: Origin,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut undecided = self.callers.lock();
        if let Some(count) = undecided.get_mut(&self.origin) {
            *count -= 1;
            if *count == 0 {
                undecided.remove(&self.origin);
            }
        }
    }
}
