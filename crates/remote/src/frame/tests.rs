use super::*;
use crate::operation::{Change, NewKind, NewObject, Place};
use proptest::prelude::*;
use surmise_lower::Timestamp;

fn some_messages() -> Vec<ToServer> {
    let object = ObjectId::made(Prefix(3), 9).expect("a small prefix");
    let place = Place {
        parent: ObjectId::found(2).expect("an inode number"),
        name: b"name"[..].try_into().expect("a name"),
    };
    let operation = |change| Operation {
        at: Timestamp {
            seconds: -1,
            nanoseconds: 999_999_999,
        },
        change,
    };
    let create = Change::Create {
        place,
        object,
        new: NewObject {
            kind: NewKind::Symlink(b"target".to_vec()),
            permissions: 0o777,
            owner: 1000,
            group: u32::MAX,
        },
    };
    let write = Change::Write {
        object,
        offset: u64::MAX,
        data: vec![7; 300],
        strip: true,
    };
    vec![
        ToServer::Hello {
            protocol: PROTOCOL,
            client: ClientKey([0xaa; 16]),
            prefix: Some(Prefix(3)),
            decided: 0,
        },
        ToServer::Group {
            sequence: 1,
            operations: vec![operation(create), operation(write)],
        },
        ToServer::Forget(vec![object]),
        ToServer::Ping {
            number: u64::MAX,
            decided: 1,
        },
    ]
}

fn encoded(messages: &[ToServer]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for message in messages {
        encode(message, &mut bytes).expect("a short message");
    }
    bytes
}

#[test]
fn messages_come_out_as_they_went_in_however_the_bytes_are_cut() {
    let messages = some_messages();
    let bytes = encoded(&messages);
    for size in 1..bytes.len() {
        let mut decoder = Decoder::default();
        let mut came = Vec::new();
        for part in bytes.chunks(size) {
            decoder.feed(part);
            while let Some(message) = decoder.message::<ToServer>().expect("messages") {
                came.push(message);
            }
        }
        assert_eq!(came, messages, "in pieces of {size}");
    }
}

#[test]
fn what_is_too_long_is_neither_sent_nor_waited_for() {
    let mut bytes = vec![1, 2, 3];
    let long = ToServer::Forget(vec![
        ObjectId::found((1 << 62) + 1).expect("a number");
        MESSAGE_BYTES_MAX / 9 + 1
    ]);
    assert!(matches!(
        encode(&long, &mut bytes),
        Err(FrameError::TooLong(_))
    ));
    assert_eq!(bytes, [1, 2, 3]);
    let mut decoder = Decoder::default();
    decoder.feed(&u32::MAX.to_le_bytes());
    assert_eq!(
        decoder.message::<ToServer>(),
        Err(FrameError::TooLong(u32::MAX as usize))
    );
}

#[test]
fn a_bad_name_is_no_message() {
    let bytes = encoded(&some_messages()[1..2]);
    let at = bytes
        .windows(4)
        .position(|part| part == b"name")
        .expect("the name");
    let mut bad = bytes.clone();
    bad[at] = b'/';
    for (bytes, expected) in [(bytes, true), (bad, false)] {
        let mut decoder = Decoder::default();
        decoder.feed(&bytes);
        assert_eq!(decoder.message::<ToServer>().is_ok(), expected);
    }
}

proptest! {
    #[test]
    fn whatever_comes_is_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut decoder = Decoder::default();
        // A length in front, so that most reach the decoding.
        decoder.feed(&u32::try_from(bytes.len()).expect("short").to_le_bytes());
        decoder.feed(&bytes);
        let to_server = decoder.message::<ToServer>();
        if let Ok(Some(message)) = to_server {
            let mut again = Vec::new();
            encode(&message, &mut again).expect("it was short");
        }
        let mut decoder = Decoder::default();
        decoder.feed(&u32::try_from(bytes.len()).expect("short").to_le_bytes());
        decoder.feed(&bytes);
        let _ = decoder.message::<ToClient>();
    }

    #[test]
    fn a_flipped_bit_is_a_message_or_an_error(at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let mut bytes = encoded(&some_messages());
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let mut decoder = Decoder::default();
        decoder.feed(&bytes);
        while let Ok(Some(_)) = decoder.message::<ToServer>() {}
    }
}
