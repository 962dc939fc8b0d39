//! The tree: what is where, and how it changes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::Weak;

use rustix::io::Errno;

use super::Told;
use super::nodes::{Body, Inode, ROOT};
use super::watch::MemoryWatcher;
use crate::interface::{Change, Listed, WatchId};
use crate::types::{Attributes, FileKind, Timestamp};

/// 9 September 2001. Long ago, so that no clock of a test is near.
const BEGIN: i64 = 1_000_000_000;

#[derive(Debug)]
pub(super) struct Tree {
    device: u64,
    inodes: HashMap<u64, Inode>,
    /// Numbers that were used and are free again.
    free: BTreeSet<u64>,
    last: u64,
    steps: i64,
    /// The watchers that changes are told to.
    pub(super) told: Vec<Weak<MemoryWatcher>>,
}

impl Tree {
    pub(super) fn new(device: u64) -> Self {
        let mut tree = Self {
            device,
            inodes: HashMap::new(),
            free: BTreeSet::new(),
            last: ROOT,
            steps: 0,
            told: Vec::new(),
        };
        let mut root = Inode::new(Body::Directory(Default::default()), tree.step());
        root.names = 1;
        tree.inodes.insert(ROOT, root);
        tree
    }

    pub(super) fn find(&self, path: &str) -> io::Result<u64> {
        let mut names = path.split('/').filter(|name| !name.is_empty());
        names.try_fold(ROOT, |at, name| self.child(at, OsStr::new(name)))
    }

    pub(super) fn child(&self, directory: u64, name: &OsStr) -> io::Result<u64> {
        let entries = self.entries(directory)?;
        entries
            .get(name)
            .copied()
            .ok_or_else(|| Errno::NOENT.into())
    }

    pub(super) fn kind(&self, number: u64) -> io::Result<FileKind> {
        Ok(self.inode(number)?.body.kind())
    }

    pub(super) fn attributes(&self, number: u64) -> io::Result<Attributes> {
        let inode = self.inode(number)?;
        let mut directories = 0;
        if let Body::Directory(entries) = &inode.body {
            let is_directory = |number: &&u64| self.kind(**number).is_ok_and(is_directory);
            directories = entries.values().filter(is_directory).count();
        }
        let directories = u32::try_from(directories).unwrap_or(u32::MAX);
        Ok(inode.attributes(self.device, number, directories))
    }

    pub(super) fn list(&self, directory: u64) -> io::Result<Vec<Listed>> {
        let entries = self.entries(directory)?.iter();
        let listed = entries.map(|(name, number)| {
            Ok(Listed {
                name: name.clone(),
                inode: *number,
                kind: Some(self.kind(*number)?),
            })
        });
        listed.collect()
    }

    pub(super) fn data(&self, number: u64) -> io::Result<&[u8]> {
        match &self.inode(number)?.body {
            Body::Regular(data) => Ok(data),
            _ => Err(Errno::INVAL.into()),
        }
    }

    pub(super) fn target(&self, number: u64) -> io::Result<OsString> {
        match &self.inode(number)?.body {
            Body::Symlink(target) => Ok(target.clone()),
            _ => Err(Errno::INVAL.into()),
        }
    }

    pub(super) fn xattr(&self, number: u64, name: &OsStr) -> io::Result<Vec<u8>> {
        let value = self.inode(number)?.xattrs.get(name);
        value.cloned().ok_or_else(|| Errno::NODATA.into())
    }

    pub(super) fn xattr_names(&self, number: u64) -> io::Result<Vec<OsString>> {
        Ok(self.inode(number)?.xattrs.keys().cloned().collect())
    }

    pub(super) fn hold(&mut self, number: u64) {
        if let Some(inode) = self.inodes.get_mut(&number) {
            inode.holds += 1;
        }
    }

    pub(super) fn release(&mut self, number: u64) {
        if let Some(inode) = self.inodes.get_mut(&number) {
            inode.holds -= 1;
        }
        self.free_unused(number);
    }

