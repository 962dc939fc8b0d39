//! Data of regular files: read from the real file until the first change, from an object after it.
//!
//! Data are addressed by node, not by open file, so descriptors and mappings from before a change see
//! what those from after it see.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, RwLockReadGuard};

use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;

use super::attributes::timespec;
use super::core::{Core, Found, now};
use super::{View, fail};
use crate::lower;
use crate::record::Record;
use crate::types::{Attributes, FileKind, NodeId, ObjectId};

/// How much is copied in one step where the file systems can't share blocks.
const COPY_STEP: u64 = 1 << 30;

impl View {
    /// Opens a regular file; true when pages that the kernel cached of it are still right.
    pub fn open_file(&self, node: NodeId, truncate: bool, kill: bool) -> io::Result<bool> {
        let mut core = self.core();
        if kill {
            core.drop_privileges(node)?;
        }
        if truncate {
            core.resize(node, 0)?;
        }
        if core.has_object(node) {
            core.known.open(node);
            return Ok(true);
        }
        let identity = core.lower_attributes(node)?.identity;
        core.note_use(node, identity)?;
        let unchanged = core.known.note_open(node, &identity);
        if !unchanged {
            core.files.pop(&node);
        }
        core.known.open(node);
        Ok(unchanged)
    }

    /// Notes that a regular file was opened as it was created.
    pub fn note_open(&self, node: NodeId) {
        self.core().known.open(node);
    }

    /// An open file, and every mapping of it, is gone.
    pub fn close_file(&self, node: NodeId) {
        self.core().known.close(node);
    }

    /// Reads at `offset` until `buffer` is full or the file ends; returns the bytes read.
    pub fn read(&self, node: NodeId, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let file = self.core().file(node)?;
        let mut done = 0;
        while done < buffer.len() {
            match file.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(length) => done += length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Writes all of `data` at `offset`; `kill` takes set-id bits and capabilities away first.
    pub fn write(&self, node: NodeId, offset: u64, data: &[u8], kill: bool) -> io::Result<()> {
        let (file, _writing) = {
            let mut core = self.core();
            if kill {
                core.drop_privileges(node)?;
            }
            (core.writable(node)?, self.writing())
        };
        file.write_all_at(data, offset)
    }

    /// fallocate(2), `mode` as there.
    pub fn allocate(&self, node: NodeId, offset: u64, length: u64, mode: u32) -> io::Result<()> {
        let (file, _writing) = {
            let mut core = self.core();
            (core.writable(node)?, self.writing())
        };
        let flags = FallocateFlags::from_bits(mode).ok_or(Errno::OPNOTSUPP)?;
        Ok(rustix::fs::fallocate(&file, flags, offset, length)?)
    }

    /// The next data at or behind `offset`, or the next hole.
    pub fn seek(&self, node: NodeId, offset: u64, hole: bool) -> io::Result<u64> {
        let file = self.core().file(node)?;
        let position = if hole {
            SeekFrom::Hole(offset)
        } else {
            SeekFrom::Data(offset)
        };
        Ok(rustix::fs::seek(&file, position)?)
    }

    /// copy_file_range(2) between two regular files of the view; returns the bytes copied.
    pub fn copy_range(
        &self,
        from: (NodeId, u64),
        to: (NodeId, u64),
        length: u64,
    ) -> io::Result<usize> {
        let (source, target, _writing) = {
            let mut core = self.core();
            // In this order: where both are one file, the source must be the object too.
            let target = core.writable(to.0)?;
            (core.file(from.0)?, target, self.writing())
        };
        let (mut from, mut to) = (from.1, to.1);
        let length = usize::try_from(length.min(COPY_STEP)).unwrap_or(usize::MAX);
        let copied =
            rustix::fs::copy_file_range(&source, Some(&mut from), &target, Some(&mut to), length)?;
        Ok(copied)
    }

    /// While it is held, a commit is not prepared. To be taken under the lock.
    fn writing(&self) -> RwLockReadGuard<'_, ()> {
        self.writes.read().expect("no write panics")
    }
}

impl Core {
    /// The file that holds a node's data, open for reading.
    pub(super) fn file(&mut self, id: NodeId) -> io::Result<Arc<File>> {
        if let Some(file) = self.files.get(&id) {
            return Ok(Arc::clone(file));
        }
        let file = match self.map.node(id).and_then(|node| node.object) {
            Some(object) => self.store.open(object)?,
            None => self.open_lower(id)?,
        };
        let file = Arc::new(file);
        self.files.put(id, Arc::clone(&file));
        Ok(file)
    }

    /// The object that holds a node's data, made first where there is none.
    pub(super) fn writable(&mut self, id: NodeId) -> io::Result<Arc<File>> {
        self.prepare_change(id, u64::MAX)?;
        self.file(id)
    }

