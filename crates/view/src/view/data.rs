//! Data of regular files: read from the real file until the first change, from an object after it.
//!
//! Data are addressed by node, not by open file, so descriptors and mappings from before a change see
//! what those from after it see.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use surmise_lower::{OpenFile, read_full};

use super::attributes::timespec;
use super::core::{Core, Found, now};
use super::files::Data;
use super::{View, fail};
use crate::borrowed::Borrowed;
use crate::copies::{COPY_STEP, copy_data, share_blocks};
use crate::record::Record;
use crate::types::{Attributes, FileKind, NodeId, ObjectId};

/// Real files up to this size are copied whole at their first change; of larger ones the object
/// borrows. From 256 KiB on borrowing is the quicker (0.3 ms, and 0.6 ms for a copy of 1 MiB), but a
/// copy is nobody else's to change.
const COPIED_BYTES_MAX: u64 = 1 << 20;

/// How much a copy moves at once that has to look where each byte is.
const MEMORY_STEP: u64 = 1 << 20;

/// A real file from which a new object borrows all that is below a limit.
pub(super) struct Lender {
    real: Attributes,
    limit: u64,
}

/// Data that an object borrows, and the real file that has them.
pub(super) struct Lent {
    pub(super) borrowed: Borrowed,
    pub(super) real: Arc<dyn OpenFile>,
}

impl View {
    /// Reads at `offset` until `buffer` is full or the file ends; returns the bytes read.
    pub fn read(&self, node: NodeId, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let range = offset..offset.saturating_add(buffer.len() as u64);
        let (file, lent) = {
            let mut core = self.core();
            (core.file(node)?, core.lent(node, &range)?)
        };
        match (file, lent) {
            (Data::Object(object), Some(Lent { borrowed, real })) => {
                borrowed.read(&object, &*real, offset, buffer)
            }
            (file, _) => read_full(file.reader(), offset, buffer),
        }
    }

    /// Writes all of `data` at `offset`; `kill` takes set-id bits and capabilities away first.
    pub fn write(&self, node: NodeId, offset: u64, data: &[u8], kill: bool) -> io::Result<()> {
        let change = self.change(node);
        let file = {
            let mut core = self.core();
            if kill {
                core.drop_privileges(node)?;
            }
            core.writable(node)?
        };
        let end = offset.checked_add(data.len() as u64).ok_or(Errno::FBIG)?;
        let written = change.overwrite(&file, offset..end, || file.write_all_at(data, offset));
        written.map_err(|error| self.locked().without_space(error))
    }

    /// fallocate(2), `mode` as there.
    pub fn allocate(&self, node: NodeId, offset: u64, length: u64, mode: u32) -> io::Result<()> {
        let flags = FallocateFlags::from_bits(mode).ok_or(Errno::OPNOTSUPP)?;
        let end = offset.checked_add(length).ok_or(Errno::FBIG)?;
        let change = self.change(node);
        let file = self.core().writable(node)?;
        let allocate = || {
            let allocated = rustix::fs::fallocate(&file, flags, offset, length);
            allocated.map_err(|errno| self.locked().without_space(errno.into()))
        };
        let zeroes = FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE;
        let moves = FallocateFlags::COLLAPSE_RANGE | FallocateFlags::INSERT_RANGE;
        if flags.intersects(zeroes) {
            change.overwrite(&file, offset..end, allocate)
        } else if flags.intersects(moves) && self.core().borrowed(node).is_some() {
            // What is borrowed has its place in the real file.
            fail(Errno::OPNOTSUPP)
        } else {
            change.extend(&file, allocate)
        }
    }

    /// The next data at or behind `offset`, or the next hole.
    pub fn seek(&self, node: NodeId, offset: u64, hole: bool) -> io::Result<u64> {
        let file = self.core().file(node)?;
        let next = |file: &dyn OpenFile, at| match hole {
            true => file.next_hole(at),
            false => file.next_data(at),
        };
        let mut at = offset;
        loop {
            let size = file.reader().attributes()?.identity.size;
            if at >= size {
                return match hole && at > offset {
                    true => Ok(size),
                    false => fail(Errno::NXIO),
                };
            }
            // What is borrowed may be in many pieces, so the lock is taken for each of them.
            let (run, lent) = {
                let mut core = self.core();
                let run = core.borrowed(node).map(|borrowed| borrowed.run(at));
                match run {
                    None => {
                        let found = next(file.reader(), at)?;
                        return found.ok_or_else(|| Errno::NXIO.into());
                    }
                    Some(run) => {
                        let lent = core.lent(node, &run.range)?;
                        (run, lent)
                    }
                }
            };
            let end = run.range.end.min(size);
            let source = lent.as_ref().map_or(file.reader(), |lent| &*lent.real);
            // Without, there are no more data.
            let found = next(source, at)?.unwrap_or(end);
            if let Some(lent) = &lent {
                lent.borrowed.check(&*lent.real)?;
            }
            if found < end {
                return Ok(found);
            }
            at = end;
        }
    }

