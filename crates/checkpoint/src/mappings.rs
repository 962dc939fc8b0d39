//! What a process maps, and what has to be done for it to map what another one does. Pure.

use std::io;
use std::ops::Range;

use rustix::process::Pid;
use surmise_linux::proc::{Map, Maps};

/// One map of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// Addresses, in bytes.
    pub(crate) range: Range<u64>,
    pub(crate) protection: Protection,
    pub(crate) is_shared: bool,
    /// Where in the file it begins, in bytes.
    pub(crate) offset: u64,
    /// Device and inode of the file; nothing for memory without one.
    pub(crate) file: Option<(u64, u64)>,
    /// Of the file, or what the kernel calls it.
    pub(crate) path: String,
}

/// Who may do what with a page, as mmap(2) takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Protection(pub(crate) u64);

impl Protection {
    const READ: u64 = 1;
    const WRITE: u64 = 2;
    const EXECUTE: u64 = 4;

    fn of(rights: &str) -> Self {
        let bit = |letter, bit| if rights.contains(letter) { bit } else { 0 };
        Self(bit('r', Self::READ) | bit('w', Self::WRITE) | bit('x', Self::EXECUTE))
    }

    pub(crate) fn may_write(self) -> bool {
        self.0 & Self::WRITE != 0
    }
}

/// What the kernel maps into every process by itself, at addresses of its own choice.
const KERNELS: [&str; 4] = ["[vdso]", "[vvar]", "[vvar_vclock]", FIXED];
/// That is always at the same one.
const FIXED: &str = "[vsyscall]";

/// Whether the kernel maps what has this name where it likes.
pub(crate) fn is_moved_by_kernel(path: &str) -> bool {
    KERNELS.contains(&path) && path != FIXED
}

impl Mapping {
    /// Whether it is the kernel's and stays as it is.
    pub(crate) fn is_kernels(&self) -> bool {
        KERNELS.contains(&self.path.as_str())
    }

    /// Whether it is the kernel's, and its place is one among many.
    pub(crate) fn is_moved_by_kernel(&self) -> bool {
        is_moved_by_kernel(&self.path)
    }

    /// In bytes.
    pub(crate) fn length(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Whether it is memory of this process alone.
    pub(crate) fn is_private(&self) -> bool {
        !self.is_shared && !self.is_kernels()
    }

    /// Whether both show the same where they overlap, but for the pages that were written.
    fn shows_the_same(&self, other: &Self) -> bool {
        let aligned = |mapping: &Self| mapping.offset.wrapping_sub(mapping.range.start);
        self.is_shared == other.is_shared
            && self.file == other.file
            && (self.file.is_none() || aligned(self) == aligned(other))
    }
}

/// All mappings of a process, rising.
pub(crate) fn of(process: Pid) -> io::Result<Vec<Mapping>> {
    read(&Maps::of(process)?)
}

fn read(maps: &Maps) -> io::Result<Vec<Mapping>> {
    let mappings = maps.iter().map(|map| map.map(Mapping::from));
    mappings.collect()
}

impl From<Map<'_>> for Mapping {
    fn from(map: Map<'_>) -> Self {
        Self {
            range: map.addresses,
            protection: Protection::of(map.rights),
            is_shared: map.is_shared,
            offset: map.offset,
            file: (map.inode != 0).then_some((map.device, map.inode)),
            // Only whether two are the same and can be opened matters.
            path: map.path.to_string_lossy().into_owned(),
        }
    }
}

/// From where to where the break has been moved, by pages; `None` for who has not.
pub(crate) fn heap(mappings: &[Mapping]) -> Option<Range<u64>> {
    let mut heap = mappings.iter().filter(|mapping| mapping.path == "[heap]");
    let first = heap.next()?;
    let last = heap.next_back().unwrap_or(first);
    Some(first.range.start..last.range.end)
}

