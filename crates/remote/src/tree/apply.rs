//! What each operation does to a tree. All of it is checked before anything is changed.
//!
//! Errors and effects are those of Linux: path_resolution(7) is done by then, so what is left are the checks
//! that a file system makes itself.

use surmise_lower::{FileKind, Timestamp};

use super::{Inverse, Refusal, Tree};
use crate::errno::Errno;
use crate::object::{Attributes, Body, Names, Object, ObjectId, Versions};
use crate::operation::{Change, NewKind, NewObject, Operation, Place, SetAttributes};

const SET_USER_ID: u16 = 0o4000;
const SET_GROUP_ID: u16 = 0o2000;
const GROUP_EXECUTES: u16 = 0o010;
const PERMISSIONS: u16 = 0o7777;

impl Tree {
    /// Applies one operation.
    ///
    /// # Errors
    /// Why it changes nothing.
    pub fn apply(&mut self, operation: &Operation) -> Result<(), Refusal> {
        let at = must_be_time(operation.at)?;
        let mut places = operation.change.places();
        if places.any(|place| self.limits.reserved.as_ref() == Some(place)) {
            return Err(Errno::PERM.into());
        }
        self.may(&operation.change)?;
        match &operation.change {
            Change::Create { place, object, new } => self.create(place, *object, new, at),
            Change::Link { object, place } => self.link(*object, place, at),
            Change::Remove {
                place,
                object,
                directory,
            } => self.remove(place, *object, *directory, at),
            Change::Rename {
                from,
                object,
                to,
                replaced,
                exchange: false,
            } => self.rename(from, *object, to, *replaced, at),
            Change::Rename {
                from,
                object,
                to,
                replaced,
                exchange: true,
            } => self.exchange((from, *object), (to, *replaced), at),
            Change::SetAttributes { object, set } => self.set_attributes(*object, set, at),
            Change::Resize {
                object,
                size,
                strip,
            } => {
                self.regular(*object)?;
                if *size > self.limits.size_max {
                    return Err(Errno::FBIG.into());
                }
                self.change_data(*object, *strip, at, |_| *size);
                Ok(())
            }
            Change::Write {
                object,
                offset,
                data,
                strip,
            } => {
                self.regular(*object)?;
                let end = offset
                    .checked_add(data.len() as u64)
                    .filter(|end| *end <= self.limits.size_max)
                    .ok_or(Errno::FBIG)?;
                if !data.is_empty() {
                    self.change_data(*object, *strip, at, |size| size.max(end));
                }
                Ok(())
            }
            Change::SetExtended {
                object,
                name,
                value,
            } => self.set_extended(*object, name, value.as_ref(), at),
        }
    }

    fn create(
        &mut self,
        place: &Place,
        id: ObjectId,
        new: &NewObject,
        at: Timestamp,
    ) -> Result<(), Refusal> {
        let mut attributes = Attributes {
            kind: new.kind.kind(),
            permissions: new.permissions & PERMISSIONS,
            links: 1,
            owner: new.owner,
            group: new.group,
            size: 0,
            device: 0,
            accessed: at,
            modified: at,
            changed: at,
        };
        if self.names_alive(place.parent)?.contains_key(&place.name) {
            return Err(Errno::EXIST.into());
        }
        if self.get(id).is_some() {
            return Err(Refusal::Mistaken(id));
        }
        let parent = self.known(place.parent)?.attributes;
        let is_directory = attributes.kind == FileKind::Directory;
        if parent.permissions & SET_GROUP_ID != 0 {
            attributes.group = parent.group;
            if is_directory {
                attributes.permissions |= SET_GROUP_ID;
            }
        }
        let mut object = Object::new(attributes, Versions::default());
        match &new.kind {
            NewKind::Symlink(target) => {
                if target.is_empty() || target.contains(&0) {
                    return Err(Errno::NOENT.into());
                }
                if target.len() > self.limits.target_bytes_max as usize {
                    return Err(Errno::NAMETOOLONG.into());
                }
                object.attributes.permissions = 0o777;
                object.attributes.size = target.len() as u64;
                object.body = Body::Target(target.clone());
            }
            NewKind::CharacterDevice(device) | NewKind::BlockDevice(device) => {
                object.attributes.device = *device;
            }
            NewKind::Directory => {
                self.may_gain_directory(place.parent)?;
                object.attributes.links = links_of_empty(&parent);
                object.body = Body::Names(Some(Names::new()));
            }
            NewKind::Regular | NewKind::Fifo | NewKind::Socket => {}
        }
        self.learn(id, object);
        self.note(Inverse::Made(id));
        self.bind(place, Some(id), at);
        if is_directory {
            self.move_directory(id, Some(place.parent));
            self.count_directory(place.parent, 1);
        }
        Ok(())
    }

