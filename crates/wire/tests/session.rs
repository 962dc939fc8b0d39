//! How much less goes over a far line, counted: the messages of a listing and of an archive that is unpacked.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use surmise_lower::{FileKind, Timestamp};
use surmise_remote::frame::{Lease, State, ToClient, ToServer, encode};
use surmise_remote::lease::Mode;
use surmise_remote::object::{Attributes, Name, ObjectId, Prefix, Versions};
use surmise_remote::operation::{Change, NewKind, NewObject, Operation, Place};
use surmise_wire::{Line, Reader, Traffic, Transferred, Writer};

/// What the messages take on a line whose round trip is so long. Each list is sent at once, and comes out as it went in.
fn transferred<M>(round_trip: Duration, batches: &[Vec<M>]) -> Transferred
where
    M: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let traffic = Arc::new(Traffic::default());
    let line = Arc::new(Line::new(Arc::clone(&traffic)));
    line.answered_after(round_trip);
    let mut writer = Writer::new(line);
    let mut reader = Reader::new(Arc::default());
    for batch in batches {
        let (mut bytes, mut sent) = (Vec::new(), Vec::new());
        for message in batch {
            encode(message, &mut bytes).expect("no message is too long");
        }
        let written = writer.write(&bytes, &mut sent, |_| {});
        written.expect("a vector takes all");
        let mut came = &sent[..];
        let made = std::iter::from_fn(|| reader.message(&mut came).expect("messages"));
        assert_eq!(&made.collect::<Vec<M>>(), batch);
    }
    traffic.sent()
}

const FAR: Duration = Duration::from_millis(30);
const NEAR: Duration = Duration::from_micros(200);

fn directory() -> ObjectId {
    ObjectId::found(1 << 20).expect("small")
}

fn name(number: u32) -> Name {
    Name::try_from(format!("file{number}.c").as_bytes()).expect("a name")
}

/// As files of one tree have them: unpacked one after the other, and of all sizes.
fn attributes(number: u32, random: &mut fastrand::Rng) -> Attributes {
    let time = Timestamp {
        seconds: 1_700_000_000 + i64::from(number / 100),
        nanoseconds: random.u32(..1_000_000_000),
    };
    Attributes {
        kind: FileKind::Regular,
        permissions: 0o644,
        links: 1,
        owner: 1000,
        group: 1000,
        size: random.u64(..20_000),
        device: 0,
        accessed: time,
        modified: time,
        changed: time,
    }
}

/// Ten directories of a thousand files, each answered at once.
fn listing() -> Vec<Vec<ToClient>> {
    let mut random = fastrand::Rng::with_seed(1);
    let ids = |answer: u32| {
        (answer * 1000..(answer + 1) * 1000).map(|number| {
            (
                number,
                ObjectId::found((1 << 21) + u64::from(number)).expect("small"),
            )
        })
    };
    let mut answer = |number| {
        let names = ids(number).map(|(number, object)| (name(number), object));
        let leases = ids(number).map(|(number, object)| Lease {
            object,
            mode: Mode::Read,
            names: false,
            state: Some(State {
                attributes: attributes(number, &mut random),
                versions: Versions::default(),
                extended: Default::default(),
                target: None,
            }),
        });
        vec![
            ToClient::Names {
                directory: directory(),
                names: names.collect(),
            },
            ToClient::Leases(leases.collect()),
            ToClient::Granted {
                request: number.into(),
            },
        ]
    };
    (0..10).map(&mut answer).collect()
}

/// A thousand files of text, in groups of twenty.
fn unpacking() -> Vec<Vec<ToServer>> {
    const WORDS: [&str; 12] = [
        "static ", "int ", "return ", "if (", ") {\n", "}\n", "for (", "struct ", "->next",
        "count", "buffer", " = ",
    ];
    let mut random = fastrand::Rng::with_seed(2);
    let mut group = |sequence: u32| {
        let changes = (sequence * 20..(sequence + 1) * 20).flat_map(|number| {
            let object = ObjectId::made(Prefix(3), number + 1).expect("small");
            let words = (0..random.usize(..2000)).map(|_| WORDS[random.usize(..WORDS.len())]);
            let create = Change::Create {
                place: Place {
                    parent: directory(),
                    name: name(number),
                },
                object,
                new: NewObject {
                    kind: NewKind::Regular,
                    permissions: 0o644,
                    owner: 1000,
                    group: 1000,
                },
            };
            let write = Change::Write {
                object,
                offset: 0,
                data: words.collect::<String>().into_bytes(),
                strip: true,
            };
            [create, write]
        });
        let at = Timestamp {
            seconds: 1_700_000_000,
            nanoseconds: sequence * 1_000_003,
        };
        let operations = changes.map(|change| Operation { at, change }).collect();
        vec![ToServer::Group {
            sequence: sequence.into(),
            operations,
        }]
    };
    (0..50).map(&mut group).collect()
}

#[test]
fn a_far_line_carries_a_part_of_what_is_sent() {
    let times = |of: Transferred| of.bytes as f64 / of.line_bytes as f64;
    let listing = transferred(FAR, &listing());
    assert!(times(listing) > 2.5, "{listing:?}");
    let unpacking = transferred(FAR, &unpacking());
    assert!(times(unpacking) > 4.0, "{unpacking:?}");
}

#[test]
fn a_near_line_carries_all_as_it_is() {
    // Long writes could tell that it is slow, on a machine that has no time for them.
    let answers: Vec<_> = listing().into_iter().flatten().collect();
    let short = answers
        .into_iter()
        .filter_map(|answer| match answer {
            ToClient::Leases(leases) => Some(leases),
            _ => None,
        })
        .flatten()
        .map(|lease| vec![ToClient::Leases(vec![lease])]);
    let batches: Vec<_> = short.collect();
    let sent = transferred(NEAR, &batches);
    // All but the first stand behind four bytes.
    let headers = 4 * (batches.len() - 1) as u64;
    assert_eq!(sent.line_bytes, sent.bytes + headers, "{sent:?}");
}

#[test]
fn the_other_side_hears_that_the_line_is_far() {
    let line = Arc::new(Line::default());
    line.answered_after(FAR);
    let traffic = Arc::new(Traffic::default());
    let server = Arc::new(Line::new(Arc::clone(&traffic)));
    let hello = vec![ToServer::Bye, ToServer::Bye];
    let (mut bytes, mut sent) = (Vec::new(), Vec::new());
    for message in &hello {
        encode(message, &mut bytes).expect("short");
    }
    let written = Writer::new(line).write(&bytes, &mut sent, |_| {});
    written.expect("a vector takes all");
    let (mut reader, mut came) = (Reader::new(Arc::clone(&server)), &sent[..]);
    let made = std::iter::from_fn(|| reader.message(&mut came).expect("messages"));
    assert_eq!(made.collect::<Vec<ToServer>>(), hello);
    let answer = vec![0; 100 << 10];
    let written = Writer::new(server).write(&answer, &mut std::io::sink(), |_| {});
    written.expect("it takes all");
    let sent = traffic.sent();
    assert!(sent.line_bytes < sent.bytes / 100, "{sent:?}");
}
