//! What others than this server change in the export.
//!
//! Each directory that was loaded is marked, so its names are heard of, and what is done to the objects by these names. A
//! file with several names is marked itself. A mark is made before the object is looked at: no later change is missed.
//!
//! Events name an inode by its handle. An inode number that has another handle than before was given to a new file, which
//! gets an id of its own: clients may still have the old file open.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::fs::{FileType, OFlags, Statx};
use rustix::io::Errno;
use surmise_remote::object::{Name, ObjectId, Prefix};
use surmise_sys::fanotify::{Event, Handle, Listener};

use super::names::{Spot, is_empty};
use super::places::Place;
use super::{Directory, STATE, open_beneath, rights, stat};
use crate::notice::notice;

/// How something is opened that is only to be looked at.
const PLACE_ONLY: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What is begun with the ids of files that got the number of an earlier one. No client has this prefix.
const OWN: Prefix = Prefix(0);

/// How many such ids one run of the server has, so that the next run gives none of them again.
const IDS_EACH: u32 = 1 << 20;

/// What is known of changes by others.
#[derive(Debug, Default)]
pub(super) struct Noticed {
    listener: Option<Arc<Listener>>,
    inodes: HashMap<Handle, u64>,
    handles: HashMap<u64, Handle>,
    marked: HashSet<u64>,
    /// Objects that were changed, which the state machine is to be told.
    changed: BTreeSet<ObjectId>,
    /// Any object may have been.
    any: bool,
    /// Files of which others have changed the data since they were last loaded.
    data: HashSet<u64>,
    has_said_full: bool,
    /// The next id for a file that got the number of an earlier one.
    next: u32,
}

/// What the state machine is to be told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Changes {
    /// These objects were changed.
    Of(BTreeSet<ObjectId>),
    /// Any may have been.
    Any,
}

impl Noticed {
    /// Of the run of the server that has this number.
    pub(super) fn new(run: u64) -> Self {
        let run = u32::try_from(run % u64::from(u32::MAX / IDS_EACH)).unwrap_or(0);
        Self {
            next: run * IDS_EACH,
            ..Self::default()
        }
    }

    pub(super) fn forget(&mut self, inode: u64) {
        if let Some(handle) = self.handles.remove(&inode) {
            self.inodes.remove(&handle);
        }
        self.marked.remove(&inode);
        self.data.remove(&inode);
    }

    fn learn(&mut self, inode: u64, handle: Handle) {
        if let Some(before) = self.inodes.insert(handle.clone(), inode) {
            self.handles.remove(&before);
        }
        if let Some(before) = self.handles.insert(inode, handle) {
            self.inodes.remove(&before);
        }
    }
}

impl Directory {
    /// Hears of changes by others from here on. Nothing may have been loaded.
    pub(crate) fn listen(&mut self, listener: Option<Arc<Listener>>) {
        self.noticed.listener = listener;
    }

    /// Whether the kernel tells of changes.
    pub(super) fn is_listening(&self) -> bool {
        self.noticed.listener.is_some()
    }

    /// What was changed until now and has not been told.
    pub(crate) fn take_changes(&mut self) -> Option<Changes> {
        self.hear();
        self.take_noted()
    }

    /// What was found to be changed and has not been told. What the kernel has to tell is left for later.
    pub(crate) fn take_noted(&mut self) -> Option<Changes> {
        let changed = std::mem::take(&mut self.noticed.changed);
        match std::mem::take(&mut self.noticed.any) {
            true => Some(Changes::Any),
            false => (!changed.is_empty()).then_some(Changes::Of(changed)),
        }
    }

    /// Takes what the kernel has to tell.
    fn hear(&mut self) {
        let Some(listener) = self.noticed.listener.clone() else {
            return;
        };
        let mut events = Vec::new();
        if let Err(error) = listener.read(&mut events) {
            self.stop_listening(&error);
        }
        if let Some(found) = &mut self.in_place
            && !events.is_empty()
        {
            found.clear();
        }
        for event in events {
            if event.what.is_overflow() {
                notice("more was changed here than the kernel could tell: all is looked at anew");
                self.noticed.any = true;
                self.may_walk = true;
                self.close_all();
            } else if !event.is_own {
                self.heard(&event);
            }
        }
    }

