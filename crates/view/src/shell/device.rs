//! Device numbers, as programs and as FUSE write them.

use rustix::fs::{major, makedev, minor};

/// The kernel's encoding of a device number, `new_encode_dev` in linux/kdev_t.h.
pub(super) fn encoded(special: u64) -> u32 {
    let (major, minor) = (major(special), minor(special));
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// The inverse of [`encoded`].
pub(super) fn special(device: u32) -> u64 {
    let major = (device >> 8) & 0xfff;
    let minor = (device & 0xff) | ((device >> 12) & 0xfff00);
    makedev(major, minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding_goes_there_and_back() {
        for (major, minor) in [(0, 0), (8, 1), (259, 70_000), (0xfff, 0xf_ffff)] {
            let device = makedev(major, minor);
            assert_eq!(special(encoded(device)), device);
        }
    }
}
