//! Results that a call might have, and has not.

use fastrand::Rng;

/// What a task is told instead of waiting for the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guess {
    /// What the call returns, an error number where it is negative. It does not happen.
    Result(i64),
    /// The truth: the call happens.
    Truth,
    /// Attributes of a file as they are not.
    Attributes(Stale),
    /// As many bytes of a file as this, though there may be more.
    Short(u64),
}

/// Where a call puts attributes, and what is wrong with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stale {
    /// The address of a `struct stat`, or of a `struct statx`.
    pub(crate) address: u64,
    /// Where in it the word is that is changed, in bytes.
    pub(crate) offset: u64,
    /// What is added to the word.
    pub(crate) change: i64,
}

// Error numbers of Linux (errno(3)).
const EPERM: i64 = 1;
const ENOENT: i64 = 2;
const ESRCH: i64 = 3;
const EINTR: i64 = 4;
const EIO: i64 = 5;
const E2BIG: i64 = 7;
const EAGAIN: i64 = 11;
const ENOMEM: i64 = 12;
const EACCES: i64 = 13;
const EEXIST: i64 = 17;
const EXDEV: i64 = 18;
const ENOTDIR: i64 = 20;
const EINVAL: i64 = 22;
const EMFILE: i64 = 24;
const ENOTTY: i64 = 25;
const ENOSPC: i64 = 28;
const EROFS: i64 = 30;
const ENOSYS: i64 = 38;
const ENODATA: i64 = 61;
const ECONNRESET: i64 = 104;
const ECONNREFUSED: i64 = 111;
const ECHILD: i64 = 10;

/// Calls and their wrong results: error numbers are negative, as the kernel returns them.
const RESULTS: &[(&[&str], &[i64])] = &[
    (
        &["open", "openat", "openat2"],
        &[-ENOENT, -EACCES, -EMFILE, -EIO],
    ),
    (
        &["stat", "lstat", "newfstatat", "statx"],
        &[-ENOENT, -EACCES, -ENOTDIR],
    ),
    (&["fstat"], &[-EIO]),
    (
        &["access", "faccessat", "faccessat2"],
        &[-ENOENT, -EACCES, -EROFS],
    ),
    (&["readlink", "readlinkat"], &[-ENOENT, -EINVAL]),
    (&["getdents", "getdents64"], &[0, -ENOENT]),
    (&["getcwd"], &[-ENOENT]),
    (&["statfs", "fstatfs"], &[-ENOSYS, -EIO]),
    (&["getxattr", "lgetxattr", "fgetxattr"], &[-ENODATA]),
    (&["listxattr", "llistxattr", "flistxattr"], &[0]),
    (&["read", "pread64", "readv", "preadv"], &[0, -EIO]),
    (&["write", "pwrite64", "writev"], &[-ENOSPC, -EIO]),
    (&["lseek"], &[-EINVAL]),
    (&["fsync", "fdatasync", "fallocate"], &[-EIO, -ENOSPC]),
    (&["ftruncate", "truncate"], &[-EACCES, -ENOSPC]),
    (&["mmap", "mprotect"], &[-ENOMEM, -EACCES]),
    (
        &["mkdir", "mkdirat", "symlink", "symlinkat", "link", "linkat"],
        &[-EEXIST, -ENOSPC],
    ),
    (&["unlink", "unlinkat", "rmdir"], &[-ENOENT, -EACCES]),
    (&["rename", "renameat", "renameat2"], &[-EXDEV, -ENOENT]),
    (
        &[
            "chmod",
            "fchmod",
            "fchmodat",
            "chown",
            "fchown",
            "fchownat",
            "utimensat",
        ],
        &[-EPERM, -EROFS],
    ),
    (&["chdir", "fchdir"], &[-ENOENT, -EACCES]),
    (&["umask"], &[0o777, 0]),
    (&["clone", "fork", "vfork"], &[-EAGAIN, -ENOMEM]),
    (&["execve", "execveat"], &[-ENOENT, -E2BIG]),
    (&["wait4", "waitid"], &[-ECHILD]),
    (&["kill", "tgkill", "tkill"], &[-ESRCH]),
    (
        &[
            "pipe",
            "pipe2",
            "socketpair",
            "eventfd2",
            "epoll_create1",
            "socket",
        ],
        &[-EMFILE],
    ),
    (&["connect"], &[-ECONNREFUSED]),
    (&["epoll_ctl"], &[-ENOENT, -EEXIST]),
    (&["recvfrom", "recvmsg"], &[-ECONNRESET]),
    (
        &[
            "poll",
            "ppoll",
            "select",
            "pselect6",
            "epoll_wait",
            "epoll_pwait",
        ],
        &[0, -EINTR],
    ),
    (&["ioctl"], &[-ENOTTY]),
    (&["fcntl"], &[-EINVAL]),
    (&["rt_sigaction", "prctl", "prlimit64"], &[-EINVAL]),
    (&["flock"], &[-EAGAIN]),
    (&["getpgid"], &[1]),
];