    fn heard(&mut self, event: &Event) {
        let known = |handle: &Handle| self.noticed.inodes.get(handle).copied();
        let object = event.object.as_ref().and_then(known);
        let place = event.place.as_ref();
        let place = place.and_then(|(parent, name)| Some((known(parent)?, name)));
        if let Some((parent, name)) = place {
            if parent == self.root_inode && *name == STATE.as_bytes() {
                return;
            }
            // Of what was done to a directory itself, the name is its own dot.
            if event.what.is_name() || **name == *b"." {
                self.note_changed(parent);
            }
            if event.what.is_name() {
                self.heard_of_name(event, object, parent, name);
            }
        }
        if let Some(inode) = object {
            if event.what.is_data() && self.noticed.data.insert(inode) {
                // What cannot be noted, a crash may take.
                if let Err(errno) = self.overtake(inode, false) {
                    notice(format_args!("what others have written here: {errno}"));
                }
            }
            self.note_changed(inode);
        }
    }

    fn heard_of_name(&mut self, event: &Event, object: Option<u64>, parent: u64, name: &[u8]) {
        // What is open may have no name any more.
        self.close_files();
        let (Some(inode), Ok(name)) = (object, Name::try_from(name)) else {
            return;
        };
        let place = Place { parent, name };
        if event.what.is_new_name() {
            self.places.add(inode, place);
            // Of events that the kernel has merged it does not tell which came last.
            self.may_walk |= event.what.is_move();
        } else if !self.places.remove(inode, &place) {
            match event.what.is_move() {
                true => self.may_walk = true,
                false => self.note_gone(inode),
            }
        }
    }

    /// An object is not what the state machine takes it for.
    pub(super) fn note_changed(&mut self, inode: u64) {
        self.noticed.changed.extend(self.ids.id(inode));
    }

    /// A new object has the number of an inode that was known as another one.
    pub(super) fn note_replaced(&mut self, inode: u64, object: ObjectId) {
        if self.noticed.handles.contains_key(&inode) && self.ids.id(inode) != Some(object) {
            self.note_changed(inode);
        }
    }

    /// An inode has a name that nobody has told of. It was given where nothing is watched, and the number of names has changed.
    pub(super) fn note_new_place(&mut self, inode: u64) {
        if self.noticed.handles.contains_key(&inode) {
            self.note_changed(inode);
        }
    }

    pub(super) fn note_changed_object(&mut self, object: ObjectId) {
        self.noticed.changed.insert(object);
    }

    /// Whether others have written to a file since it was last looked at; asked once.
    pub(super) fn take_written(&mut self, inode: u64) -> bool {
        self.noticed.data.remove(&inode)
    }

    pub(super) fn note_written(&mut self, inode: u64) {
        self.noticed.data.insert(inode);
    }

    /// Hears of what is done to an inode from here on, which is open for whatever. Whether it did not before.
    ///
    /// # Errors
    /// `ESTALE` for an inode that only has the number of the one that is meant.
    pub(super) fn watch(
        &mut self,
        inode: u64,
        open: BorrowedFd<'_>,
        found: &Statx,
    ) -> Result<bool, Errno> {
        if self.noticed.listener.is_none() {
            return Ok(false);
        }
        match Handle::of(open) {
            Ok(handle) if self.noticed.handles.get(&inode) == Some(&handle) => {}
            Ok(handle) => {
                let is_other = self.noticed.handles.contains_key(&inode);
                if is_other {
                    self.retire(inode);
                }
                self.noticed.learn(inode, handle);
                if is_other {
                    return Err(Errno::STALE);
                }
            }
            Err(error) => {
                self.stop_listening(&error);
                return Ok(false);
            }
        }
        let is_directory = FileType::from_raw_mode(found.stx_mode.into()) == FileType::Directory;
        let mut is_new = false;
        if is_directory || found.stx_nlink > 1 {
            is_new |= self.mark(inode, open, is_directory);
        }
        if !is_directory
            && let Some(parent) = self.places.get(inode).map(|place| place.parent)
            && !self.noticed.marked.contains(&parent)
        {
            let directory = self.open_directory(parent)?;
            if !self.noticed.handles.contains_key(&parent)
                && let Ok(handle) = Handle::of(directory.as_fd())
            {
                // Otherwise nobody would know whose its events are, and a new directory of this number would count as marked.
                self.noticed.learn(parent, handle);
            }
            is_new |= self.mark(parent, directory.as_fd(), true);
        }
        Ok(is_new)
    }

