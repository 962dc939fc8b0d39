//! Others than the clients, who change the directory without a lease.
//!
//! Such a change comes after all changes that are in the directory, and before those that clients have yet to make. So it is
//! of objects alone of which all changes are in the directory. From then on until the server has got all leases on these back,
//! a client may go by what was before. Afterwards each goes by what is.

use std::collections::BTreeSet;

use surmise_lower::{FileKind, Timestamp};
use surmise_remote::client::{self, Request};
use surmise_remote::object::{Name, ObjectId};
use surmise_remote::operation::{Change, NewKind, NewObject, Operation, Place, SetAttributes};
use surmise_remote::server;

use crate::what::What;
use crate::world::World;

/// What others have done.
#[derive(Default)]
pub struct Others {
    made: u64,
    /// The objects of their last change, and of all that collided with it, while clients may not have seen that.
    unseen: BTreeSet<ObjectId>,
    /// Whether the server knows of that change.
    is_told: bool,
}

impl World {
    pub fn others_change(&mut self) {
        if !self.others.unseen.is_empty() || self.is_ending || self.may_perform() {
            return;
        }
        let Some(change) = self.some_change_of_others() else {
            return;
        };
        let at = Timestamp {
            seconds: i64::try_from(1_000_000 + self.told.others).expect("few"),
            nanoseconds: 0,
        };
        let operation = Operation { at, change };
        let objects: BTreeSet<_> = operation.change.touches().into_iter().collect();
        let is_possible = self.disk.directory.clone().apply(&operation).is_ok();
        if !is_possible || !objects.is_disjoint(&self.unmade()) {
            return;
        }
        if self.truth.done_by_others(operation.clone()).is_err() {
            return;
        }
        if self.is_traced {
            eprintln!("{:>6} others: {operation:?}", self.now);
        }
        self.told.others += 1;
        self.others.made += 1;
        self.disk
            .directory
            .apply(&operation)
            .expect("it is possible");
        for object in &objects {
            let known = self.disk.directory.tree.get(*object);
            if known.is_some_and(|known| known.attributes.links == 0) {
                self.disk.removed_by_others.insert(*object);
            }
        }
        self.others.unseen = objects;
        self.others.is_told = false;
        let after = self.random.u64(0..30);
        self.at(after, What::OthersAreSeen(self.others.made));
    }

    /// The server is told of this change.
    pub fn others_are_seen(&mut self, change: u64) {
        if change == self.others.made {
            self.others_are_seen_at_last();
        }
    }

    pub fn others_are_seen_at_last(&mut self) {
        if self.others.is_told {
            return;
        }
        for object in self.others.unseen.clone() {
            self.tell_server(server::Event::Changed(object));
        }
        self.others.is_told = true;
        self.look_whether_seen();
    }

    /// Changes of clients could not be made: what the server and the clients take these objects for, they are not.
    pub fn collided(&mut self, objects: Vec<ObjectId>) {
        for object in objects {
            assert!(!self.others.unseen.is_empty(), "{object} was seen by all");
            self.others.unseen.insert(object);
            self.tell_server(server::Event::Changed(object));
        }
    }

    /// Whether all clients have given back what they had from before the change.
    pub fn look_whether_seen(&mut self) {
        let Some(server) = &self.server else {
            return;
        };
        let is_over = |object: &ObjectId| !server.is_renewing(*object);
        if self.others.is_told && self.others.unseen.iter().all(is_over) {
            self.others.unseen.clear();
            self.truth.is_seen();
            self.told.collisions = self.truth.collisions;
        }
    }

    /// Whether the server may be performing a change for a client, which counts as made when the client hears of that.
    fn may_perform(&self) -> bool {
        let mut calls = self.machines.iter().flat_map(|one| one.calls.values());
        let renames =
            |request: &Request| matches!(request, Request::Change(client::Intent::Rename { .. }));
        calls.any(|(request, _)| renames(request))
    }

    /// The objects of all changes that clients have made and that are not in the directory.
    fn unmade(&self) -> BTreeSet<ObjectId> {
        let mut objects = BTreeSet::new();
        for (key, session) in &self.sessions {
            let made = self.truth.done_by(*session);
            for operation in made.iter().skip(self.disk.applied_of(*key)) {
                objects.extend(operation.change.touches());
                objects.extend(operation.change.makes());
            }
        }
        objects
    }

    /// Names are of others alone, so that only what they lead to collides.
    fn some_change_of_others(&mut self) -> Option<Change> {
        let tree = &self.truth.now.tree;
        let mut known: Vec<_> = tree.ids().collect();
        known.sort();
        let of = |kind: FileKind| {
            let is = |id: &ObjectId| {
                let found = tree.get(*id).expect("it is listed").attributes;
                found.kind == kind && found.links > 0
            };
            known.iter().copied().filter(is).collect::<Vec<_>>()
        };
        let random = &mut self.random;
        if random.bool() {
            let object = random.choice(of(FileKind::Regular))?;
            return Some(some_change_of_file(random, object));
        }
        let parent = random.choice(of(FileKind::Directory))?;
        let place = place(parent, b'x' + random.u8(0..2));
        let led = |place: &Place| tree.names(place.parent).ok()?.get(&place.name).copied();
        Some(match random.u8(0..4) {
            0 | 1 => Change::Create {
                place,
                object: ObjectId::found(100 + self.told.others).expect("small"),
                new: NewObject {
                    kind: match random.bool() {
                        true => NewKind::Regular,
                        false => NewKind::Directory,
                    },
                    permissions: 0o700,
                    owner: 0,
                    group: 0,
                },
            },
            2 => Change::Remove {
                object: led(&place)?,
                directory: tree.get(led(&place)?)?.is_directory(),
                place,
            },
            _ => {
                let to = self::place(random.choice(of(FileKind::Directory))?, b'y');
                Change::Rename {
                    object: led(&place)?,
                    replaced: led(&to),
                    from: place,
                    to,
                    exchange: false,
                }
            }
        })
    }
}

fn place(parent: ObjectId, name: u8) -> Place {
    let name = Name::try_from(&[name][..]).expect("a name");
    Place { parent, name }
}

fn some_change_of_file(random: &mut fastrand::Rng, object: ObjectId) -> Change {
    match random.u8(0..4) {
        0 | 1 => Change::Write {
            object,
            offset: random.u64(0..48),
            data: vec![random.u8(..); random.usize(1..16)],
            strip: false,
        },
        2 => Change::Resize {
            object,
            size: random.u64(0..64),
            strip: false,
        },
        _ => Change::SetAttributes {
            object,
            set: SetAttributes {
                permissions: Some(random.u16(0..0o1000)),
                ..SetAttributes::default()
            },
        },
    }
}
