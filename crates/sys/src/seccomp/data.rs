//! What a filter sees of a call, `struct seccomp_data`, and what it may answer.

use surmise_syscalls::Errno;

/// Byte offset of the call's number.
pub(super) const NUMBER: u32 = 0;
/// Byte offset of the way by which the kernel was entered.
pub(super) const ARCHITECTURE: u32 = 4;

/// Byte offset of the lower 32 bits of an argument, from 0.
pub(super) const fn argument_low(argument: usize) -> u32 {
    16 + 8 * argument as u32
}

/// Byte offset of the upper 32 bits of an argument, from 0.
pub(super) const fn argument_high(argument: usize) -> u32 {
    argument_low(argument) + 4
}

/// `AUDIT_ARCH_X86_64`: the `syscall` instruction, x32 calls included.
pub(super) const X86_64: u32 = 0xc000_003e;
/// `AUDIT_ARCH_I386`: `int 0x80`, and everything that a 32-bit program does.
pub(super) const I386: u32 = 0x4000_0003;
/// The bit that marks the number of an x32 call.
pub(super) const X32_BIT: u32 = 0x4000_0000;

/// What a filter answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The call runs.
    Allow,
    /// The call does not run, and returns this error.
    Refuse(Errno),
    /// The call waits until who listens has answered it.
    Notify,
}

impl Verdict {
    /// The value that the program returns.
    pub(super) const fn encode(self) -> u32 {
        match self {
            Self::Allow => libc::SECCOMP_RET_ALLOW,
            Self::Refuse(errno) => libc::SECCOMP_RET_ERRNO | errno.number() as u32,
            Self::Notify => libc::SECCOMP_RET_USER_NOTIF,
        }
    }
}
