//! Giving a process its memory back: mappings first, then the pages in them.

use std::io;
use std::ops::Range;

use rustix::fs::OFlags;
use rustix::process::Pid;
use surmise_sys::pagemap::{PAGE, PageMap};
use surmise_sys::ptrace::call;

use crate::checkpoint::Checkpoint;
use crate::contents;
use crate::error::{RollbackError, restoring};
use crate::held::Hand;
use crate::mappings::{self, Change, Mapping};
use crate::pages::{self, Repair};
use crate::scratch::Scratch;

/// MADV_DONTNEED_LOCKED of madvise(2), since Linux 5.18.
const FORGET_LOCKED: u64 = 24;
/// MAP_PRIVATE, MAP_FIXED, MAP_ANONYMOUS of mmap(2).
const OWN_IN_PLACE: u64 = 0x02 | 0x10 | 0x20;
/// MAP_GROWSDOWN, MAP_STACK.
const STACK: u64 = 0x100 | 0x2_0000;

/// Returns how many pages were copied.
pub(super) fn restore(
    pid: Pid,
    hand: &mut Hand<'_>,
    checkpoint: &mut Checkpoint,
    scratch: &mut Scratch,
) -> Result<u64, RollbackError> {
    let vessel = checkpoint.vessel.process();
    let wanted = mappings::of(vessel).map_err(restoring("read the vessel's mappings"))?;
    let mut present = mappings::of(pid).map_err(restoring("read mappings"))?;
    let is_break_moved = mappings::heap(&present) != mappings::heap(&wanted);
    if is_break_moved {
        restore_break(hand, checkpoint).map_err(restoring("restore the break"))?;
        present = mappings::of(pid).map_err(restoring("read mappings"))?;
    }
    let mut whole = Vec::new();
    for change in mappings::changes(&present, &wanted, &Scratch::RANGE) {
        if let Some(range) =
            remap(hand, &change, &wanted, scratch).map_err(restoring("restore a mapping"))?
        {
            whole.push(Repair::Copy(range));
        }
    }
    let repairs = differences(pid, vessel, &wanted, whole).map_err(restoring("compare pages"))?;
    let copied = apply(hand, pid, vessel, repairs).map_err(restoring("restore pages"))?;
    if !is_break_moved {
        // By bytes at most. A vessel that is young takes a while to be there to be asked.
        restore_break(hand, checkpoint).map_err(restoring("restore the break"))?;
    }
    Ok(copied)
}

/// The break is not all of the heap's mapping: the kernel remembers its bytes.
fn restore_break(hand: &mut Hand<'_>, checkpoint: &mut Checkpoint) -> io::Result<()> {
    let asked = (checkpoint.vessel.held()?, checkpoint.instruction);
    let (present, wanted) = hand.call_both(asked, call::BRK, [0; 6])?;
    if present != wanted {
        let set = hand.call(call::BRK, [wanted, 0, 0, 0, 0, 0])?;
        if set != wanted {
            return Err(io::Error::other("the kernel refuses the former break"));
        }
    }
    Ok(())
}

/// Does one change. Returns what has to be copied whole, since it was a file's and is now plain memory:
/// to the process that is the same, as long as the file does not change.
fn remap(
    hand: &mut Hand<'_>,
    change: &Change,
    wanted: &[Mapping],
    scratch: &mut Scratch,
) -> io::Result<Option<Range<u64>>> {
    let (start, length) = match change {
        Change::Unmap(range) | Change::Protect(range, _) | Change::Map { range, .. } => {
            (range.start, range.end - range.start)
        }
    };
    match change {
        Change::Unmap(_) => hand.call(call::MUNMAP, [start, length, 0, 0, 0, 0])?,
        Change::Protect(_, protection) => {
            hand.call(call::MPROTECT, [start, length, protection.0, 0, 0, 0])?
        }
        Change::Map { of, .. } => {
            let mapping = &wanted[*of];
            if mapping.is_shared && mapping.protection.may_write() {
                return Err(io::Error::other("writable shared memory was unmapped"));
            }
            if mapping.is_shared && share(hand, mapping, (start, length), scratch)? {
                return Ok(None);
            }
            let stack = if mapping.path == "[stack]" { STACK } else { 0 };
            let none = u64::MAX;
            let flags = OWN_IN_PLACE | stack;
            hand.call(
                call::MMAP,
                [start, length, mapping.protection.0, flags, none, 0],
            )?
        }
    };
    Ok(match change {
        Change::Map { range, of } if wanted[*of].file.is_some() => Some(range.clone()),
        _ => None,
    })
}

/// Maps a file, which others may write to, as it was. False if it is not to be had by its name any more: then
/// what it was stays.
fn share(
    hand: &mut Hand<'_>,
    mapping: &Mapping,
    (start, length): (u64, u64),
    scratch: &mut Scratch,
) -> io::Result<bool> {
    /// AT_FDCWD of openat(2); MAP_SHARED, MAP_FIXED of mmap(2).
    const HERE: u64 = -100_i64 as u64;
    const SHARED_IN_PLACE: u64 = 0x01 | 0x10;
    // By now it may be a pipe's name, which would wait for a writer, or a terminal's.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let flags = flags.bits().into();
    if mapping.path.len() >= PAGE as usize || !mapping.path.starts_with('/') {
        return Ok(false);
    }
    let name = scratch.write(hand, format!("{}\0", mapping.path).as_bytes())?;
    let Ok(file) = u64::try_from(hand.call_raw(call::OPENAT, [HERE, name, flags, 0, 0, 0])?) else {
        return Ok(false);
    };
    let offset = mapping.offset + (start - mapping.range.start);
    let protection = mapping.protection.0;
    let arguments = [start, length, protection, SHARED_IN_PLACE, file, offset];
    let mapped = hand.call_raw(call::MMAP, arguments)?;
    hand.call(call::CLOSE, [file, 0, 0, 0, 0, 0])?;
    if mapped < 0 {
        return Ok(false);
    }
    // Another file may have that name by now.
    let present = mappings::of(hand.held.thread())?;
    let mut there = present.iter().filter(|found| found.range.contains(&start));
    Ok(there.all(|found| found.file == mapping.file))
}

/// What differs between the memory of a process and its vessel's, beside what is to be copied whole.
fn differences(
    process: Pid,
    vessel: Pid,
    mappings: &[Mapping],
    whole: Vec<Repair>,
) -> io::Result<Vec<Repair>> {
    let (own, other) = (PageMap::open(process)?, PageMap::open(vessel)?);
    let mut repairs = whole;
    let private = mappings.iter().filter(|mapping| mapping.is_private());
    let ranges: Vec<_> = private.map(|mapping| &mapping.range).collect();
    pages::repairs(&own, &other, &ranges, &mut repairs)?;
    Ok(repairs)
}

fn apply(hand: &mut Hand<'_>, process: Pid, vessel: Pid, repairs: Vec<Repair>) -> io::Result<u64> {
    let mut copies = Vec::new();
    for repair in repairs {
        match repair {
            Repair::Forget(range) => {
                let length = range.end - range.start;
                let arguments = [range.start, length, FORGET_LOCKED, 0, 0, 0];
                hand.call(call::MADVISE, arguments)?;
            }
            Repair::Copy(range) => copies.push(range),
        }
    }
    contents::copy(vessel, process, &copies)
}
