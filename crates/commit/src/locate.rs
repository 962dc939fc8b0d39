//! Finds the directories of a plan, wherever they are by now.
//!
//! A directory is looked for in each of its places, and is one only if it is the inode that it must
//! be. Parents are found the same way, so it does not matter how many renames a commit has done: the
//! first run and one that resumes it use the same code. Every step is one name below one descriptor,
//! and a symbolic link is never followed.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use lru::LruCache;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use surmise_changes::real::{LOOK, is_absent, look, look_at, open_inode};
use surmise_view::{Attributes, InodeKey};

use crate::plan::{Item, Place, Plan, ROOT};

/// Descriptors kept open at most; well below the usual limit of 1024 a process.
const OPEN_MAX: usize = 128;

/// A plan's directories on a real tree.
pub(crate) struct Site<'p> {
    plan: &'p Plan,
    root: Rc<OwnedFd>,
    root_path: PathBuf,
    /// The inode of each staging, once it is made.
    staged: Vec<Option<InodeKey>>,
    open: RefCell<LruCache<usize, Rc<OwnedFd>>>,
    /// The placement of what is staged at a place, once somebody asks.
    placements: OnceCell<HashMap<Place, usize>>,
}

impl<'p> Site<'p> {
    pub(crate) fn new(plan: &'p Plan, root: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(CWD, root, flags, Mode::empty())?;
        Ok(Self {
            plan,
            root: Rc::new(fd),
            root_path: root.to_owned(),
            staged: vec![None; plan.stagings.len()],
            open: RefCell::new(LruCache::new(
                NonZeroUsize::new(OPEN_MAX).expect("a positive constant"),
            )),
            placements: OnceCell::new(),
        })
    }

    pub(crate) fn plan(&self) -> &'p Plan {
        self.plan
    }

    pub(crate) fn root_path(&self) -> &Path {
        &self.root_path
    }

    /// Notes which inode a staging made.
    pub(crate) fn set_staged(&mut self, staging: usize, key: InodeKey) {
        if let Some(slot) = self.staged.get_mut(staging) {
            *slot = Some(key);
        }
    }

    pub(crate) fn staged(&self, staging: usize) -> Option<InodeKey> {
        self.staged.get(staging).copied().flatten()
    }

    /// The directory, open for use as the base of `*at` calls.
    ///
    /// # Errors
    /// `ENOENT` when none of its places leads to it.
    pub(crate) fn open(&self, directory: usize) -> io::Result<Rc<OwnedFd>> {
        self.find(directory, &mut Vec::new())
    }

    /// What a place leads to: `None` when its name or its directory does not exist.
    pub(crate) fn look(&self, place: &Place) -> io::Result<Option<Attributes>> {
        match self.open(place.directory) {
            Ok(directory) => Ok(look_at(directory.as_fd(), &place.name)?),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The inode at a place as a descriptor for its attributes, if it is the one wanted.
    pub(crate) fn inode(&self, place: &Place, key: InodeKey) -> io::Result<Option<OwnedFd>> {
        let directory = match self.open(place.directory) {
            Err(error) if is_absent(&error) => return Ok(None),
            directory => directory?,
        };
        match open_inode(directory.as_fd(), &place.name) {
            Ok((fd, attributes)) if attributes.identity.key() == key => Ok(Some(fd)),
            Ok(_) => Ok(None),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A path for messages of what is to be: where what is staged at a place will have its name. Of the
    /// stage's own names nobody has heard.
    pub(crate) fn target_path(&self, place: &Place) -> PathBuf {
        let placement = self.placements().get(place);
        self.path(placement.map_or(place, |&placement| &self.plan.placements[placement].to))
    }

    /// A path for messages: where a place was, or is to be.
    pub(crate) fn path(&self, place: &Place) -> PathBuf {
        self.plan.path(&self.root_path, place)
    }

    fn placements(&self) -> &HashMap<Place, usize> {
        self.placements.get_or_init(|| {
            let placements = self.plan.placements.iter().enumerate();
            placements
                .filter(|(_, placement)| matches!(placement.item, Item::Staged(_)))
                .map(|(index, placement)| (placement.from.clone(), index))
                .collect()
        })
    }

    fn find(&self, directory: usize, seeking: &mut Vec<usize>) -> io::Result<Rc<OwnedFd>> {
        if directory == ROOT {
            return Ok(self.root.clone());
        }
        if let Some(fd) = self.open.borrow_mut().get(&directory) {
            return Ok(fd.clone());
        }
        let wanted = &self.plan.directories[directory];
        let key = wanted.staging.map_or(wanted.key, |made| self.staged(made));
        let mut failure = io::Error::from(Errno::NOENT);
        // In a swap, one place of A is below B and one place of B is below A.
        if let (Some(key), false) = (key, seeking.contains(&directory)) {
            seeking.push(directory);
            for place in &wanted.places {
                match self.find_at(place, key, seeking) {
                    Ok(fd) => {
                        seeking.pop();
                        self.open.borrow_mut().put(directory, fd.clone());
                        return Ok(fd);
                    }
                    Err(error) if is_absent(&error) => {}
                    Err(error) => failure = error,
                }
            }
            seeking.pop();
        }
        Err(failure)
    }

    fn find_at(
        &self,
        place: &Place,
        key: InodeKey,
        seeking: &mut Vec<usize>,
    ) -> io::Result<Rc<OwnedFd>> {
        let parent = self.find(place.directory, seeking)?;
        let flags = LOOK | OFlags::DIRECTORY;
        let fd = rustix::fs::openat(&parent, &place.name, flags, Mode::empty())?;
        match look(fd.as_fd())?.identity.key() == key {
            true => Ok(Rc::new(fd)),
            false => Err(Errno::NOENT.into()),
        }
    }
}
