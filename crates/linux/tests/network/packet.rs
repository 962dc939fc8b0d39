//! The few packets that the tests read and make.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A request for a connection.
#[derive(Clone, Debug)]
pub struct Syn {
    pub source: SocketAddr,
    pub destination: SocketAddr,
    sequence: u32,
}

impl Syn {
    /// `None` for any other packet.
    pub fn parse(packet: &[u8]) -> Option<Self> {
        let (source, destination, protocol, segment): (IpAddr, IpAddr, u8, &[u8]) = match packet[0]
            >> 4
        {
            4 => {
                let header = usize::from(packet[0] & 15) * 4;
                let address = |at: usize| Some(Ipv4Addr::from(*packet[at..].first_chunk::<4>()?));
                (
                    address(12)?.into(),
                    address(16)?.into(),
                    packet[9],
                    &packet[header..],
                )
            }
            _ => {
                let address = |at: usize| Some(Ipv6Addr::from(*packet[at..].first_chunk::<16>()?));
                (
                    address(8)?.into(),
                    address(24)?.into(),
                    packet[6],
                    &packet[40..],
                )
            }
        };
        let port = |at: usize| u16::from_be_bytes([segment[at], segment[at + 1]]);
        (protocol == 6 && segment[13] & 0x17 == 0x02).then(|| Self {
            source: SocketAddr::new(source, port(0)),
            destination: SocketAddr::new(destination, port(2)),
            sequence: u32::from_be_bytes(*segment[4..].first_chunk().expect("a whole header")),
        })
    }
}

/// The packet that refuses the connection.
pub fn reset(syn: &Syn) -> Vec<u8> {
    let mut segment = [
        &syn.destination.port().to_be_bytes()[..],
        &syn.source.port().to_be_bytes(),
        &[0; 4],
        &syn.sequence.wrapping_add(1).to_be_bytes(),
        &[0x50, 0x14, 0, 0, 0, 0, 0, 0],
    ]
    .concat();
    let addresses = match (syn.destination.ip(), syn.source.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => [from.octets(), to.octets()].concat(),
        (IpAddr::V6(from), IpAddr::V6(to)) => [from.octets(), to.octets()].concat(),
        _ => unreachable!("one family"),
    };
    let pseudo = [&addresses[..], &[0, 6, 0, 20], &segment].concat();
    segment[16..18].copy_from_slice(&checksum(&pseudo));
    let mut header = match addresses.len() {
        8 => vec![0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0],
        _ => vec![0x60, 0, 0, 0, 0, 20, 6, 64],
    };
    header.extend(&addresses);
    if addresses.len() == 8 {
        let sum = checksum(&header);
        header[10..12].copy_from_slice(&sum);
    }
    [header, segment].concat()
}

fn checksum(bytes: &[u8]) -> [u8; 2] {
    let words = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}
