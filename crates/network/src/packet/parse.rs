use std::net::{IpAddr, SocketAddr};

use etherparse::ip_number::{ICMP, IPV6_ICMP, TCP, UDP};
use etherparse::{IpNumber, IpSlice, Ipv6ExtensionSlice, TcpSlice, UdpSlice};

use super::{Datagram, Packet, Ping, Syn};

/// Reads one packet, IPv4 or IPv6, as a TUN interface without packet information gives it.
///
/// Checksums are not compared: the kernel that made them is the one that gets the answers.
#[must_use]
pub fn parse(packet: &[u8]) -> Packet<'_> {
    let Some(datagram) = read_headers(packet) else {
        return Packet::Other;
    };
    let read = match datagram.protocol {
        TCP => read_syn(&datagram).map(Packet::Syn),
        UDP => read_datagram(&datagram).map(Packet::Datagram),
        ICMP if datagram.source.is_ipv4() => read_ping(&datagram, 8).map(Packet::Ping),
        IPV6_ICMP if datagram.source.is_ipv6() => read_ping(&datagram, 128).map(Packet::Ping),
        _ => None,
    };
    read.unwrap_or(Packet::Other)
}

/// An IP packet without its headers.
pub(super) struct Internet<'a> {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub protocol: IpNumber,
    pub payload: &'a [u8],
}

/// Nothing for what is cut off, for a fragment, and for what its header leads elsewhere or hides.
pub(super) fn read_headers(packet: &[u8]) -> Option<Internet<'_>> {
    let packet = IpSlice::from_slice(packet).ok()?;
    let is_plain = match &packet {
        IpSlice::Ipv4(packet) => packet.extensions().is_empty(),
        // Without a length, it has one in an option.
        IpSlice::Ipv6(packet) => {
            packet.header().payload_length() > 0
                && packet.extensions().clone().into_iter().all(is_plain)
        }
    };
    let payload = packet.payload();
    (is_plain && !payload.fragmented).then(|| Internet {
        source: packet.source_addr(),
        destination: packet.destination_addr(),
        protocol: payload.ip_number,
        payload: payload.payload,
    })
}

fn is_plain(extension: Ipv6ExtensionSlice<'_>) -> bool {
    match extension {
        // With segments left, the header's destination is not where the packet ends up.
        Ipv6ExtensionSlice::Routing(routing) => routing.payload().get(1) == Some(&0),
        Ipv6ExtensionSlice::Authentication(_) => false,
        _ => true,
    }
}

fn read_syn(packet: &Internet<'_>) -> Option<Syn> {
    let segment = TcpSlice::from_slice(packet.payload).ok()?;
    if !segment.syn() || segment.fin() || segment.rst() || segment.ack() {
        return None;
    }
    // The SYN takes one number itself, and with fast open data may follow. A packet is shorter than 64 KiB.
    let taken = 1 + segment.payload().len() as u32;
    Some(Syn {
        source: SocketAddr::new(packet.source, segment.source_port()),
        destination: SocketAddr::new(packet.destination, segment.destination_port()),
        acknowledge: segment.sequence_number().wrapping_add(taken),
    })
}

fn read_datagram<'a>(packet: &Internet<'a>) -> Option<Datagram<'a>> {
    let datagram = UdpSlice::from_slice(packet.payload).ok()?;
    // Without a length it is one for those that are longer than a packet.
    (datagram.length() > 0).then(|| Datagram {
        source: SocketAddr::new(packet.source, datagram.source_port()),
        destination: SocketAddr::new(packet.destination, datagram.destination_port()),
        payload: datagram.payload(),
    })
}

/// Both kinds of ICMP have a request's parts at one place.
fn read_ping<'a>(packet: &Internet<'a>, request: u8) -> Option<Ping<'a>> {
    let ([kind, code, _, _, id_high, id_low, high, low], payload) =
        packet.payload.split_first_chunk::<8>()?;
    ([*kind, *code] == [request, 0]).then(|| Ping {
        source: packet.source,
        destination: packet.destination,
        identifier: u16::from_be_bytes([*id_high, *id_low]),
        sequence: u16::from_be_bytes([*high, *low]),
        payload,
    })
}