/// The first address from `from` on behind which so many bytes are that none of some processes maps; `None` if there is none.
pub(crate) fn gap(processes: &[&[Mapping]], from: u64, length: u64) -> Option<u64> {
    let mut all: Vec<_> = processes.iter().copied().flatten().collect();
    all.sort_unstable_by_key(|mapping| mapping.range.start);
    let mut at = from;
    for mapping in all {
        if at.checked_add(length)? <= mapping.range.start {
            break;
        }
        at = at.max(mapping.range.end);
    }
    at.checked_add(length).map(|_| at)
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Unmap(Range<u64>),
    Protect(Range<u64>, Protection),
    /// Map what `wanted[of]` shows there, in place of what may be there.
    Map {
        range: Range<u64>,
        of: usize,
    },
}

/// What makes `present` show what `wanted` does, in address order. Mappings in `kept` and those of the
/// kernel are left alone.
pub(crate) fn changes(present: &[Mapping], wanted: &[Mapping], kept: &Range<u64>) -> Vec<Change> {
    let mut edges: Vec<u64> = [present, wanted]
        .into_iter()
        .flatten()
        .flat_map(|mapping| [mapping.range.start, mapping.range.end])
        .collect();
    edges.sort_unstable();
    edges.dedup();
    let (mut is, mut shall) = (0, 0);
    let mut changes = Vec::new();
    for pair in edges.windows(2) {
        let range = pair[0]..pair[1];
        is = at(present, is, range.start);
        shall = at(wanted, shall, range.start);
        let now = present
            .get(is)
            .filter(|found| found.range.contains(&range.start));
        let then = wanted
            .get(shall)
            .filter(|found| found.range.contains(&range.start));
        if now.or(then).is_none_or(Mapping::is_kernels) || kept.contains(&range.start) {
            continue;
        }
        let change = match (now, then) {
            (_, None) => Some(Change::Unmap(range)),
            (Some(now), Some(then)) if now.shows_the_same(then) => (now.protection
                != then.protection)
                .then_some(Change::Protect(range, then.protection)),
            (_, Some(_)) => Some(Change::Map { range, of: shall }),
        };
        if let Some(change) = change {
            push(&mut changes, change);
        }
    }
    changes
}

/// The first mapping, from the `from`th on, that ends after `address`.
fn at(mappings: &[Mapping], from: usize, address: u64) -> usize {
    let before = mappings[from..]
        .iter()
        .take_while(|mapping| mapping.range.end <= address);
    from + before.count()
}

