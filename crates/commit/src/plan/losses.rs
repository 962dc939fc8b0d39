//! Real names that stop leading where they led.

use std::cmp::Reverse;

use surmise_changes::{Entry, depth};
use surmise_view::{FileKind, Identity};

use super::build::{Builder, Emptied, Refused};
use super::{Aside, Expected, Place, Removal};

impl<'m> Builder<'m> {
    pub(super) fn losses(&mut self, changed: &[Entry<'m>]) -> Result<(), Refused> {
        let mut removals: Vec<(usize, Removal)> = Vec::new();
        for entry in changed {
            let Some(lower) = entry.lower else {
                continue;
            };
            if self.is_adopted(entry.directory)
                && let Some(removal) = self.loss(entry, lower)?
            {
                let path = self.names.real_path(entry.directory).unwrap_or_default();
                removals.push((depth(&path), removal));
            }
        }
        // What a removed directory holds goes before it.
        removals.sort_by_key(|(depth, _)| Reverse(*depth));
        self.plan.removals = removals.into_iter().map(|(_, removal)| removal).collect();
        Ok(())
    }

    /// Sets aside what must make room, and returns what is to be removed in the end.
    fn loss(&mut self, entry: &Entry<'m>, lower: Identity) -> Result<Option<Removal>, Refused> {
        let is_directory = lower.kind == FileKind::Directory;
        let is_moved = self.names.moved_to(entry).is_some();
        let is_kept = is_directory && self.keep.contains(&lower.key());
        if is_kept && (is_moved || entry.binding.target.is_some()) {
            let name = (entry.directory, entry.name);
            return Err(Refused(self.names.path_of(name).unwrap_or_default()));
        }
        let place = self.place((entry.directory, entry.name));
        if is_directory && !is_moved {
            let node = self.map.adopted(lower.key());
            self.checks.emptied.push(Emptied {
                place: place.clone(),
                node: node.and_then(|node| self.map.node(node)),
            });
        }
        // What goes with its directory waits inside it; what is replaced by a file is exchanged for
        // it; what is kept stays.
        let in_live = self.names.is_live(entry.directory);
        let makes_room = in_live && (entry.binding.target.is_none() || is_directory);
        // A file that has other names is changed through them, by this commit among others; and whoever
        // changes it outside keeps it by those.
        let node = self
            .map
            .adopted(lower.key())
            .and_then(|id| self.map.node(id));
        let stays = node.is_some_and(|node| {
            let links = node.origin.as_ref().map(|origin| origin.links);
            node.links(links) > 0
        });
        let expected = match is_moved || is_directory || stays {
            true => Expected::Inode(lower.key()),
            false => Expected::State(lower),
        };
        let removal = Removal {
            place: place.clone(),
            expected,
            is_directory,
            home: None,
            is_kept,
        };
        if is_kept || !(is_moved || makes_room) {
            let is_exchanged = in_live && !is_kept;
            return Ok((!is_exchanged).then_some(removal));
        }
        let temporary = self.temporary();
        self.set_aside
            .insert((entry.directory, entry.name), temporary.clone());
        self.plan.asides.push(Aside {
            place: place.clone(),
            temporary: temporary.clone(),
            expected,
        });
        let aside = Place {
            directory: place.directory,
            name: temporary,
        };
        Ok((!is_moved).then(|| Removal {
            place: aside,
            expected: Expected::Inode(lower.key()),
            home: Some(place.name),
            ..removal
        }))
    }
}
