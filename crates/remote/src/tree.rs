//! The objects that are known, and what operations make of them. The client and the server run this same code:
//! what a client foresees is what the server does.

mod apply;
mod extended;
mod rights;

use std::collections::HashMap;

pub use apply::without_set_ids;

use crate::errno::Errno;
use crate::object::{Attributes, Body, Name, Names, Object, ObjectId, Versions};
use crate::operation::{Operation, Place};

/// What the server's file system bears; a client learns it when it connects.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Limits {
    /// How many names an object may have.
    pub links_max: u32,
    /// The largest file, in bytes.
    pub size_max: u64,
    /// The longest target of a symbolic link, in bytes.
    pub target_bytes_max: u32,
    /// What the names and values of all extended attributes of an object may have together, in bytes; they go into one
    /// message. 0 where the file system has none.
    pub extended_bytes_max: u32,
    /// With whose rights the server changes the export, unless it may do everything.
    pub user: Option<User>,
    /// Where the server keeps its own state: nothing else may have this name, and no client sees it.
    pub reserved: Option<Place>,
}

/// Whom the server's kernel checks the rights of.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct User {
    /// The user that new objects belong to.
    pub id: u32,
    /// Its groups. New objects belong to the first of them, but in directories with the set-group-id bit.
    pub groups: Vec<u32>,
}

impl Default for Limits {
    /// Of ext4 with blocks of 4 KiB.
    fn default() -> Self {
        Self {
            links_max: 65_000,
            size_max: (1 << 44) - (1 << 12),
            target_bytes_max: 4095,
            extended_bytes_max: 4000,
            user: None,
            reserved: None,
        }
    }
}

/// Why an operation changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The call fails with this number.
    #[error("{0}")]
    Errno(Errno),
    /// Not enough is known of this object to tell.
    #[error("{0} is not known")]
    Unknown(ObjectId),
    /// A name does not lead to what the operation says, or an id is not new.
    #[error("{0} is not what the operation takes it for")]
    Mistaken(ObjectId),
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

/// Objects by their ids.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    /// Boxed, since a table has room for up to twice as many as are in it.
    objects: HashMap<ObjectId, Box<Object>>,
    /// Of each directory whose place is known, the directory that has its name.
    parents: HashMap<ObjectId, ObjectId>,
    limits: Limits,
    /// Whether it is known of each directory where it is.
    is_whole: bool,
    /// How to take back what was done since [`Tree::apply_all`] began; `None` outside of it.
    undo: Option<Vec<Inverse>>,
}

/// Takes one step of an operation back.
#[derive(Debug, Clone)]
enum Inverse {
    Made(ObjectId),
    Was(ObjectId, Attributes, Versions),
    Extended(ObjectId, Name, Option<Vec<u8>>),
    Name(ObjectId, Name, Option<ObjectId>),
    Parent(ObjectId, Option<ObjectId>),
}

impl Tree {
    /// The server's: it learns of an object together with where it is, and refuses to move a directory below itself.
    pub fn whole(limits: Limits) -> Self {
        Self {
            limits,
            is_whole: true,
            ..Self::default()
        }
    }

    /// What the file system bears, once that is known.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// What is known of an object.
    pub fn get(&self, object: ObjectId) -> Option<&Object> {
        self.objects.get(&object).map(Box::as_ref)
    }

