//! A server that goes on with a condensed log.

use super::*;
use crate::frame::ClientKey;
use crate::object::Prefix;
use crate::operation::{Change, NewKind, NewObject, Operation, Place};
use crate::tree::Limits;
use surmise_lower::Timestamp;

pub(super) fn config() -> Config {
    Config {
        root: ObjectId::found(2).expect("a small number"),
        lease_ms: 1000,
        limits: Limits::default(),
    }
}

/// What clients have done, as far as the log of any server says.
fn some_log(random: &mut fastrand::Rng) -> Vec<Record> {
    let mut log = Vec::new();
    // Each client, its prefix, its last group, and its last object.
    let mut clients: Vec<(ClientKey, Prefix, u64, u32)> = Vec::new();
    let mut next = 1;
    for _ in 0..random.usize(0..60) {
        let choice = random.u8(0..10);
        if choice < 2 || clients.is_empty() {
            let (client, prefix) = (ClientKey([next as u8; 16]), Prefix(next));
            next += 1;
            clients.push((client, prefix, 0, 0));
            let lease_ms = random.u64(500..2000);
            log.push(Record::Came {
                client,
                prefix,
                lease_ms,
            });
            continue;
        }
        let index = random.usize(0..clients.len());
        let (client, prefix, sequence, made) = &mut clients[index];
        if choice == 2 {
            log.push(Record::Gone(*client));
            clients.remove(index);
            continue;
        }
        *sequence += 1;
        let (client, sequence) = (*client, *sequence);
        if choice < 5 {
            log.push(Record::Refused {
                client,
                sequence,
                index: random.u32(..),
                errno: Errno::NOENT,
            });
            continue;
        }
        *made += 1;
        let change = Change::Create {
            place: Place {
                parent: config().root,
                name: b"a"[..].try_into().expect("a name"),
            },
            object: ObjectId::made(*prefix, *made).expect("small"),
            new: NewObject {
                kind: NewKind::Regular,
                permissions: 0,
                owner: 0,
                group: 0,
            },
        };
        let at = Timestamp::default();
        log.push(Record::Made {
            client,
            sequence,
            operations: vec![Operation { at, change }],
        });
    }
    log
}

#[test]
fn a_condensed_log_tells_of_the_same_clients() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let log = some_log(&mut random);
        let whole = Server::new(config(), log.clone(), Moment(5));
        let condensed = whole.condensed();
        let short = Server::new(config(), condensed.clone(), Moment(5));
        assert_eq!(short.condensed(), condensed, "seed {seed}");
        assert_eq!(short.clients.next_prefix, whole.clients.next_prefix);
        assert_eq!(short.clients.grace_ends.is_some(), whole.knows_clients());
        // What a log says behind it counts as it did behind the whole one.
        let more = some_log(&mut random);
        let behind = |log: Vec<Record>| {
            let all = log.into_iter().chain(more.clone());
            Server::new(config(), all, Moment(5)).condensed()
        };
        assert_eq!(behind(condensed), behind(log), "seed {seed}");
    }
}
