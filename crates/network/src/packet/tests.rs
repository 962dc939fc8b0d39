use super::fuzzing::{SYN_V4, ping, syn_v6, verified};
use super::parse::read_headers;
use super::*;
use etherparse::ip_number::{ICMP, IPV6_ICMP, TCP, UDP};
use proptest::prelude::*;
use surmise_linux::network::gate;

fn syn_in(packet: &[u8]) -> Syn {
    match parse(packet) {
        Packet::Syn(syn) => syn,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_syn_is_read() {
    let syn = syn_in(&SYN_V4);
    assert_eq!(syn.source, "10.0.2.100:40000".parse().unwrap());
    assert_eq!(syn.destination, "192.0.2.1:80".parse().unwrap());
    assert_eq!(syn.acknowledge, 0x1234_5679);
    let v6 = syn_in(&syn_v6(&[], TCP.0));
    assert_eq!(v6.destination, "[2001:db8::2]:80".parse().unwrap());
}

#[test]
fn what_follows_the_packet_is_not_part_of_it_and_what_is_cut_off_is_no_packet() {
    let mut longer = SYN_V4.to_vec();
    longer.extend_from_slice(b"more");
    assert_eq!(parse(&longer), parse(&SYN_V4));
    for length in 0..SYN_V4.len() {
        assert_eq!(parse(&SYN_V4[..length]), Packet::Other, "{length}");
    }
    let v6 = syn_v6(&[], TCP.0);
    for length in 0..v6.len() {
        assert_eq!(parse(&v6[..length]), Packet::Other, "{length}");
    }
}

#[test]
fn other_segments_and_fragments_are_none() {
    // FIN, RST, ACK; more fragments, an offset; header lengths; another protocol; version 5.
    let changes: [(usize, u8); 10] = [
        (33, 0x03),
        (33, 0x06),
        (33, 0x12),
        (33, 0x10),
        (6, 0x20),
        (7, 0x01),
        (0, 0x44),
        (32, 0x40),
        (9, 132),
        (0, 0x55),
    ];
    for (at, byte) in changes {
        let mut packet = SYN_V4;
        packet[at] = byte;
        assert_eq!(parse(&packet), Packet::Other, "{at} {byte:#x}");
    }
    // URG, PSH and the bits of congestion notification make no difference.
    let mut packet = SYN_V4;
    packet[33] = 0xea;
    assert_eq!(syn_in(&packet), syn_in(&SYN_V4));
}

#[test]
fn extension_headers_are_skipped_and_fragments_and_detours_are_none() {
    let hop = [60, 0, 1, 4, 0, 0, 0, 0];
    let options = [43, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let routing = [44, 0, 0, 0, 0, 0, 0, 0];
    let fragment = [TCP.0, 0, 0, 0, 1, 2, 3, 4];
    let all = [&hop[..], &options, &routing, &fragment].concat();
    assert_eq!(syn_in(&syn_v6(&all, 0)), syn_in(&syn_v6(&[], TCP.0)));
    let detour = [TCP.0, 0, 0, 1, 0, 0, 0, 0];
    assert_eq!(parse(&syn_v6(&detour, 43)), Packet::Other);
    for more in [[TCP.0, 0, 0, 1, 0, 0, 0, 0], [TCP.0, 0, 0, 8, 0, 0, 0, 0]] {
        assert_eq!(parse(&syn_v6(&more, 44)), Packet::Other);
    }
    // Longer than the packet; and no next header at all.
    assert_eq!(
        parse(&syn_v6(&[TCP.0, 255, 0, 0, 0, 0, 0, 0], 60)),
        Packet::Other
    );
    assert_eq!(parse(&syn_v6(&[], 59)), Packet::Other);
}

#[test]
fn a_reset_acknowledges_the_syn_and_the_data_with_it() {
    let bytes = reset(&syn_in(&SYN_V4));
    let packet = verified(&bytes);
    assert_eq!(packet.source, "192.0.2.1".parse::<IpAddr>().unwrap());
    assert_eq!(packet.payload[..4], [0, 80, 0x9c, 0x40]);
    assert_eq!(packet.payload[8..12], [0x12, 0x34, 0x56, 0x79]);
    assert_eq!(packet.payload[13], 0x14);

    let mut fast_open = SYN_V4.to_vec();
    fast_open.extend_from_slice(b"GET");
    fast_open[3] += 3;
    fast_open[24..28].copy_from_slice(&u32::MAX.to_be_bytes());
    let bytes = reset(&syn_in(&fast_open));
    assert_eq!(verified(&bytes).payload[8..12], [0, 0, 0, 3]);
    let bytes = reset(&syn_in(&syn_v6(&[], TCP.0)));
    assert_eq!(verified(&bytes).protocol, TCP);
}

#[test]
fn an_error_quotes_the_packet_and_says_why() {
    let (v6, syn) = (syn_v6(&[], TCP.0), &SYN_V4[..]);
    let rows = [
        (syn, Why::Network, ICMP, [3, 0]),
        (syn, Why::Host, ICMP, [3, 1]),
        (syn, Why::Port, ICMP, [3, 3]),
        (syn, Why::Prohibited, ICMP, [3, 13]),
        (&v6, Why::Network, IPV6_ICMP, [1, 0]),
        (&v6, Why::Prohibited, IPV6_ICMP, [1, 1]),
        (&v6, Why::Host, IPV6_ICMP, [1, 3]),
        (&v6, Why::Port, IPV6_ICMP, [1, 4]),
    ];
    for (original, why, protocol, kind) in rows {
        let bytes = unreachable(original, why).unwrap();
        let error = verified(&bytes);
        let told = read_headers(original).unwrap();
        assert_eq!((error.protocol, error.destination), (protocol, told.source));
        assert_eq!(&error.payload[..2], &kind);
        assert_eq!(&error.payload[8..], original);
        let from_peer = error.source == told.destination;
        assert_eq!(from_peer, why == Why::Port);
        let routers: [IpAddr; 2] = [gate::ROUTER_V4.into(), gate::ROUTER_V6.into()];
        assert!(from_peer || routers.contains(&error.source));
    }
    let ends = |source: &str, to: &str| (source.parse().unwrap(), to.parse().unwrap());
    let (from, to) = ends("10.0.0.1:1", "10.0.0.2:2");
    let long = datagram(from, to, &[7; 60_000]).unwrap();
    assert_eq!(unreachable(&long, Why::Port).unwrap().len(), 576);
    let (from, to) = ends("[fd00::1]:1", "[fd00::2]:2");
    let long = datagram(from, to, &[7; 60_000]).unwrap();
    assert_eq!(unreachable(&long, Why::Port).unwrap().len(), 1280);
}

#[test]
fn there_is_no_error_about_errors_groups_and_fragments() {
    let error = unreachable(&SYN_V4, Why::Host).unwrap();
    assert_eq!(unreachable(&error, Why::Host), None);
    for group in ["224.0.0.1:1", "255.255.255.255:1", "0.0.0.0:1"] {
        let packet = datagram("10.0.0.1:1".parse().unwrap(), group.parse().unwrap(), b"x");
        assert_eq!(unreachable(&packet.unwrap(), Why::Port), None, "{group}");
    }
    let mut fragment = SYN_V4;
    fragment[6] = 0x20;
    assert_eq!(unreachable(&fragment, Why::Host), None);
    assert_eq!(unreachable(b"nonsense", Why::Host), None);
    // A ping may be told of.
    let mut request = ping("10.0.0.1", "10.0.0.2", b"x");
    request[20] = 8;
    assert!(unreachable(&request, Why::Prohibited).is_some());
}

/// A reply, whose kind a test changes into that of a request.
#[test]
fn a_ping_is_read_asked_and_answered() {
    for (source, destination, header, request) in [
        ("10.0.0.1", "10.0.0.2", 20, 8),
        ("fd00::1", "fd00::2", 40, 128),
    ] {
        let reply = ping(source, destination, b"payload");
        assert_eq!(verified(&reply).source, source.parse::<IpAddr>().unwrap());
        assert_eq!(parse(&reply), Packet::Other);
        assert_eq!(
            echo_reply(&reply[header..]),
            Some((0x5678, &b"payload"[..]))
        );
        let mut asked = reply;
        asked[header] = request;
        let Packet::Ping(read) = parse(&asked) else {
            panic!("{asked:?}")
        };
        assert_eq!((read.identifier, read.sequence), (0x1234, 0x5678));
        assert_eq!(
            (read.source, read.payload),
            (source.parse().unwrap(), &b"payload"[..])
        );
        let message = echo_request(&read);
        assert_eq!(message[0], request);
        assert_eq!(message[6..], asked[header + 6..]);
        assert_eq!(echo_reply(&message), None);
    }
    assert_eq!(echo_reply(&[0; 7]), None);
}

#[test]
fn a_known_datagram_has_its_known_checksum() {
    let (source, destination) = ("192.168.0.31:20", "192.168.0.30:10");
    let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
    let packet = datagram(source, destination, b"Hi").unwrap();
    assert_eq!(packet[26..28], 0x35c5u16.to_be_bytes());
    verified(&packet);
}

#[test]
fn a_checksum_of_zero_is_sent_as_its_complement() {
    let (source, destination) = ("0.0.0.0:0".parse().unwrap(), "0.0.0.0:0".parse().unwrap());
    // The lengths, twice, the protocol and the payload make 0xffff.
    let rest = 0xffff - 10 - 10 - u16::from(UDP.0);
    let packet = datagram(source, destination, &rest.to_be_bytes()).unwrap();
    assert_eq!(packet[26..28], [0xff, 0xff]);
}

#[test]
fn too_much_and_two_families_are_no_datagram() {
    let (v4, v6) = ("1.1.1.1:1".parse().unwrap(), "[::1]:1".parse().unwrap());
    assert!(datagram(v4, v4, &[0; 65_507]).is_some());
    assert!(datagram(v4, v4, &[0; 65_508]).is_none());
    assert!(datagram(v6, v6, &[0; 65_527]).is_some());
    assert!(datagram(v6, v6, &[0; 65_528]).is_none());
    assert!(datagram(v4, v6, b"x").is_none());
}

fn address_pair() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    prop_oneof![
        any::<([u8; 4], [u8; 4])>().prop_map(|(a, b)| (a.into(), b.into())),
        any::<([u8; 16], [u8; 16])>().prop_map(|(a, b)| (a.into(), b.into())),
    ]
}

proptest! {
    #[test]
    fn a_datagram_reads_back(
        (source, destination) in address_pair(),
        ports in any::<(u16, u16)>(),
        payload in proptest::collection::vec(any::<u8>(), 0..2000),
    ) {
        let source = SocketAddr::new(source, ports.0);
        let destination = SocketAddr::new(destination, ports.1);
        let packet = datagram(source, destination, &payload).unwrap();
        verified(&packet);
        let wanted = Datagram { source, destination, payload: &payload };
        prop_assert_eq!(parse(&packet), Packet::Datagram(wanted));
    }

    #[test]
    fn a_ping_reads_back(
        (source, destination) in address_pair(),
        (identifier, sequence) in any::<(u16, u16)>(),
        payload in proptest::collection::vec(any::<u8>(), 0..2000),
    ) {
        let ping = Ping { source, destination, identifier, sequence, payload: &payload };
        let reply = pong(&ping).unwrap();
        let message = verified(&reply).payload;
        prop_assert_eq!(echo_reply(message), Some((sequence, &payload[..])));
        prop_assert_eq!(&message[4..6], &identifier.to_be_bytes());
    }
}
