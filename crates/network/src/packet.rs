//! IP packets at the gate: what the domain's kernel hands out, and what it is answered.
//!
//! [`parse`] reads one packet of the TUN interface. All of its bytes may be of the domain's making:
//! whatever is not exactly one of the four kinds that the relay serves is [`Packet::Other`], which it
//! drops. The other functions build packets for the interface, checksums included.

mod build;
mod echo;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod parse;

pub use build::{Why, datagram, pong, reset, unreachable};
pub use echo::{echo_reply, echo_request};
pub use parse::parse;

use std::net::{IpAddr, SocketAddr};

/// One packet from the domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// A TCP connection begins.
    Syn(Syn),
    /// A UDP datagram.
    Datagram(Datagram<'a>),
    /// An ICMP echo request.
    Ping(Ping<'a>),
    /// Anything else: broken, a fragment, another protocol, another segment of TCP.
    Other,
}

/// The first segment of a TCP connection: SYN without ACK, RST and FIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Syn {
    /// Who connects; flow information and scope are 0, as in all addresses here.
    pub source: SocketAddr,
    /// Where to; of the family of `source`.
    pub destination: SocketAddr,
    /// The sequence number that a reset must acknowledge.
    acknowledge: u32,
}

/// A UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// The sender.
    pub source: SocketAddr,
    /// The receiver; of the family of `source`.
    pub destination: SocketAddr,
    /// What is sent, without headers; at most 65,507 bytes.
    pub payload: &'a [u8],
}

/// An ICMP echo request, or the reply to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ping<'a> {
    /// The asker's address.
    pub source: IpAddr,
    /// Who is asked; of the family of `source`.
    pub destination: IpAddr,
    /// The asker's number.
    pub identifier: u16,
    /// The request's number.
    pub sequence: u16,
    /// What is to be sent back.
    pub payload: &'a [u8],
}

#[cfg(test)]
mod tests;
