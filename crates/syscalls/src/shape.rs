//! What an argument of a call is.

/// The meaning of one argument, as far as tracking and printing need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// A file descriptor.
    Fd,
    /// A directory descriptor that a relative path starts from, or `AT_FDCWD`.
    DirFd,
    /// Address of a NUL-terminated path.
    Path,
    /// Address of a NUL-terminated string that names no file here: a link's target, an attribute.
    Text,
    /// Address of memory that the kernel reads.
    In,
    /// Address of memory that the kernel writes.
    Out,
    /// Address of memory that the kernel reads and writes.
    InOut,
    /// Address of an array of `iovec` whose buffers the kernel reads.
    InVectors,
    /// Address of an array of `iovec` whose buffers the kernel writes.
    OutVectors,
    /// An address, or an argument whose meaning depends on a command.
    Address,
    /// A number of bytes, or of elements of the array before it.
    Length,
    /// A position in a file, in bytes.
    Offset,
    /// Bits, each with a meaning of its own.
    Flags,
    /// Permission bits, or kinds of access.
    Mode,
    /// Selects one of several operations.
    Command,
    /// A process, thread or process group.
    Pid,
    /// A user or group.
    Owner,
    /// A signal number.
    Signal,
    /// A plain number.
    Integer,
}

impl Shape {
    /// One lower-case word, for `surmise syscalls`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fd => "fd",
            Self::DirFd => "dirfd",
            Self::Path => "path",
            Self::Text => "text",
            Self::In => "in",
            Self::Out => "out",
            Self::InOut => "inout",
            Self::InVectors => "invectors",
            Self::OutVectors => "outvectors",
            Self::Address => "address",
            Self::Length => "length",
            Self::Offset => "offset",
            Self::Flags => "flags",
            Self::Mode => "mode",
            Self::Command => "command",
            Self::Pid => "pid",
            Self::Owner => "owner",
            Self::Signal => "signal",
            Self::Integer => "integer",
        }
    }
}
