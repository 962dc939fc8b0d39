//! The error numbers that a refused call answers with.

use std::fmt;

/// An error number of Linux on x86-64; only those that the table uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Errno {
    /// EPERM: the caller lacks the right.
    Perm = 1,
    /// EACCES: the system's settings forbid it.
    Acces = 13,
    /// ENOSYS: the kernel has no such call.
    NoSys = 38,
    /// EAFNOSUPPORT: the kernel has no such address family.
    AfNoSupport = 97,
}

impl Errno {
    /// The number that the caller finds in `errno`.
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// Whether a refusal with it is news. ENOSYS is what a kernel without the call answers, and what
    /// programs try such calls for: they go on by another way, and nothing has failed.
    pub const fn is_told(self) -> bool {
        !matches!(self, Self::NoSys)
    }

    /// The name in `errno.h`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Perm => "EPERM",
            Self::Acces => "EACCES",
            Self::NoSys => "ENOSYS",
            Self::AfNoSupport => "EAFNOSUPPORT",
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
