//! What holds of any bytes on a connection: a server survives each client, and a client each server. Ordinary tests ask
//! it of mutated conversations, and targets in `fuzz/` of whatever libFuzzer finds.

mod locks;
mod lost;

use std::collections::BTreeMap;

pub use lost::{lost_file, lost_file_seeds};
use serde::Serialize;
use serde::de::DeserializeOwned;
use surmise_lower::{FileKind, Timestamp};

use crate::client::{self, Client, Intent, Request, Token};
use crate::errno::Errno;
use crate::frame::{
    ClientKey, Decoder, Lease, PROTOCOL, Space, State, ToClient, ToServer, Urgency, Want, Welcome,
    encode,
};
use crate::lease::Mode;
use crate::locks::How;
use crate::object::{Attributes, Name, Names, Object, ObjectId, Prefix, Versions};
use crate::operation::{Change, NewKind, NewObject, Operation, Place};
use crate::piece::{Digest, Found};
use crate::server::{self, Config, Link, Loaded, Moment, Record, Server};
use crate::tree::{Limits, Tree};

const LINK: Link = Link(1);
const KEY: ClientKey = ClientKey([7; 16]);

fn root() -> ObjectId {
    ObjectId::found(2).expect("a small number")
}

fn attributes(kind: FileKind) -> Attributes {
    Attributes {
        kind,
        permissions: 0o755,
        links: 2,
        owner: 0,
        group: 0,
        size: 4,
        device: 0,
        accessed: Timestamp::default(),
        modified: Timestamp::default(),
        changed: Timestamp::default(),
    }
}

/// The export: a directory with a file and a directory in it.
fn export() -> Tree {
    let mut tree = Tree::whole(Limits::default());
    let mut names = Names::new();
    for (number, kind) in [(3, FileKind::Regular), (4, FileKind::Directory)] {
        let object = ObjectId::found(number).expect("a small number");
        tree.learn(object, Object::new(attributes(kind), Versions::default()));
        names.insert(name(if number == 3 { b"a" } else { b"b" }), object);
    }
    let below = ObjectId::found(4).expect("a small number");
    let empty = tree.learn_names(below, Names::new());
    tree.learn_parent(below, root());
    tree.learn(
        root(),
        Object::new(attributes(FileKind::Directory), Versions::default()),
    );
    let all = tree.learn_names(root(), names);
    assert_eq!((empty, all), (Ok(()), Ok(())));
    tree
}

fn name(bytes: &[u8]) -> Name {
    Name::try_from(bytes).expect("a name")
}

fn read(length: u32, kept: Option<Digest>) -> Found {
    Found::compared(vec![0; length.min(16) as usize], length, kept)
}

fn load(disk: &Tree, object: ObjectId) -> Result<Loaded, Errno> {
    let found = disk.get(object).cloned().ok_or(Errno::STALE)?;
    Ok(Loaded {
        object: found,
        parent: disk.parent(object),
    })
}

/// What a client sends, from its first byte on: the server answers or parts with the client, and no object of the export is
/// changed without a record. Whether all of it was messages.
///
/// # Panics
/// When that does not hold.
pub fn to_server(bytes: &[u8]) -> bool {
    let config = Config {
        root: root(),
        lease_ms: 1000,
        limits: Limits::default(),
    };
    let mut disk = export();
    let mut server = Server::new(config, [], Moment(0));
    each::<ToServer>(bytes, |number, message| {
        let mut events = vec![server::Event::Received(LINK, message)];
        while let Some(event) = events.pop() {
            let mut effects = Vec::new();
            server.event(Moment(number), event, &mut effects);
            for effect in effects {
                match effect {
                    server::Effect::Hurry(_) => {}
                    server::Effect::Load(object, _) => {
                        events.push(server::Event::Loaded(object, load(&disk, object)));
                    }
                    server::Effect::Read {
                        client,
                        request,
                        object,
                        offset,
                        length,
                        kept,
                        ..
                    } => {
                        assert!(disk.get(object).is_some(), "{object} is of the export");
                        events.push(server::Event::Read {
                            client,
                            request,
                            object,
                            offset,
                            length,
                            data: Ok(read(length, kept)),
                        });
                    }
                    server::Effect::Space { client, request } => {
                        events.push(server::Event::Space {
                            client,
                            request,
                            space: Ok(Space::default()),
                        });
                    }
                    server::Effect::Record(record, what) => {
                        if let Record::Made { operations, .. } = &what {
                            let made = disk.apply_all(operations);
                            made.unwrap_or_else(|refused| panic!("{what:?}: {refused:?}"));
                        }
                        events.push(server::Event::Applied(record));
                        events.push(server::Event::Durable(record));
                    }
                    server::Effect::Send(_, message) => {
                        encode(&message, &mut Vec::new()).expect("no message is too long");
                    }
                    server::Effect::Close(_) => events.push(server::Event::Closed(LINK)),
                    server::Effect::Drop(object) => {
                        let links = disk.get(object).map(|known| known.attributes.links);
                        assert_eq!(links, Some(0), "{object} has a name");
                    }
                }
            }
        }
    })
}

