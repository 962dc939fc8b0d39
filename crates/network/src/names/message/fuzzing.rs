//! What holds of any bytes where a message of DNS should be. Ordinary tests ask it of mutated messages,
//! and targets in `fuzz/` of whatever libFuzzer finds.

use simple_dns::rdata::CNAME;

use super::*;

/// A message of the domain's: a query is passed on byte by byte, its name is printable, and every reply
/// to it answers it. Whether it was a query.
///
/// # Panics
/// When that does not hold.
pub fn query_message(message: &[u8]) -> bool {
    let _ = format_error(message);
    let Some(query) = Query::parse(message) else {
        return false;
    };
    assert_eq!(query.with_id(query.id()), message);
    let name = &query.question().name;
    assert!(name.bytes().all(|byte| byte.is_ascii_graphic()), "{name:?}");
    let all = [[1, 1, 1, 1].into(), [0u16, 0, 0, 0, 0, 0, 0, 1].into()];
    let replies = [
        query.refused(),
        query.failed(),
        query.no_such_name(),
        query.truncated(),
        query.addresses(&all),
    ];
    for reply in replies {
        assert!(query.read_answer(&reply).is_some(), "{reply:?}");
    }
    true
}

/// A server's answer, to the query that it says it answers: what it tells of is in it. Whether it was
/// one.
///
/// # Panics
/// When that does not hold.
pub fn answer_message(message: &[u8]) -> bool {
    const RESPONSE: u8 = 0x80;
    let _ = query(1).read_answer(message);
    let mut asked = message.to_vec();
    let Some(flags) = asked.get_mut(2) else {
        return false;
    };
    *flags &= !RESPONSE;
    let Some(query) = Query::parse(&asked) else {
        return false;
    };
    let Some(answer) = query.read_answer(message) else {
        return false;
    };
    assert!(answer.names.len() <= NAMES_MAX);
    assert_eq!(answer.names.first(), Some(&query.question().name));
    // An address takes four bytes.
    assert!(answer.addresses.len() * 4 <= message.len());
    true
}

/// Queries as libraries ask them.
pub fn query_seeds() -> Vec<Vec<u8>> {
    [(1, 1), (28, 1), (65, 1), (44, 1), (65_000, 1), (255, 77)]
        .map(|(kind, class)| asked(kind, class))
        .to_vec()
}

/// Answers as servers give them.
pub fn answer_seeds() -> Vec<Vec<u8>> {
    let mut service = SVCB::new(1, Name::new("").expect("a name"));
    service.set_ipv4hint(&[0x0101_0101]);
    service.set_ipv6hint(&[1]);
    let records = vec![
        ("www.example.com", also("b.example")),
        ("b.example", v4("2.2.2.2")),
    ];
    let hints = vec![(
        "www.example.com",
        RData::HTTPS(simple_dns::rdata::HTTPS(service)),
    )];
    vec![
        answer(&query(1), records),
        answer(&query(65), hints),
        query(28).addresses(&[[0u16, 0, 0, 0, 0, 0, 0, 1].into()]),
        query(1).refused(),
    ]
}

/// A question for www.example.com with EDNS, as the C library asks it, of any type and class.
pub(super) fn asked(kind: u16, class: u16) -> Vec<u8> {
    let mut message = vec![0x12, 0x34, 0x01, 0x20, 0, 1, 0, 0, 0, 0, 0, 1];
    message.extend_from_slice(b"\x03WWW\x07example\x03com\x00");
    message.extend_from_slice(&kind.to_be_bytes());
    message.extend_from_slice(&class.to_be_bytes());
    message.extend_from_slice(&[0, 0, 41, 0x04, 0xb0, 0, 0, 0, 0, 0, 0]);
    message
}

pub(super) fn query(kind: u16) -> Query {
    Query::parse(&asked(kind, 1)).expect("a seed is right")
}

/// A server's answer to a query: a reply with any records.
pub(super) fn answer(query: &Query, records: Vec<(&'static str, RData<'static>)>) -> Vec<u8> {
    let read = Packet::parse(&query.tamed.bytes).expect("a seed is right");
    let mut reply = Packet::new_reply(query.id());
    reply.questions = read.questions.clone();
    let records = records.into_iter();
    reply.answers = records
        .map(|(name, data)| {
            ResourceRecord::new(
                Name::new(name).expect("a seed is right"),
                CLASS::IN,
                5,
                data,
            )
        })
        .collect();
    query
        .tamed
        .wild(reply.build_bytes_vec_compressed().expect("a seed is right"))
}

pub(super) fn v4(text: &str) -> RData<'static> {
    let address: Ipv4Addr = text.parse().expect("a seed is right");
    RData::A(A {
        address: address.into(),
    })
}

pub(super) fn also(name: &'static str) -> RData<'static> {
    RData::CNAME(CNAME(Name::new(name).expect("a seed is right")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use surmise_testkit::mutations;

    use super::*;

    #[test]
    fn the_seeds_are_messages() {
        assert!(query_seeds().iter().all(|seed| query_message(seed)));
        assert!(answer_seeds().iter().all(|seed| answer_message(seed)));
    }

    proptest! {
        #[test]
        fn any_query_is_read_or_refused(message in mutations(query_seeds())) {
            query_message(&message);
        }

        #[test]
        fn any_answer_is_read_or_refused(message in mutations(answer_seeds())) {
            answer_message(&message);
        }
    }
}
