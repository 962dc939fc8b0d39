//! Giving a process its memory back: mappings first, then the pages in them.

use std::io;
use std::ops::Range;

use rustix::process::Pid;
use surmise_sys::pagemap::PageMap;
use surmise_sys::ptrace::call;

use super::files::Files;
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
    let changes = mappings::changes(&present, &wanted, &Scratch::RANGE);
    let whole = remap_all(pid, hand, (&changes, &wanted), scratch);
    let whole = whole.map_err(restoring("restore a mapping"))?;
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

/// Does these changes. Returns what has to be copied whole.
fn remap_all(
    pid: Pid,
    hand: &mut Hand<'_>,
    (changes, wanted): (&[Change], &[Mapping]),
    scratch: &mut Scratch,
) -> io::Result<Vec<Repair>> {
    let mut whole = Vec::new();
    let mut files = Files::default();
    for change in changes {
        let plain = remap(hand, change, wanted, (&mut files, scratch))?;
        whole.extend(plain.map(Repair::Copy));
    }
    for (range, of) in files.finish(hand, pid, wanted)? {
        map_plain(hand, &range, &wanted[of])?;
        whole.push(Repair::Copy(range));
    }
    Ok(whole)
}

/// Does one change. Returns what has to be copied whole, since it was a file's and is now plain memory:
/// to the process that is the same, as long as the file does not change.
fn remap(
    hand: &mut Hand<'_>,
    change: &Change,
    wanted: &[Mapping],
    (files, scratch): (&mut Files, &mut Scratch),
) -> io::Result<Option<Range<u64>>> {
    match change {
        Change::Unmap(range) => {
            let length = range.end - range.start;
            hand.call(call::MUNMAP, [range.start, length, 0, 0, 0, 0])?;
        }
        Change::Protect(range, protection) => {
            let length = range.end - range.start;
            hand.call(call::MPROTECT, [range.start, length, protection.0, 0, 0, 0])?;
        }
        Change::Map { range, of } => {
            let mapping = &wanted[*of];
            if mapping.is_shared && mapping.protection.may_write() {
                return Err(io::Error::other("writable shared memory was unmapped"));
            }
            if mapping.file.is_none() || !files.map(hand, (range, *of), wanted, scratch)? {
                map_plain(hand, range, mapping)?;
                return Ok(mapping.file.is_some().then(|| range.clone()));
            }
        }
    }
    Ok(None)
}

/// Maps memory of the process' own where it had something mapped.
fn map_plain(hand: &mut Hand<'_>, range: &Range<u64>, mapping: &Mapping) -> io::Result<()> {
    let stack = if mapping.path == "[stack]" { STACK } else { 0 };
    let (length, none) = (range.end - range.start, u64::MAX);
    let flags = OWN_IN_PLACE | stack;
    let arguments = [range.start, length, mapping.protection.0, flags, none, 0];
    hand.call(call::MMAP, arguments).map(drop)
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