    /// A new inode is watched from its beginning.
    pub(super) fn watch_new(&mut self, inode: u64, open: BorrowedFd<'_>, is_directory: bool) {
        if self.noticed.listener.is_none() {
            return;
        }
        match Handle::of(open) {
            Ok(handle) => self.noticed.learn(inode, handle),
            Err(error) => return self.stop_listening(&error),
        }
        if is_directory {
            self.mark(inode, open, true);
            if !is_empty(open, b".").unwrap_or(false) {
                // Others were there before it was watched.
                self.note_changed(inode);
            }
        }
    }

    /// Hears of what becomes of each name of a file, which is about to get another one.
    pub(super) fn watch_names(&mut self, inode: u64, open: BorrowedFd<'_>) {
        if self.noticed.handles.contains_key(&inode) {
            self.mark(inode, open, false);
        }
    }

    /// Whether what is at a name is the inode that was known by its number, and no new one that was given the number.
    pub(super) fn is_same(&self, spot: &Spot<'_>, found: &Statx) -> bool {
        let known = self.noticed.handles.get(&found.stx_ino);
        known.is_none_or(|known| {
            let handle = Handle::at(spot.directory.as_fd(), spot.bytes());
            handle.is_ok_and(|handle| handle == *known)
        })
    }

    /// Looks whether a name in a directory leads to another file than the one that had this inode number before. The number then
    /// stands for the new file.
    pub(super) fn renumber(&mut self, directory: BorrowedFd<'_>, name: &[u8], inode: u64) {
        if let Some(before) = self.noticed.handles.get(&inode)
            && Handle::at(directory, name).is_ok_and(|handle| handle != *before)
            // The name may lead to another inode by now, whose handle that would be. What is open is one and the same.
            && let Ok(open) = open_beneath(directory, name, PLACE_ONLY)
            && stat(open.as_fd(), "").is_ok_and(|found| found.stx_ino == inode)
            && let Ok(handle) = Handle::of(open.as_fd())
            && handle != *before
        {
            self.retire(inode);
            self.noticed.learn(inode, handle);
        }
        if self.ids.is_spent(inode) {
            self.give_id(inode);
        }
    }

    /// The object that an inode was is gone, and the inode is another one.
    fn retire(&mut self, inode: u64) {
        self.note_changed(inode);
        let places = self.places.take(inode);
        self.forget_inode(inode);
        // Names in these directories have led to the old object.
        for place in places {
            self.note_changed(place.parent);
            self.places.add(inode, place);
        }
        self.give_id(inode);
    }

    /// An id that no object had before.
    fn give_id(&mut self, inode: u64) {
        self.noticed.next = self.noticed.next.wrapping_add(1);
        if let Some(id) = ObjectId::made(OWN, self.noticed.next) {
            self.ids.pair(id, inode);
        }
    }

    fn mark(&mut self, inode: u64, open: BorrowedFd<'_>, is_directory: bool) -> bool {
        let Some(listener) = self.noticed.listener.clone() else {
            return false;
        };
        if self.noticed.marked.contains(&inode) {
            return false;
        }
        let mark = |directory: &Self| {
            directory.with_bits(open, rights::READ, || {
                let marked = listener.mark(open, is_directory);
                marked.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
            })
        };
        let mut marked = mark(self);
        if marked == Err(Errno::NOSPC) {
            if !std::mem::replace(&mut self.noticed.has_said_full, true) {
                notice(
                    "there are too many directories to notice all changes (fs.fanotify.max_user_marks): \
                     now and then all is looked at anew",
                );
            }
            // What is loaded from here on is marked again.
            let _ = listener.unmark_all();
            self.noticed.marked.clear();
            self.noticed.any = true;
            marked = mark(self);
        }
        match marked {
            Ok(()) => {
                self.noticed.marked.insert(inode);
                true
            }
            // The user may not read it, and so does not hear of it.
            Err(Errno::ACCESS | Errno::PERM) => false,
            Err(errno) => {
                self.stop_listening(&errno.into());
                false
            }
        }
    }

    fn stop_listening(&mut self, error: &std::io::Error) {
        notice(format_args!(
            "what is changed here and not through a mount is not noticed: {error}"
        ));
        self.in_place = None;
        if let Some(listener) = self.noticed.listener.take() {
            // What is left would wake the server again and again.
            let _ = listener.unmark_all();
            let _ = listener.read(&mut Vec::new());
        }
    }
}
