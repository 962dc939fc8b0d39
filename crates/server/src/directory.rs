//! The export on disk: objects by their ids.
//!
//! An object is an inode. To reach one, its place is looked up: the directory that it is in, by that directory's inode, and its
//! name there. So one walks from the root, one name at a time beneath an open directory, follows no symbolic link, and
//! goes to no other file system. What is found has to be the inode that is meant. So nobody who swaps something in the
//! export leads a client elsewhere.

mod attributes;
mod collisions;
#[cfg(test)]
mod crashes;
mod fault;
mod load;
mod make;
mod names;
mod noticed;
pub(crate) mod overtaken;
mod places;
pub(crate) mod progress;
mod redo;
mod rights;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use lru::LruCache;
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Statx, StatxFlags, makedev};
use rustix::io::Errno;
use surmise_lower::Timestamp;
use surmise_remote::object::{Name, ObjectId};

use collisions::Collisions;
pub(crate) use make::Batch;
pub(crate) use noticed::Changes;
use noticed::Noticed;
use overtaken::Overtaken;
use places::{Ids, Place, Places};
use progress::Progress;
pub(crate) use redo::Earlier;
pub use redo::Stuck;
pub(crate) use rights::path_of;

/// The directory of the server's own state, in the root of the export.
pub(crate) const STATE: &str = ".surmise";

/// Stands for the inode of the directory in which objects are that have lost their last name.
const NAMELESS: u64 = 0;

/// How many directories and files stay open.
const DIRECTORIES_OPEN: NonZeroUsize = NonZeroUsize::new(256).expect("a positive constant");
const FILES_OPEN: NonZeroUsize = NonZeroUsize::new(64).expect("a positive constant");

/// How deep directories are nested at most; more would be a circle.
const DEPTH_MAX: usize = 10_000;

/// The open directories that an export is reached by.
#[derive(Debug)]
pub(crate) struct Roots {
    /// The export itself.
    pub(crate) export: OwnedFd,
    /// Where objects are that have lost their last name, each under its id.
    pub(crate) nameless: OwnedFd,
    /// Where it is noted which bits are set for a moment.
    pub(crate) lifted: OwnedFd,
    /// Where it is kept what clients have changed and others have made impossible.
    pub(crate) lost: OwnedFd,
    /// Where it is noted which files others have changed.
    pub(crate) overtaken: Overtaken,
}

/// The export.
#[derive(Debug)]
pub(crate) struct Directory {
    root: Arc<OwnedFd>,
    root_inode: u64,
    device: u64,
    nameless: Arc<OwnedFd>,
    lifted: OwnedFd,
    lost: Arc<OwnedFd>,
    lost_inode: u64,
    progress: Progress,
    /// Operations that were made, and up to where that is noted.
    made: u64,
    ids: Ids,
    places: Places,
    directories: LruCache<u64, Arc<OwnedFd>>,
    /// Directories that are being opened, each for the sake of the one before it.
    opening: Vec<u64>,
    /// Directories that were found in place since these looks began; `None` while anything but looks may come.
    in_place: Option<HashSet<u64>>,
    /// Open for writing.
    files: LruCache<u64, Arc<File>>,
    /// When files and directories were last changed, where the file system has not been told.
    stamps: HashMap<u64, Timestamp>,
    /// Directories that were removed and that clients still know.
    gone: HashSet<ObjectId>,
    /// The version of all that is loaded.
    version: u64,
    /// Whether there may be inodes whose place is not known and that clients know.
    may_walk: bool,
    /// The user whose rights count, unless it is root.
    user: Option<u32>,
    noticed: Noticed,
    collisions: Collisions,
    overtaken: Overtaken,
}

