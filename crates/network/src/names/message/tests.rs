use super::fuzzing::{also, answer, asked, query, v4};
use super::*;
use proptest::prelude::*;
use simple_dns::rdata::{CNAME, HTTPS, TXT};

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn a_question_is_read_whatever_it_is_about() {
    let rows = [
        (1, 1, Kind::V4),
        (28, 1, Kind::V6),
        (65, 1, Kind::Other(65)),
        // Of types and classes that the library does not know, or not as those of questions.
        (44, 1, Kind::Other(44)),
        (65_000, 1, Kind::Other(65_000)),
        (1, 3, Kind::Other(1)),
        (255, 77, Kind::Other(255)),
    ];
    for (kind, class, wanted) in rows {
        let message = asked(kind, class);
        let query = Query::parse(&message).unwrap();
        assert_eq!(query.question().name, "www.example.com");
        assert_eq!(query.question().kind, wanted);
        assert_eq!(query.id(), 0x1234);
        assert_eq!(query.with_id(0x1234), message);
        let reply = query.refused();
        assert_eq!(reply[3] & 15, 5);
        let end = question_end(&reply).unwrap();
        assert_eq!(reply[12..end], message[12..end]);
    }
}

#[test]
fn flags_without_a_meaning_yet_pass() {
    let mut message = asked(1, 1);
    message[3] |= 0x40;
    let query = Query::parse(&message).unwrap();
    assert_eq!(query.with_id(0x1234), message);
    assert_eq!(query.refused()[3] & 0x40, 0);
}

#[test]
fn what_is_no_single_question_gets_a_format_error() {
    let mut response = asked(1, 1);
    response[2] |= 0x80;
    assert!(Query::parse(&response).is_none());
    assert_eq!(format_error(&response), None);
    assert_eq!(format_error(&response[..11]), None);

    let mut two = asked(1, 1);
    two[5] = 2;
    let mut notify = asked(1, 1);
    notify[2] |= 4 << 3;
    let mut pointer = asked(1, 1);
    pointer[12] = 0xc0;
    let mut promises = asked(1, 1);
    promises[6] = 0xff;
    for message in [two, notify, pointer, promises, asked(1, 1)[..20].to_vec()] {
        assert!(Query::parse(&message).is_none());
        let reply = format_error(&message).unwrap();
        assert_eq!(reply[..4], [0x12, 0x34, 0x80, 1]);
        assert_eq!(reply[4..], [0; 8]);
    }
}

