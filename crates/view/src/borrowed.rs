//! Objects that hold only a part of their file's data.
//!
//! The first change of a large file makes an empty object, which **borrows** the file's data: a
//! block that the object does not own is read from the real file, as the file was when the object was
//! made. Bytes at or behind [`Borrowed::limit`] are the object's own, in any block, so
//! an append copies nothing.
//!
//! # Why no kill loses a byte or mixes the sides
//!
//! A block's data are in the object before the log says that the object owns the block. Until then nobody
//! reads the object's bytes below the limit. So a kill between the two leaves the block as it
//! was before the write, and an owned block was complete when it became owned. A block becomes
//! owned once and stays so, and the limit only falls.
//!
//! Bytes that a truncation cuts off must not come back. All borrowed bytes are below both the limit and the
//! object's size, so the cut itself needs no record. Before the object grows again, the log gets a record
//! that the limit is the object's size ([`crate::Record::Cut`]). A kill between that record and the growth loses
//! nothing: there is no byte behind the object's size.
//!
//! The real file may change outside. Bytes that are read of it count only if its identity afterwards is
//! still [`Borrowed::from`]. Otherwise the read fails with `EIO`, since the old data are gone and two
//! versions must not be mixed. A commit finds the same difference and calls it a conflict.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::iter;
use std::ops::Range;

use rustix::io::Errno;
use surmise_lower::{OpenFile, read_full};

use crate::record::Record;
use crate::types::{Identity, NodeId, ObjectId};

/// What becomes the object's own at once, in bytes.
pub(crate) const BLOCK_BYTES: u64 = 1 << 16;

/// What an object lacks, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Borrowed {
    from: Identity,
    allocated: u64,
    limit: u64,
    own: Blocks,
}

/// Bytes of one side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Which.
    pub range: Range<u64>,
    /// Whether they are the object's, else the real file's.
    pub is_own: bool,
}

/// Sets of blocks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Blocks {
    /// Disjoint ranges that do not touch: the end of each by its start.
    ranges: BTreeMap<u64, u64>,
    count: u64,
}

impl Borrowed {
    /// All but what is at or behind `limit` is borrowed. `allocated` is the real file's number of
    /// blocks of 512 bytes.
    pub(crate) fn new(from: Identity, allocated: u64, limit: u64) -> Self {
        Self {
            from,
            allocated,
            limit,
            own: Blocks::default(),
        }
    }

    /// The state that the real file must be in.
    pub fn from(&self) -> &Identity {
        &self.from
    }

    pub(crate) fn lender(&mut self) -> &mut Identity {
        &mut self.from
    }

    /// Where the bytes begin that are the object's in any case.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The bytes below the limit that are the object's.
    pub fn own_bytes(&self) -> u64 {
        let ranges = self.own.ranges.iter();
        ranges
            .map(|(start, end)| self.bytes(*start..*end))
            .map(|range| range.end - range.start)
            .sum()
    }

    /// About how much of the real file's space holds what an object of `size` bytes borrows, in
    /// blocks of 512 bytes.
    pub(crate) fn allocated(&self, size: u64) -> u64 {
        let own = self.own.count.saturating_mul(BLOCK_BYTES);
        let lent = u128::from(self.limit.min(size).saturating_sub(own));
        let whole = u128::from(self.from.size.max(1));
        // Not more than `allocated`, as the limit is at most the size.
        (u128::from(self.allocated) * lent / whole) as u64
    }

    /// The run of bytes of one side that begins at `at`. Behind the limit it has no end.
    pub fn run(&self, at: u64) -> Run {
        if at >= self.limit {
            return Run {
                range: at..u64::MAX,
                is_own: true,
            };
        }
        let (is_own, end) = self.own.run(at / BLOCK_BYTES);
        let end = end.map_or(u64::MAX, |end| end.saturating_mul(BLOCK_BYTES));
        let end = match is_own && end >= self.limit {
            true => u64::MAX,
            false => end.min(self.limit),
        };
        Run {
            range: at..end,
            is_own,
        }
    }

    /// The runs that make up the first `size` bytes.
    pub fn runs(&self, size: u64) -> impl Iterator<Item = Run> {
        self.runs_of(0..size)
    }

    /// The runs that make up a range.
    pub(crate) fn runs_of(&self, range: Range<u64>) -> impl Iterator<Item = Run> {
        let mut at = range.start;
        iter::from_fn(move || {
            (at < range.end).then(|| {
                let mut run = self.run(at);
                run.range.end = run.range.end.min(range.end);
                at = run.range.end;
                run
            })
        })
    }

    /// What is known of a range only, so that it can be read while the rest changes.
    pub(crate) fn part(&self, range: &Range<u64>) -> Self {
        let mut own = Blocks::default();
        let below = range.start..range.end.min(self.limit);
        for run in self.runs_of(below).filter(|run| run.is_own) {
            let end = run.range.end.div_ceil(BLOCK_BYTES);
            own.add(run.range.start / BLOCK_BYTES..end);
        }
        Self { own, ..*self }
    }

