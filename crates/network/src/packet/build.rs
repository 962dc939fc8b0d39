use std::net::{IpAddr, SocketAddr};

use etherparse::ip_number::{ICMP, IPV6_ICMP};
use etherparse::{IpHeaders, PacketBuilder, PacketBuilderStep};
use surmise_linux::network::gate;

use super::parse::{Internet, read_headers};
use super::{Ping, Syn};

/// Why a packet is not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// No route; inside it is `ENETUNREACH`.
    Network,
    /// The host does not answer; inside it is `EHOSTUNREACH`.
    Host,
    /// Nobody has the port; inside it is `ECONNREFUSED`.
    Port,
    /// The policy forbids it; inside it is `EHOSTUNREACH` for IPv4 and `EACCES` for IPv6.
    Prohibited,
}

/// The reset that refuses a connection; inside, `connect` fails with `ECONNREFUSED`.
#[must_use]
pub fn reset(syn: &Syn) -> Vec<u8> {
    let (from, to) = (syn.destination, syn.source);
    let packet = internet(from.ip(), to.ip()).expect("a SYN's ends are of one family");
    let packet = packet.tcp(from.port(), to.port(), 0, 0).rst();
    let mut bytes = Vec::new();
    let written = packet.ack(syn.acknowledge).write_to_vec(&mut bytes, &[]);
    written.expect("a header fits into a packet");
    bytes
}

/// The ICMP message that tells the sender of `original`, a packet as [`parse`](super::parse) takes
/// it, that it is not delivered. It comes from the router that the domain sees; for a closed port, and
/// on loopback, where there are no routers, from the destination itself.
///
/// Nothing when there must be no such message: about broken packets, fragments, packets to multicast
/// or broadcast, and ICMP messages other than echo requests.
#[must_use]
pub fn unreachable(original: &[u8], why: Why) -> Option<Vec<u8>> {
    let packet = read_headers(original)?;
    if !may_be_told(&packet) {
        return None;
    }
    // The whole message is to fit into the smallest packet that every host must take.
    let (kind, quoted) = match packet.source {
        IpAddr::V4(_) => ([3, code_v4(why)], 576 - 20 - 8),
        IpAddr::V6(_) => ([1, code_v6(why)], 1280 - 40 - 8),
    };
    let quote = &original[..original.len().min(quoted)];
    let source = match packet.source {
        _ if why == Why::Port || packet.destination.is_loopback() => packet.destination,
        IpAddr::V4(_) => gate::ROUTER_V4.into(),
        IpAddr::V6(_) => gate::ROUTER_V6.into(),
    };
    icmp((source, packet.source), kind, [0; 4], quote)
}

fn may_be_told(packet: &Internet<'_>) -> bool {
    let only_to_one = |address: IpAddr| {
        let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
        !address.is_multicast() && !address.is_unspecified() && !broadcast
    };
    let echo_request = match packet.protocol {
        ICMP => packet.payload.first() == Some(&8),
        IPV6_ICMP => packet.payload.first() == Some(&128),
        _ => true,
    };
    only_to_one(packet.source) && only_to_one(packet.destination) && echo_request
}

fn code_v4(why: Why) -> u8 {
    match why {
        Why::Network => 0,
        Why::Host => 1,
        Why::Port => 3,
        Why::Prohibited => 13,
    }
}

fn code_v6(why: Why) -> u8 {
    match why {
        Why::Network => 0,
        Why::Prohibited => 1,
        Why::Host => 3,
        Why::Port => 4,
    }
}

/// A UDP datagram. Nothing when the ends are not of one family or the payload is too long for it.
#[must_use]
pub fn datagram(source: SocketAddr, destination: SocketAddr, payload: &[u8]) -> Option<Vec<u8>> {
    let packet = internet(source.ip(), destination.ip())?;
    let packet = packet.udp(source.port(), destination.port());
    let mut bytes = Vec::with_capacity(packet.size(payload.len()));
    packet.write_to_vec(&mut bytes, payload).ok()?;
    Some(bytes)
}

/// The reply to an echo request, from its destination to its source. Nothing when the ends are not
/// of one family or the payload is too long for a packet.
#[must_use]
pub fn pong(ping: &Ping<'_>) -> Option<Vec<u8>> {
    let kind = match ping.source {
        IpAddr::V4(_) => [0, 0],
        IpAddr::V6(_) => [129, 0],
    };
    let [id_high, id_low] = ping.identifier.to_be_bytes();
    let [high, low] = ping.sequence.to_be_bytes();
    let ends = (ping.destination, ping.source);
    icmp(ends, kind, [id_high, id_low, high, low], ping.payload)
}

/// An ICMP message: kind and code, the rest of its header, and its body.
fn icmp(
    (source, destination): (IpAddr, IpAddr),
    [kind, code]: [u8; 2],
    rest: [u8; 4],
    body: &[u8],
) -> Option<Vec<u8>> {
    let packet = internet(source, destination)?;
    let mut bytes = Vec::new();
    let written = match source {
        IpAddr::V4(_) => packet
            .icmpv4_raw(kind, code, rest)
            .write_to_vec(&mut bytes, body),
        IpAddr::V6(_) => packet
            .icmpv6_raw(kind, code, rest)
            .write_to_vec(&mut bytes, body),
    };
    written.ok()?;
    Some(bytes)
}

/// The headers of a packet, for IPv4 one that is not to be fragmented and so needs no identification.
fn internet(source: IpAddr, destination: IpAddr) -> Option<PacketBuilderStep<IpHeaders>> {
    const HOPS: u8 = 64;
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Some(PacketBuilder::ipv4(
            source.octets(),
            destination.octets(),
            HOPS,
        )),
        (IpAddr::V6(source), IpAddr::V6(destination)) => Some(PacketBuilder::ipv6(
            source.octets(),
            destination.octets(),
            HOPS,
        )),
        _ => None,
    }
}