impl Directory {
    /// The export, of which nothing is known yet. `version` is what no object had in an earlier run.
    pub(crate) fn new(roots: Roots, progress: Progress, version: u64) -> Result<Self, Errno> {
        let found = stat(roots.export.as_fd(), "")?;
        let user = rustix::process::geteuid();
        let mut directory = Self {
            root: Arc::new(roots.export),
            root_inode: found.stx_ino,
            device: device_of(&found),
            nameless: Arc::new(roots.nameless),
            lifted: roots.lifted,
            lost_inode: stat(roots.lost.as_fd(), "")?.stx_ino,
            lost: Arc::new(roots.lost),
            progress,
            made: 0,
            ids: Ids::default(),
            places: Places::default(),
            directories: LruCache::new(DIRECTORIES_OPEN),
            opening: Vec::new(),
            in_place: None,
            files: LruCache::new(FILES_OPEN),
            stamps: HashMap::new(),
            gone: HashSet::new(),
            version,
            may_walk: false,
            user: (!user.is_root()).then(|| user.as_raw()),
            noticed: Noticed::new(version >> 32),
            collisions: Collisions::default(),
            overtaken: roots.overtaken,
        };
        directory.find_nameless()?;
        Ok(directory)
    }

    /// Until [`Self::end_looks`] the export is only looked at. So it is enough to find each directory in place once, until the
    /// kernel tells of a change: between the check and the use of a directory others can move it anyway.
    pub(crate) fn begin_looks(&mut self) {
        self.in_place = self.is_listening().then(HashSet::new);
    }

    pub(crate) fn end_looks(&mut self) {
        self.in_place = None;
    }

    /// The id of the root.
    pub(crate) fn root(&self) -> Option<ObjectId> {
        ObjectId::found(self.root_inode)
    }

    /// What makes this directory another one than any copy of it.
    pub(crate) fn identity(&self) -> u64 {
        self.root_inode
    }

    /// Which inode each object is that a client has made.
    pub(crate) fn pairs(&self) -> Vec<(ObjectId, u64)> {
        self.ids.pairs().collect()
    }

    /// No client is known that could name what an earlier one has made: it all counts as found from now on. It has to,
    /// where the next log does not say which inodes these objects are.
    pub(crate) fn forget_makers(&mut self) {
        self.ids = Ids::default();
        self.gone.clear();
    }

    /// Makes all that was done durable.
    pub(crate) fn sync(&mut self) -> Result<(), Errno> {
        self.settle()?;
        self.flush()
    }

    /// Makes all durable that was settled.
    pub(crate) fn flush(&self) -> Result<(), Errno> {
        rustix::fs::syncfs(&*self.root)
    }

    /// Closes all that is open only to be quick.
    pub(crate) fn close_all(&mut self) {
        self.files.clear();
        self.directories.clear();
    }

    /// Closes what is open for writing: nobody can execute it meanwhile (execve(2), `ETXTBSY`).
    pub(crate) fn close_files(&mut self) {
        self.files.clear();
    }

    /// Removes all that has no name.
    pub(crate) fn empty_nameless(&mut self) -> Result<(), Errno> {
        for (name, inode) in names_in(self.nameless.as_fd())? {
            self.remove_nameless(&name)?;
            self.forget_inode(inode);
        }
        Ok(())
    }

    /// No client can name this object any more, and it has no name either.
    pub(crate) fn drop_object(&mut self, id: ObjectId) -> Result<(), Errno> {
        if self.gone.remove(&id) {
            return Ok(());
        }
        let Some(inode) = self.ids.inode(id) else {
            return Ok(());
        };
        let place = self.places.get(inode).cloned();
        if let Some(place) = place.filter(|place| place.parent == NAMELESS) {
            self.remove_nameless(place.name.as_bytes())?;
            self.forget_inode(inode);
        }
        Ok(())
    }

    fn remove_nameless(&self, name: &[u8]) -> Result<(), Errno> {
        match rustix::fs::unlinkat(&*self.nameless, name, AtFlags::empty()) {
            // Others have done so, or prevent it.
            Err(errno) if !collisions::is_failure(errno) => Ok(()),
            outcome => outcome,
        }
    }

