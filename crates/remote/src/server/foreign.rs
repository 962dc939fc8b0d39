//! Changes that others than the clients make in the directory.
//!
//! They come without a lease, so what the tree and the clients know of the object is out of date. All leases on it are
//! revoked. A client gives its lease back behind the changes that it made under the lease, and these are in the directory
//! by then. So once no client relies on the object, no record that waits is about it, and the directory has all that is to be
//! known: the tree forgets the object, and it is loaded when it is next asked for.

use std::collections::BTreeSet;

use super::{Effect, Server, failed};
use crate::errno::Errno;
use crate::frame::ToClient;
use crate::lease::ClientId;
use crate::object::{ObjectId, Versions};
use crate::piece::Found;

/// What others have changed.
#[derive(Debug, Default)]
pub(super) struct Foreign {
    /// Objects that the tree is about to forget.
    changed: BTreeSet<ObjectId>,
    /// No object that the tree has forgotten was of a later version. What is loaded again has another version than it ever
    /// had, so no client takes what it has kept for right.
    version: u64,
}

impl Foreign {
    /// Gives an object that was loaded a version that it did not have before.
    pub(super) fn begin_version(&self, versions: &mut Versions) {
        versions.content = versions.content.max(self.version);
        versions.permissions = versions.permissions.max(self.version);
        versions.times = versions.times.max(self.version);
    }

    pub(super) fn is_changed(&self, object: ObjectId) -> bool {
        self.changed.contains(&object)
    }

    fn forgot(&mut self, versions: &Versions) {
        let newest = versions.content.max(versions.permissions);
        self.version = self.version.max(newest.max(versions.times) + 1);
    }
}

impl Server {
    /// Whether the tree or any client may still go by what an object was before others changed it.
    pub fn is_renewing(&self, object: ObjectId) -> bool {
        self.foreign.changed.contains(&object)
    }

    pub(super) fn changed(&mut self, object: ObjectId, effects: &mut Vec<Effect>) {
        // Nobody goes by what is not known.
        if self.tree.get(object).is_none() || !self.foreign.changed.insert(object) {
            return;
        }
        // Until the grace ends no question is answered. Clients that send groups again need no leases, so until then the
        // directory may lack what they have changed.
        if !self.clients.is_in_grace() {
            self.revoke(object, effects);
        }
    }

    pub(super) fn any_changed(&mut self, effects: &mut Vec<Effect>) {
        let mut known: Vec<_> = self.tree.ids().collect();
        known.sort();
        for object in known {
            self.changed(object, effects);
        }
    }

    /// The grace has ended: what was changed meanwhile is renewed.
    pub(super) fn note_early_changes(&mut self, effects: &mut Vec<Effect>) {
        for object in self.foreign.changed.clone() {
            self.revoke(object, effects);
        }
    }

    fn revoke(&mut self, object: ObjectId, effects: &mut Vec<Effect>) {
        let mut moves = Vec::new();
        self.leases.revoke(object, &mut moves);
        self.carry_out(moves, effects);
    }

    /// Forgets an object on which nobody relies, and of which all changes of clients are in the directory.
    pub(super) fn renew(&mut self, object: ObjectId, effects: &mut Vec<Effect>) {
        // It may have been said twice that nobody relies on the object.
        if !self.foreign.changed.remove(&object) {
            return;
        }
        if let Some(known) = self.tree.forget(object) {
            self.foreign.forgot(&known.versions);
        }
        self.unprepare(object, effects);
        let mut moves = Vec::new();
        self.leases.renewed(object, &mut moves);
        self.carry_out(moves, effects);
    }

    /// An object is not in the directory any more. Clients that know it may let it go.
    pub(super) fn note_vanished(&mut self, object: ObjectId, effects: &mut Vec<Effect>) {
        let knowing = self.leases.knowing(object);
        if !knowing.is_empty() && self.nameless.insert(object) {
            for client in knowing {
                self.send(client, ToClient::Nameless(vec![object]), effects);
            }
        }
    }

    /// Hands on bytes of a file. Fewer than the tree says are there mean that others have cut the file: the client's lease
    /// goes, and then it asks again.
    pub(super) fn has_read(
        &mut self,
        (client, request): (ClientId, u64),
        object: ObjectId,
        (offset, length): (u64, u32),
        data: Result<Found, Errno>,
        effects: &mut Vec<Effect>,
    ) {
        match data {
            // As many as were asked for, so none are missing.
            Ok(Found::Same) => self.send(client, ToClient::Same { request }, effects),
            Ok(Found::Bytes(data)) => {
                let size = self
                    .tree
                    .get(object)
                    .map_or(0, |known| known.attributes.size);
                let expected = size.saturating_sub(offset).min(length.into());
                if (data.len() as u64) < expected {
                    return self.changed(object, effects);
                }
                self.send(client, ToClient::Data { request, data }, effects);
            }
            Err(errno) => {
                self.send(client, failed(request, object, errno), effects);
                // It is not where it was. What the server may not read, it may not read the next time either.
                if errno == Errno::STALE {
                    self.changed(object, effects);
                }
            }
        }
    }
}
