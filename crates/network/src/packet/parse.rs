use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Datagram, Packet, Ping, Syn};

pub(super) const ICMP: u8 = 1;
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
pub(super) const ICMP_V6: u8 = 58;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

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
        ICMP_V6 if datagram.source.is_ipv6() => read_ping(&datagram, 128).map(Packet::Ping),
        _ => None,
    };
    read.unwrap_or(Packet::Other)
}

/// An IP packet without its headers.
pub(super) struct Internet<'a> {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub protocol: u8,
    pub payload: &'a [u8],
}

/// Nothing for what is cut off, or for a fragment.
pub(super) fn read_headers(packet: &[u8]) -> Option<Internet<'_>> {
    match packet.first()? >> 4 {
        4 => read_v4(packet),
        6 => read_v6(packet),
        _ => None,
    }
}

fn read_v4(packet: &[u8]) -> Option<Internet<'_>> {
    let header = packet.first_chunk::<20>()?;
    let header_length = usize::from(header[0] & 15) * 4;
    let total = usize::from(u16_at(packet, 2)?);
    // More fragments, or an offset.
    if header_length < header.len() || u16_at(packet, 6)? & 0x3fff != 0 {
        return None;
    }
    Some(Internet {
        source: Ipv4Addr::from(array_at::<4>(packet, 12)?).into(),
        destination: Ipv4Addr::from(array_at::<4>(packet, 16)?).into(),
        protocol: header[9],
        payload: packet.get(header_length..total)?,
    })
}

fn read_v6(packet: &[u8]) -> Option<Internet<'_>> {
    let header = packet.first_chunk::<40>()?;
    let length = usize::from(u16_at(packet, 4)?);
    let (protocol, payload) = skip_extensions(header[6], packet.get(40..40 + length)?)?;
    Some(Internet {
        source: Ipv6Addr::from(array_at::<16>(packet, 8)?).into(),
        destination: Ipv6Addr::from(array_at::<16>(packet, 24)?).into(),
        protocol,
        payload,
    })
}

/// The first header that is no extension, and the bytes from there on.
///
/// Every turn takes at least 8 bytes away, so it ends.
fn skip_extensions(mut next: u8, mut rest: &[u8]) -> Option<(u8, &[u8])> {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const DESTINATION: u8 = 60;
    loop {
        let length = match next {
            HOP_BY_HOP | DESTINATION => extension_length(rest)?,
            // With segments left, the header's destination is not where the packet ends up.
            ROUTING if *rest.get(3)? == 0 => extension_length(rest)?,
            // Whole in spite of the header: no offset and no more fragments.
            FRAGMENT if u16_at(rest, 2)? & 0xfff9 == 0 => 8,
            ROUTING | FRAGMENT => return None,
            protocol => return Some((protocol, rest)),
        };
        next = *rest.first()?;
        rest = rest.get(length..)?;
    }
}

fn extension_length(extension: &[u8]) -> Option<usize> {
    Some((usize::from(*extension.get(1)?) + 1) * 8)
}

fn read_syn(packet: &Internet<'_>) -> Option<Syn> {
    let segment = packet.payload.first_chunk::<20>()?;
    if segment[13] & (FIN | SYN | RST | ACK) != SYN {
        return None;
    }
    let header_length = usize::from(segment[12] >> 4) * 4;
    if header_length < segment.len() {
        return None;
    }
    let data = packet.payload.get(header_length..)?;
    let sequence = u32::from_be_bytes(array_at(packet.payload, 4)?);
    let (source, destination) = ends(packet)?;
    Some(Syn {
        source,
        destination,
        // The SYN takes one number itself, and with fast open data may follow. A packet is shorter
        // than 64 KiB.
        acknowledge: sequence.wrapping_add(1).wrapping_add(data.len() as u32),
    })
}

fn read_datagram<'a>(packet: &Internet<'a>) -> Option<Datagram<'a>> {
    let length = usize::from(u16_at(packet.payload, 4)?);
    let (source, destination) = ends(packet)?;
    Some(Datagram {
        source,
        destination,
        payload: packet.payload.get(8..length)?,
    })
}

fn read_ping<'a>(packet: &Internet<'a>, request: u8) -> Option<Ping<'a>> {
    if packet.payload.first_chunk::<2>()? != &[request, 0] {
        return None;
    }
    Some(Ping {
        source: packet.source,
        destination: packet.destination,
        identifier: u16_at(packet.payload, 4)?,
        sequence: u16_at(packet.payload, 6)?,
        payload: packet.payload.get(8..)?,
    })
}

/// The addresses with the ports, which TCP and UDP have at one place.
fn ends(packet: &Internet<'_>) -> Option<(SocketAddr, SocketAddr)> {
    let source = SocketAddr::new(packet.source, u16_at(packet.payload, 0)?);
    let destination = SocketAddr::new(packet.destination, u16_at(packet.payload, 2)?);
    Some((source, destination))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array_at(bytes, at).map(u16::from_be_bytes)
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}