    fn set_attributes(
        &mut self,
        object: ObjectId,
        set: &SetAttributes,
        at: Timestamp,
    ) -> Result<(), Refusal> {
        let is_link = self.known(object)?.attributes.kind == FileKind::Symlink;
        if is_link && set.permissions.is_some() {
            return Err(Errno::OPNOTSUPP.into());
        }
        for time in [set.accessed, set.modified].into_iter().flatten() {
            must_be_time(time)?;
        }
        self.change(object, |attributes, versions| {
            if set.permissions.is_some() || set.owner.is_some() || set.group.is_some() {
                versions.permissions += 1;
            }
            versions.times += 1;
            let permissions = set.permissions.map(|bits| bits & PERMISSIONS);
            attributes.permissions = permissions.unwrap_or(attributes.permissions);
            attributes.owner = set.owner.unwrap_or(attributes.owner);
            attributes.group = set.group.unwrap_or(attributes.group);
            attributes.accessed = set.accessed.unwrap_or(attributes.accessed);
            attributes.modified = set.modified.unwrap_or(attributes.modified);
            attributes.changed = at;
        });
        Ok(())
    }

    fn link(&mut self, object: ObjectId, place: &Place, at: Timestamp) -> Result<(), Refusal> {
        if self.names_alive(place.parent)?.contains_key(&place.name) {
            return Err(Errno::EXIST.into());
        }
        let known = self.known(object)?;
        if known.is_directory() {
            return Err(Errno::PERM.into());
        }
        // A file without a name gets none by link(2), but for one that never had any; that one is told apart
        // by the caller.
        if known.attributes.links == 0 {
            return Err(Errno::NOENT.into());
        }
        if known.attributes.links >= self.limits.links_max {
            return Err(Errno::MLINK.into());
        }
        self.bind(place, Some(object), at);
        self.count_links(object, 1, at);
        Ok(())
    }

    fn remove(
        &mut self,
        place: &Place,
        object: ObjectId,
        directory: bool,
        at: Timestamp,
    ) -> Result<(), Refusal> {
        self.must_lead(place, object)?;
        match (self.known(object)?.is_directory(), directory) {
            (true, false) => return Err(Errno::ISDIR.into()),
            (false, true) => return Err(Errno::NOTDIR.into()),
            (true, true) => self.must_be_empty(object)?,
            (false, false) => {}
        }
        self.bind(place, None, at);
        self.lose_name(object, place.parent, at);
        Ok(())
    }

    fn rename(
        &mut self,
        from: &Place,
        object: ObjectId,
        to: &Place,
        replaced: Option<ObjectId>,
        at: Timestamp,
    ) -> Result<(), Refusal> {
        self.must_lead(from, object)?;
        let led = self.names_alive(to.parent)?.get(&to.name).copied();
        if led != replaced {
            return Err(Refusal::Mistaken(led.unwrap_or(object)));
        }
        // Two names of one object: nothing happens (rename(2)).
        if replaced == Some(object) {
            return Ok(());
        }
        let is_directory = self.known(object)?.is_directory();
        let other_parent = from.parent != to.parent;
        if other_parent && is_directory && self.is_within(to.parent, object) {
            return Err(Errno::INVAL.into());
        }
        if let Some(replaced) = replaced {
            if other_parent && self.is_within(from.parent, replaced) {
                return Err(Errno::NOTEMPTY.into());
            }
            match (is_directory, self.known(replaced)?.is_directory()) {
                (false, true) => return Err(Errno::ISDIR.into()),
                (true, false) => return Err(Errno::NOTDIR.into()),
                (true, true) => self.must_be_empty(replaced)?,
                (false, false) => {}
            }
        }
        let moves = is_directory && other_parent;
        if moves && replaced.is_none() {
            self.may_gain_directory(to.parent)?;
        }
        self.bind(from, None, at);
        self.bind(to, Some(object), at);
        if let Some(replaced) = replaced {
            self.lose_name(replaced, to.parent, at);
        }
        if moves {
            self.move_directory(object, Some(to.parent));
            self.count_directory(from.parent, -1);
            self.count_directory(to.parent, 1);
        }
        self.count_links(object, 0, at);
        Ok(())
    }

    fn exchange(
        &mut self,
        (from, object): (&Place, ObjectId),
        (to, other): (&Place, Option<ObjectId>),
        at: Timestamp,
    ) -> Result<(), Refusal> {
        self.must_lead(from, object)?;
        let other = other.ok_or(Errno::NOENT)?;
        self.must_lead(to, other)?;
        if object == other {
            return Ok(());
        }
        let is_directory = self.known(object)?.is_directory();
        let other_is_directory = self.known(other)?.is_directory();
        let into_itself = (is_directory && self.is_within(to.parent, object))
            || (other_is_directory && self.is_within(from.parent, other));
        if from.parent != to.parent && into_itself {
            return Err(Errno::INVAL.into());
        }
        if from.parent != to.parent && is_directory != other_is_directory {
            let gains = if is_directory { to } else { from };
            self.may_gain_directory(gains.parent)?;
        }
        self.bind(from, Some(other), at);
        self.bind(to, Some(object), at);
        for (id, is_directory, old, new) in [
            (object, is_directory, from, to),
            (other, other_is_directory, to, from),
        ] {
            if is_directory && from.parent != to.parent {
                self.move_directory(id, Some(new.parent));
                self.count_directory(old.parent, -1);
                self.count_directory(new.parent, 1);
            }
            self.count_links(id, 0, at);
        }
        Ok(())
    }