    /// copy_file_range(2) between two regular files of the view; returns the bytes copied.
    pub fn copy_range(
        &self,
        from: (NodeId, u64),
        to: (NodeId, u64),
        length: u64,
    ) -> io::Result<usize> {
        let change = self.change(to.0);
        let (source, target, is_borrowed) = {
            let mut core = self.core();
            // In this order: where both are one file, the source must be the object too.
            let target = core.writable(to.0)?;
            let is_borrowed = core.borrowed(from.0).or(core.borrowed(to.0)).is_some();
            (core.file(from.0)?, target, is_borrowed)
        };
        let Some(descriptor) = source.reader().descriptor().filter(|_| !is_borrowed) else {
            drop(change);
            return self.copy_through_memory(from, to, length);
        };
        let (mut from, mut to) = (from.1, to.1);
        let length = usize::try_from(length.min(COPY_STEP)).unwrap_or(usize::MAX);
        let copied = rustix::fs::copy_file_range(
            descriptor,
            Some(&mut from),
            &target,
            Some(&mut to),
            length,
        )?;
        Ok(copied)
    }

    /// A part of what is to be copied, as the call may.
    fn copy_through_memory(
        &self,
        from: (NodeId, u64),
        to: (NodeId, u64),
        length: u64,
    ) -> io::Result<usize> {
        let length = length.min(MEMORY_STEP);
        let mut buffer = vec![0; usize::try_from(length).unwrap_or(0)];
        let read = self.read(from.0, from.1, &mut buffer)?;
        if read > 0 {
            self.write(to.0, to.1, &buffer[..read], false)?;
        }
        Ok(read)
    }
}

impl Core {
    /// The file that holds a node's data, open for reading.
    pub(super) fn file(&mut self, id: NodeId) -> io::Result<Data> {
        if let Some(file) = self.files.get(&id) {
            return Ok(file.clone());
        }
        let file = match self.map.node(id).and_then(|node| node.object) {
            Some(object) => Data::Object(Arc::new(self.store.open(object)?)),
            None => Data::Real(self.open_lower(id)?),
        };
        self.files.put(id, file.clone());
        Ok(file)
    }

    /// The object of a node that has one.
    pub(super) fn object(&mut self, id: NodeId) -> io::Result<Arc<File>> {
        match self.file(id)? {
            Data::Object(object) => Ok(object),
            Data::Real(_) => fail(Errno::STALE),
        }
    }

    /// The object that holds a node's data, made first where there is none.
    pub(super) fn writable(&mut self, id: NodeId) -> io::Result<Arc<File>> {
        self.prepare_change(id, u64::MAX)?;
        self.object(id)
    }

    /// Makes an object of a node's first `limit` bytes where it has none. File capabilities go with a
    /// change of data, whoever makes it.
    fn prepare_change(&mut self, id: NodeId, limit: u64) -> io::Result<()> {
        self.check_unshared(id)?;
        if self.has_object(id) {
            self.renew(id, limit)?;
            self.drop_set_capability(id)
        } else {
            let copied = self.copy_up(id, limit);
            copied.map_err(|error| self.without_space(error))
        }
    }

    /// What a range of a node's data borrows; `None` where the file of the node has it all.
    pub(super) fn lent(&mut self, id: NodeId, range: &Range<u64>) -> io::Result<Option<Lent>> {
        let borrowed = match self.borrowed(id) {
            None => return Ok(None),
            Some(borrowed) => borrowed.part(range),
        };
        if borrowed.runs_of(range.clone()).all(|run| run.is_own) {
            return Ok(None);
        }
        let real = match self.lenders.get(&id) {
            Some(real) => Arc::clone(real),
            None => {
                // Where another file is, or none, the data are as gone as where they changed.
                let real = self.open_lower(id).map_err(|error| match is_gone(&error) {
                    true => Errno::IO.into(),
                    false => error,
                })?;
                self.lenders.put(id, Arc::clone(&real));
                real
            }
        };
        Ok(Some(Lent { borrowed, real }))
    }

    /// Sets a regular file's size, for the holder of its [`super::change::Change`].
    pub(super) fn resize(&mut self, id: NodeId, size: u64) -> io::Result<()> {
        self.prepare_change(id, size)?;
        let file = self.object(id)?;
        self.cut_borrowed(id, &file)?;
        file.set_len(size)?;
        // Even to the same size: POSIX wants new times of a truncate that succeeds.
        let times = rustix::fs::Timestamps {
            last_access: timespec(None),
            last_modification: timespec(Some(now())),
        };
        Ok(rustix::fs::futimens(&file, &times)?)
    }