/// What a server sends, from its first byte on: the client goes on, and answers each call at most once. Whether all of it
/// was messages.
///
/// # Panics
/// When that does not hold.
pub fn to_client(bytes: &[u8]) -> bool {
    let mut client = Client::new(KEY);
    let mut answered = BTreeMap::new();
    let mut events: Vec<_> = calls()
        .into_iter()
        .enumerate()
        .map(|(number, request)| {
            client::Event::Called(Token(number as u64), request, Timestamp::default())
        })
        .collect();
    events.push(client::Event::Connected);
    let mut take = |number, mut events: Vec<client::Event>| {
        while let Some(event) = events.pop() {
            let mut effects = Vec::new();
            client.event(Moment(number), event, &mut effects);
            for effect in effects {
                match effect {
                    client::Effect::Answer(token, answer) => {
                        let before = answered.insert(token, answer);
                        assert_eq!(before, None, "{token:?} is answered twice");
                    }
                    client::Effect::Invalidate(number, _) => {
                        events.push(client::Event::Invalidated(number));
                    }
                    client::Effect::Send(message) => {
                        encode(&message, &mut Vec::new()).expect("no message is too long");
                    }
                    _ => {}
                }
            }
        }
    };
    take(0, events);
    each::<ToClient>(bytes, |number, message| {
        take(number, vec![client::Event::Received(message)]);
    })
}

fn each<M: DeserializeOwned>(bytes: &[u8], mut take: impl FnMut(u64, M)) -> bool {
    let mut decoder = Decoder::default();
    decoder.feed(bytes);
    let mut number = 0;
    loop {
        number += 1;
        match decoder.message() {
            Ok(Some(message)) => take(number, message),
            Ok(None) => return decoder.is_empty(),
            Err(_) => return false,
        }
    }
}

/// What programs at the client call, whatever the server is.
fn calls() -> Vec<Request> {
    let place = |bytes| Place {
        parent: root(),
        name: name(bytes),
    };
    let create = Intent::Create {
        place: place(b"c"),
        new: new_file(),
    };
    let rename = Intent::Rename {
        from: place(b"b"),
        to: Place {
            parent: ObjectId::found(4).expect("a small number"),
            name: name(b"d"),
        },
        no_replace: false,
        exchange: false,
    };
    let read = Request::Read {
        object: ObjectId::found(3).expect("a small number"),
        offset: 1,
        length: 9,
    };
    vec![
        Request::Lookup(root(), name(b"a")),
        Request::Names(root()),
        read,
        Request::Change(create),
        Request::Change(rename),
        Request::Sync(0),
        Request::Lock(
            ObjectId::found(3).expect("a small number"),
            locks::whole(How::Wait),
        ),
        Request::Lock(
            ObjectId::found(3).expect("a small number"),
            locks::whole(How::Try),
        ),
    ]
}

fn new_file() -> NewObject {
    NewObject {
        kind: NewKind::Regular,
        permissions: 0o644,
        owner: 1,
        group: 1,
    }
}

/// A conversation of a client with the server of [`to_server`].
pub fn to_server_seeds() -> Vec<Vec<u8>> {
    let hello = ToServer::Hello {
        protocol: PROTOCOL,
        client: KEY,
        prefix: None,
        decided: 0,
    };
    let want = |object, mode| Want {
        object,
        mode,
        names: true,
        kept: None,
    };
    let file = ObjectId::found(3).expect("a small number");
    let made = ObjectId::made(Prefix(1), 1).expect("a small prefix");
    let [create, write, remove] = changes(made);
    let messages = [
        hello,
        ToServer::Ask {
            request: 1,
            wants: vec![want(root(), Mode::Write), want(file, Mode::Read)],
            ahead: 10,
        },
        ToServer::Group {
            sequence: 1,
            operations: vec![create, write],
        },
        ToServer::Perform {
            sequence: 2,
            operation: remove,
        },
        ToServer::Fetch {
            request: 2,
            object: file,
            offset: 0,
            length: 4,
            urgency: Urgency::Ahead,
            kept: Some(Digest::of(b"data")),
        },
        ToServer::Explore {
            request: 4,
            directory: root(),
            most: 10,
        },
        ToServer::Space { request: 3 },
        ToServer::Forget(vec![made]),
        ToServer::Share(vec![made]),
        ToServer::Lower {
            recall: 1,
            object: root(),
            to: Mode::Read,
        },
        ToServer::Ping {
            number: 1,
            decided: 2,
        },
        ToServer::Resent,
        ToServer::Bye,
    ];
    // All of it, and locks before the client says that it ends.
    let [all @ .., _, _] = &messages;
    let locking = [all, &locks::to_server(file)[..]].concat();
    [starts_of(&messages), starts_of(&locking)].concat()
}