/// The wrong results of a call; nothing for one that has none.
fn results(name: &str) -> &'static [i64] {
    let found = RESULTS.iter().find(|(names, _)| names.contains(&name));
    found.map_or(&[], |(_, results)| results)
}

/// Whether a call can be guessed wrong.
pub(super) fn has_wrong_results(name: &str) -> bool {
    !results(name).is_empty()
}

/// A result that is wrong, or would be only by chance.
pub(super) fn guess(rng: &mut Rng, name: &str, arguments: &[u64; 6]) -> Option<Guess> {
    let other = match name {
        "stat" | "lstat" | "fstat" => Some(attributes(rng, arguments[1], [48, 88])),
        "newfstatat" => Some(attributes(rng, arguments[2], [48, 88])),
        "statx" => Some(attributes(rng, arguments[4], [40, 112])),
        "read" | "pread64" if arguments[2] > 1 => Some(Guess::Short(rng.u64(1..arguments[2]))),
        "write" if arguments[2] > 1 => Some(Guess::Result(
            rng.u64(1..arguments[2].min(1 << 30)).cast_signed(),
        )),
        _ => None,
    };
    match other {
        Some(other) if rng.bool() => Some(other),
        _ => rng
            .choice(results(name))
            .map(|&result| Guess::Result(result)),
    }
}

/// A size that is too large, or a time of modification that is an hour too early.
fn attributes(rng: &mut Rng, address: u64, [size, modified]: [u64; 2]) -> Guess {
    let (offset, change) = match rng.bool() {
        true => (size, 4097),
        false => (modified, -3600),
    };
    Guess::Attributes(Stale {
        address,
        offset,
        change,
    })
}

#[cfg(test)]
mod tests {
    use surmise_syscalls::{Disposition, Kind, row_named};

    use super::*;

    #[test]
    fn every_call_that_is_guessed_is_one_that_is_heard_of() {
        for name in RESULTS.iter().flat_map(|(names, _)| *names) {
            let row = row_named(name).unwrap_or_else(|| panic!("no row named {name}"));
            let heard = |kind| row.disposition(kind) != Disposition::Allow;
            let cases = row.exceptions().iter();
            let some = cases.map(|case| case.disposition(Kind::Prediction));
            assert!(
                heard(Kind::Prediction) || some.into_iter().any(|case| case != Disposition::Allow),
                "{name} never comes to the speculator"
            );
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_guesses() {
        let guesses = |seed| {
            let mut rng = Rng::with_seed(seed);
            let names = RESULTS.iter().flat_map(|(names, _)| *names);
            names
                .map(|name| guess(&mut rng, name, &[3, 0x1000, 512, 0, 0x2000, 0]))
                .collect::<Vec<_>>()
        };
        assert_eq!(guesses(7), guesses(7));
        assert_ne!(guesses(7), guesses(8));
    }
}
