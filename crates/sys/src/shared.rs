//! Numbers that processes share which were forked from one another.

use std::io;
use std::ops::Deref;
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
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: maps new memory where there was none.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<Words>(),
                protection,
                flags,
                -1,
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
        // SAFETY: the mapping is large enough, aligned to a page, of zeros at first, for which the atomics have
        // a value, and lives as long as this value.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this size, and nobody has a reference into it any more.
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<Words>()) };
    }
}