fn changes(made: ObjectId) -> [Operation; 3] {
    let change = |change| Operation {
        at: Timestamp::default(),
        change,
    };
    let create = change(Change::Create {
        place: Place {
            parent: root(),
            name: name(b"c"),
        },
        object: made,
        new: new_file(),
    });
    let write = change(Change::Write {
        object: made,
        offset: 3,
        data: b"data".to_vec(),
        strip: true,
    });
    let remove = change(Change::Remove {
        place: Place {
            parent: root(),
            name: name(b"c"),
        },
        object: made,
        directory: false,
    });
    [create, write, remove]
}

fn explored() -> ToClient {
    ToClient::Explored {
        request: 4,
        has_more: true,
    }
}

/// A conversation of a server with the client of [`to_client`].
pub fn to_client_seeds() -> Vec<Vec<u8>> {
    let file = ObjectId::found(3).expect("a small number");
    let below = ObjectId::found(4).expect("a small number");
    let lease = |object, kind| Lease {
        object,
        mode: Mode::Write,
        names: kind == FileKind::Directory,
        state: Some(State {
            attributes: attributes(kind),
            versions: Versions::default(),
            extended: BTreeMap::new(),
            target: None,
        }),
    };
    let welcome = Welcome {
        protocol: PROTOCOL,
        is_known: false,
        has_leases: true,
        received: 0,
        root: root(),
        prefix: Prefix(1),
        lease_ms: 1000,
        limits: Limits::default(),
    };
    let names = vec![(name(b"a"), file), (name(b"b"), below)];
    let messages = [
        ToClient::Welcome(welcome),
        ToClient::Names {
            directory: root(),
            names,
        },
        ToClient::Leases(vec![
            lease(root(), FileKind::Directory),
            lease(file, FileKind::Regular),
            lease(below, FileKind::Directory),
        ]),
        ToClient::Granted { request: 2 },
        explored(),
        ToClient::Data {
            request: 5,
            data: b"data".to_vec(),
        },
        ToClient::Failed {
            request: 3,
            object: file,
            errno: Errno::STALE,
        },
        ToClient::Nameless(vec![file]),
        ToClient::Recall {
            recall: 1,
            object: root(),
            to: Mode::Know,
        },
        ToClient::Refused {
            sequence: 2,
            index: 0,
            errno: Errno::INVAL,
        },
        ToClient::Decided { upto: 2 },
        ToClient::Space {
            request: 2,
            space: Space::default(),
        },
        ToClient::Pong(1),
        ToClient::Unmade,
    ];
    let locking = [&messages[..], &locks::to_client(file)].concat();
    starts_of(&locking)
}

/// The conversation up to each of its messages.
fn starts_of(messages: &[impl Serialize]) -> Vec<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut starts = Vec::new();
    for message in messages {
        encode(message, &mut bytes).expect("a short message");
        starts.push(bytes.clone());
    }
    starts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use surmise_testkit::mutations;

    use super::*;

    #[test]
    fn the_seeds_are_messages() {
        assert!(to_server_seeds().iter().all(|seed| to_server(seed)));
        assert!(to_client_seeds().iter().all(|seed| to_client(seed)));
        assert!(lost_file_seeds().iter().all(|seed| lost_file(seed)));
    }

    proptest! {
        #[test]
        fn a_server_survives_what_a_client_sends(bytes in mutations(to_server_seeds())) {
            to_server(&bytes);
        }

        #[test]
        fn a_client_survives_what_a_server_sends(bytes in mutations(to_client_seeds())) {
            to_client(&bytes);
        }

        #[test]
        fn a_replay_of_whatever_a_file_has_ends(bytes in mutations(lost_file_seeds())) {
            lost_file(&bytes);
        }
    }
}
