//! Results that a call might have, and has not.

use fastrand::Rng;

use crate::source::{Guess, Stale};
use surmise_syscalls::Syscall;

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
const RESULTS: &[(&[Syscall], &[i64])] = &[
    (
        &[Syscall::Open, Syscall::Openat, Syscall::Openat2],
        &[-ENOENT, -EACCES, -EMFILE, -EIO],
    ),
    (
        &[
            Syscall::Stat,
            Syscall::Lstat,
            Syscall::Newfstatat,
            Syscall::Statx,
        ],
        &[-ENOENT, -EACCES, -ENOTDIR],
    ),
    (&[Syscall::Fstat], &[-EIO]),
    (
        &[Syscall::Access, Syscall::Faccessat, Syscall::Faccessat2],
        &[-ENOENT, -EACCES, -EROFS],
    ),
    (
        &[Syscall::Readlink, Syscall::Readlinkat],
        &[-ENOENT, -EINVAL],
    ),
    (&[Syscall::Getdents, Syscall::Getdents64], &[0, -ENOENT]),
    (&[Syscall::Getcwd], &[-ENOENT]),
    (&[Syscall::Statfs, Syscall::Fstatfs], &[-ENOSYS, -EIO]),
    (
        &[Syscall::Getxattr, Syscall::Lgetxattr, Syscall::Fgetxattr],
        &[-ENODATA],
    ),
    (
        &[Syscall::Listxattr, Syscall::Llistxattr, Syscall::Flistxattr],
        &[0],
    ),
    (
        &[
            Syscall::Read,
            Syscall::Pread64,
            Syscall::Readv,
            Syscall::Preadv,
        ],
        &[0, -EIO],
    ),
    (
        &[Syscall::Write, Syscall::Pwrite64, Syscall::Writev],
        &[-ENOSPC, -EIO],
    ),
    (&[Syscall::Lseek], &[-EINVAL]),
    (
        &[Syscall::Fsync, Syscall::Fdatasync, Syscall::Fallocate],
        &[-EIO, -ENOSPC],
    ),
    (
        &[Syscall::Ftruncate, Syscall::Truncate],
        &[-EACCES, -ENOSPC],
    ),
    (&[Syscall::Mmap, Syscall::Mprotect], &[-ENOMEM, -EACCES]),
    (
        &[
            Syscall::Mkdir,
            Syscall::Mkdirat,
            Syscall::Symlink,
            Syscall::Symlinkat,
            Syscall::Link,
            Syscall::Linkat,
        ],
        &[-EEXIST, -ENOSPC],
    ),
    (
        &[Syscall::Unlink, Syscall::Unlinkat, Syscall::Rmdir],
        &[-ENOENT, -EACCES],
    ),
    (
        &[Syscall::Rename, Syscall::Renameat, Syscall::Renameat2],
        &[-EXDEV, -ENOENT],
    ),
    (
        &[
            Syscall::Chmod,
            Syscall::Fchmod,
            Syscall::Fchmodat,
            Syscall::Chown,
            Syscall::Fchown,
            Syscall::Fchownat,
            Syscall::Utimensat,
        ],
        &[-EPERM, -EROFS],
    ),
    (&[Syscall::Chdir, Syscall::Fchdir], &[-ENOENT, -EACCES]),
    (&[Syscall::Umask], &[0o777, 0]),
    (
        &[Syscall::Clone, Syscall::Fork, Syscall::Vfork],
        &[-EAGAIN, -ENOMEM],
    ),
    (&[Syscall::Execve, Syscall::Execveat], &[-ENOENT, -E2BIG]),
    (&[Syscall::Wait4, Syscall::Waitid], &[-ECHILD]),
    (&[Syscall::Kill, Syscall::Tgkill, Syscall::Tkill], &[-ESRCH]),
    (
        &[
            Syscall::Pipe,
            Syscall::Pipe2,
            Syscall::Socketpair,
            Syscall::Eventfd2,
            Syscall::EpollCreate1,
            Syscall::Socket,
        ],
        &[-EMFILE],
    ),
    (&[Syscall::Connect], &[-ECONNREFUSED]),
    (&[Syscall::EpollCtl], &[-ENOENT, -EEXIST]),
    (&[Syscall::Recvfrom, Syscall::Recvmsg], &[-ECONNRESET]),
    (
        &[
            Syscall::Poll,
            Syscall::Ppoll,
            Syscall::Select,
            Syscall::Pselect6,
            Syscall::EpollWait,
            Syscall::EpollPwait,
        ],
        &[0, -EINTR],
    ),
    (&[Syscall::Ioctl], &[-ENOTTY]),
    (&[Syscall::Fcntl], &[-EINVAL]),
    (
        &[Syscall::RtSigaction, Syscall::Prctl, Syscall::Prlimit64],
        &[-EINVAL],
    ),
    (&[Syscall::Flock], &[-EAGAIN]),
    (&[Syscall::Getpgid], &[1]),
];

/// The wrong results of a call; nothing for one that has none.
fn results(name: Syscall) -> &'static [i64] {
    let found = RESULTS.iter().find(|(names, _)| names.contains(&name));
    found.map_or(&[], |(_, results)| results)
}

/// Whether a call can be guessed wrong.
pub(super) fn has_wrong_results(name: Syscall) -> bool {
    !results(name).is_empty()
}

/// A result that is wrong, or would be only by chance.
pub(super) fn guess(rng: &mut Rng, name: Syscall, arguments: &[u64; 6]) -> Option<Guess> {
    let other = match name {
        Syscall::Stat | Syscall::Lstat | Syscall::Fstat => {
            Some(attributes(rng, arguments[1], [48, 88]))
        }
        Syscall::Newfstatat => Some(attributes(rng, arguments[2], [48, 88])),
        Syscall::Statx => Some(attributes(rng, arguments[4], [40, 112])),
        Syscall::Read | Syscall::Pread64 if arguments[2] > 1 => {
            Some(Guess::Short(rng.u64(1..arguments[2])))
        }
        Syscall::Write if arguments[2] > 1 => Some(Guess::Result(
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
    use surmise_syscalls::{Disposition, Kind, row_of};

    use super::*;

    #[test]
    fn every_call_that_is_guessed_is_one_that_is_heard_of() {
        for name in RESULTS.iter().flat_map(|(names, _)| *names) {
            let row = row_of(*name);
            let heard = |kind| row.disposition(kind) != Disposition::Allow;
            let cases = row.exceptions().iter();
            let some = cases.map(|case| case.disposition(Kind::Prediction));
            assert!(
                heard(Kind::Prediction) || some.into_iter().any(|case| case != Disposition::Allow),
                "{name} never comes to the supervisor"
            );
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_guesses() {
        let guesses = |seed| {
            let mut rng = Rng::with_seed(seed);
            let names = RESULTS.iter().flat_map(|(names, _)| *names);
            names
                .map(|name| guess(&mut rng, *name, &[3, 0x1000, 512, 0, 0x2000, 0]))
                .collect::<Vec<_>>()
        };
        assert_eq!(guesses(7), guesses(7));
        assert_ne!(guesses(7), guesses(8));
    }
}