    /// Before an object grows: what a truncation cut off must not come back from the real file.
    pub(super) fn cut_borrowed(&mut self, id: NodeId, object: &File) -> io::Result<()> {
        let Some(limit) = self.borrowed(id).map(Borrowed::limit) else {
            return Ok(());
        };
        let size = object.metadata()?.len();
        if size >= limit {
            return Ok(());
        }
        let cut = Record::Cut {
            node: id,
            limit: size,
        };
        self.perform(vec![cut], now())
    }

    /// Gives a node an object for the first `limit` bytes of its real data.
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
        let (object, file, borrowed) = self.new_object(id, &shown, limit, true)?;
        let mut records = Vec::new();
        let result = self.adopt(id, &mut records).and_then(|()| {
            self.drop_capability(id, &mut records)?;
            records.push(match borrowed {
                None => Record::Content { node: id, object },
                Some(Lender { real, limit }) => Record::Borrow {
                    node: id,
                    object,
                    from: real.identity,
                    allocated: real.blocks,
                    limit,
                },
            });
            self.perform(records, now())
        });
        if result.is_ok() {
            self.forget_use(id);
            self.files.put(id, Data::Object(file.into()));
        } else {
            // The first error is the one to tell; what stays is swept up later.
            let _ = self.store.remove(object);
        }
        result
    }

    /// Makes an object, which nothing names yet, for the first `limit` bytes of a node's real data. Of
    /// a large file it borrows what it may.
    pub(super) fn new_object(
        &mut self,
        id: NodeId,
        shown: &Attributes,
        limit: u64,
        may_borrow: bool,
    ) -> io::Result<(ObjectId, File, Option<Lender>)> {
        let object = self.next_object();
        let file = self.store.create(object)?;
        let filled = self.fill(id, &file, shown.identity.size.min(limit), may_borrow);
        let filled = filled.and_then(|borrowed| {
            set_times(&file, shown)?;
            Ok(borrowed)
        });
        let borrowed = filled.inspect_err(|_| {
            let _ = self.store.remove(object);
        })?;
        Ok((object, file, borrowed))
    }

    fn fill(
        &mut self,
        id: NodeId,
        object: &File,
        size: u64,
        may_borrow: bool,
    ) -> io::Result<Option<Lender>> {
        if size == 0 {
            return Ok(None);
        }
        let source = self.open_lower(id)?;
        if share_blocks(&*source, object) {
            return Ok(None);
        }
        if size <= COPIED_BYTES_MAX || !may_borrow {
            object.set_len(size)?;
            copy_data(&*source, object, 0..size)?;
            return Ok(None);
        }
        let real = source.attributes()?;
        let limit = real.identity.size.min(size);
        object.set_len(limit)?;
        self.lenders.put(id, source);
        Ok(Some(Lender { real, limit }))
    }

    /// Puts all that a node's object borrows into it.
    pub(super) fn complete(&mut self, id: NodeId, shown: &Attributes) -> io::Result<()> {
        if self.borrowed(id).is_none() {
            return Ok(());
        }
        let file = self.object(id)?;
        self.cut_borrowed(id, &file)?;
        let Some(limit) = self.borrowed(id).map(Borrowed::limit) else {
            return Ok(());
        };
        if let Some(Lent { borrowed, real }) = self.lent(id, &(0..limit))? {
            if borrowed.check(&*real).is_err() {
                return fail(Errno::STALE);
            }
            for run in borrowed.runs(limit).filter(|run| !run.is_own) {
                copy_data(&*real, &file, run.range)?;
            }
            borrowed.check(&*real)?;
            set_times(&file, shown)?;
        }
        let cut = Record::Cut { node: id, limit: 0 };
        self.perform(vec![cut], now())
    }

    /// The real file of a node, which must still be the same inode.
    fn open_lower(&mut self, id: NodeId) -> io::Result<Arc<dyn OpenFile>> {
        if let Some(held) = self.held_file(id) {
            return Ok(Arc::clone(held));
        }
        let place = self.place(id)?;
        let directory = self.directory(place.parent)?;
        let file = directory.open(&place.name)?;
        match file.attributes()?.identity.key() == place.key {
            true => Ok(file),
            false => fail(Errno::STALE),
        }
    }
}

/// Whether an error says that a real inode is no more where it was.
pub(super) fn is_gone(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::STALE | Errno::NOENT | Errno::NOTDIR))
}

pub(super) fn set_times(object: &File, shown: &Attributes) -> io::Result<()> {
    let times = rustix::fs::Timestamps {
        last_access: timespec(Some(shown.accessed)),
        last_modification: timespec(Some(shown.identity.modified)),
    };
    Ok(rustix::fs::futimens(object, &times)?)
}
