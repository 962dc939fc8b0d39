//! A server that goes on with a condensed log.

use super::*;
use crate::frame::{ClientKey, PROTOCOL, Want};
use crate::object::{Attributes, Object, Prefix, Versions};
use crate::operation::{Change, NewKind, NewObject, Operation, Place};
use crate::tree::Limits;
use surmise_lower::{FileKind, Timestamp};

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

/// A file whose object is all that clients know of the directory.
fn file() -> (ObjectId, Loaded) {
    let attributes = Attributes {
        kind: FileKind::Regular,
        permissions: 0o600,
        links: 1,
        owner: 0,
        group: 0,
        size: 5,
        device: 0,
        accessed: Timestamp::default(),
        modified: Timestamp::default(),
        changed: Timestamp::default(),
    };
    let loaded = Loaded {
        object: Object::new(attributes, Versions::default()),
        parent: None,
    };
    (ObjectId::found(3).expect("a small number"), loaded)
}

/// What a server that was started anew does with all of these.
fn effects_of(server: &mut Server, events: impl IntoIterator<Item = Event>) -> Vec<Effect> {
    let mut effects = Vec::new();
    for event in events {
        server.event(Moment(10), event, &mut effects);
    }
    effects
}

/// Nobody gives a lease back behind what was sent again: the client that sent it has none.
#[test]
fn after_a_restart_leases_are_given_when_what_was_sent_again_is_made() {
    let keys = [1, 2].map(|number| ClientKey([number; 16]));
    let log = [1, 2].map(|number| Record::Came {
        client: keys[number as usize - 1],
        prefix: Prefix(number),
        lease_ms: 1000,
    });
    let mut server = Server::new(config(), log, Moment(5));
    let (file, loaded) = file();
    let links = [Link(1), Link(2)];
    let hello = |at: usize| ToServer::Hello {
        protocol: PROTOCOL,
        client: keys[at],
        prefix: Some(Prefix(at as u32 + 1)),
        decided: 0,
    };
    let write = Change::Write {
        object: file,
        offset: 0,
        data: b"later".to_vec(),
        strip: false,
    };
    let at = Timestamp::default();
    let group = ToServer::Group {
        sequence: 1,
        operations: vec![Operation { at, change: write }],
    };
    let want = Want {
        object: file,
        mode: Mode::Read,
        names: false,
        kept: None,
    };
    let ask = ToServer::Ask {
        request: 1,
        wants: vec![want],
        ahead: 0,
    };
    let came = [
        (links[0], hello(0)),
        (links[1], hello(1)),
        (links[0], group),
        (links[0], ToServer::Resent),
        (links[1], ToServer::Resent),
        (links[1], ask),
    ];
    let came = came.map(|(link, message)| Event::Received(link, message));
    let loads = [Event::Loaded(file, Ok(loaded))];
    let effects = effects_of(&mut server, came.into_iter().chain(loads));
    let is_recorded = |effect: &Effect| matches!(effect, Effect::Record(1, Record::Made { .. }));
    assert!(effects.iter().any(is_recorded), "{effects:?}");
    let is_granted = |effect: &Effect| matches!(effect, Effect::Send(_, ToClient::Granted { .. }));
    assert!(!effects.iter().any(is_granted), "{effects:?}");
    let effects = effects_of(&mut server, [Event::Durable(1)]);
    assert!(!effects.iter().any(is_granted), "{effects:?}");
    let effects = effects_of(&mut server, [Event::Applied(1)]);
    assert!(effects.iter().any(is_granted), "{effects:?}");
}
