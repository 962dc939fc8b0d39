//! Numbers that processes share: those that were forked from one another, or that opened the same file.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// The numbers, all 0 at first.
#[derive(Debug)]
#[repr(C)]
pub struct Words {
    /// For counting.
    pub counters: [AtomicU64; 128],
    /// For waiting on, too (futex(2)).
    pub signals: [AtomicU32; 16],
}

/// A page of [`Words`]: this process', and every process' that is forked from it from now on. After an exec
/// a process has it no more.
#[derive(Debug)]
pub struct SharedWords(NonNull<Words>);

// SAFETY: it leads to memory that lives until the value is dropped, and that is only reached through atomics.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// # Errors
    /// As mmap(2): no memory is left.
    pub fn new() -> io::Result<Self> {
        Self::map(libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1)
    }

    /// The numbers at the begin of a file, which is made long enough for them: all who open it have the same.
    /// Who may open it must not make it shorter, for that would end them all with SIGBUS.
    ///
    /// # Errors
    /// As ftruncate(2) and mmap(2).
    pub fn of_file(file: &File) -> io::Result<Self> {
        let size = size_of::<Words>() as u64;
        if file.metadata()?.len() < size {
            file.set_len(size)?;
        }
        Self::map(libc::MAP_SHARED, file.as_raw_fd())
    }

    fn map(flags: libc::c_int, descriptor: libc::c_int) -> io::Result<Self> {
        // SAFETY: maps new memory where there was none.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<Words>(),
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                descriptor,
                0,
            )
        };
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self(NonNull::new(page.cast()).expect("it was mapped")))
    }
}

impl Deref for SharedWords {
    type Target = Words;

    fn deref(&self) -> &Words {
        // SAFETY: the mapping is large enough, aligned to a page, and lives as long as this value; the
        // atomics have a value for whatever a file holds.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this size, and nobody has a reference into it any more.
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<Words>()) };
    }
}
