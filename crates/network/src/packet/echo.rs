//! Echo messages as the host's ping sockets take and give them: ICMP without an IP header.

use std::net::IpAddr;

use super::Ping;

/// The message for a datagram socket of ICMP or ICMPv6, by the family of the destination. The kernel
/// fills in the identifier, which is the socket's port, and the checksum.
#[must_use]
pub fn echo_request(ping: &Ping<'_>) -> Vec<u8> {
    let kind = match ping.destination {
        IpAddr::V4(_) => 8,
        IpAddr::V6(_) => 128,
    };
    let [high, low] = ping.sequence.to_be_bytes();
    let mut message = vec![kind, 0, 0, 0, 0, 0, high, low];
    message.extend_from_slice(ping.payload);
    message
}

/// The sequence number and the payload of a reply that such a socket received. Nothing when it is
/// none.
#[must_use]
pub fn echo_reply(message: &[u8]) -> Option<(u16, &[u8])> {
    let (header, payload) = message.split_first_chunk::<8>()?;
    let reply = matches!(header[..2], [0 | 129, 0]);
    reply.then(|| (u16::from_be_bytes([header[6], header[7]]), payload))
}
