//! Changes that clients have made or want to be made: checked, made in the tree, and recorded.

use std::collections::BTreeSet;

use super::{Effect, Reason, Record, Server};
use crate::errno::Errno;
use crate::frame::{ToServer, Urgency};
use crate::lease::{ClientId, Mode};
use crate::object::ObjectId;
use crate::operation::{Change, Operation};
use crate::tree::Refusal;

impl Server {
    /// Takes what a client has sent, in its order, until something has to be loaded first.
    pub(super) fn take_messages(&mut self, client: ClientId, effects: &mut Vec<Effect>) {
        while let Some(message) = self.clients.next_message(client) {
            let missing = self.missing_for(client, &message);
            if missing.is_empty() {
                self.take_message(client, message, effects);
                self.clients.taken(client);
                continue;
            }
            self.clients.wait_for(client, message, missing.clone());
            for object in missing {
                self.load(object, Urgency::Awaited, effects);
            }
        }
    }

    /// The objects that the changes of a message touch and that have to be loaded first. After a restart all have to be.
    fn missing_for(&self, client: ClientId, message: &ToServer) -> BTreeSet<ObjectId> {
        let operations = match message {
            ToServer::Group { operations, .. } => &operations[..],
            ToServer::Perform { operation, .. } => std::slice::from_ref(operation),
            _ => &[],
        };
        let moves = move_between_directories(operations);
        let mut missing = BTreeSet::new();
        let mut made = BTreeSet::new();
        for operation in operations {
            let touched = operation.change.touches().into_iter();
            missing.extend(touched.filter(|id| self.tree.get(*id).is_none() && !made.contains(id)));
            made.extend(operation.change.makes());
            if moves {
                let places = operation.change.places();
                let above = places.flat_map(|place| self.unknown_above(place.parent));
                missing.extend(above.filter(|id| !made.contains(id)));
            }
        }
        missing.retain(|object| !self.clients.is_unreadable(client, *object));
        missing
    }

    /// Whether it is known where a directory is, so that nothing can come below itself.
    fn reaches_root(&self, directory: ObjectId, made: &BTreeSet<ObjectId>) -> bool {
        let top = self.topmost(directory);
        top == self.config.root || made.contains(&top) || self.nameless.contains(&top)
    }

    fn topmost(&self, directory: ObjectId) -> ObjectId {
        let mut at = directory;
        // A walk of more steps than there are objects would go in a circle.
        for _ in 0..=self.tree.len() {
            match self.tree.parent(at) {
                Some(parent) => at = parent,
                None => break,
            }
        }
        at
    }

    /// The nearest directory, at or above this one, whose place is not known: a directory that moves may not come
    /// below itself.
    fn unknown_above(&self, directory: ObjectId) -> Option<ObjectId> {
        let at = self.topmost(directory);
        let is_known = at == self.config.root || self.tree.get(at).is_some();
        (!is_known).then_some(at)
    }

    /// Applies a group to the tree, or refuses it, and records which.
    pub(super) fn group(
        &mut self,
        client: ClientId,
        sequence: u64,
        operations: Vec<Operation>,
        effects: &mut Vec<Effect>,
    ) {
        let received = self.clients.received(client);
        // It came by the connection before, too.
        if sequence <= received {
            return;
        }
        if sequence != received + 1 {
            if let Some(link) = self.clients.link(client) {
                self.part(link, Reason::Breach, effects);
            }
            return;
        }
        let Some(key) = self.clients.key(client) else {
            return;
        };
        let allowed = self.may_make(client, &operations);
        let allowed = allowed.and_then(|()| match self.room.lacking(&operations) {
            Some(index) => Err((index, Refusal::Errno(Errno::NOSPC))),
            None => Ok(()),
        });
        let outcome = match allowed {
            Ok(()) => self.tree.apply_all(&operations),
            Err(refused) => Err(refused),
        };
        let record = match outcome {
            Ok(()) => {
                for operation in &operations {
                    if let Some(object) = operation.change.makes() {
                        self.leases.made(client, object);
                    }
                    for object in operation.change.touches() {
                        if self.clients.is_resending(client) {
                            // It had a lease on the object before the restart.
                            self.leases.offer(client, object, Mode::Know);
                        }
                        self.note_nameless(object, effects);
                    }
                }
                self.room.recorded(self.recorded + 1, &operations);
                Record::Made {
                    client: key,
                    sequence,
                    operations,
                }
            }
            Err((index, refusal)) => Record::Refused {
                client: key,
                sequence,
                index: u32::try_from(index).unwrap_or(u32::MAX),
                errno: errno_of(refusal),
            },
        };
        self.clients
            .received_group(client, &record, self.recorded + 1);
        self.record(record, effects);
    }

    /// A client changes what it has leases on, and makes objects of its own alone.
    fn may_make(&self, client: ClientId, operations: &[Operation]) -> Result<(), (usize, Refusal)> {
        let is_resent = self.clients.is_resending(client);
        let moves = move_between_directories(operations);
        let mut made = BTreeSet::new();
        let mut last_made = self.clients.last_made(client);
        for (index, operation) in operations.iter().enumerate() {
            for object in operation.change.touches() {
                let mode = self.leases.mode(client, object);
                if !is_resent && mode != Some(Mode::Write) && !made.contains(&object) {
                    return Err((index, Refusal::Errno(Errno::STALE)));
                }
            }
            let mut parents = operation.change.places().map(|place| place.parent);
            if moves && !parents.all(|parent| self.reaches_root(parent, &made)) {
                return Err((index, Refusal::Errno(Errno::STALE)));
            }
            if let Some(object) = operation.change.makes() {
                let is_new = last_made < Some(object);
                if object.maker() != self.clients.prefix(client) || !is_new {
                    return Err((index, Refusal::Mistaken(object)));
                }
                last_made = Some(object);
                made.insert(object);
            }
        }
        Ok(())
    }
}

/// A client that holds the leases and knows the objects is refused only what would fail on any copy.
fn errno_of(refusal: Refusal) -> Errno {
    match refusal {
        Refusal::Errno(errno) => errno,
        Refusal::Unknown(_) | Refusal::Mistaken(_) => Errno::STALE,
    }
}

/// Whether any name moves to another directory.
fn move_between_directories(operations: &[Operation]) -> bool {
    let moves = |operation: &Operation| match &operation.change {
        Change::Rename { from, to, .. } => from.parent != to.parent,
        _ => false,
    };
    operations.iter().any(moves)
}