    /// How many objects are known.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Every object that is known, in no order.
    pub fn ids(&self) -> impl Iterator<Item = ObjectId> + '_ {
        self.objects.keys().copied()
    }

    /// Learns what an object is, in place of what was known of it.
    pub fn learn(&mut self, id: ObjectId, object: Object) {
        self.objects.insert(id, Box::new(object));
    }

    /// Learns all names in a directory that is known.
    ///
    /// # Errors
    /// [`Refusal::Unknown`], or `ENOTDIR`.
    pub fn learn_names(&mut self, directory: ObjectId, names: Names) -> Result<(), Refusal> {
        let slot = self
            .objects
            .get_mut(&directory)
            .ok_or(Refusal::Unknown(directory))?;
        let Body::Names(known) = &mut slot.body else {
            return Err(Errno::NOTDIR.into());
        };
        *known = Some(names);
        Ok(())
    }

    /// Learns in which directory a directory is.
    pub fn learn_parent(&mut self, directory: ObjectId, parent: ObjectId) {
        self.parents.insert(directory, parent);
    }

    /// The directory in which a directory is, where that is known. The root has none.
    pub fn parent(&self, directory: ObjectId) -> Option<ObjectId> {
        self.parents.get(&directory).copied()
    }

    /// Knows an object no more.
    pub fn forget(&mut self, object: ObjectId) -> Option<Object> {
        self.parents.remove(&object);
        self.objects.remove(&object).map(|object| *object)
    }

    /// The names in a directory.
    ///
    /// # Errors
    /// `ENOTDIR`; [`Refusal::Unknown`] while they are not known.
    pub fn names(&self, directory: ObjectId) -> Result<&Names, Refusal> {
        match self.known(directory)?.body {
            Body::Names(Some(ref names)) => Ok(names),
            Body::Names(None) => Err(Refusal::Unknown(directory)),
            _ => Err(Errno::NOTDIR.into()),
        }
    }

    /// Whether a directory is `above`, or below it. A client does not know where others have moved what is above.
    fn is_within(&self, directory: ObjectId, above: ObjectId) -> bool {
        if !self.is_whole {
            return false;
        }
        let mut at = Some(directory);
        // A walk of more steps than there are objects would go in a circle.
        for _ in 0..=self.objects.len() {
            match at {
                Some(one) if one == above => return true,
                Some(one) => at = self.parent(one),
                None => return false,
            }
        }
        true
    }

    /// Applies all of `operations` in their order, or none.
    ///
    /// # Errors
    /// Which of them is refused, and why.
    pub fn apply_all(&mut self, operations: &[Operation]) -> Result<(), (usize, Refusal)> {
        self.undo = Some(Vec::new());
        let outcome = operations
            .iter()
            .enumerate()
            .try_for_each(|(index, operation)| {
                self.apply(operation).map_err(|refusal| (index, refusal))
            });
        let undo = self.undo.take().unwrap_or_default();
        if outcome.is_err() {
            for step in undo.into_iter().rev() {
                self.take_back(step);
            }
        }
        outcome
    }

    fn take_back(&mut self, step: Inverse) {
        match step {
            Inverse::Made(object) => {
                self.forget(object);
            }
            Inverse::Was(object, attributes, versions) => {
                if let Some(object) = self.objects.get_mut(&object) {
                    object.attributes = attributes;
                    object.versions = versions;
                }
            }
            Inverse::Extended(object, name, value) => {
                if let Some(object) = self.objects.get_mut(&object) {
                    match value {
                        Some(value) => object.extended.insert(name, value),
                        None => object.extended.remove(&name),
                    };
                }
            }
            Inverse::Name(directory, name, object) => {
                self.set_name(directory, name, object);
            }
            Inverse::Parent(directory, parent) => {
                self.set_parent(directory, parent);
            }
        }
    }

    fn known(&self, object: ObjectId) -> Result<&Object, Refusal> {
        self.get(object).ok_or(Refusal::Unknown(object))
    }

    fn set_name(
        &mut self,
        directory: ObjectId,
        name: Name,
        object: Option<ObjectId>,
    ) -> Option<ObjectId> {
        let directory = self.objects.get_mut(&directory)?;
        let Body::Names(Some(names)) = &mut directory.body else {
            return None;
        };
        match object {
            Some(object) => names.insert(name, object),
            None => names.remove(&name),
        }
    }

    fn set_parent(&mut self, directory: ObjectId, parent: Option<ObjectId>) -> Option<ObjectId> {
        match parent {
            Some(parent) => self.parents.insert(directory, parent),
            None => self.parents.remove(&directory),
        }
    }
}
