//! A server, as a client that may speculate knows it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use surmise_rpc::Peer;
use tonic::transport::Channel;

/// A server that may be aware of speculation, which is found out by the first call to it. Clones know
/// the same. What is known of one channel is not known of another.
#[derive(Clone, Debug)]
pub struct Server {
    pub(crate) channel: Channel,
    is_aware: Arc<AtomicBool>,
}

impl Server {
    /// The server at the other end of a channel, of which nothing is known yet.
    pub fn new(channel: Channel) -> Self {
        Self {
            channel,
            is_aware: Arc::default(),
        }
    }

    /// Whether its last answer was in the protocol of Surmise.
    pub fn is_aware(&self) -> bool {
        self.is_aware.load(Ordering::Relaxed)
    }

    pub(crate) fn peer(&self) -> Peer {
        match self.is_aware() {
            true => Peer::Aware,
            false => Peer::Plain,
        }
    }

    pub(crate) fn learn(&self, is_aware: bool) {
        self.is_aware.store(is_aware, Ordering::Relaxed);
    }
}
