use std::net::{IpAddr, SocketAddr};

use surmise_linux::network::gate;

use super::checksum::Sum;
use super::parse::{ICMP, ICMP_V6, Internet, TCP, UDP, read_headers};
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
    const RST_ACK: u8 = 0x14;
    let mut segment = [0; 20];
    segment[0..2].copy_from_slice(&syn.destination.port().to_be_bytes());
    segment[2..4].copy_from_slice(&syn.source.port().to_be_bytes());
    segment[8..12].copy_from_slice(&syn.acknowledge.to_be_bytes());
    segment[12] = 5 << 4; // a header of five words
    segment[13] = RST_ACK;
    let (source, destination) = (syn.destination.ip(), syn.source.ip());
    let sum = Sum::default().add_pseudo_header(source, destination, TCP, segment.len());
    let checksum = sum.add(&segment).finish();
    segment[16..18].copy_from_slice(&checksum.to_be_bytes());
    internet(source, destination, TCP, &[&segment]).expect("a SYN's ends are of one family")
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
    let (protocol, kind, code, quoted) = match packet.source {
        IpAddr::V4(_) => (ICMP, 3, code_v4(why), 576 - 20 - 8),
        IpAddr::V6(_) => (ICMP_V6, 1, code_v6(why), 1280 - 40 - 8),
    };
    let quote = &original[..original.len().min(quoted)];
    let header = [kind, code, 0, 0, 0, 0, 0, 0];
    let source = match packet.source {
        _ if why == Why::Port || packet.destination.is_loopback() => packet.destination,
        IpAddr::V4(_) => gate::ROUTER_V4.into(),
        IpAddr::V6(_) => gate::ROUTER_V6.into(),
    };
    icmp(source, packet.source, protocol, header, quote)
}

fn may_be_told(packet: &Internet<'_>) -> bool {
    let only_to_one = |address: IpAddr| {
        let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
        !address.is_multicast() && !address.is_unspecified() && !broadcast
    };
    let echo_request = match packet.protocol {
        ICMP => packet.payload.first() == Some(&8),
        ICMP_V6 => packet.payload.first() == Some(&128),
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
    let length = u16::try_from(payload.len() + 8).ok()?;
    let mut header = [0; 8];
    header[0..2].copy_from_slice(&source.port().to_be_bytes());
    header[2..4].copy_from_slice(&destination.port().to_be_bytes());
    header[4..6].copy_from_slice(&length.to_be_bytes());
    let (source, destination) = (source.ip(), destination.ip());
    let sum = Sum::default().add_pseudo_header(source, destination, UDP, length.into());
    let checksum = match sum.add(&header).add(payload).finish() {
        0 => 0xffff, // 0 would mean that there is none
        checksum => checksum,
    };
    header[6..8].copy_from_slice(&checksum.to_be_bytes());
    internet(source, destination, UDP, &[&header, payload])
}

/// The reply to an echo request, from its destination to its source. Nothing when the ends are not
/// of one family or the payload is too long for a packet.
#[must_use]
pub fn pong(ping: &Ping<'_>) -> Option<Vec<u8>> {
    let (protocol, kind) = match ping.source {
        IpAddr::V4(_) => (ICMP, 0),
        IpAddr::V6(_) => (ICMP_V6, 129),
    };
    let [id_high, id_low] = ping.identifier.to_be_bytes();
    let [high, low] = ping.sequence.to_be_bytes();
    let header = [kind, 0, 0, 0, id_high, id_low, high, low];
    icmp(
        ping.destination,
        ping.source,
        protocol,
        header,
        ping.payload,
    )
}

/// An ICMP message from its header without checksum and its body.
fn icmp(
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    mut header: [u8; 8],
    body: &[u8],
) -> Option<Vec<u8>> {
    let mut sum = Sum::default().add(&header).add(body);
    if protocol == ICMP_V6 {
        sum = sum.add_pseudo_header(source, destination, protocol, header.len() + body.len());
    }
    header[2..4].copy_from_slice(&sum.finish().to_be_bytes());
    internet(source, destination, protocol, &[&header, body])
}

/// An IP packet around the parts of its payload.
fn internet(source: IpAddr, destination: IpAddr, protocol: u8, parts: &[&[u8]]) -> Option<Vec<u8>> {
    const HOPS: u8 = 64;
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut packet = Vec::with_capacity(40 + length);
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let total = u16::try_from(length + 20).ok()?.to_be_bytes();
            let mut header = [0; 20];
            header[0] = 0x45; // version 4, five words
            header[2..4].copy_from_slice(&total);
            header[6] = 0x40; // not to be fragmented, so it needs no identification
            header[8] = HOPS;
            header[9] = protocol;
            header[12..16].copy_from_slice(&source.octets());
            header[16..20].copy_from_slice(&destination.octets());
            let checksum = Sum::default().add(&header).finish();
            header[10..12].copy_from_slice(&checksum.to_be_bytes());
            packet.extend_from_slice(&header);
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            packet.extend_from_slice(&[0x60, 0, 0, 0]); // version 6, no class, no label
            packet.extend_from_slice(&u16::try_from(length).ok()?.to_be_bytes());
            packet.extend_from_slice(&[protocol, HOPS]);
            packet.extend_from_slice(&source.octets());
            packet.extend_from_slice(&destination.octets());
        }
        _ => return None,
    }
    for part in parts {
        packet.extend_from_slice(part);
    }
    Some(packet)
}
