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
use super::core::{Core, now};
use super::facts::{Facts, Step, outcome};
use super::files::Data;
use super::{View, fail};
use crate::borrowed::Borrowed;
use crate::copies::COPY_STEP;
use crate::record::Record;
use crate::types::{Attributes, FileKind, NodeId};

/// How much a copy moves at once that has to look where each byte is.
const MEMORY_STEP: u64 = 1 << 20;

/// Data that an object borrows, and the real file that has them.
pub(super) struct Lent {
    pub(super) borrowed: Borrowed,
    pub(super) real: Arc<dyn OpenFile>,
}

impl View {
    /// The last byte of an open file, and where it is.
    pub(crate) fn last_byte(&self, node: NodeId) -> Option<(u64, u8)> {
        let is_file = {
            let mut core = self.locked();
            core.known.is_open(node) && core.kind(node).ok()? == FileKind::Regular
        };
        let size = is_file.then(|| self.attributes(node).ok())??.attributes;
        let offset = size.identity.size.checked_sub(1)?;
        let mut byte = [0];
        // What cannot be read now could not be through a mapping, either.
        (self.read(node, offset, &mut byte).ok()? == 1).then_some((offset, byte[0]))
    }

    /// Reads at `offset` until `buffer` is full or the file ends; returns the bytes read.
    pub fn read(&self, node: NodeId, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let range = offset..offset.saturating_add(buffer.len() as u64);
        let (file, lent) = self
            .decide(|core, facts| Ok((core.file(facts, node)?, core.lent(facts, node, &range)?)))?;
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
        let file = change.writable(kill)?;
        let end = offset.checked_add(data.len() as u64).ok_or(Errno::FBIG)?;
        let written = change.overwrite(&file, offset..end, || file.write_all_at(data, offset));
        written.map_err(|error| self.locked().without_space(error))
    }

    /// fallocate(2), `mode` as there.
    pub fn allocate(&self, node: NodeId, offset: u64, length: u64, mode: u32) -> io::Result<()> {
        let flags = FallocateFlags::from_bits(mode).ok_or(Errno::OPNOTSUPP)?;
        let end = offset.checked_add(length).ok_or(Errno::FBIG)?;
        let change = self.change(node);
        let file = change.writable(false)?;
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
        let file = self.decide(|core, facts| core.file(facts, node))?;
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
            let borrowed = self.decide(|core, facts| {
                let Some(run) = core.borrowed(node).map(|borrowed| borrowed.run(at)) else {
                    return Ok(None);
                };
                let lent = core.lent(facts, node, &run.range)?;
                Ok(Some((run, lent)))
            })?;
            let Some((run, lent)) = borrowed else {
                let found = next(file.reader(), at)?;
                return found.ok_or_else(|| Errno::NXIO.into());
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
        // In this order: where both are one file, the source must be the object too.
        let target = change.writable(false)?;
        let (source, is_borrowed) = self.decide(|core, facts| {
            let is_borrowed = core.borrowed(from.0).or(core.borrowed(to.0)).is_some();
            Ok((core.file(facts, from.0)?, is_borrowed))
        })?;
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
    pub(super) fn file(&mut self, facts: &Facts, id: NodeId) -> Step<Data> {
        if let Some(file) = self.files.get(id) {
            return Ok(file.clone());
        }
        if self.has_object(id) {
            return Ok(Data::Object(self.object(id)?));
        }
        let file = Data::Real(self.open_lower(facts, id)?);
        self.files.put(id, file.clone());
        Ok(file)
    }

    /// The object of a node that has one.
    pub(super) fn object(&mut self, id: NodeId) -> io::Result<Arc<File>> {
        if let Some(Data::Object(object)) = self.files.get(id) {
            return Ok(Arc::clone(object));
        }
        let Some(object) = self.map.node(id).and_then(|node| node.object) else {
            return fail(Errno::STALE);
        };
        let file = Arc::new(self.objects.open(object)?);
        self.files.put(id, Data::Object(Arc::clone(&file)));
        Ok(file)
    }

    /// What a range of a node's data borrows; `None` where the file of the node has it all.
    pub(super) fn lent(
        &mut self,
        facts: &Facts,
        id: NodeId,
        range: &Range<u64>,
    ) -> Step<Option<Lent>> {
        let borrowed = match self.borrowed(id) {
            None => return Ok(None),
            Some(borrowed) => borrowed.part(range),
        };
        if borrowed.runs_of(range.clone()).all(|run| run.is_own) {
            return Ok(None);
        }
        let real = match self.files.lender(id) {
            Some(real) => Arc::clone(real),
            None => {
                // Where another file is, or none, the data are as gone as where they changed.
                let opened = outcome(self.open_lower(facts, id))?;
                let real = opened.map_err(|error| match is_gone(&error) {
                    true => Errno::IO.into(),
                    false => error,
                })?;
                self.files.put_lender(id, Arc::clone(&real));
                real
            }
        };
        Ok(Some(Lent { borrowed, real }))
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

    /// The real file of a node, which must still be the same inode.
    pub(super) fn open_lower(&mut self, facts: &Facts, id: NodeId) -> Step<Arc<dyn OpenFile>> {
        if let Some(held) = self.held_file(id) {
            return Ok(Arc::clone(held));
        }
        self.open_lower_anew(facts, id)
    }

    /// Likewise, by its name.
    pub(super) fn open_lower_anew(&mut self, facts: &Facts, id: NodeId) -> Step<Arc<dyn OpenFile>> {
        let parent = self.place(id)?.parent;
        let directory = self.directory(facts, parent)?;
        let place = self.place(id)?;
        facts.file(id, &directory, place.name, place.key)
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
