//! Names that begin to lead where they did not.

use std::ffi::OsString;

use surmise_changes::Entry;
use surmise_view::{FileKind, InodeKey, Node, NodeId};

use super::build::{Builder, full_metadata};
use super::{Content, Expected, Item, Link, Metadata, Place, Placement, Removal, Staging};

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
        let item = match self.origin_key(target) {
            Some(key) => self.link(target, key, place.clone(), to.clone()),
            None => self.stage(target, place.clone()),
        };
        if is_outside {
            self.put(entry, item, place, to, None);
        }
    }

    /// One more name of a real inode.
    fn link(&mut self, target: NodeId, key: InodeKey, place: Place, to: Place) -> Item {
        let elsewhere = self.elsewhere.entry(target).or_default();
        elsewhere.push(place.clone());
        self.plan.links.push(Link {
            key,
            sources: Vec::new(),
            place,
            to,
        });
        Item::Real(key)
    }

    fn stage(&mut self, target: NodeId, place: Place) -> Item {
        let next = self.plan.stagings.len();
        let node = self.map.node(target).expect("a binding leads to a node");
        let (content, metadata) = match self.staged.get(&target) {
            Some(first) => (Content::Staged { staging: *first }, None),
            None => {
                self.staged.insert(target, next);
                (content_of(node), self.metadata_of(target, node))
            }
        };
        self.plan.stagings.push(Staging {
            place,
            content,
            metadata,
        });
        Item::Staged(next)
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
        let replaced = entry.lower.filter(|lower| {
            lower.kind != FileKind::Directory && self.names.moved_to(entry).is_none()
        });
        if let Some(lower) = replaced {
            // Another name may keep what this one loses, and then it may have to be edited.
            if let Some(node) = self.map.adopted(lower.key()) {
                self.elsewhere.entry(node).or_default().push(from.clone());
            }
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

    /// Made directories into which something real goes, and those above them: their final mode may
    /// forbid that.
    fn find_unfinished(&mut self, gained: &[(usize, &Entry<'m>, NodeId)]) {
        for (_, entry, target) in gained {
            let mut at = entry.directory;
            if !self.is_adopted(*target) {
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
            target: node.target.to_os_string(),
        },
        kind => Content::Special {
            kind,
            device: node.special,
        },
    }
}
