//! What processes tell of their memory and of what they share: behaviours 9 and 11.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::pipe::PipeFlags;
use rustix::process::Pid;

use super::Deviation;
use super::task::{Task, ensure, hear, tell};
use crate::memory;
use crate::pagemap::{Entry, PAGE, PageKind, PageMap};

/// Private memory that this process never touches, for tasks that it makes.
pub(super) struct Pages {
    start: NonNull<c_void>,
    count: usize,
}

impl Pages {
    pub(super) fn map(count: usize) -> io::Result<Self> {
        let length = count * PAGE as usize;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: at an address of the kernel's choice, where nothing is.
        let start = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), length, protection, MapFlags::PRIVATE)
        }?;
        // Several pages that are one are written together. A kernel without such refuses, and is right.
        // SAFETY: changes no byte of it.
        let _ = unsafe { rustix::mm::madvise(start, length, Advice::LinuxNoHugepage) };
        let start = NonNull::new(start).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { start, count })
    }

    pub(super) fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    fn byte(&self, page: usize) -> *mut u8 {
        assert!(page < self.count, "a page that was not mapped");
        let start = self.start.as_ptr().cast::<u8>();
        start.wrapping_add(page * PAGE as usize)
    }

    fn write(&self, page: usize, byte: u8) {
        // SAFETY: in the mapping, to which nobody has a reference.
        unsafe { self.byte(page).write_volatile(byte) }
    }

    fn read(&self, page: usize) -> u8 {
        // SAFETY: in the mapping, where every byte is a value.
        unsafe { self.byte(page).read_volatile() }
    }

    /// What each of them is in a process; `None` for one that is absent.
    fn kinds(&self, map: &PageMap) -> io::Result<Vec<Option<PageKind>>> {
        let regions = map.regions(self.range())?;
        let addresses = self.range().step_by(PAGE as usize);
        let kind = |address| {
            let mut all = regions.iter();
            let found = all.find(|region| region.range.contains(&address));
            found.map(|region| region.kind)
        };
        Ok(addresses.map(kind).collect())
    }

    fn range(&self) -> std::ops::Range<u64> {
        self.address()..self.address() + self.count as u64 * PAGE
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping of `map`, to which nobody has a reference.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr(), self.count * PAGE as usize) };
    }
}

/// Written before the vessel's birth, and not since.
const KEPT: usize = 0;
/// Written before and since.
const CHANGED: usize = 1;
/// Only read.
const READ: usize = 2;
/// Never touched.
const ABSENT: usize = 3;

/// 9: of pages that a process wrote before the vessel's birth, one that it has not written since is both
/// processes', the same frame; one that it has is its own alone, another frame. The page of zeros is told
/// apart from written ones.
pub(super) fn written_pages_are_told() -> Result<(), Deviation> {
    let pages = Pages::map(4)?;
    let (goes, go) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let (done_reader, done) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let task = Task::start(&[goes.as_fd(), done.as_fd()], || {
        pages.write(KEPT, 1);
        pages.write(CHANGED, 1);
        tell(&done, pages.read(READ));
        let _ = hear(&goes);
        pages.write(CHANGED, 2);
        tell(&done, 0);
        loop {
            rustix::event::pause();
        }
    })?;
    hear(&done_reader)?;
    let mut hand = task.halt()?;
    let own = PageMap::open(task.pid())?;
    let before = own.entries(pages.range())?;
    let alone = |entries: &[Entry]| [KEPT, CHANGED].map(|page| entries[page].is_exclusive());
    ensure(alone(&before) == [true, true], || {
        "pages of one process are not told to be its own".into()
    })?;
    let vessel = hand.make_vessel(0)?;
    let other = PageMap::open(vessel.pid())?;
    let kinds = (pages.kinds(&own)?, pages.kinds(&other)?);
    ensure(
        are_as_written(&kinds.0, true) && are_as_written(&kinds.1, false),
        || {
            format!(
                "pages are told to be {:?}, the vessel's {:?}",
                kinds.0, kinds.1
            )
        },
    )?;
    let since = |page| {
        Ok::<_, io::Error>((
            own.entries(pages.range())?[page],
            other.entries(pages.range())?[page],
        ))
    };
    for page in [KEPT, CHANGED] {
        ensure(is_shared(since(page)?) == Some(true), || {
            "a page is not shared with the vessel at its birth".into()
        })?;
    }
    let registers = hand.registers().undisturbed();
    hand.go_on(&registers)?;
    tell(&go, 0);
    hear(&done_reader)?;
    let _halted = task.halt_again()?;
    ensure(is_shared(since(KEPT)?) == Some(true), || {
        "a page that was not written is told to be".into()
    })?;
    ensure(is_shared(since(CHANGED)?) == Some(false), || {
        "a page that was written is not told to be".into()
    })
}

/// Whether pages of these kinds are the four above.
fn are_as_written(kinds: &[Option<PageKind>], is_reader: bool) -> bool {
    let zeros = match kinds[READ] {
        Some(PageKind::Zero) => true,
        // A copy may get it again when it reads.
        None => !is_reader,
        Some(_) => false,
    };
    let written = [kinds[KEPT], kinds[CHANGED]];
    zeros && written == [Some(PageKind::Anonymous); 2] && kinds[ABSENT].is_none()
}

/// Whether two processes have one page; `None` where the ways to tell it disagree.
fn is_shared((own, other): (Entry, Entry)) -> Option<bool> {
    let by_count = match (own.is_exclusive(), other.is_exclusive()) {
        (false, false) => true,
        (true, _) => false,
        (false, true) => return None,
    };
    match (own.frame(), other.frame()) {
        (Some(own), Some(other)) if (own == other) != by_count => None,
        _ => Some(by_count),
    }
}

/// 11: two descriptors are told to be of one open file or not, two processes to have one memory or not.
pub(super) fn shared_things_are_told() -> Result<(), Deviation> {
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let task = Task::idle(&[reader.as_fd(), writer.as_fd()], || {})?;
    let own = rustix::process::getpid();
    let same = |own_fd: &dyn AsRawFd, fd: &dyn AsRawFd| {
        memory::is_same_file((own, own_fd.as_raw_fd()), (task.pid(), fd.as_raw_fd()))
    };
    ensure(same(&reader, &reader)? && !same(&reader, &writer)?, || {
        "one open file is told to be two, or two one".into()
    })?;
    let mut hand = task.halt()?;
    let copy = hand.make_vessel(0)?;
    let sharing = hand.make_vessel(libc::CLONE_VM)?;
    let shared = |other: Pid| memory::is_shared(task.pid(), other);
    ensure(shared(sharing.pid())? && !shared(copy.pid())?, || {
        "one memory is told to be two, or two one".into()
    })
}
