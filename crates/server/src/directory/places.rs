//! Where the inodes of the export are, and which objects they are.

use std::collections::{HashMap, HashSet};

use surmise_remote::object::{Name, ObjectId};

/// A name in a directory, by the directory's inode number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) parent: u64,
    pub(super) name: Name,
}

/// The places of inodes, as far as they are known. Others may have changed them, so what is found at a place counts only
/// if it is the inode that is meant.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// One place of each inode. Most have no other.
    one: HashMap<u64, Place>,
    /// All further ones.
    more: HashMap<u64, Vec<Place>>,
    /// The last place of an inode of which no place is known, for messages.
    last: HashMap<u64, Place>,
}

impl Places {
    /// Whether the place was not known.
    pub(super) fn add(&mut self, inode: u64, place: Place) -> bool {
        match self.one.get(&inode) {
            None => {
                self.last.remove(&inode);
                self.one.insert(inode, place);
                true
            }
            Some(one) if *one == place => false,
            Some(_) => {
                let more = self.more.entry(inode).or_default();
                let is_new = !more.contains(&place);
                if is_new {
                    more.push(place);
                }
                is_new
            }
        }
    }

    /// The inode has this place alone.
    pub(super) fn set(&mut self, inode: u64, place: Place) {
        self.more.remove(&inode);
        self.last.remove(&inode);
        self.one.insert(inode, place);
    }

    /// The inode has this place no more; whether it has any that is known.
    pub(super) fn remove(&mut self, inode: u64, place: &Place) -> bool {
        let more = self.more.get_mut(&inode);
        if self.one.get(&inode) == Some(place) {
            match more.and_then(Vec::pop) {
                Some(other) => self.one.insert(inode, other),
                None => {
                    self.last.insert(inode, place.clone());
                    self.one.remove(&inode)
                }
            };
        } else if let Some(more) = more {
            more.retain(|other| other != place);
        }
        if self.more.get(&inode).is_some_and(Vec::is_empty) {
            self.more.remove(&inode);
        }
        self.one.contains_key(&inode)
    }

    /// All places of an inode, which has none then.
    pub(super) fn take(&mut self, inode: u64) -> Vec<Place> {
        let more = self.more.remove(&inode).into_iter().flatten();
        self.one.remove(&inode).into_iter().chain(more).collect()
    }

    pub(super) fn forget(&mut self, inode: u64) {
        self.one.remove(&inode);
        self.more.remove(&inode);
        self.last.remove(&inode);
    }

    /// Where an inode is, as far as that is known.
    pub(super) fn all(&self, inode: u64) -> impl Iterator<Item = &Place> {
        let more = self.more.get(&inode).into_iter().flatten();
        self.one.get(&inode).into_iter().chain(more)
    }

    /// Where an inode is, or was when it was last seen.
    pub(super) fn last(&self, inode: u64) -> Option<&Place> {
        self.get(inode).or_else(|| self.last.get(&inode))
    }

    pub(super) fn get(&self, inode: u64) -> Option<&Place> {
        self.one.get(&inode)
    }
}

/// Which inode an object is. A found object's id says so; of those that clients have made it is noted.
#[derive(Debug, Default)]
pub(super) struct Ids {
    inodes: HashMap<ObjectId, u64>,
    made: HashMap<u64, ObjectId>,
    /// Numbers of inodes that are gone. Their ids are of these for ever.
    spent: HashSet<u64>,
}

impl Ids {
    pub(super) fn pair(&mut self, id: ObjectId, inode: u64) {
        if let Some(old) = self.made.insert(inode, id).filter(|old| *old != id) {
            self.inodes.remove(&old);
        }
        if let Some(old) = self.inodes.insert(id, inode).filter(|old| *old != inode) {
            self.made.remove(&old);
        }
    }

    /// An inode is gone. Its number may be given to a new one.
    pub(super) fn forget_inode(&mut self, inode: u64) {
        if let Some(id) = self.made.remove(&inode) {
            self.inodes.remove(&id);
        }
        self.spent.insert(inode);
    }

    /// Whether an inode needs another id than that of its number, and has none.
    pub(super) fn is_spent(&self, inode: u64) -> bool {
        self.spent.contains(&inode) && !self.made.contains_key(&inode)
    }

    /// `None` for an id that is not, or no longer, of any inode.
    pub(super) fn inode(&self, id: ObjectId) -> Option<u64> {
        match id.maker() {
            Some(_) => self.inodes.get(&id).copied(),
            None => {
                let inode = id.number();
                let is_other = self.made.contains_key(&inode) || self.spent.contains(&inode);
                (!is_other).then_some(inode)
            }
        }
    }

    /// `None` for a number above 2^63, which no file system of Linux gives out.
    pub(super) fn id(&self, inode: u64) -> Option<ObjectId> {
        let made = self.made.get(&inode).copied();
        made.or_else(|| ObjectId::found(inode))
    }

    /// The inode of each object that a client has made, in no order.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (ObjectId, u64)> + '_ {
        self.inodes.iter().map(|(id, inode)| (*id, *inode))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surmise_remote::object::Prefix;

    fn place(parent: u64, name: &str) -> Place {
        let name = name.as_bytes().try_into().expect("a name");
        Place { parent, name }
    }

    #[test]
    fn an_inode_is_at_any_of_its_places_until_the_last_one_goes() {
        let mut places = Places::default();
        for name in ["a", "b", "a", "c"] {
            places.add(1, place(2, name));
        }
        assert!(places.remove(1, &place(2, "b")));
        assert!(places.remove(1, &place(2, "a")));
        assert_eq!(places.get(1), Some(&place(2, "c")));
        assert!(places.remove(1, &place(2, "x")));
        assert!(!places.remove(1, &place(2, "c")));
        assert_eq!(places.get(1), None);
    }

    #[test]
    fn a_number_that_is_given_again_is_not_the_object_of_before() {
        let made = |number| ObjectId::made(Prefix(1), number).expect("small");
        let mut ids = Ids::default();
        let found = ObjectId::found(7).expect("small");
        assert_eq!(ids.inode(found), Some(7));
        ids.pair(made(1), 7);
        assert_eq!((ids.inode(found), ids.inode(made(1))), (None, Some(7)));
        ids.pair(made(2), 7);
        assert_eq!((ids.inode(made(1)), ids.id(7)), (None, Some(made(2))));
        ids.forget_inode(7);
        assert_eq!((ids.inode(found), ids.inode(made(2))), (None, None));
        assert!(ids.is_spent(7));
        ids.pair(made(3), 7);
        assert_eq!((ids.id(7), ids.is_spent(7)), (Some(made(3)), false));
    }
}
