//! Calls whose disposition depends on an argument. The first exception that matches holds.
//!
//! A filter sees the argument registers, not what they point to; so an exception can depend on a
//! command or a flag word, but never on a structure.

use crate::disposition::Disposition::{Allow, Hold, Track, Wait};
use crate::disposition::{EAFNOSUPPORT, EPERM};
use crate::reach::Reach;
use crate::row::{Exception, bits, int, whole};

/// Terminals would take typed input from a domain, and a few requests are so common and so
/// harmless that waiting for them would stop every program that asks "is this a terminal?".
#[rustfmt::skip]
pub(super) const IOCTL: &[Exception] = &[
    int(1, 0x5412, [EPERM, Wait,  Wait],  "TIOCSTI types into the terminal of the person outside"),
    int(1, 0x541c, [EPERM, Wait,  Wait],  "TIOCLINUX pastes into the console outside"),
    int(1, 0x5401, [Allow, Track, Allow], "TCGETS observes a terminal"),
    int(1, 0x540f, [Allow, Track, Allow], "TIOCGPGRP observes a terminal"),
    int(1, 0x5413, [Allow, Track, Allow], "TIOCGWINSZ observes a terminal"),
    int(1, 0x541b, [Allow, Track, Allow], "FIONREAD observes what waits to be read"),
    int(1, 0x5421, [Allow, Track, Allow], "FIONBIO changes a status flag, as fcntl does"),
    int(1, 0x5450, [Allow, Track, Allow], "FIONCLEX changes a descriptor flag, as fcntl does"),
    int(1, 0x40049409, [Allow, Track, Allow], "FICLONE fails where the view serves the file"),
    int(1, 0x4020940d, [Allow, Track, Allow], "FICLONERANGE fails where the view serves the file"),
    int(1, 0x5451, [Allow, Track, Allow], "FIOCLEX changes a descriptor flag, as fcntl does"),
];

/// Families that no network namespace contains.
#[rustfmt::skip]
pub(super) const SOCKET: &[Exception] = &[
    int(0, 40, [EAFNOSUPPORT, Wait, Wait], "AF_VSOCK reaches the hypervisor from any namespace"),
    int(0, 42, [EAFNOSUPPORT, Wait, Wait], "AF_QIPCRTR reaches the modem from any namespace"),
];

/// The two ways to begin to trace a process by its number: it may be one outside, which has none here.
#[rustfmt::skip]
pub(super) const PTRACE: &[Exception] = &[
    int(0,     16, [Allow, Wait, Allow], "PTRACE_ATTACH: the process may be one outside").reaching(Reach::Process),
    int(0, 0x4206, [Allow, Wait, Allow], "PTRACE_SEIZE: the process may be one outside").reaching(Reach::Process),
];

/// A filter that tells a listener. Only the operation that sets a filter takes this flag.
#[rustfmt::skip]
pub(super) const SECCOMP: &[Exception] = &[
    bits(1, 0x8, 0x8, [Allow, Wait, Allow], "SECCOMP_FILTER_FLAG_NEW_LISTENER: a chain has one").reaching(Reach::Calls),
];

/// Without a new value they only tell the present one.
#[rustfmt::skip]
pub(super) const RT_SIGACTION: &[Exception] = &[
    whole(1, 0, [Allow, Allow, Allow], "observes itself"),
];

/// As [`RT_SIGACTION`].
#[rustfmt::skip]
pub(super) const SIGALTSTACK: &[Exception] = &[
    whole(0, 0, [Allow, Allow, Allow], "observes itself"),
];

/// Access mode, O_CREAT and O_TRUNC: without them a file is only read.
#[rustfmt::skip]
pub(super) const OPEN: &[Exception] = &[
    bits(1, 0x243, 0, [Allow, Track, Allow], "observes a file"),
];

/// As [`OPEN`].
#[rustfmt::skip]
pub(super) const OPENAT: &[Exception] = &[
    bits(2, 0x243, 0, [Allow, Track, Allow], "observes a file"),
];

/// Without an address it goes where the socket is connected to.
#[rustfmt::skip]
pub(super) const SENDTO: &[Exception] = &[
    whole(4, 0, [Allow, Hold, Hold], "output where it leaves, tracked inside"),
];

