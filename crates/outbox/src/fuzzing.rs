//! What holds of any bytes where an outbox should be. Ordinary tests ask it of mutated records, and a
//! target in `fuzz/` of whatever libFuzzer finds.

use std::borrow::Cow;

use crate::history::History;
use crate::record::Record;
use crate::{End, HoldId, Host, PIECE_MAX, Sender, Target};

/// The payloads of an outbox's frames, each behind its length in two bytes: what is decoded is encoded
/// as the same bytes, and what is taken in adds up. Whether each was a record that may follow.
///
/// # Panics
/// When that does not hold.
pub fn records(mut bytes: &[u8]) -> bool {
    let mut history = History::default();
    let mut again = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
        let (payload, rest) = rest.split_at(length);
        bytes = rest;
        let Ok(record) = Record::decode(payload) else {
            return false;
        };
        record.encode(&mut again);
        assert_eq!(again, payload);
        if history.apply(&record, payload.len()).is_err() {
            return false;
        }
        assert_adds_up(&history);
    }
    true
}

fn assert_adds_up(history: &History) {
    let next = history.next();
    for (id, hold) in &history.holds {
        assert!(*id < next);
        assert!(hold.sent <= hold.bytes);
        let pieces: Vec<_> = hold.pieces(*id).collect();
        let mut at = hold.sent;
        for piece in &pieces {
            assert_eq!(piece.offset, at);
            assert!(piece.length <= PIECE_MAX);
            at += piece.length as u64;
        }
        assert!(pieces.is_empty() || at == hold.bytes);
        let _ = hold.state();
    }
    let pieces = history.pieces();
    let mut places = pieces.windows(2);
    assert!(places.all(|pair| pair[0].position < pair[1].position));
}

/// Outboxes as the relay writes them, of several lengths.
pub fn seeds() -> Vec<Vec<u8>> {
    let records = history();
    let mut payload = Vec::new();
    let mut bytes = Vec::new();
    let mut seeds = Vec::new();
    for record in &records {
        record.encode(&mut payload);
        bytes.extend((payload.len() as u16).to_le_bytes());
        bytes.extend(&payload);
        seeds.push(bytes.clone());
    }
    seeds
}

fn history() -> Vec<Record<'static>> {
    let opened = |hold, target, sender| Record::Opened {
        hold: HoldId(hold),
        target,
        sender,
    };
    let data = |hold, bytes: &'static str| Record::Data {
        hold: HoldId(hold),
        bytes: Cow::Borrowed(bytes.as_bytes()),
    };
    let sender = Sender {
        pid: 12,
        name: "curl".to_owned(),
    };
    let sent = |hold, upto, errno| Record::Sent {
        hold: HoldId(hold),
        upto,
        errno,
    };
    let (first, second) = (HoldId(1), HoldId(2));
    vec![
        opened(
            1,
            Target::Tcp(Host::Name("a.example".into()), 80),
            Some(sender),
        ),
        data(1, "GET / HTTP/1.1\r\n"),
        opened(
            2,
            Target::Udp(Host::Address([127, 0, 0, 1].into()), 53),
            None,
        ),
        data(2, ""),
        data(2, "datagram"),
        data(1, "\r\n"),
        opened(3, Target::Tcp(Host::Address([0u16; 8].into()), 1), None),
        opened(4, Target::Terminal, None),
        data(4, "\u{1b}[m"),
        Record::Finished {
            hold: first,
            end: End::Closed,
        },
        Record::Sending { hold: first },
        Record::Left {
            hold: first,
            upto: 16,
        },
        sent(1, 18, 0),
        Record::Sending { hold: second },
        sent(2, 0, 111),
        Record::Again {
            hold: second,
            from: 0,
        },
        Record::Sending { hold: second },
        sent(2, 8, 111),
        Record::Again {
            hold: second,
            from: 8,
        },
        Record::Dropped { hold: HoldId(4) },
        Record::Finished {
            hold: second,
            end: End::Reset,
        },
    ]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use surmise_testkit::mutations;

    use super::*;

    #[test]
    fn the_seeds_are_outboxes() {
        for (count, seed) in seeds().iter().enumerate() {
            assert!(records(seed), "{:?}", history()[count]);
        }
    }

    /// An empty datagram before the place from which the rest is sent has left.
    #[test]
    fn of_what_is_sent_again_no_empty_datagram_comes_from_before() {
        let hold = HoldId(1);
        let data = |text: &'static str| Record::Data {
            hold,
            bytes: Cow::Borrowed(text.as_bytes()),
        };
        let records = [
            Record::Opened {
                hold,
                target: Target::Udp(Host::Name("a.example".into()), 53),
                sender: None,
            },
            data(""),
            data("one"),
            data(""),
            data("two"),
            Record::Sending { hold },
            Record::Again { hold, from: 3 },
        ];
        let mut history = History::default();
        for record in &records {
            history.apply(record, 10).expect("it follows");
        }
        let left = history.pieces();
        let left: Vec<_> = left
            .iter()
            .map(|piece| (piece.offset, piece.length))
            .collect();
        // The second empty one may have left or not.
        assert_eq!(left, [(3, 0), (3, 3)]);
    }

    #[test]
    fn a_hold_that_no_other_can_follow_is_refused() {
        let log = |hold| {
            let mut payload = Vec::new();
            let opened = Record::Opened {
                hold: HoldId(hold),
                target: Target::Output,
                sender: None,
            };
            opened.encode(&mut payload);
            [&(payload.len() as u16).to_le_bytes()[..], &payload].concat()
        };
        assert!(records(&log(u64::MAX - 1)));
        assert!(!records(&log(u64::MAX)));
    }

    proptest! {
        #[test]
        fn any_records_are_taken_in_or_refused(bytes in mutations(seeds())) {
            records(&bytes);
        }
    }
}