/// Appends a change, together with the one before if they are one.
fn push(changes: &mut Vec<Change>, change: Change) {
    match (changes.last_mut(), &change) {
        (Some(Change::Unmap(before)), Change::Unmap(range)) if before.end == range.start => {
            before.end = range.end;
        }
        (Some(Change::Protect(before, was)), Change::Protect(range, is))
            if before.end == range.start && was == is =>
        {
            before.end = range.end;
        }
        (
            Some(Change::Map {
                range: before,
                of: was,
            }),
            Change::Map { range, of },
        ) if before.end == range.start && was == of => {
            before.end = range.end;
        }
        _ => changes.push(change),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rustix::fs::makedev;

    use super::*;

    const TEXT: &str = "\
00400000-00452000 r-xp 00000000 08:02 173521 /usr/bin/dbus daemon
00e03000-00e24000 rw-p 00000000 00:00 0                          [heap]
35b1800000-35b1820000 r--s 00001000 08:02 135522 /usr/lib64/ld-2.15.so (deleted)
7ffff7fc1000-7ffff7fc3000 r-xp 00000000 00:00 0                  [vdso]
";

    #[test]
    fn a_list_of_mappings_is_read() {
        let mappings = read(&Maps::from(TEXT.as_bytes())).unwrap();
        assert_eq!(mappings.len(), 4);
        assert_eq!(mappings[0].path, "/usr/bin/dbus daemon");
        assert_eq!(mappings[0].protection.0, 5);
        assert_eq!(mappings[1].file, None);
        assert_eq!(mappings[2].file, Some((makedev(8, 2), 135_522)));
        assert_eq!(mappings[2].offset, 0x1000);
        assert!(mappings[2].is_shared && !mappings[2].is_private());
        assert!(mappings[3].is_kernels());
        assert!(read(&Maps::from(&b"nonsense"[..])).is_err());
    }

    /// A mapping of one of a few files, or of none.
    fn mapping(start: u64, pages: u64, kind: u8, protection: u8) -> Mapping {
        let start = start * 4096;
        Mapping {
            range: start..start + pages * 4096,
            protection: Protection(u64::from(protection)),
            is_shared: kind == 3,
            offset: if kind == 2 { start + 4096 } else { start },
            file: (kind > 0).then(|| (makedev(8, 2), u64::from(kind.min(2)))),
            path: String::new(),
        }
    }

    /// Mappings apart from each other, rising.
    fn mappings() -> impl Strategy<Value = Vec<Mapping>> {
        let one = (0_u64..4, 1_u64..6, 0_u8..4, 0_u8..8);
        prop::collection::vec(one, 0..12).prop_map(|all| {
            let mut next = 1;
            let place = |(gap, pages, kind, protection)| {
                let placed = mapping(next + gap, pages, kind, protection);
                next += gap + pages;
                placed
            };
            all.into_iter().map(place).collect()
        })
    }

    /// What a process sees at each page.
    type Picture = Vec<Option<(Option<(u64, u64)>, Option<u64>, bool, u64)>>;

    fn picture(mappings: &[Mapping]) -> Picture {
        let seen = |page: u64| {
            let address = page * 4096;
            let found = mappings
                .iter()
                .find(|mapping| mapping.range.contains(&address))?;
            let offset = found.offset + address - found.range.start;
            let offset = found.file.as_ref().map(|_| offset);
            Some((found.file, offset, found.is_shared, found.protection.0))
        };
        (0..128).map(seen).collect()
    }

    fn apply(picture: &mut Picture, change: &Change, wanted: &[Mapping]) {
        let goal = self::picture(wanted);
        let pages = |range: &Range<u64>| (range.start / 4096) as usize..(range.end / 4096) as usize;
        match change {
            Change::Unmap(range) => picture[pages(range)].fill(None),
            Change::Protect(range, protection) => {
                for page in &mut picture[pages(range)] {
                    page.as_mut().expect("nothing to protect").3 = protection.0;
                }
            }
            Change::Map { range, of } => {
                let source = &wanted[*of].range;
                assert!(source.start <= range.start && range.end <= source.end);
                let pages = pages(range);
                picture[pages.clone()].clone_from_slice(&goal[pages]);
            }
        }
    }

    proptest! {
        #[test]
        fn the_changes_lead_from_any_mappings_to_any_others(
            present in mappings(),
            wanted in mappings(),
        ) {
            let mut now = picture(&present);
            for change in changes(&present, &wanted, &(0..0)) {
                apply(&mut now, &change, &wanted);
            }
            prop_assert_eq!(now, picture(&wanted));
        }

        #[test]
        fn a_gap_is_where_nobody_maps_anything(
            one in mappings(),
            other in mappings(),
            from in 0_u64..64,
            pages in 1_u64..8,
        ) {
            let (from, length) = (from * 4096, pages * 4096);
            let found = gap(&[&one, &other], from, length).expect("there is room");
            let is_free = |at: u64| {
                let taken = one.iter().chain(&other);
                at >= from && taken.clone().all(|mapping| {
                    mapping.range.end <= at || at + length <= mapping.range.start
                })
            };
            prop_assert!(is_free(found));
            let before = (from..found).step_by(4096);
            prop_assert!(before.into_iter().all(|at| !is_free(at)));
        }

        #[test]
        fn nothing_is_done_where_nothing_has_changed(present in mappings()) {
            prop_assert_eq!(changes(&present, &present, &(0..0)), []);
        }
    }
}
