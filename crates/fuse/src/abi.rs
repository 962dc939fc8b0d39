//! The kernel's wire format: `include/uapi/linux/fuse.h`, protocol 7.45 (Linux 6.18).
//!
//! Structures keep the kernel's names without the `fuse_` prefix, and its field names, so that
//! either can be searched for in the header. Numbers are in the machine's byte order.

pub(crate) mod flags;
pub(crate) mod input;
pub(crate) mod notify;
pub(crate) mod opcode;
pub(crate) mod output;

/// The major version spoken here; another one is another protocol.
pub(crate) const MAJOR: u32 = 7;

/// The newest minor version known here.
pub(crate) const MINOR: u32 = 45;

/// The oldest minor version served: Linux 5.4, the first whose structures all have the sizes
/// below. What came later is negotiated by flag or refused with `ENOSYS`.
pub(crate) const MINOR_MIN: u32 = 31;

/// The smallest buffer with which the kernel lets a request be read (`FUSE_MIN_READ_BUFFER`).
pub(crate) const READ_BUFFER_MIN: usize = 8192;

/// Declares one wire structure and proves its size in bytes.
macro_rules! wire {
    ($($(#[$doc:meta])* $name:ident: $size:literal { $($field:ident: $type:ty),+ $(,)? })+) => {$(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[derive(
            zerocopy::FromBytes,
            zerocopy::IntoBytes,
            zerocopy::KnownLayout,
            zerocopy::Immutable,
        )]
        pub(crate) struct $name { $(pub(crate) $field: $type),+ }
        const _: () = assert!(size_of::<$name>() == $size);
    )+};
}
pub(crate) use wire;
