//! A page of a process that its supervisor puts arguments of calls into.

use std::io;
use std::ops::Range;

use surmise_sys::memory;
use surmise_sys::pagemap::PAGE;
use surmise_sys::ptrace::call;

use crate::held::Hand;

/// Above what the kernel keeps unmapped (vm.mmap_min_addr), below where it maps things by itself: so it is
/// never where the process had something, or shall have.
const ADDRESS: u64 = 0x2_0000;

const READ_AND_WRITE: u64 = 3;
/// MAP_PRIVATE, MAP_ANONYMOUS, MAP_FIXED_NOREPLACE of mmap(2).
const OWN_AT_ADDRESS: u64 = 0x02 | 0x20 | 0x10_0000;

/// The page, once it was needed.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    is_mapped: bool,
}

impl Scratch {
    /// Where it is, or will be.
    pub(crate) const RANGE: Range<u64> = ADDRESS..ADDRESS + PAGE;

    /// Puts bytes there, at most a page. Returns their address.
    pub(crate) fn write(&mut self, hand: &mut Hand<'_>, bytes: &[u8]) -> io::Result<u64> {
        if !self.is_mapped {
            let none = u64::MAX;
            let arguments = [ADDRESS, PAGE, READ_AND_WRITE, OWN_AT_ADDRESS, none, 0];
            hand.call(call::MMAP, arguments)?;
            self.is_mapped = true;
        }
        memory::write(hand.held.thread(), ADDRESS, bytes)?;
        Ok(ADDRESS)
    }

    /// Gives the page up.
    pub(crate) fn unmap(self, hand: &mut Hand<'_>) -> io::Result<()> {
        if self.is_mapped {
            hand.call(call::MUNMAP, [ADDRESS, PAGE, 0, 0, 0, 0])?;
        }
        Ok(())
    }
}