#[test]
fn odd_names_are_printable_and_cannot_be_taken_for_others() {
    let mut message = vec![0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(b"\x05a.b\\\xff\x03C\x1bM\x00\x00\x01\x00\x01");
    let query = Query::parse(&message).unwrap();
    assert_eq!(query.question().name, r"a\046b\092\255.c\027m");
    let root = [0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1];
    assert_eq!(Query::parse(&root).unwrap().question().name, "");
}

#[test]
fn a_query_of_our_own_is_one() {
    let query = Query::new(7, "WWW.Example.com.", Kind::V6).unwrap();
    assert_eq!(query.question().name, "www.example.com");
    assert_eq!(query.question().kind, Kind::V6);
    assert_eq!(query.with_id(9)[..4], [0, 9, 1, 0]);
    let other = Query::new(7, "a.example", Kind::Other(65_000)).unwrap();
    assert_eq!(other.question().kind, Kind::Other(65_000));
    for name in ["a".repeat(64), "a.".repeat(128), "a\\".to_owned()] {
        assert!(Query::new(7, &name, Kind::V4).is_none(), "{name}");
    }
}

#[test]
fn a_reply_has_the_addresses_of_the_kind_asked_for() {
    let all = [address("198.19.0.1"), address("2001:db8::1")];
    for (kind, wanted) in [(1, &all[..1]), (28, &all[1..]), (65, &[][..])] {
        let query = query(kind);
        let reply = query.addresses(&all);
        let read = query.read_answer(&reply).unwrap();
        assert_eq!(read.addresses, wanted);
        assert_eq!(read.names, ["www.example.com"]);
        assert!(!read.failed && !read.no_such_name && !read.truncated);
        // A response, recursion desired and available, no error; as many answers; EDNS back.
        assert_eq!(reply[2..4], [0x81, 0x80]);
        assert_eq!(reply[7], wanted.len() as u8);
        assert_eq!(reply[11], 1);
    }
    let query = query(1);
    let reply = query.addresses(&all);
    let packet = Packet::parse(&reply).unwrap();
    assert_eq!(packet.answers[0].ttl, 60);
    assert_eq!(packet.opt().unwrap().udp_packet_size, UDP_SIZE);
}

#[test]
fn refusals_say_what_they_are() {
    let query = query(1);
    let read = |reply: Vec<u8>| query.read_answer(&reply).unwrap();
    assert!(read(query.refused()).failed);
    assert!(read(query.failed()).failed);
    assert!(read(query.no_such_name()).no_such_name);
    let truncated = read(query.truncated());
    assert!(truncated.truncated && !truncated.failed);
}

#[test]
fn an_answer_to_something_else_is_none() {
    let query = query(1);
    let right = query.addresses(&[address("1.1.1.1")]);
    assert!(query.read_answer(&right).is_some());
    // Another number; not a response; another name; another type; another class.
    let end = question_end(&right).unwrap();
    for (at, flip) in [(0, 1), (2, 0x80), (13, 1), (end - 3, 1), (end - 1, 2)] {
        let mut wrong = right.clone();
        wrong[at] ^= flip;
        assert_eq!(query.read_answer(&wrong), None, "{at}");
    }
    // Case alone makes no other name.
    let mut shouting = right;
    shouting[16..24].make_ascii_uppercase();
    assert!(query.read_answer(&shouting).is_some());
}

#[test]
fn addresses_are_learned_along_aliases_and_from_nowhere_else() {
    let query = query(1);
    let records = vec![
        ("b.example", v4("2.2.2.2")),
        ("unrelated.example", v4("6.6.6.6")),
        ("a.example", also("b.example")),
        ("www.EXAMPLE.com", also("A.example")),
        ("b.example", also("www.example.com")),
        ("www.example.com", v4("1.1.1.1")),
        ("www.example.com", RData::TXT(TXT::new())),
        ("other.example", also("more.example")),
    ];
    let read = query.read_answer(&answer(&query, records)).unwrap();
    assert_eq!(read.names, ["www.example.com", "a.example", "b.example"]);
    assert_eq!(read.addresses, [address("2.2.2.2"), address("1.1.1.1")]);
}

#[test]
fn a_chain_of_aliases_is_followed_so_far() {
    let name = |number: usize| Name::new(&format!("n{number}")).unwrap().into_owned();
    let query = Query::new(1, "n0", Kind::V4).unwrap();
    let mut reply = Packet::parse(&query.tamed.bytes).unwrap().into_reply();
    for number in (0..2000).rev() {
        let next = RData::CNAME(CNAME(name(number + 1)));
        let record = ResourceRecord::new(name(number), CLASS::IN, 5, next);
        reply.answers.push(record);
    }
    let read = query
        .read_answer(&reply.build_bytes_vec().unwrap())
        .unwrap();
    assert_eq!(read.names.len(), NAMES_MAX);
    assert_eq!(read.names.last().unwrap(), "n15");
}

#[test]
fn hints_for_browsers_are_addresses_too() {
    let query = query(65);
    let mut service = SVCB::new(1, Name::new("").unwrap());
    service.set_ipv4hint(&[0x0101_0101]);
    service.set_ipv6hint(&[1]);
    let records = vec![("www.example.com", RData::HTTPS(HTTPS(service)))];
    let read = query.read_answer(&answer(&query, records)).unwrap();
    assert_eq!(read.addresses, [address("1.1.1.1"), address("::1")]);
}

proptest! {
    #[test]
    fn addresses_read_back(
        ips in proptest::collection::vec(any::<[u8; 4]>().prop_map(IpAddr::from), 0..50),
        name in "[a-z0-9-]{1,63}(\\.[a-z0-9-]{1,20}){0,5}",
    ) {
        let query = Query::new(1, &name, Kind::V4).unwrap();
        let mut wanted = ips.clone();
        wanted.dedup();
        let read = query.read_answer(&query.addresses(&ips)).unwrap();
        prop_assert_eq!(read.addresses, wanted);
        prop_assert_eq!(read.names, [name]);
    }
}
