//! INIT: what both sides can do, and what of it this session uses. Pure.

use crate::abi::{self, output};
use crate::{Capabilities, Init};

/// Bounds of [`Config::write_bytes_max`]: the kernel's least, and what 16 bits of pages hold.
const WRITE_BYTES_MIN: usize = 4096;
const PAGES_MAX: usize = u16::MAX as usize;

/// The data that a request carries at most where `MAX_PAGES` was not agreed, in pages.
const PAGES_WITHOUT_MAX_PAGES: usize = 32;

/// The largest value or list of extended attributes (`XATTR_SIZE_MAX`) in bytes.
const XATTR_BYTES_MAX: usize = 64 << 10;

/// How many requests that nobody waits for (read-ahead, write-back, asynchronous I/O) may be
/// under way, and from how many on the kernel holds back.
const BACKGROUND_MAX: u16 = 64;
const CONGESTION_THRESHOLD: u16 = 48;

/// What a session asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The most that one read or write carries, in bytes; rounded to whole pages.
    pub write_bytes_max: usize,
    /// How many threads read requests; at least one.
    pub threads: usize,
    /// What to take of that which the kernel offers.
    pub wanted: Capabilities,
}

impl Default for Config {
    /// 1 MiB, two threads, [`Capabilities::LOCAL_VIEW`].
    fn default() -> Self {
        Self {
            write_bytes_max: 1 << 20,
            threads: 2,
            wanted: Capabilities::LOCAL_VIEW,
        }
    }
}

impl Config {
    /// [`write_bytes_max`](Self::write_bytes_max) as it is used, on pages of `page_bytes`.
    pub(crate) fn whole_pages(&self, page_bytes: usize) -> usize {
        let pages = self
            .write_bytes_max
            .max(WRITE_BYTES_MIN)
            .div_ceil(page_bytes);
        pages.min(PAGES_MAX) * page_bytes
    }
}

/// What the handshake led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// The minor version of the protocol in use.
    pub minor: u32,
    /// What both sides do.
    pub capabilities: Capabilities,
    /// The most that one write carries, in bytes.
    pub write_bytes_max: usize,
}

/// The protocol since which all names can be made to expire at once (Linux 6.16).
const MINOR_WITH_EPOCHS: u32 = 44;

impl Negotiated {
    /// Whether [`Notifier::expire_all_entries`](crate::Notifier::expire_all_entries) exists.
    pub fn has_epochs(&self) -> bool {
        self.minor >= MINOR_WITH_EPOCHS
    }

    /// What a session does with a kernel's offer, on pages of `page_bytes`.
    pub(crate) fn new(config: &Config, init: &Init, page_bytes: usize) -> Self {
        let mut wanted = config.wanted;
        if wanted.contains(Capabilities::NO_OPEN_SUPPORT) {
            wanted.remove(Capabilities::ATOMIC_O_TRUNC);
        }
        let (low, high) = (wanted & init.capabilities).to_wire();
        // Reading the agreed set back through the wire drops the upper half where there is none.
        let capabilities = Capabilities::from_wire(low, high);
        Self {
            minor: init.minor.min(abi::MINOR),
            capabilities,
            write_bytes_max: config.whole_pages(page_bytes),
        }
    }

    pub(crate) fn to_wire(self, init: &Init, page_bytes: usize) -> output::InitOut {
        let (flags, flags2) = self.capabilities.to_wire();
        let max_pages = u16::try_from(self.write_bytes_max / page_bytes).unwrap_or(u16::MAX);
        output::InitOut {
            major: abi::MAJOR,
            minor: self.minor,
            max_readahead: init.readahead_bytes_max,
            flags,
            max_background: BACKGROUND_MAX,
            congestion_threshold: CONGESTION_THRESHOLD,
            max_write: u32::try_from(self.write_bytes_max).unwrap_or(u32::MAX),
            time_gran: 1,
            max_pages,
            flags2,
            max_stack_depth: u32::from(self.capabilities.contains(Capabilities::PASSTHROUGH)),
            ..Default::default()
        }
    }
}

/// The size in bytes of a buffer that any request fits.
pub(crate) fn request_bytes_max(write_bytes_max: usize, page_bytes: usize) -> usize {
    (write_bytes_max + page_bytes).max(abi::READ_BUFFER_MIN)
}

/// The size in bytes of a buffer that the data of any reply fits.
pub(crate) fn reply_bytes_max(write_bytes_max: usize, page_bytes: usize) -> usize {
    write_bytes_max
        .max(PAGES_WITHOUT_MAX_PAGES * page_bytes)
        .max(XATTR_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERYTHING: Init = Init {
        major: 7,
        minor: 45,
        readahead_bytes_max: 131_072,
        capabilities: Capabilities::from_bits_retain(u64::MAX),
    };

    #[test]
    fn only_what_is_wanted_and_offered_is_taken() {
        let config = Config::default();
        let negotiated = Negotiated::new(&config, &EVERYTHING, 4096);
        assert_eq!(negotiated.capabilities, Capabilities::LOCAL_VIEW);
        assert_eq!(negotiated.write_bytes_max, 1 << 20);

        let offered = Capabilities::ASYNC_READ | Capabilities::INIT_EXT;
        let offer = Init {
            capabilities: offered,
            minor: 36,
            ..EVERYTHING
        };
        let negotiated = Negotiated::new(&config, &offer, 4096);
        assert_eq!(negotiated.capabilities, offered);
        assert_eq!(negotiated.minor, 36);
    }

    #[test]
    fn the_upper_half_needs_the_extension() {
        let offered = Capabilities::all() - Capabilities::INIT_EXT;
        let offer = Init {
            capabilities: offered,
            ..EVERYTHING
        };
        let negotiated = Negotiated::new(&Config::default(), &offer, 4096);
        assert!(
            !negotiated
                .capabilities
                .contains(Capabilities::DIRECT_IO_ALLOW_MMAP)
        );
        assert_eq!(negotiated.to_wire(&offer, 4096).flags2, 0);
    }

    #[test]
    fn opens_without_messages_leave_truncation_to_the_kernel() {
        let wanted = Capabilities::LOCAL_VIEW | Capabilities::NO_OPEN_SUPPORT;
        let config = Config {
            wanted,
            ..Config::default()
        };
        let negotiated = Negotiated::new(&config, &EVERYTHING, 4096);
        assert!(
            !negotiated
                .capabilities
                .contains(Capabilities::ATOMIC_O_TRUNC)
        );
    }

    #[test]
    fn sizes_are_whole_pages_within_bounds() {
        let sized = |bytes, page| {
            let config = Config {
                write_bytes_max: bytes,
                ..Config::default()
            };
            let negotiated = Negotiated::new(&config, &EVERYTHING, page);
            let wire = negotiated.to_wire(&EVERYTHING, page);
            (negotiated.write_bytes_max, wire.max_write, wire.max_pages)
        };
        assert_eq!(sized(1, 4096), (4096, 4096, 1));
        assert_eq!(sized(5000, 4096), (8192, 8192, 2));
        assert_eq!(sized(1 << 20, 65536), (1 << 20, 1 << 20, 16));
        assert_eq!(sized(usize::MAX, 4096), (65535 * 4096, 65535 * 4096, 65535));
    }
}