    /// The names in a directory that still has one itself: in a removed one nothing can be made.
    fn names_alive(&self, directory: ObjectId) -> Result<&Names, Refusal> {
        let names = self.names(directory)?;
        if self.known(directory)?.attributes.links == 0 {
            return Err(Errno::NOENT.into());
        }
        Ok(names)
    }

    fn must_lead(&self, place: &Place, object: ObjectId) -> Result<(), Refusal> {
        match self.names_alive(place.parent)?.get(&place.name) {
            Some(led) if *led == object => Ok(()),
            Some(_) => Err(Refusal::Mistaken(object)),
            None => Err(Errno::NOENT.into()),
        }
    }

    fn must_be_empty(&self, directory: ObjectId) -> Result<(), Refusal> {
        match self.names(directory)?.is_empty() {
            true => Ok(()),
            false => Err(Errno::NOTEMPTY.into()),
        }
    }

    fn regular(&self, object: ObjectId) -> Result<(), Refusal> {
        match self.known(object)?.attributes.kind {
            FileKind::Regular => Ok(()),
            FileKind::Directory => Err(Errno::ISDIR.into()),
            _ => Err(Errno::INVAL.into()),
        }
    }

    fn may_gain_directory(&self, parent: ObjectId) -> Result<(), Refusal> {
        if self.known(parent)?.attributes.links >= self.limits.links_max {
            Err(Errno::MLINK.into())
        } else {
            Ok(())
        }
    }

    fn bind(&mut self, place: &Place, object: Option<ObjectId>, at: Timestamp) {
        let was = self.set_name(place.parent, place.name.clone(), object);
        self.note(Inverse::Name(place.parent, place.name.clone(), was));
        self.change(place.parent, |attributes, versions| {
            attributes.modified = at;
            attributes.changed = at;
            versions.content += 1;
            versions.times += 1;
        });
    }

    fn lose_name(&mut self, object: ObjectId, parent: ObjectId, at: Timestamp) {
        if self.get(object).is_some_and(Object::is_directory) {
            self.count_directory(parent, -1);
            self.move_directory(object, None);
            self.change(object, |attributes, versions| {
                attributes.links = 0;
                attributes.changed = at;
                versions.times += 1;
            });
        } else {
            self.count_links(object, -1, at);
        }
    }

    fn move_directory(&mut self, directory: ObjectId, parent: Option<ObjectId>) {
        let was = self.set_parent(directory, parent);
        self.note(Inverse::Parent(directory, was));
    }

    /// One directory more or fewer in `parent`, whose `..` is one of the parent's names. A file system that
    /// does not count these (btrfs) gives every directory one name.
    fn count_directory(&mut self, parent: ObjectId, more: i32) {
        self.change(parent, |attributes, _| {
            if attributes.links > 1 {
                attributes.links = attributes.links.saturating_add_signed(more);
            }
        });
    }

    fn count_links(&mut self, object: ObjectId, more: i32, at: Timestamp) {
        self.change(object, |attributes, versions| {
            attributes.links = attributes.links.saturating_add_signed(more);
            attributes.changed = at;
            versions.times += 1;
        });
    }

    fn change_data(
        &mut self,
        object: ObjectId,
        strip: bool,
        at: Timestamp,
        size: impl FnOnce(u64) -> u64,
    ) {
        self.change(object, |attributes, versions| {
            attributes.size = size(attributes.size);
            attributes.modified = at;
            attributes.changed = at;
            versions.content += 1;
            versions.times += 1;
            let stripped = without_set_ids(attributes.permissions);
            if strip && stripped != attributes.permissions {
                attributes.permissions = stripped;
                versions.permissions += 1;
            }
        });
    }

    pub(super) fn change(
        &mut self,
        object: ObjectId,
        how: impl FnOnce(&mut Attributes, &mut Versions),
    ) {
        if let Some(slot) = self.objects.get_mut(&object) {
            let (attributes, versions) = (slot.attributes, slot.versions);
            how(&mut slot.attributes, &mut slot.versions);
            self.note(Inverse::Was(object, attributes, versions));
        }
    }

    pub(super) fn note(&mut self, step: Inverse) {
        if let Some(undo) = &mut self.undo {
            undo.push(step);
        }
    }
}

/// What the kernel takes for a time, and not for one of its own marks (utimensat(2), `UTIME_NOW`).
fn must_be_time(time: Timestamp) -> Result<Timestamp, Refusal> {
    if time.nanoseconds < 1_000_000_000 {
        Ok(time)
    } else {
        Err(Errno::INVAL.into())
    }
}

/// A directory has the name in its parent and its own `.`, where these are counted.
fn links_of_empty(parent: &Attributes) -> u32 {
    if parent.links > 1 { 2 } else { 1 }
}

/// The set-group-id bit of a file that its group may not execute is no right (inode(7)).
pub fn without_set_ids(permissions: u16) -> u16 {
    let without = permissions & !SET_USER_ID;
    if without & GROUP_EXECUTES != 0 {
        without & !SET_GROUP_ID
    } else {
        without
    }
}