    /// Looks what an earlier server has kept.
    fn find_nameless(&mut self) -> Result<(), Errno> {
        for (bytes, inode) in names_in(self.nameless.as_fd())? {
            let number = std::str::from_utf8(&bytes).ok();
            let number = number.and_then(|text| u64::from_str_radix(text, 16).ok());
            let (Some(number), Ok(name)) = (number, Name::try_from(&bytes[..])) else {
                continue;
            };
            let id = ObjectId::numbered(number);
            if id.maker().is_some() {
                self.ids.pair(id, inode);
            }
            let parent = NAMELESS;
            self.places.set(inode, Place { parent, name });
        }
        Ok(())
    }

    /// The number of this inode may be given to a new one.
    fn forget_inode(&mut self, inode: u64) {
        self.ids.forget_inode(inode);
        self.places.forget(inode);
        self.directories.pop(&inode);
        self.files.pop(&inode);
        self.stamps.remove(&inode);
        self.noticed.forget(inode);
    }

    fn inode(&self, id: ObjectId) -> Result<u64, Errno> {
        self.ids.inode(id).ok_or(Errno::STALE)
    }

    /// A directory, open as a place to start from.
    fn open_directory(&mut self, inode: u64) -> Result<Arc<OwnedFd>, Errno> {
        self.open_directory_at(inode, 0)
    }

    fn open_directory_at(&mut self, inode: u64, depth: usize) -> Result<Arc<OwnedFd>, Errno> {
        if inode == self.root_inode {
            return Ok(self.root.clone());
        }
        if inode == NAMELESS {
            return Ok(self.nameless.clone());
        }
        if inode == self.lost_inode {
            return Ok(self.lost.clone());
        }
        // Others have moved directories: places that were right one after the other can lead in a circle.
        if depth > DEPTH_MAX || self.opening.contains(&inode) {
            return Err(Errno::STALE);
        }
        self.opening.push(inode);
        let opened = self.find_directory(inode, depth);
        self.opening.pop();
        opened
    }

