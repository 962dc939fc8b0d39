//! Numbers of the calls that a supervisor has a stopped thread make.

#![allow(missing_docs, reason = "each is the call of its name")]

pub const BRK: i64 = libc::SYS_brk;
pub const CHDIR: i64 = libc::SYS_chdir;
pub const CLONE: i64 = libc::SYS_clone;
pub const CLOSE: i64 = libc::SYS_close;
pub const CLOSE_RANGE: i64 = libc::SYS_close_range;
pub const EXECVE: i64 = libc::SYS_execve;
pub const EXIT: i64 = libc::SYS_exit;
pub const EXIT_GROUP: i64 = libc::SYS_exit_group;
pub const FACCESSAT: i64 = libc::SYS_faccessat;
pub const FGETXATTR: i64 = libc::SYS_fgetxattr;
pub const FSTAT: i64 = libc::SYS_fstat;
pub const GETITIMER: i64 = libc::SYS_getitimer;
pub const GETPID: i64 = libc::SYS_getpid;
pub const GETUID: i64 = libc::SYS_getuid;
pub const KILL: i64 = libc::SYS_kill;
pub const MADVISE: i64 = libc::SYS_madvise;
pub const MEMBARRIER: i64 = libc::SYS_membarrier;
pub const MMAP: i64 = libc::SYS_mmap;
pub const MREMAP: i64 = libc::SYS_mremap;
pub const MPROTECT: i64 = libc::SYS_mprotect;
pub const NEWFSTATAT: i64 = libc::SYS_newfstatat;
pub const OPENAT: i64 = libc::SYS_openat;
pub const DUP3: i64 = libc::SYS_dup3;
pub const FCNTL: i64 = libc::SYS_fcntl;
pub const MUNMAP: i64 = libc::SYS_munmap;
pub const PREAD64: i64 = libc::SYS_pread64;
pub const PRLIMIT64: i64 = libc::SYS_prlimit64;
pub const PRCTL: i64 = libc::SYS_prctl;
pub const RSEQ: i64 = libc::SYS_rseq;
pub const RT_SIGACTION: i64 = libc::SYS_rt_sigaction;
pub const RT_SIGQUEUEINFO: i64 = libc::SYS_rt_sigqueueinfo;
pub const SIGALTSTACK: i64 = libc::SYS_sigaltstack;
pub const SETITIMER: i64 = libc::SYS_setitimer;
pub const SET_ROBUST_LIST: i64 = libc::SYS_set_robust_list;
pub const SET_TID_ADDRESS: i64 = libc::SYS_set_tid_address;
pub const UMASK: i64 = libc::SYS_umask;
pub const WAIT4: i64 = libc::SYS_wait4;
pub const WAITID: i64 = libc::SYS_waitid;

/// Flags of [`CLONE`] for a copy of the process that is no child of its parent for `wait` without
/// `__WALL`, tells nobody of its end, and is the tracer's at once.
pub const CLONE_VESSEL: u64 = (libc::CLONE_UNTRACED | libc::CLONE_PTRACE) as u64;

/// As [`CLONE_VESSEL`], for a process that has the maker's memory and handlers of signals, and no signals of its own or the
/// maker's.
pub const CLONE_DEPUTY: u64 = CLONE_VESSEL | (libc::CLONE_VM | libc::CLONE_SIGHAND) as u64;

/// The calling thread's directory, for calls that end in `at` (AT_FDCWD of openat(2)).
pub const HERE: u64 = libc::AT_FDCWD as u64;

/// Command of [`PRCTL`]: the name of the thread.
pub const SET_NAME: u64 = libc::PR_SET_NAME as u64;

/// Command of [`PRCTL`]: where the thread has the kernel tell of its end.
pub const GET_TID_ADDRESS: u64 = libc::PR_GET_TID_ADDRESS as u64;

/// Command of [`PRCTL`]: what no rights follow from (capabilities(7)).
pub const GET_SECURE_BITS: u64 = libc::PR_GET_SECUREBITS as u64;

/// Commands of [`PRCTL`]: all that the kernel remembers of where a process has what its program was given.
pub const SET_MEMORY: u64 = libc::PR_SET_MM as u64;
pub const SET_MEMORY_MAP: u64 = libc::PR_SET_MM_MAP as u64;

/// Command of [`MEMBARRIER`], since Linux 6.3: which commands the process has registered for, a bit each.
pub const GET_REGISTRATIONS: u64 = 1 << 9;

/// Flags of [`MREMAP`].
pub const MOVE_IN_PLACE: u64 = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as u64;

/// Flag of [`CLOSE_RANGE`]: of a table of descriptors that nobody else has.
pub const UNSHARE_FILES: u64 = libc::CLOSE_RANGE_UNSHARE as u64;

/// Flag of [`WAIT4`]: also for children that tell nobody of their end.
pub const WAIT_ALL: u64 = libc::__WALL as u64;

/// Flag of [`WAIT4`]: it does not sleep.
pub const NO_HANG: u64 = libc::WNOHANG as u64;

/// Flags of [`WAITID`] that tell how a child has ended, and leave that to be told.
pub const WAIT_LOOK_AT_ENDED: u64 = (libc::WEXITED | libc::WNOHANG | libc::WNOWAIT) as u64;

/// Flags of [`WAITID`] that tell what a child would be reaped for, and leave that to be told.
pub const WAIT_LOOK: u64 =
    (libc::WEXITED | libc::WSTOPPED | libc::WCONTINUED | libc::WNOHANG | libc::WNOWAIT) as u64;
