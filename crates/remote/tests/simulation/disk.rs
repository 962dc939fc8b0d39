//! The server's disk: a log of which the end may be lost, and the directory, made from the log.

use std::collections::{HashMap, HashSet, VecDeque};

use surmise_remote::errno::Errno;
use surmise_remote::frame::ClientKey;
use surmise_remote::object::{Object, ObjectId, Versions};
use surmise_remote::operation::Operation;
use surmise_remote::server::{Loaded, Record};

use crate::truth::Copy;

pub struct Disk {
    /// What the directory is after all records up to `applied`.
    pub directory: Copy,
    durable: Vec<Record>,
    /// Written and not flushed, with their numbers.
    volatile: VecDeque<(u64, Record)>,
    /// The number of the first durable record of this start of the server, and how many were durable by then.
    base: usize,
    applied: usize,
    /// How often the server was started.
    starts: u64,
    /// Of clients that were given up and came again: how many changes they had made before.
    before: HashMap<ClientKey, usize>,
    /// Others than the clients have changed the directory.
    pub others_change: bool,
    pub removed_by_others: HashSet<ObjectId>,
}

impl Disk {
    pub fn new(directory: Copy) -> Self {
        Self {
            directory,
            durable: Vec::new(),
            volatile: VecDeque::new(),
            base: 0,
            applied: 0,
            starts: 1,
            before: HashMap::new(),
            others_change: false,
            removed_by_others: HashSet::new(),
        }
    }

    pub fn write(&mut self, number: u64, record: Record) {
        self.volatile.push_back((number, record));
    }

    /// All that was written is durable; the number of the last record, if there is any new one.
    pub fn flush(&mut self) -> Option<u64> {
        let last = self.volatile.back()?.0;
        self.durable
            .extend(self.volatile.drain(..).map(|(_, record)| record));
        Some(last)
    }

    /// Makes in the directory what is durable; the number of the last record, and the objects of changes that cannot be made.
    pub fn apply(&mut self) -> (u64, Vec<ObjectId>) {
        let mut collided = Vec::new();
        for record in &self.durable[self.applied..] {
            if let Record::Made { operations, .. } = record {
                for operation in operations {
                    if let Err(errno) = self.directory.apply(operation) {
                        let said = format!("after the verdict: {operation:?}: {errno}");
                        assert!(self.others_change, "{said}");
                        collided.extend(operation.change.touches());
                        collided.extend(operation.change.makes());
                    }
                }
            }
        }
        self.applied = self.durable.len();
        let last = u64::try_from(self.applied - self.base).expect("few");
        (last, collided)
    }

    /// How many changes of a client are in the directory, since it came.
    pub fn applied_of(&self, key: ClientKey) -> usize {
        let applied = self.durable[..self.applied].iter();
        let all: usize = applied
            .map(|record| match record {
                Record::Made {
                    client, operations, ..
                } if *client == key => operations.len(),
                _ => 0,
            })
            .sum();
        all - self.before.get(&key).copied().unwrap_or(0).min(all)
    }

    /// The power fails; what is found afterwards.
    pub fn crash(&mut self) -> Vec<Record> {
        self.volatile.clear();
        self.apply();
        self.base = self.durable.len();
        self.starts += 1;
        self.durable.clone()
    }

    /// Whether all that was written is durable and made.
    pub fn is_settled(&self) -> bool {
        self.volatile.is_empty() && self.applied == self.durable.len()
    }

    /// Whether all that a client has changed is in the directory.
    pub fn has_made_all_of(&self, key: ClientKey) -> bool {
        let is_its =
            |record: &Record| matches!(record, Record::Made { client, .. } if *client == key);
        let written = self.volatile.iter().map(|(_, record)| record);
        !self.durable[self.applied..]
            .iter()
            .chain(written)
            .any(is_its)
    }

    /// The clients that are given up with the next flush.
    pub fn gone_when_flushed(&self) -> Vec<ClientKey> {
        let gone = |(_, record): &(u64, Record)| match record {
            Record::Gone(key) => Some(*key),
            _ => None,
        };
        self.volatile.iter().filter_map(gone).collect()
    }

    /// The durable changes of a client since it came, in their order.
    pub fn made_by(&self, key: ClientKey) -> Vec<Operation> {
        let made = self.durable.iter().filter_map(|record| match record {
            Record::Made {
                client, operations, ..
            } if *client == key => Some(operations.clone()),
            _ => None,
        });
        let before = self.before.get(&key).copied().unwrap_or(0);
        made.flatten().skip(before).collect()
    }

    /// How many of a client's changes are durable.
    pub fn durable_of(&self, key: ClientKey) -> usize {
        self.made_by(key).len()
    }

    /// A client was given up: what it does from now on is another one's.
    pub fn begin_anew(&mut self, key: ClientKey) {
        let made = self.durable_of(key);
        *self.before.entry(key).or_default() += made;
    }

    pub fn load(&self, id: ObjectId) -> Result<Loaded, Errno> {
        let tree = &self.directory.tree;
        let found = tree.get(id).ok_or(Errno::STALE)?;
        // The server keeps what clients have taken the last name of, and not what others have.
        if self.removed_by_others.contains(&id) {
            return Err(Errno::STALE);
        }
        // After each start versions are others, since nobody knows what has changed meanwhile.
        let fresh = self.starts << 32;
        let versions = Versions {
            content: fresh,
            permissions: fresh,
            times: fresh,
        };
        Ok(Loaded {
            object: Object {
                versions,
                ..found.clone()
            },
            parent: tree.parent(id),
        })
    }
}