    /// The blocks that hold a borrowed byte of a range; none where no byte of it is below `limit`.
    pub(crate) fn blocks(range: &Range<u64>, limit: u64) -> Range<u64> {
        let end = range.end.min(limit);
        if range.start >= end {
            return 0..0;
        }
        range.start / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES)
    }

    /// Whether all of some blocks are the object's.
    pub(crate) fn owns_all(&self, blocks: &Range<u64>) -> bool {
        let (is_own, end) = self.own.run(blocks.start);
        blocks.is_empty() || is_own && end.is_none_or(|end| end >= blocks.end)
    }

    /// Blocks are the object's from now on.
    pub(crate) fn own(&mut self, blocks: Range<u64>) {
        self.own.add(blocks);
    }

    /// Nothing at or behind `limit` is borrowed any more.
    pub(crate) fn cut(&mut self, limit: u64) {
        self.limit = self.limit.min(limit);
    }

    /// The records that say the same of another object of a node.
    pub(crate) fn records(&self, node: NodeId, object: ObjectId) -> Vec<Record> {
        let borrow = Record::Borrow {
            node,
            object,
            from: self.from,
            allocated: self.allocated,
            limit: self.limit,
        };
        let own = self.own.ranges.iter();
        let own = own.map(|(&first, &end)| Record::Own { node, first, end });
        iter::once(borrow).chain(own).collect()
    }

    /// Whether nothing is borrowed any more.
    pub(crate) fn is_whole(&self) -> bool {
        self.owns_all(&(0..self.limit.div_ceil(BLOCK_BYTES)))
    }

    /// Reads at `offset` until `buffer` is full or the object ends; returns the bytes read.
    ///
    /// # Errors
    /// `EIO` where the real file is needed and is no longer what it was.
    pub fn read(
        &self,
        object: &File,
        real: &dyn OpenFile,
        offset: u64,
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        let size = object.metadata()?.len();
        let end = offset.saturating_add(buffer.len() as u64).min(size);
        let mut needs_real = false;
        for run in self.runs_of(offset..end) {
            // Both ends are within the buffer.
            let at = |position: u64| (position - offset) as usize;
            let part = &mut buffer[at(run.range.start)..at(run.range.end)];
            if run.is_own {
                read_to_end(object, run.range.start, part)?;
            } else {
                needs_real = true;
                read_to_end(real, run.range.start, part)?;
            }
        }
        if needs_real {
            self.check(real)?;
        }
        Ok(usize::try_from(end.saturating_sub(offset)).unwrap_or(0))
    }

    /// Whether the real file still is what it was. To be asked after it was read: what was read
    /// before a look that finds no change is of the state that was lent.
    ///
    /// # Errors
    /// `EIO` where it is not.
    pub fn check(&self, real: &dyn OpenFile) -> io::Result<()> {
        match real.attributes()?.identity == self.from {
            true => Ok(()),
            false => Err(Errno::IO.into()),
        }
    }

    /// A block's bytes, of which those at or behind the limit are the object's in any case.
    fn bytes(&self, blocks: Range<u64>) -> Range<u64> {
        let at = |block: u64| block.saturating_mul(BLOCK_BYTES).min(self.limit);
        at(blocks.start)..at(blocks.end)
    }
}

impl Blocks {
    fn add(&mut self, mut blocks: Range<u64>) {
        if blocks.is_empty() {
            return;
        }
        // From the last to the first that overlaps or touches.
        while let Some((&start, &end)) = self.ranges.range(..=blocks.end).next_back() {
            if end < blocks.start {
                break;
            }
            self.ranges.remove(&start);
            self.count -= end - start;
            blocks = blocks.start.min(start)..blocks.end.max(end);
        }
        self.ranges.insert(blocks.start, blocks.end);
        self.count += blocks.end - blocks.start;
    }

    /// Whether a block is in the set, and the first one behind it of which the opposite holds.
    fn run(&self, block: u64) -> (bool, Option<u64>) {
        let before = self.ranges.range(..=block).next_back();
        if let Some((_, &end)) = before.filter(|(_, end)| **end > block) {
            return (true, Some(end));
        }
        let next = self.ranges.range(block..).next();
        (false, next.map(|(start, _)| *start))
    }
}

/// Fills a buffer from a file; what is behind the file's end stays zero.
fn read_to_end(file: &dyn OpenFile, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
    let length = read_full(file, offset, buffer)?;
    buffer[length..].fill(0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{FileKind, Timestamp};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn borrowed(limit: u64) -> Borrowed {
        let from = Identity {
            device: 1,
            inode: 2,
            kind: FileKind::Regular,
            size: limit,
            modified: Timestamp::default(),
            changed: Timestamp::default(),
        };
        Borrowed::new(from, 0, limit)
    }

    proptest! {
        #[test]
        fn a_set_of_blocks_holds_what_was_added(
            added in prop::collection::vec((0..40u64, 0..8u64), 0..20),
            (start, length) in (0..40u64, 0..12u64),
            limit in 0..50 * BLOCK_BYTES,
        ) {
            let mut set = borrowed(limit);
            let mut naive = BTreeSet::new();
            for (start, length) in added {
                set.own(start..start + length);
                naive.extend(start..start + length);
            }
            let blocks = start..start + length;
            let all = blocks.clone().all(|block| naive.contains(&block));
            prop_assert_eq!(set.owns_all(&blocks), all);
            let part = set.part(&(start * BLOCK_BYTES + 1..(start + length) * BLOCK_BYTES));
            for block in blocks {
                prop_assert_eq!(set.owns_all(&(block..block + 1)), naive.contains(&block));
                let at = block * BLOCK_BYTES + 1;
                prop_assert_eq!(part.run(at).is_own, set.run(at).is_own);
            }
            prop_assert_eq!(set.own.count, naive.len() as u64);
            let mut end = 0;
            let mut own = 0;
            for run in set.runs(limit) {
                prop_assert_eq!(run.range.start, end);
                prop_assert!(run.range.end > end);
                for at in [run.range.start, run.range.end - 1] {
                    prop_assert_eq!(naive.contains(&(at / BLOCK_BYTES)), run.is_own);
                }
                end = run.range.end;
                own += u64::from(run.is_own) * (run.range.end - run.range.start);
            }
            prop_assert_eq!(end, limit);
            prop_assert_eq!(own, set.own_bytes());
            prop_assert!(set.run(limit).is_own, "what is behind the limit is the object's");
            prop_assert_eq!(set.is_whole(), own == limit);
        }
    }
}