    fn find_directory(&mut self, inode: u64, depth: usize) -> Result<Arc<OwnedFd>, Errno> {
        if let Some(open) = self.directories.get(&inode).cloned() {
            if self.is_in_place(inode, &open, depth)? {
                return Ok(open);
            }
            self.directories.pop(&inode);
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let (open, _) = self.open_at_place(inode, flags, depth)?;
        let open = Arc::new(open);
        self.directories.put(inode, open.clone());
        Ok(open)
    }

    /// An inode of any kind, open for its place alone.
    fn open_inode(&mut self, inode: u64) -> Result<Arc<OwnedFd>, Errno> {
        Ok(self.look_at(inode)?.0)
    }

    /// Likewise, and what stat(2) then tells of it.
    fn look_at(&mut self, inode: u64) -> Result<(Arc<OwnedFd>, Statx), Errno> {
        if inode == self.root_inode || self.directories.contains(&inode) {
            let open = self.open_directory(inode)?;
            let found = stat(open.as_fd(), "")?;
            return Ok((open, found));
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (open, found) = self.open_at_place(inode, flags, 0)?;
        Ok((Arc::new(open), found))
    }

    /// Whether an open directory is still where it was found. Others may have moved it out of the export, and so one that is
    /// above it.
    fn is_in_place(&mut self, inode: u64, open: &OwnedFd, depth: usize) -> Result<bool, Errno> {
        if self
            .in_place
            .as_ref()
            .is_some_and(|found| found.contains(&inode))
        {
            return Ok(true);
        }
        let Some(place) = self.places.get(inode) else {
            return Ok(false);
        };
        let parent = place.parent;
        match self.open_directory_at(parent, depth + 1) {
            Ok(_) => {}
            // It may have other places.
            Err(errno) if is_elsewhere(errno) => return Ok(false),
            Err(errno) => return Err(errno),
        }
        // Of one that may not be searched its place is looked up anew.
        let is_there = stat(open.as_fd(), "..").is_ok_and(|found| found.stx_ino == parent);
        if is_there && let Some(found) = &mut self.in_place {
            found.insert(inode);
        }
        Ok(is_there)
    }

    /// Opens an inode at one of its places; at worst all of the export is looked through once.
    fn open_at_place(
        &mut self,
        inode: u64,
        flags: OFlags,
        depth: usize,
    ) -> Result<(OwnedFd, Statx), Errno> {
        loop {
            let Some(place) = self.places.get(inode).cloned() else {
                if !self.may_walk {
                    return Err(Errno::STALE);
                }
                let opening = std::mem::take(&mut self.opening);
                let before = self.ids.id(inode);
                let walked = self.walk();
                self.opening = opening;
                walked?;
                // The number is that of a new file.
                if self.ids.id(inode) != before {
                    return Err(Errno::STALE);
                }
                continue;
            };
            match self.open_at(inode, &place, flags, depth) {
                Err(errno) if is_elsewhere(errno) => {
                    self.places.remove(inode, &place);
                }
                // It is there, and its number was that of a directory before.
                Err(Errno::NOTDIR) => return Err(Errno::STALE),
                outcome => return outcome,
            }
        }
    }

    /// Opens an inode at this place.
    ///
    /// # Errors
    /// `ENOTDIR` for an inode that is there and is no directory, as the flags want it.
    fn open_at(
        &mut self,
        inode: u64,
        place: &Place,
        flags: OFlags,
        depth: usize,
    ) -> Result<(OwnedFd, Statx), Errno> {
        let parent = self.open_directory_at(place.parent, depth + 1)?;
        let name = place.name.as_bytes();
        let open = self.with_bits(parent.as_fd(), rights::SEARCH, || {
            open_beneath(parent.as_fd(), name, flags.difference(OFlags::DIRECTORY))
        })?;
        let found = stat(open.as_fd(), "")?;
        if device_of(&found) != self.device {
            return Err(Errno::XDEV);
        }
        if found.stx_ino != inode {
            return Err(Errno::STALE);
        }
        match flags.contains(OFlags::DIRECTORY) && !names::is_directory(&found) {
            true => Err(Errno::NOTDIR),
            false => Ok((open, found)),
        }
    }

    /// Looks where everything is.
    fn walk(&mut self) -> Result<(), Errno> {
        if let Some(found) = &mut self.in_place {
            found.clear();
        }
        // What is not found now is not in the export.
        self.may_walk = false;
        let mut left = vec![self.root_inode];
        while let Some(inode) = left.pop() {
            match self.list(inode) {
                Ok(entries) => left.extend(
                    entries
                        .into_iter()
                        .filter_map(|(_, inode, is_directory)| is_directory.then_some(inode)),
                ),
                // It went meanwhile, is another file system's, or may not be read.
                Err(Errno::STALE | Errno::NOENT | Errno::XDEV | Errno::ACCESS | Errno::PERM) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}

/// Whether this says that something is not where it was looked for.
fn is_elsewhere(errno: Errno) -> bool {
    matches!(errno, Errno::STALE | Errno::NOENT | Errno::LOOP)
}

/// Opens a name beneath a directory, on the same file system.
fn open_beneath(directory: BorrowedFd<'_>, name: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    // A symbolic link itself can be opened so, for its place alone (openat2(2)).
    rustix::io::retry_on_intr(|| {
        rustix::fs::openat2(directory, name, flags, Mode::empty(), resolve)
    })
}

fn stat(directory: BorrowedFd<'_>, name: impl rustix::path::Arg) -> Result<Statx, Errno> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    rustix::fs::statx(directory, name, flags, StatxFlags::BASIC_STATS)
}

fn device_of(found: &Statx) -> u64 {
    makedev(found.stx_dev_major, found.stx_dev_minor)
}

/// The names in a directory of the server's own, and their inodes.
fn names_in(directory: BorrowedFd<'_>) -> Result<Vec<(Vec<u8>, u64)>, Errno> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push((name.to_vec(), entry.ino()));
        }
    }
    Ok(names)
}
