//! Whom a server takes a call to come from.

use std::net::IpAddr;

use tonic::Request;

/// What callers are told apart by. An address is what is left without TLS: all behind one proxy share it,
/// and somebody who has several addresses is several callers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    Address(Option<IpAddr>),
    /// Of the client itself, which the server has verified.
    #[cfg(feature = "tls")]
    Certificate(Vec<u8>),
}

impl Origin {
    pub fn of<T>(request: &Request<T>) -> Self {
        #[cfg(feature = "tls")]
        if let Some(chain) = request.peer_certs()
            && let Some(own) = chain.first()
        {
            return Self::Certificate(own.to_vec());
        }
        Self::Address(request.remote_addr().map(|address| address.ip()))
    }
}
