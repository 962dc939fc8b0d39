//! What holds of any bytes that the domain's kernel hands out. Ordinary tests ask it of mutated packets,
//! and a target in `fuzz/` of whatever libFuzzer finds.

use std::net::IpAddr;

use etherparse::IpNumber;
use etherparse::ip_number::{ICMP, TCP};

use super::parse::{Internet, read_headers};
use super::{Packet, Ping, Why, datagram, echo_reply, parse, pong, reset, unreachable};

/// A packet: what is read is built into packets that read the same, and every answer has the right
/// checksums. Whether it was one that the relay serves.
///
/// # Panics
/// When that does not hold.
pub fn packet(packet: &[u8]) -> bool {
    let read = parse(packet);
    match &read {
        Packet::Syn(syn) => {
            assert_eq!(syn.source.is_ipv4(), syn.destination.is_ipv4());
            verified(&reset(syn));
        }
        Packet::Datagram(read) => {
            assert!(read.payload.len() < packet.len());
            let built = datagram(read.source, read.destination, read.payload).expect("it fits");
            assert_eq!(parse(&built), Packet::Datagram(*read));
            verified(&built);
        }
        Packet::Ping(ping) => {
            verified(&pong(ping).expect("it fits"));
        }
        Packet::Other => {}
    }
    if let Some(error) = unreachable(packet, Why::Host) {
        assert!(error.len() <= 1280);
        verified(&error);
    }
    if let Some((_, payload)) = echo_reply(packet) {
        assert_eq!(payload.len() + 8, packet.len());
    }
    read != Packet::Other
}

/// Packets as Linux sends them.
pub fn seeds() -> Vec<Vec<u8>> {
    let address = |text: &str| text.parse().expect("an address");
    let udp = |source, destination| {
        datagram(address(source), address(destination), b"payload").expect("it fits")
    };
    let asked = |mut reply: Vec<u8>, header: usize, request| {
        reply[header] = request;
        reply
    };
    vec![
        SYN_V4.to_vec(),
        syn_v6(&[], TCP.0),
        syn_v6(
            &[
                60, 0, 1, 4, 0, 0, 0, 0, 44, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0,
            ],
            0,
        ),
        udp("10.0.2.100:53", "192.0.2.1:53"),
        udp("[fd00::1]:53", "[2001:db8::2]:53"),
        asked(ping("10.0.0.1", "10.0.0.2", b"payload"), 20, 8),
        asked(ping("fd00::1", "fd00::2", b"payload"), 40, 128),
    ]
}

/// A SYN from 10.0.2.100:40000 to 192.0.2.1:80 with the options that Linux sends, without checksums.
pub(super) const SYN_V4: [u8; 60] = [
    0x45, 0x00, 0x00, 0x3c, 0x1c, 0x46, 0x40, 0x00, 0x40, 0x06, 0x00, 0x00, 0x0a, 0x00, 0x02, 0x64,
    0xc0, 0x00, 0x02, 0x01, 0x9c, 0x40, 0x00, 0x50, 0x12, 0x34, 0x56, 0x78, 0x00, 0x00, 0x00, 0x00,
    0xa0, 0x02, 0xfa, 0xf0, 0x00, 0x00, 0x00, 0x00, 0x02, 0x04, 0x05, 0xb4, 0x04, 0x02, 0x08, 0x0a,
    0x01, 0x02, 0x03, 0x04, 0x00, 0x00, 0x00, 0x00, 0x01, 0x03, 0x03, 0x07,
];

pub(super) fn syn_v6(extensions: &[u8], first: u8) -> Vec<u8> {
    let segment = &SYN_V4[20..];
    let length = (extensions.len() + segment.len()) as u16;
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend_from_slice(&length.to_be_bytes());
    packet.extend_from_slice(&[first, 64]);
    let (source, destination) = ("fd00::1", "2001:db8::2");
    packet.extend_from_slice(
        &source
            .parse::<std::net::Ipv6Addr>()
            .expect("an address")
            .octets(),
    );
    packet.extend_from_slice(
        &destination
            .parse::<std::net::Ipv6Addr>()
            .expect("an address")
            .octets(),
    );
    packet.extend_from_slice(extensions);
    packet.extend_from_slice(segment);
    packet
}

pub(super) fn ping(source: &str, destination: &str, payload: &[u8]) -> Vec<u8> {
    let ping = Ping {
        source: destination.parse().expect("an address"),
        destination: source.parse().expect("an address"),
        identifier: 0x1234,
        sequence: 0x5678,
        payload,
    };
    pong(&ping).expect("it fits")
}

/// The headers and the payload, after the checksums were compared.
pub(super) fn verified(packet: &[u8]) -> Internet<'_> {
    let read = read_headers(packet).expect("a packet");
    if read.source.is_ipv4() {
        assert_eq!(sum(&[&packet[..20]]), 0xffff, "of the header");
    }
    let octets = |address: IpAddr| match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let length = (read.payload.len() as u16).to_be_bytes();
    let pseudo_header = match read.protocol {
        ICMP => Vec::new(),
        IpNumber(protocol) => {
            let ends = [octets(read.source), octets(read.destination)].concat();
            [&ends[..], &length, &[0, protocol]].concat()
        }
    };
    assert_eq!(
        sum(&[&pseudo_header, read.payload]),
        0xffff,
        "of the payload"
    );
    read
}

/// The one's complement sum of 16-bit words, RFC 1071: all ones, with a right checksum among them. A last odd byte
/// is padded with a zero.
fn sum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let word = |word: &[u8]| u64::from(word[0]) << 8 | u64::from(*word.get(1).unwrap_or(&0));
    let mut sum: u64 = words.map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use surmise_testkit::mutations;

    use super::*;

    #[test]
    fn the_example_of_rfc_1071() {
        let example = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(sum(&[&example]), 0xddf2);
    }

    #[test]
    fn the_seeds_are_packets() {
        for seed in seeds() {
            assert!(packet(&seed), "{seed:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in mutations(seeds())) {
            packet(&bytes);
        }
    }
}