    /// Makes an object of a node's first `limit` bytes where it has none. File capabilities go with a
    /// change of data, whoever makes it.
    fn prepare_change(&mut self, id: NodeId, limit: u64) -> io::Result<()> {
        if self.has_object(id) {
            self.drop_set_capability(id)
        } else {
            self.copy_up(id, limit)
        }
    }

    /// Sets a regular file's size.
    pub(super) fn resize(&mut self, id: NodeId, size: u64) -> io::Result<()> {
        self.prepare_change(id, size)?;
        let file = self.file(id)?;
        file.set_len(size)?;
        // Even to the same size: POSIX wants new times of a truncate that succeeds.
        let times = rustix::fs::Timestamps {
            last_access: timespec(None),
            last_modification: timespec(Some(now())),
        };
        Ok(rustix::fs::futimens(&file, &times)?)
    }

    /// Gives a node an object with the first `limit` bytes of its real data.
    fn copy_up(&mut self, id: NodeId, limit: u64) -> io::Result<()> {
        let found = Found {
            node: id,
            lower: None,
        };
        let (shown, _) = self.attributes_of(found)?;
        if shown.identity.kind != FileKind::Regular {
            return fail(Errno::INVAL);
        }
        if self.map.node(id).is_none() {
            // Before the copy, so that a change outside while it runs is seen as one.
            self.note_use(id, shown.identity)?;
        }
        let (object, file) = self.copy(id, &shown, limit)?;
        let mut records = Vec::new();
        let result = self.adopt(id, &mut records).and_then(|()| {
            self.drop_capability(id, &mut records)?;
            records.push(Record::Content { node: id, object });
            self.perform(records, now())
        });
        if result.is_ok() {
            self.known.forget_use(id);
            self.files.put(id, file.into());
        } else {
            // The first error is the one to tell; what stays is swept up later.
            let _ = self.store.remove(object);
        }
        result
    }

    /// Makes an object, which nothing names yet, of the first `limit` bytes of a node's real data.
    pub(super) fn copy(
        &mut self,
        id: NodeId,
        shown: &Attributes,
        limit: u64,
    ) -> io::Result<(ObjectId, File)> {
        let object = self.next_object();
        let file = self.store.create(object)?;
        let filled = self.fill(id, &file, shown, limit);
        filled.inspect_err(|_| {
            let _ = self.store.remove(object);
        })?;
        Ok((object, file))
    }

    fn fill(
        &mut self,
        id: NodeId,
        object: &File,
        shown: &Attributes,
        limit: u64,
    ) -> io::Result<()> {
        if limit > 0 && shown.identity.size > 0 {
            let source = self.open_lower(id)?;
            copy_data(&source, object, shown.identity.size, limit)?;
        }
        let times = rustix::fs::Timestamps {
            last_access: timespec(Some(shown.accessed)),
            last_modification: timespec(Some(shown.identity.modified)),
        };
        Ok(rustix::fs::futimens(object, &times)?)
    }

    /// The real file of a node, which must still be the same inode.
    fn open_lower(&mut self, id: NodeId) -> io::Result<File> {
        let place = self.place(id)?;
        let directory = self.directory(place.parent)?;
        let file = lower::open_file(directory.as_fd(), &place.name)?;
        let opened = lower::stat(file.as_fd(), "".as_ref())?;
        let same = opened.is_some_and(|attributes| attributes.identity.key() == place.key);
        if same { Ok(file) } else { fail(Errno::STALE) }
    }
}

/// Copies the first `limit` of `size` bytes: by sharing blocks where the file systems can, else what
/// is not a hole.
fn copy_data(source: &File, target: &File, size: u64, limit: u64) -> io::Result<()> {
    if rustix::fs::ioctl_ficlone(target, source).is_ok() {
        return Ok(());
    }
    let end = size.min(limit);
    let mut at = 0;
    while at < end {
        let data = match rustix::fs::seek(source, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let hole = rustix::fs::seek(source, SeekFrom::Hole(data))?.min(end);
        let (mut from, mut to) = (data, data);
        while from < hole {
            let step = usize::try_from((hole - from).min(COPY_STEP)).unwrap_or(usize::MAX);
            let copied = match rustix::fs::copy_file_range(
                source,
                Some(&mut from),
                target,
                Some(&mut to),
                step,
            ) {
                // Not between these two file systems.
                Err(Errno::XDEV | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => {
                    copy_through_memory(source, target, from, hole)?;
                    break;
                }
                copied => copied?,
            };
            if copied == 0 {
                break;
            }
        }
        at = hole.max(data);
    }
    target.set_len(end)
}

fn copy_through_memory(source: &File, target: &File, from: u64, to: u64) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 17];
    let mut at = from;
    while at < to {
        let step = buffer
            .len()
            .min(usize::try_from(to - at).unwrap_or(usize::MAX));
        let length = source.read_at(&mut buffer[..step], at)?;
        if length == 0 {
            break;
        }
        target.write_all_at(&buffer[..length], at)?;
        at += length as u64;
    }
    Ok(())
}