/// The private and shared types of a map differ in their lowest bit.
#[rustfmt::skip]
pub(super) const MMAP: &[Exception] = &[
    bits(3, 0x21, 0x21, [Allow, Wait,  Allow], "shared memory without a file"),
    bits(3,  0x1,  0x1, [Allow, Track, Track], "MAP_SHARED: stores that rollback cannot see, unless nobody can store by it"),
    bits(3, 0x20, 0x20, [Allow, Allow, Allow], "MAP_ANONYMOUS: memory, which the checkpoint holds"),
];

/// Advice that is more than advice.
#[rustfmt::skip]
pub(super) const MADVISE: &[Exception] = &[
    int(2,  9, [Allow, Wait, Wait],  "MADV_REMOVE punches a hole in the mapped file"),
    int(2, 10, [Allow, Wait, Allow], "MADV_DONTFORK keeps pages out of a checkpoint"),
    int(2, 18, [Allow, Wait, Allow], "MADV_WIPEONFORK keeps pages out of a checkpoint"),
];

/// The table is the process's own, and every program looks at it; status flags belong to the
/// description, which others may share. Locks and leases cannot be taken back once handed over.
#[rustfmt::skip]
pub(super) const FCNTL: &[Exception] = &[
    int(1,    0, [Allow, Allow, Allow], "F_DUPFD: the checkpoint holds the table"),
    int(1,    1, [Allow, Allow, Allow], "F_GETFD observes its own table"),
    int(1,    2, [Allow, Allow, Allow], "F_SETFD: the checkpoint holds the table"),
    int(1, 1030, [Allow, Allow, Allow], "F_DUPFD_CLOEXEC: the checkpoint holds the table"),
    int(1,    6, [Allow, Wait, Allow], "F_SETLK: a lock handed over cannot be taken back"),
    int(1,    7, [Allow, Wait, Allow], "F_SETLKW: a lock handed over cannot be taken back"),
    int(1,   37, [Allow, Wait, Allow], "F_OFD_SETLK: a lock handed over cannot be taken back"),
    int(1,   38, [Allow, Wait, Allow], "F_OFD_SETLKW: a lock handed over cannot be taken back"),
    int(1, 1024, [Allow, Wait, Allow], "F_SETLEASE: a broken lease cannot be mended"),
    int(1, 1026, [Allow, Wait, Allow], "F_NOTIFY: events already sent cannot be taken back"),
];

/// Only a wake matters: a task that waits is woken by one that was itself free to wake it. The
/// private flag says that all waiters share the caller's memory, and so its dependencies.
#[rustfmt::skip]
pub(super) const FUTEX: &[Exception] = &[
    bits(1, 0x7f, 0, [Allow, Allow, Allow], "FUTEX_WAIT wakes nobody"),
    bits(1, 0x7f, 9, [Allow, Allow, Allow], "FUTEX_WAIT_BITSET wakes nobody"),
    bits(1, 0x80, 0, [Allow, Wait,  Allow], "may wake a task that does not depend on the caller"),
];

/// As [`FUTEX`].
#[rustfmt::skip]
pub(super) const FUTEX_WAKE: &[Exception] = &[
    bits(3, 0x80, 0, [Allow, Wait, Allow], "may wake a task that does not depend on the caller"),
];

/// A shared map that was only read may become writable; that it can was heard when it was made.
#[rustfmt::skip]
pub(super) const MPROTECT: &[Exception] = &[
    bits(2, 0x2, 0x2, [Allow, Track, Allow], "PROT_WRITE: stores to a shared map begin"),
];

/// Segment bases, which every thread sets at its start.
#[rustfmt::skip]
pub(super) const ARCH_PRCTL: &[Exception] = &[
    bits(0, 0xffff_fff8, 0x1000, [Allow, Allow, Allow], "bases of FS and GS, held with the registers"),
];

/// What every start of a program or growth of a heap asks for.
#[rustfmt::skip]
pub(super) const PRCTL: &[Exception] = &[
    int(0,         15, [Allow, Track, Allow], "PR_SET_NAME: noted, and given back"),
    int(0,         16, [Allow, Allow, Allow], "PR_GET_NAME observes itself"),
    int(0,         23, [Allow, Allow, Allow], "PR_CAPBSET_READ observes itself"),
    int(0,         40, [Allow, Allow, Allow], "PR_GET_TID_ADDRESS observes itself"),
    int(0, 0x53564d41, [Allow, Allow, Allow], "PR_SET_VMA names a map, which shows nothing"),
];

/// A limit is only read when no new one is given.
#[rustfmt::skip]
pub(super) const PRLIMIT64: &[Exception] = &[
    whole(2, 0, [Allow, Allow, Allow], "observes limits: no new one is given"),
];
