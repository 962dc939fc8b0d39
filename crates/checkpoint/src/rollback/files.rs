//! Mapping files once more that a process had mapped, by the names that they had.

use std::io;
use std::ops::Range;

use rustix::fs::OFlags;
use rustix::process::Pid;
use surmise_sys::pagemap::PAGE;
use surmise_sys::ptrace::call;

use crate::held::Hand;
use crate::mappings::{self, Mapping};
use crate::scratch::Scratch;

/// MAP_SHARED, MAP_PRIVATE, MAP_FIXED of mmap(2).
const SHARED: u64 = 0x01;
const PRIVATE: u64 = 0x02;
const IN_PLACE: u64 = 0x10;

/// Files that are mapped one after the other. By now another file may have the name of one, which shows in the end.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// The last one: its name, and its descriptor if it could be opened. Parts of a file are often mapped side by side.
    opened: Option<(String, Option<u64>)>,
    /// What was mapped, and by which of the mappings that are wanted.
    mapped: Vec<(Range<u64>, usize)>,
}

impl Files {
    /// Maps the file of `wanted[of]` at a part of its range, in place of what is there. False if the file is not to be had by its
    /// name any more: then what was there stays.
    pub(super) fn map(
        &mut self,
        hand: &mut Hand<'_>,
        (range, of): (&Range<u64>, usize),
        wanted: &[Mapping],
        scratch: &mut Scratch,
    ) -> io::Result<bool> {
        let mapping = &wanted[of];
        let Some(file) = self.open(hand, &mapping.path, scratch)? else {
            return Ok(false);
        };
        let kind = if mapping.is_shared { SHARED } else { PRIVATE };
        let (start, length) = (range.start, range.end - range.start);
        let offset = mapping.offset + (start - mapping.range.start);
        let arguments = [
            start,
            length,
            mapping.protection.0,
            kind | IN_PLACE,
            file,
            offset,
        ];
        let is_mapped = hand.call_raw(call::MMAP, arguments)? >= 0;
        if is_mapped {
            self.mapped.push((range.clone(), of));
        }
        Ok(is_mapped)
    }

    /// Closes what it has opened. Returns what was mapped and shows another file than it should.
    pub(super) fn finish(
        mut self,
        hand: &mut Hand<'_>,
        pid: Pid,
        wanted: &[Mapping],
    ) -> io::Result<Vec<(Range<u64>, usize)>> {
        self.close(hand)?;
        if self.mapped.is_empty() {
            return Ok(Vec::new());
        }
        let present = mappings::of(pid)?;
        self.mapped.retain(|(range, of)| {
            let overlaps =
                |one: &&Mapping| one.range.start < range.end && range.start < one.range.end;
            let mut there = present.iter().filter(overlaps);
            !there.all(|one| one.file == wanted[*of].file)
        });
        Ok(self.mapped)
    }

    fn open(
        &mut self,
        hand: &mut Hand<'_>,
        path: &str,
        scratch: &mut Scratch,
    ) -> io::Result<Option<u64>> {
        if let Some((opened, file)) = &self.opened
            && opened == path
        {
            return Ok(*file);
        }
        self.close(hand)?;
        let is_name = path.starts_with('/') && path.len() < PAGE as usize;
        let file = match is_name {
            true => {
                // By now it may be a pipe's name, which would wait for a writer, or a terminal's.
                let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
                let name = scratch.write(hand, format!("{path}\0").as_bytes())?;
                let arguments = [call::HERE, name, flags.bits().into(), 0, 0, 0];
                u64::try_from(hand.call_raw(call::OPENAT, arguments)?).ok()
            }
            false => None,
        };
        self.opened = Some((path.to_owned(), file));
        Ok(file)
    }

    fn close(&mut self, hand: &mut Hand<'_>) -> io::Result<()> {
        if let Some((_, Some(file))) = self.opened.take() {
            hand.call(call::CLOSE, [file, 0, 0, 0, 0, 0])?;
        }
        Ok(())
    }
}
