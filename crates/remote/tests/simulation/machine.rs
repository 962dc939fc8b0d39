//! A client's machine: the client, what its kernel remembers, its store, and its programs.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::keeping::{Kept, PIECE_BYTES};
use surmise_lower::Timestamp;
use surmise_remote::client::{Client, Intent, Request, Response, Token};
use surmise_remote::errno::Errno;
use surmise_remote::frame::ClientKey;
use surmise_remote::object::{Name, ObjectId};
use surmise_remote::operation::{NewKind, NewObject, Place, SetAttributes};

/// What a kernel remembers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cached {
    Name(ObjectId, Name),
    Attributes(ObjectId),
    Bytes(ObjectId, u64, u32),
}

impl Cached {
    pub fn object(&self) -> ObjectId {
        match self {
            Self::Name(object, _) | Self::Attributes(object) | Self::Bytes(object, ..) => *object,
        }
    }
}

pub struct Machine {
    pub client: Client,
    pub key: ClientKey,
    /// Which of all clients of the simulation it is.
    pub session: u64,
    /// What its programs know, and have not let go of.
    pub seen: BTreeSet<ObjectId>,
    pub store: HashMap<ObjectId, Vec<u8>>,
    /// What its disk keeps of files, also when the client dies.
    pub kept: Kept,
    pub kernel: BTreeMap<Cached, Result<Response, Errno>>,
    pub cached_bytes: HashMap<Cached, Vec<u8>>,
    pub calls: BTreeMap<Token, (Request, Timestamp)>,
    /// How often its programs were told that changes were lost.
    pub losses: u64,
    pub has_left: bool,
}

impl Machine {
    pub fn new(session: u64, root: ObjectId) -> Self {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&session.to_le_bytes());
        let key = ClientKey(key);
        Self {
            client: Client::with_pieces_of(key, PIECE_BYTES),
            key,
            session,
            seen: BTreeSet::from([root]),
            store: HashMap::new(),
            kept: Kept::new(),
            kernel: BTreeMap::new(),
            cached_bytes: HashMap::new(),
            calls: BTreeMap::new(),
            losses: 0,
            has_left: false,
        }
    }

    pub fn forget(&mut self, is_about: impl Fn(&Cached) -> bool) {
        self.kernel.retain(|cached, _| !is_about(cached));
        self.cached_bytes.retain(|cached, _| !is_about(cached));
    }

    /// What a program does next.
    pub fn next_request(&self, random: &mut fastrand::Rng) -> Request {
        let object = self.some(random);
        match random.u8(0..20) {
            0..=3 => Request::Lookup(object, name(random)),
            // One that others give.
            4 => Request::Lookup(object, name_from(b'x', 2, random)),
            5 | 6 => Request::Attributes(object),
            7 => Request::Names(object),
            8 => Request::Target(object),
            9 => Request::Extended(object),
            10 | 11 => Request::Read {
                object,
                offset: random.u64(0..64),
                length: random.u32(0..64),
            },
            12 if random.u8(0..4) == 0 => Request::Space,
            12 => Request::Sync(self.losses),
            _ => Request::Change(self.intent(random)),
        }
    }

    fn intent(&self, random: &mut fastrand::Rng) -> Intent {
        let object = self.some(random);
        match random.u8(0..16) {
            0..=3 => Intent::Create {
                place: self.place(random),
                new: NewObject {
                    kind: match random.u8(0..4) {
                        0 | 1 => NewKind::Regular,
                        2 => NewKind::Directory,
                        _ => NewKind::Symlink(b"there".to_vec()),
                    },
                    permissions: 0o755,
                    owner: 1,
                    group: 1,
                },
            },
            4 => Intent::Link {
                object,
                place: self.place(random),
            },
            5 | 6 => Intent::Remove {
                place: self.place(random),
                directory: random.bool(),
            },
            7..=9 => Intent::Rename {
                from: self.place(random),
                to: self.place(random),
                no_replace: false,
                exchange: random.u8(0..4) == 0,
            },
            10 => Intent::SetAttributes {
                object,
                set: SetAttributes {
                    permissions: Some(random.u16(0..0o1000)),
                    ..SetAttributes::default()
                },
            },
            11 => Intent::Resize {
                object,
                size: random.u64(0..64),
                strip: false,
            },
            12 => Intent::SetExtended {
                object,
                name: attribute(random),
                value: random.bool().then(|| vec![random.u8(..)]),
                create: random.bool(),
                replace: random.bool(),
            },
            _ => Intent::Write {
                object,
                offset: random.bool().then(|| random.u64(0..48)),
                data: vec![random.u8(..); random.usize(0..16)],
                strip: true,
            },
        }
    }

    fn some(&self, random: &mut fastrand::Rng) -> ObjectId {
        let seen: Vec<_> = self.seen.iter().copied().collect();
        random.choice(seen).expect("the root is always known")
    }

    fn place(&self, random: &mut fastrand::Rng) -> Place {
        Place {
            parent: self.some(random),
            name: name(random),
        }
    }
}

fn name(random: &mut fastrand::Rng) -> Name {
    name_from(b'a', 3, random)
}

fn name_from(first: u8, many: u8, random: &mut fastrand::Rng) -> Name {
    let byte = [first + random.u8(0..many)];
    Name::try_from(&byte[..]).expect("a name")
}

fn attribute(random: &mut fastrand::Rng) -> Name {
    let bytes = [&b"user."[..], name(random).as_bytes()].concat();
    Name::try_from(bytes).expect("a name")
}
