//! Names that begin to lead where they did not.

use std::ffi::OsString;

use surmise_view::{FileKind, Node, NodeId};

use super::build::{Builder, full_metadata};
use super::{Content, Expected, Item, Metadata, Place, Placement, Removal, Staging};
use crate::names::Entry;

impl<'m> Builder<'m> {
    /// Top-down by final depth: a directory is there before what goes into it, and nothing is ever
    /// moved below itself.
    pub(super) fn gains(&mut self, changed: &[Entry<'m>]) {
        let mut gained: Vec<(usize, &Entry<'m>, NodeId)> = changed
            .iter()
            .filter(|entry| self.names.is_live(entry.directory))
            .filter_map(|entry| {
                let target = entry.binding.target?;
                Some((self.depth(entry.directory), entry, target))
            })
            .collect();
        gained.sort_by_key(|(depth, _, _)| *depth);
        self.find_unfinished(&gained);
        for (_, entry, target) in gained {
            self.gain(entry, target);
        }
    }

    fn gain(&mut self, entry: &Entry<'m>, target: NodeId) {
        let to = self.place((entry.directory, entry.name));
        if let Some(lost) = self.names.moved_from(entry) {
            let key = self.origin_key(target);
            let temporary = self.set_aside.get(&(lost.directory, lost.name)).cloned();
            let (Some(key), Some(temporary)) = (key, temporary) else {
                unreachable!("a moved name leads to a real inode and was set aside");
            };
            let from = Place {
                directory: self.index(lost.directory),
                name: temporary,
            };
            self.put(entry, Item::Real(key), from, to, Some(lost.name.to_owned()));
            return;
        }
        let is_outside = self.is_adopted(entry.directory);
        let place = match is_outside {
            true => Place {
                directory: to.directory,
                name: self.temporary(),
            },
            // Below a directory that is staged itself: the final name at once.
            false => to.clone(),
        };
        let staging = self.stage(target, place.clone());
        if is_outside {
            self.put(entry, Item::Staged(staging), place, to, None);
        }
    }

    fn stage(&mut self, target: NodeId, place: Place) -> usize {
        let next = self.plan.stagings.len();
        let node = self.map.node(target).expect("a binding leads to a node");
        let (content, metadata) = match (&node.origin, self.staged.get(&target)) {
            (Some(origin), _) => {
                let key = origin.identity.key();
                let found = self.place((origin.parent, &origin.name));
                self.linked.entry(target).or_default().push(place.clone());
                (Content::Real { place: found, key }, None)
            }
            (None, Some(first)) => (Content::Staged { staging: *first }, None),
            (None, None) => {
                self.staged.insert(target, next);
                (content_of(node), self.metadata_of(target, node))
            }
        };
        self.plan.stagings.push(Staging {
            place,
            content,
            metadata,
        });
        next
    }

    fn metadata_of(&mut self, id: NodeId, node: &Node) -> Option<Metadata> {
        if node.kind == FileKind::Directory {
            self.index(id);
        }
        (!self.unfinished.contains(&id)).then(|| full_metadata(node))
    }

    fn put(
        &mut self,
        entry: &Entry<'m>,
        item: Item,
        from: Place,
        to: Place,
        home: Option<OsString>,
    ) {
        let replaced = entry.binding.lower.filter(|lower| {
            lower.kind != FileKind::Directory && self.names.moved_to(entry).is_none()
        });
        if let Some(lower) = replaced {
            self.displaced.push(Removal {
                place: from.clone(),
                expected: Expected::Inode(lower.key()),
                is_directory: false,
                home: None,
                is_kept: false,
            });
        }
        self.plan.placements.push(Placement {
            item,
            from,
            to,
            displaces: replaced.map(Expected::State),
            home,
        });
    }

    /// Made directories into which something real is moved, and those above them: their final mode
    /// may forbid that.
    fn find_unfinished(&mut self, gained: &[(usize, &Entry<'m>, NodeId)]) {
        for (_, entry, _) in gained {
            let mut at = entry.directory;
            if self.names.moved_from(entry).is_none() {
                continue;
            }
            while !self.is_adopted(at) && self.unfinished.insert(at) {
                match self.names.place(at) {
                    Some((parent, _)) => at = parent,
                    None => break,
                }
            }
        }
    }
}

fn content_of(node: &Node) -> Content {
    match node.kind {
        FileKind::Directory => Content::Directory,
        FileKind::Regular => Content::Regular {
            object: node.object,
        },
        FileKind::Symlink => Content::Symlink {
            target: node.target.clone(),
        },
        kind => Content::Special {
            kind,
            device: node.special,
        },
    }
}
