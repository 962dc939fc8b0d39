//! Which pages of a process differ from its vessel's.
//!
//! After the vessel was made, both map the same pages, and a write by either gives the writer a copy of its own.
//! So a page that both still share is as it was. Root compares the numbers of the frames. For others the kernel says of
//! a page only whether another process maps it, too. That is enough. A page that the process has written to
//! since is mapped by it alone: newer vessels are destroyed before a rollback to an older one, and so are the children
//! that the process has borne since, with theirs. Children that are older than the vessel do not map what was written
//! since the vessel was made. Nor does anybody map what a program has that the process has executed again. Only where the kernel
//! merges equal pages (ksm) may another process map such a page, too. There every page whose frame is not known counts as written to.

use std::cell::LazyCell;
use std::io;
use std::ops::Range;

use surmise_sys::pagemap::{Entry, PAGE, PageKind, PageMap, Region};

/// What has to be done with pages of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Repair {
    /// Copy them from the vessel.
    Copy(Range<u64>),
    /// Forget them, so that the file shows, or zeros.
    Forget(Range<u64>),
}

/// Up to how many bytes between pages that are looked at are looked at, too: their entries are read sooner
/// than another call is made.
const GAP: u64 = 64 * PAGE;

/// What makes the pages of `ranges`, private memory of both, the vessel's.
pub(crate) fn repairs(
    process: &PageMap,
    vessel: &PageMap,
    ranges: &[&Range<u64>],
    repairs: &mut Vec<Repair>,
) -> io::Result<()> {
    let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else {
        return Ok(());
    };
    // One look at all: a process has dozens of mappings, most of them with nothing to tell.
    let present = process.regions(first.start..last.end)?;
    let wanted = vessel.regions(first.start..last.end)?;
    let (mut is, mut shall) = (present.iter().peekable(), wanted.iter().peekable());
    let mut unknown = Vec::new();
    for range in ranges {
        let mut at = range.start;
        while at < range.end {
            let (now, end) = kind_at(&mut is, at, range.end);
            let (then, end) = kind_at(&mut shall, at, end);
            match (now, then) {
                (Some(PageKind::Anonymous), Some(PageKind::Anonymous)) => unknown.push(at..end),
                (_, Some(PageKind::Anonymous | PageKind::Swapped)) => {
                    push(repairs, Repair::Copy(at..end));
                }
                (Some(PageKind::Anonymous | PageKind::Swapped), _) => {
                    push(repairs, Repair::Forget(at..end));
                }
                // A file's pages, zeros or nothing: whichever it is, the same is read.
                _ => {}
            }
            at = end;
        }
    }
    compare(process, vessel, &unknown, repairs)
}

/// Looks at pages that are both's own data.
fn compare(
    process: &PageMap,
    vessel: &PageMap,
    ranges: &[Range<u64>],
    repairs: &mut Vec<Repair>,
) -> io::Result<()> {
    let merges = LazyCell::new(kernel_merges_pages as fn() -> bool);
    for near in ranges.chunk_by(|one, next| next.start - one.end <= GAP) {
        let (start, end) = (near[0].start, near[near.len() - 1].end);
        let own = process.entries(start..end)?;
        let other = vessel.entries(start..end)?;
        for range in near {
            let pages =
                ((range.start - start) / PAGE) as usize..((range.end - start) / PAGE) as usize;
            let entries = (&own[pages.clone()], &other[pages]);
            differing(range.start, entries, &merges, repairs);
        }
    }
    Ok(())
}

/// What is at an address, and where that ends, at `limit` at the latest.
fn kind_at<'a>(
    regions: &mut std::iter::Peekable<impl Iterator<Item = &'a Region>>,
    at: u64,
    limit: u64,
) -> (Option<PageKind>, u64) {
    while regions.next_if(|region| region.range.end <= at).is_some() {}
    match regions.peek() {
        Some(region) if region.range.start <= at => {
            (Some(region.kind), region.range.end.min(limit))
        }
        Some(region) => (None, region.range.start.min(limit)),
        None => (None, limit),
    }
}

fn differing(
    start: u64,
    (own, other): (&[Entry], &[Entry]),
    merges: &LazyCell<bool>,
    repairs: &mut Vec<Repair>,
) {
    for (page, (&own, &other)) in own.iter().zip(other).enumerate() {
        if !is_same(own, other, merges) {
            let at = start + page as u64 * PAGE;
            push(repairs, Repair::Copy(at..at + PAGE));
        }
    }
}

fn is_same(own: Entry, other: Entry, merges: &LazyCell<bool>) -> bool {
    match (own.frame(), other.frame()) {
        (Some(own), Some(other)) => own == other,
        _ => !**merges && !own.is_exclusive() && !other.is_exclusive(),
    }
}

/// Whether equal pages of different processes may become one, or have (admin-guide/mm/ksm).
fn kernel_merges_pages() -> bool {
    let run = std::fs::read_to_string("/sys/kernel/mm/ksm/run");
    // A kernel without it has no such file.
    run.is_ok_and(|run| run.trim() != "0")
}

/// Appends a repair, together with the one before if they are one.
fn push(repairs: &mut Vec<Repair>, repair: Repair) {
    match (repairs.last_mut(), &repair) {
        (Some(Repair::Copy(before)), Repair::Copy(range))
        | (Some(Repair::Forget(before)), Repair::Forget(range))
            if before.end == range.start =>
        {
            before.end = range.end;
        }
        _ => repairs.push(repair),
    }
}
