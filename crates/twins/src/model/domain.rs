//! A domain that changes what it sees of a tree.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};

use surmise_view::{FileKind, Identity, Map, NodeId, Operation, Record, Timestamp};

use super::tree::{Act, ROOT, Spot, Tree};

/// A domain over a tree: what it sees, and the map that its view would have.
#[derive(Debug)]
pub struct Domain {
    real: Tree,
    /// What it sees.
    pub seen: Tree,
    /// What its view changed.
    pub map: Map,
    nodes: HashMap<u64, NodeId>,
}

impl Domain {
    /// One that did all of `acts` that it could.
    pub fn after(real: &Tree, acts: &[Act]) -> Self {
        let mut domain = Self {
            real: real.clone(),
            seen: real.inside(),
            map: Map::default(),
            nodes: HashMap::new(),
        };
        let root = domain.adopt(ROOT, ROOT, OsStr::new(""));
        domain.note(vec![root]);
        acts.iter().for_each(|act| domain.act(act));
        domain
    }

    fn act(&mut self, act: &Act) {
        let before = self.seen.clone();
        if !self.seen.act(act) {
            return;
        }
        let mut records = Vec::new();
        match act {
            Act::Create(path, kind) => {
                let spot = before.spot(path).expect("it was found");
                let made = self.seen.at(&spot).expect("it was made");
                let directory = self.node(&before, path, false, &mut records);
                records.push(self.create(made, *kind));
                records.push(self.bound(directory, &spot, self.nodes[&made]));
            }
            Act::Remove(path) => self.unbind(&before, path, &mut records),
            Act::Rename(from, to) => {
                let (_, inode) = before.taken(from).expect("it was found");
                self.unbind(&before, from, &mut records);
                let spot = before.spot(to).expect("it was found");
                if before.at(&spot).is_some() {
                    self.node(&before, to, true, &mut records);
                }
                let directory = self.node(&before, to, false, &mut records);
                records.push(self.bound(directory, &spot, self.nodes[&inode]));
            }
            Act::Link(from, to) => {
                let target = self.node(&before, from, true, &mut records);
                let directory = self.node(&before, to, false, &mut records);
                let spot = before.spot(to).expect("it was found");
                records.push(self.bound(directory, &spot, target));
            }
            Act::Chmod(path, permissions) => {
                let node = self.node(&before, path, true, &mut records);
                records.push(Record::Permissions {
                    node,
                    permissions: *permissions,
                });
            }
        }
        self.note(records);
    }

    fn note(&mut self, records: Vec<Record>) {
        let operation = Operation {
            time: Timestamp::default(),
            records,
        };
        self.map.apply(&operation).expect("a view's records");
        self.map.prune();
    }

    /// The node behind a path, or behind its directory; what is on the way takes part from now on.
    fn node(
        &mut self,
        tree: &Tree,
        path: &str,
        is_whole: bool,
        records: &mut Vec<Record>,
    ) -> NodeId {
        let parts: Vec<&str> = path.split('/').collect();
        let parts = &parts[..parts.len() - usize::from(!is_whole)];
        let mut at = ROOT;
        for part in parts {
            let next = tree.at(&(at, part.into())).expect("it was found");
            if !self.nodes.contains_key(&next) {
                // Nothing is changed of what takes no part yet, so this is its real place.
                records.push(self.adopt(next, at, part.as_ref()));
            }
            at = next;
        }
        self.nodes[&at]
    }

    fn adopt(&mut self, inode: u64, parent: u64, name: &OsStr) -> Record {
        let node = self.number(inode);
        Record::Adopt {
            node,
            parent: self.nodes[&parent],
            name: name.to_owned(),
            identity: self.real.identity(inode),
            links: self.real.links(inode),
            permissions: self.real.permissions(inode),
            uid: 0,
            gid: 0,
            special: 0,
        }
    }

    fn create(&mut self, inode: u64, kind: FileKind) -> Record {
        Record::Create {
            node: self.number(inode),
            device: 1,
            kind,
            permissions: 0o644,
            uid: 0,
            gid: 0,
            special: 0,
            object: None,
            target: OsString::new(),
        }
    }

    fn number(&mut self, inode: u64) -> NodeId {
        let next = NodeId(NodeId::ROOT.0 + self.nodes.len() as u64);
        *self.nodes.entry(inode).or_insert(next)
    }

    fn unbind(&mut self, before: &Tree, path: &str, records: &mut Vec<Record>) {
        let spot = before.spot(path).expect("it was found");
        self.node(before, path, true, records);
        let directory = self.node(before, path, false, records);
        records.push(Record::Unbind {
            directory,
            name: spot.1.clone(),
            lower: self.lower(&spot),
        });
    }

    fn bound(&self, directory: NodeId, spot: &Spot, node: NodeId) -> Record {
        Record::Bind {
            directory,
            name: spot.1.clone(),
            node,
            lower: self.lower(spot),
        }
    }

    fn lower(&self, spot: &Spot) -> Option<Identity> {
        let inode = self.real.at(spot)?;
        Some(self.real.identity(inode))
    }
}
