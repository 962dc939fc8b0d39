//! A small file system in memory, enough to drive every part of the protocol.

mod state;

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use rustix::io::Errno;
use surmise_fuse::{
    Caller, CopyRange, Create, DirectoryEntry, DirectoryPlusSink, DirectorySink, Entry, FileSystem,
    KnownAttributes, Lookup, Negotiated, Notifier, Open, OpenReply, ROOT, RenameFlags,
    SetAttributes, Statistics, TimeToSet, Write,
};

pub use state::{BORN_S, INO_OFFSET};
use state::{Content, Object, State};

const O_TRUNC: u32 = 0o1000;

pub struct Memory {
    state: Mutex<State>,
    pub negotiated: Mutex<Option<Negotiated>>,
}

impl Memory {
    pub fn new() -> Self {
        let content = Content::Directory(BTreeMap::new());
        let root = Object::new(ROOT, content, 0o755, Caller::default());
        let objects = HashMap::from([(ROOT, root)]);
        let state = Mutex::new(State {
            objects,
            last_node: ROOT,
        });
        Self {
            state,
            negotiated: Mutex::new(None),
        }
    }

    pub fn objects(&self) -> usize {
        self.state().objects.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl FileSystem for Memory {
    fn init(&self, negotiated: &Negotiated, _: Notifier) {
        *self.negotiated.lock().unwrap() = Some(*negotiated);
    }

    fn lookup(&self, _: Caller, parent: u64, name: &OsStr) -> io::Result<Lookup> {
        let mut state = self.state();
        match state.child(parent, name) {
            Ok(node) => state.entry(node).map(Lookup::Found),
            Err(_) => Ok(Lookup::Absent {
                lifetime: Duration::MAX,
            }),
        }
    }

    fn forget(&self, node: u64, lookups: u64) {
        let mut state = self.state();
        if let Ok(object) = state.object(node) {
            object.references = object
                .references
                .checked_sub(lookups)
                .expect("given before");
            state.drop_unused(node);
        }
    }

    fn getattr(&self, _: Caller, node: u64, _: Option<u64>) -> io::Result<KnownAttributes> {
        Ok(self.state().object(node)?.known())
    }

    fn setattr(
        &self,
        _: Caller,
        node: u64,
        changes: &SetAttributes,
    ) -> io::Result<KnownAttributes> {
        let mut state = self.state();
        let object = state.object(node)?;
        if let Some(size) = changes.size {
            object.data()?.resize(size as usize, 0);
        }
        if let Some(mode) = changes.mode {
            object.attributes.mode = mode;
        }
        object.drop_set_id(changes.kill_privileges);
        object.attributes.uid = changes.uid.unwrap_or(object.attributes.uid);
        object.attributes.gid = changes.gid.unwrap_or(object.attributes.gid);
        if let Some(TimeToSet::At(time)) = changes.modified {
            object.attributes.modified = time;
        }
        Ok(object.known())
    }

    fn readlink(&self, _: Caller, node: u64) -> io::Result<OsString> {
        match &self.state().object(node)?.content {
            Content::Link(target) => Ok(target.clone()),
            _ => Err(Errno::INVAL.into()),
        }
    }

    fn symlink(
        &self,
        caller: Caller,
        parent: u64,
        name: &OsStr,
        target: &OsStr,
    ) -> io::Result<Entry> {
        let mut state = self.state();
        let content = Content::Link(target.to_owned());
        let node = state.make_named(caller, (parent, name), content, 0o777)?;
        state.entry(node)
    }

    fn mkdir(
        &self,
        caller: Caller,
        parent: u64,
        name: &OsStr,
        mode: u32,
        _: u32,
    ) -> io::Result<Entry> {
        let mut state = self.state();
        let content = Content::Directory(BTreeMap::new());
        let node = state.make_named(caller, (parent, name), content, mode)?;
        state.entry(node)
    }

    fn unlink(&self, _: Caller, parent: u64, name: &OsStr) -> io::Result<()> {
        self.state().remove(parent, name)
    }

    fn rmdir(&self, _: Caller, parent: u64, name: &OsStr) -> io::Result<()> {
        let mut state = self.state();
        let node = state.child(parent, name)?;
        if !state.object(node)?.names()?.is_empty() {
            return Err(Errno::NOTEMPTY.into());
        }
        state.remove(parent, name)
    }

    fn rename(
        &self,
        _: Caller,
        parent: u64,
        name: &OsStr,
        new_parent: u64,
        new_name: &OsStr,
        flags: RenameFlags,
    ) -> io::Result<()> {
        let mut state = self.state();
        let node = state.child(parent, name)?;
        let replaced = state.child(new_parent, new_name).ok();
        if flags.contains(RenameFlags::EXCHANGE) {
            let other = replaced.ok_or(Errno::NOENT)?;
            state
                .object(parent)?
                .names()?
                .insert(name.to_owned(), other);
        } else {
            if replaced.is_some() && flags.contains(RenameFlags::NOREPLACE) {
                return Err(Errno::EXIST.into());
            }
            if replaced.is_some() {
                state.remove(new_parent, new_name)?;
            }
            state.object(parent)?.names()?.remove(name);
        }
        state
            .object(new_parent)?
            .names()?
            .insert(new_name.to_owned(), node);
        Ok(())
    }

    fn link(&self, _: Caller, node: u64, new_parent: u64, new_name: &OsStr) -> io::Result<Entry> {
        let mut state = self.state();
        state
            .object(new_parent)?
            .names()?
            .insert(new_name.to_owned(), node);
        state.object(node)?.attributes.links += 1;
        state.entry(node)
    }

    fn open(&self, _: Caller, node: u64, open: Open) -> io::Result<OpenReply> {
        let mut state = self.state();
        let object = state.object(node)?;
        if open.flags & O_TRUNC != 0 {
            object.data()?.clear();
            object.drop_set_id(open.kill_privileges);
        }
        Ok(OpenReply {
            handle: node,
            keep_cache: true,
            no_flush: true,
            ..OpenReply::default()
        })
    }

    fn read(
        &self,
        _: Caller,
        node: u64,
        handle: u64,
        offset: u64,
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        assert_eq!(handle, node, "the handle that open gave");
        let mut state = self.state();
        let data = state.object(node)?.data()?;
        let rest = data.get(offset as usize..).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }

    fn write(&self, _: Caller, node: u64, _: u64, write: Write<'_>) -> io::Result<usize> {
        let mut state = self.state();
        let object = state.object(node)?;
        object.drop_set_id(write.kill_privileges);
        let data = object.data()?;
        let start = write.offset as usize;
        let end = start + write.data.len();
        if data.len() < end {
            data.resize(end, 0);
        }
        data[start..end].copy_from_slice(write.data);
        Ok(write.data.len())
    }

    fn statfs(&self, _: Caller, _: u64) -> io::Result<Statistics> {
        let name_bytes_max = 255;
        Ok(Statistics {
            blocks: 77,
            fragment_size: 512,
            name_bytes_max,
            ..Statistics::default()
        })
    }

    fn setxattr(
        &self,
        _: Caller,
        node: u64,
        name: &OsStr,
        value: &[u8],
        _: u32,
        _: bool,
    ) -> io::Result<()> {
        self.state()
            .object(node)?
            .xattrs
            .insert(name.to_owned(), value.to_vec());
        Ok(())
    }

    fn getxattr(&self, _: Caller, node: u64, name: &OsStr, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.state();
        let value = state.object(node)?.xattrs.get(name).ok_or(Errno::NODATA)?;
        fill(value, buffer)
    }

    fn listxattr(&self, _: Caller, node: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.state();
        let names = state.object(node)?.xattrs.keys();
        let list: Vec<u8> = names
            .flat_map(|name| [name.as_bytes(), b"\0"].concat())
            .collect();
        fill(&list, buffer)
    }

    fn removexattr(&self, _: Caller, node: u64, name: &OsStr) -> io::Result<()> {
        self.state()
            .object(node)?
            .xattrs
            .remove(name)
            .ok_or(Errno::NODATA)?;
        Ok(())
    }

    fn readdir(
        &self,
        _: Caller,
        node: u64,
        _: u64,
        offset: u64,
        sink: &mut DirectorySink<'_>,
    ) -> io::Result<()> {
        let listing = self.state().listing(node)?;
        for (next, (name, node, mode)) in (1..).zip(&listing).skip(offset as usize) {
            let ino = node + INO_OFFSET;
            if !sink.add(DirectoryEntry {
                ino,
                next_offset: next,
                mode: *mode,
                name,
            }) {
                break;
            }
        }
        Ok(())
    }

    fn readdirplus(
        &self,
        _: Caller,
        node: u64,
        _: u64,
        offset: u64,
        sink: &mut DirectoryPlusSink<'_>,
    ) -> io::Result<()> {
        let mut state = self.state();
        let listing = state.listing(node)?;
        for (next, (name, node, mode)) in (1..).zip(&listing).skip(offset as usize) {
            if !sink.has_room(name) {
                break;
            }
            let found = if next > 2 {
                Some(state.entry(*node)?)
            } else {
                None
            };
            let ino = node + INO_OFFSET;
            let entry = DirectoryEntry {
                ino,
                next_offset: next,
                mode: *mode,
                name,
            };
            assert!(sink.add(entry, found), "there is room");
        }
        Ok(())
    }

    fn create(
        &self,
        caller: Caller,
        parent: u64,
        name: &OsStr,
        create: Create,
    ) -> io::Result<(Entry, OpenReply)> {
        let mut state = self.state();
        let content = Content::File(Vec::new());
        let node = state.make_named(caller, (parent, name), content, create.mode)?;
        Ok((
            state.entry(node)?,
            OpenReply {
                handle: node,
                ..OpenReply::default()
            },
        ))
    }

    fn tmpfile(&self, caller: Caller, _: u64, create: Create) -> io::Result<(Entry, OpenReply)> {
        let mut state = self.state();
        let node = state.make(caller, Content::File(Vec::new()), create.mode);
        state.object(node)?.attributes.links = 0;
        Ok((
            state.entry(node)?,
            OpenReply {
                handle: node,
                ..OpenReply::default()
            },
        ))
    }

    fn lseek(&self, _: Caller, node: u64, _: u64, offset: i64, whence: u32) -> io::Result<u64> {
        const SEEK_HOLE: u32 = 4;
        let size = self.state().object(node)?.data()?.len() as u64;
        Ok(if whence == SEEK_HOLE {
            size
        } else {
            offset as u64
        })
    }

    fn copy_file_range(&self, _: Caller, node: u64, _: u64, copy: CopyRange) -> io::Result<u64> {
        let mut state = self.state();
        let data = state.object(node)?.data()?;
        let rest = data.get(copy.from_offset as usize..).unwrap_or_default();
        let moved = rest[..rest.len().min(copy.length as usize)].to_vec();
        let target = state.object(copy.to_node)?.data()?;
        target.truncate(copy.to_offset as usize);
        target.extend(&moved);
        Ok(moved.len() as u64)
    }
}

/// What getxattr(2) does with a value and a buffer.
fn fill(value: &[u8], buffer: &mut [u8]) -> io::Result<usize> {
    if !buffer.is_empty() {
        buffer
            .get_mut(..value.len())
            .ok_or(Errno::RANGE)?
            .copy_from_slice(value);
    }
    Ok(value.len())
}