    pub(super) fn make(&mut self, path: &str, body: Body) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        if self.entries(parent)?.contains_key(&name) {
            return Err(Errno::EXIST.into());
        }
        let now = self.step();
        let number = self.free.pop_first().unwrap_or_else(|| {
            self.last += 1;
            self.last
        });
        self.inodes.insert(number, Inode::new(body, now));
        self.bind(parent, name, number)
    }

    pub(super) fn write(&mut self, path: &str, data: &[u8]) -> io::Result<()> {
        let number = self.find(path)?;
        let now = self.step();
        let inode = self.inode_mut(number)?;
        match &mut inode.body {
            Body::Regular(old) => *old = data.to_vec(),
            Body::Directory(_) => return Err(Errno::ISDIR.into()),
            _ => return Err(Errno::INVAL.into()),
        }
        (inode.modified, inode.changed) = (now, now);
        let (parent, name) = self.parent(path)?;
        self.tell(parent, |watch| Change::Data(watch, name.clone()));
        Ok(())
    }

    pub(super) fn link(&mut self, old: &str, new: &str) -> io::Result<()> {
        let number = self.find(old)?;
        let (parent, name) = self.parent(new)?;
        if self.kind(number).is_ok_and(is_directory) {
            return Err(Errno::PERM.into());
        }
        if self.entries(parent)?.contains_key(&name) {
            return Err(Errno::EXIST.into());
        }
        self.bind(parent, name, number)
    }

    pub(super) fn rename(&mut self, old: &str, new: &str) -> io::Result<()> {
        let number = self.find(old)?;
        let (from, to) = (self.parent(old)?, self.parent(new)?);
        let replaced = self.child(to.0, &to.1).ok();
        if replaced == Some(number) {
            return Ok(());
        }
        let moves_directory = self.kind(number).is_ok_and(is_directory);
        if moves_directory && self.is_below(to.0, number) {
            return Err(Errno::INVAL.into());
        }
        if let Some(replaced) = replaced {
            match (moves_directory, self.kind(replaced).is_ok_and(is_directory)) {
                (true, false) => return Err(Errno::NOTDIR.into()),
                (false, true) => return Err(Errno::ISDIR.into()),
                (true, true) if !self.entries(replaced)?.is_empty() => {
                    return Err(Errno::NOTEMPTY.into());
                }
                _ => self.unbind(to.0, &to.1)?,
            }
        }
        // Held, so that its number stays its own between its two names.
        self.hold(number);
        self.unbind(from.0, &from.1)?;
        let bound = self.bind(to.0, to.1, number);
        self.release(number);
        bound
    }

    pub(super) fn remove(&mut self, path: &str) -> io::Result<()> {
        let number = self.find(path)?;
        let (parent, name) = self.parent(path)?;
        let is_full = self
            .entries(number)
            .is_ok_and(|entries| !entries.is_empty());
        if is_full {
            return Err(Errno::NOTEMPTY.into());
        }
        self.unbind(parent, &name)
    }

    pub(super) fn set_permissions(&mut self, path: &str, permissions: u16) -> io::Result<()> {
        self.change_inode(path, |inode| inode.permissions = permissions)
    }

    pub(super) fn set_xattr(&mut self, path: &str, name: &str, value: &[u8]) -> io::Result<()> {
        self.change_inode(path, |inode| {
            _ = inode.xattrs.insert(name.into(), value.to_vec());
        })
    }

    fn change_inode(&mut self, path: &str, change: impl FnOnce(&mut Inode)) -> io::Result<()> {
        let number = self.find(path)?;
        let now = self.step();
        let inode = self.inode_mut(number)?;
        inode.changed = now;
        change(inode);
        self.tell(number, Change::Itself);
        if let Ok((parent, name)) = self.parent(path) {
            self.tell(parent, |watch| Change::Attributes(watch, name.clone()));
        }
        Ok(())
    }

    fn bind(&mut self, parent: u64, name: OsString, number: u64) -> io::Result<()> {
        let now = self.step();
        let inode = self.inode_mut(number)?;
        inode.names += 1;
        inode.changed = now;
        self.change_names(parent, &name, now, |entries| {
            _ = entries.insert(name.clone(), number);
        })
    }

    fn unbind(&mut self, parent: u64, name: &OsStr) -> io::Result<()> {
        let number = self.child(parent, name)?;
        let now = self.step();
        let inode = self.inode_mut(number)?;
        inode.names -= 1;
        inode.changed = now;
        self.change_names(parent, name, now, |entries| {
            _ = entries.remove(name);
        })?;
        self.free_unused(number);
        Ok(())
    }

    fn change_names(
        &mut self,
        parent: u64,
        name: &OsStr,
        now: Timestamp,
        change: impl FnOnce(&mut BTreeMap<OsString, u64>),
    ) -> io::Result<()> {
        let inode = self.inode_mut(parent)?;
        (inode.modified, inode.changed) = (now, now);
        let Body::Directory(entries) = &mut inode.body else {
            return Err(Errno::NOTDIR.into());
        };
        change(entries);
        self.tell(parent, |watch| Change::Name(watch, name.to_owned()));
        Ok(())
    }

    /// An inode without a name that nothing holds is no more, and its number is free.
    fn free_unused(&mut self, number: u64) {
        let inode = self.inodes.get(&number);
        if inode.is_some_and(|inode| inode.names == 0 && inode.holds == 0) {
            self.inodes.remove(&number);
            self.free.insert(number);
            self.tell(number, Change::Gone);
        }
    }

    fn tell(&mut self, directory: u64, change: impl Fn(WatchId) -> Change) {
        self.told.retain(|watcher| watcher.strong_count() > 0);
        let watchers = self.told.iter().filter_map(Weak::upgrade);
        let told = watchers.filter_map(|watcher| Some((watcher.watch(directory)?, watcher)));
        for (watch, watcher) in told.collect::<Vec<Told>>() {
            watcher.push(directory, change(watch));
        }
    }

    fn parent(&self, path: &str) -> io::Result<(u64, OsString)> {
        let path = path.trim_end_matches('/');
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        if name.is_empty() {
            return Err(Errno::INVAL.into());
        }
        let parent = self.find(above)?;
        self.entries(parent)?;
        Ok((parent, name.into()))
    }

    fn is_below(&self, directory: u64, above: u64) -> bool {
        let below = self.entries(above).into_iter().flatten();
        let mut below = below.map(|(_, number)| *number);
        directory == above || below.any(|number| self.is_below(directory, number))
    }

    fn entries(&self, directory: u64) -> io::Result<&BTreeMap<OsString, u64>> {
        match &self.inode(directory)?.body {
            Body::Directory(entries) => Ok(entries),
            _ => Err(Errno::NOTDIR.into()),
        }
    }

    fn inode(&self, number: u64) -> io::Result<&Inode> {
        self.inodes.get(&number).ok_or_else(|| Errno::STALE.into())
    }

    fn inode_mut(&mut self, number: u64) -> io::Result<&mut Inode> {
        let inode = self.inodes.get_mut(&number);
        inode.ok_or_else(|| Errno::STALE.into())
    }

    fn step(&mut self) -> Timestamp {
        self.steps += 1;
        Timestamp {
            seconds: BEGIN + self.steps,
            nanoseconds: 0,
        }
    }
}

fn is_directory(kind: FileKind) -> bool {
    kind == FileKind::Directory
}
