//! What backs the pages of a process (Linux's admin-guide/mm/pagemap).

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use rustix::process::Pid;

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// The page map of a process, as it is now and will be until its exec.
#[derive(Debug)]
pub struct PageMap(File);

/// Pages in a row, all of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Their addresses, in bytes.
    pub range: Range<u64>,
    /// What they are.
    pub kind: PageKind,
}

/// What a page is that is not absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// A page of a file, unmodified by this process, or of shared memory.
    File,
    /// The page of zeros that all processes have one of.
    Zero,
    /// The process' own data in memory.
    Anonymous,
    /// The process' own data, swapped out.
    Swapped,
}

/// One page, as [`PageMap::entries`] tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(u64);

impl Entry {
    /// The frame, or the place in swap; `None` for who may not know (CAP_SYS_ADMIN).
    pub fn frame(self) -> Option<u64> {
        let frame = self.0 & ((1 << 55) - 1);
        (frame != 0).then_some(frame)
    }

    /// Whether no other process maps the page.
    pub fn is_exclusive(self) -> bool {
        self.0 & (1 << 56) != 0
    }
}

impl PageMap {
    /// That of a process.
    ///
    /// # Errors
    /// As `open`: who may trace the process may read it.
    pub fn open(process: Pid) -> io::Result<Self> {
        let path = format!("/proc/{}/pagemap", process.as_raw_nonzero());
        File::open(path).map(Self)
    }

    /// One entry a page of `range`, whose ends are pages'.
    ///
    /// # Errors
    /// As `read`; none at all once the process has ended.
    pub fn entries(&self, range: Range<u64>) -> io::Result<Vec<Entry>> {
        let mut bytes = vec![0; ((range.end - range.start) / PAGE * 8) as usize];
        self.0.read_exact_at(&mut bytes, range.start / PAGE * 8)?;
        let words = bytes.chunks_exact(8);
        Ok(words
            .map(|word| Entry(u64::from_ne_bytes(word.try_into().expect("eight bytes"))))
            .collect())
    }

    /// The pages of `range` that are not absent, rising.
    ///
    /// # Errors
    /// As `ioctl`: `ENOTTY` on a kernel before 6.7.
    pub fn regions(&self, range: Range<u64>) -> io::Result<Vec<Region>> {
        let mut found = Vec::new();
        let mut start = range.start;
        while start < range.end {
            let mut batch = [RawRegion::default(); BATCH];
            let mut request = Scan {
                size: size_of::<Scan>() as u64,
                flags: 0,
                start,
                end: range.end,
                walk_end: 0,
                vector: batch.as_mut_ptr() as u64,
                vector_length: BATCH as u64,
                max_pages: 0,
                category_inverted: 0,
                category_mask: 0,
                category_anyof_mask: PRESENT | SWAPPED,
                return_mask: PRESENT | SWAPPED | FILE | ZERO,
            };
            // SAFETY: the kernel writes `request` and at most `BATCH` regions of `batch`; both outlive
            // the call.
            let filled = unsafe { libc::ioctl(self.0.as_raw_fd(), PAGEMAP_SCAN, &raw mut request) };
            if filled < 0 {
                return Err(io::Error::last_os_error());
            }
            let filled = batch[..filled as usize].iter();
            found.extend(filled.map(|raw| Region {
                range: raw.start..raw.end,
                kind: raw.kind(),
            }));
            // How far the walk has come: less than asked for only when `batch` is full.
            if request.walk_end <= start {
                break;
            }
            start = request.walk_end;
        }
        Ok(found)
    }
}

/// How many regions one call tells.
const BATCH: usize = 512;

// Of the kernel's fs.h.
const FILE: u64 = 1 << 2;
const PRESENT: u64 = 1 << 3;
const SWAPPED: u64 = 1 << 4;
const ZERO: u64 = 1 << 5;
/// `_IOWR('f', 16, struct pm_scan_arg)`
const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;

/// `struct pm_scan_arg`
#[repr(C)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vector: u64,
    vector_length: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

const _: () = assert!(size_of::<Scan>() == 96);

/// `struct page_region`
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct RawRegion {
    start: u64,
    end: u64,
    categories: u64,
}

impl RawRegion {
    fn kind(self) -> PageKind {
        match self.categories {
            categories if categories & SWAPPED != 0 => PageKind::Swapped,
            categories if categories & ZERO != 0 => PageKind::Zero,
            categories if categories & FILE != 0 => PageKind::File,
            _ => PageKind::Anonymous,
        }
    }
}
