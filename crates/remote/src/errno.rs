//! Error numbers, as programs get them.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

/// An error number of Linux (errno(3)); those that have a name here are what the state machines answer themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Errno(pub i32);

impl Errno {
    /// `EPERM`.
    pub const PERM: Self = Self(1);
    /// `ENOENT`.
    pub const NOENT: Self = Self(2);
    /// `EINTR`.
    pub const INTR: Self = Self(4);
    /// `EIO`.
    pub const IO: Self = Self(5);
    /// `EAGAIN`.
    pub const AGAIN: Self = Self(11);
    /// `EACCES`.
    pub const ACCES: Self = Self(13);
    /// `EEXIST`.
    pub const EXIST: Self = Self(17);
    /// `ENOTDIR`.
    pub const NOTDIR: Self = Self(20);
    /// `EISDIR`.
    pub const ISDIR: Self = Self(21);
    /// `EINVAL`.
    pub const INVAL: Self = Self(22);
    /// `EFBIG`.
    pub const FBIG: Self = Self(27);
    /// `ENOSPC`.
    pub const NOSPC: Self = Self(28);
    /// `EMLINK`.
    pub const MLINK: Self = Self(31);
    /// `ENAMETOOLONG`.
    pub const NAMETOOLONG: Self = Self(36);
    /// `ENOLCK`.
    pub const NOLCK: Self = Self(37);
    /// `ENOTEMPTY`.
    pub const NOTEMPTY: Self = Self(39);
    /// `ENODATA`.
    pub const NODATA: Self = Self(61);
    /// `EOPNOTSUPP`.
    pub const OPNOTSUPP: Self = Self(95);
    /// `ESTALE`: the object is no more.
    pub const STALE: Self = Self(116);
}

impl Display for Errno {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "error number {}", self.0)
    }
}
