//! Names and attributes of files in the view. To look changes nothing; what is changed the view can undo, and
//! nobody else could.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use rustix::io::Errno;

use surmise_syscalls::Syscall;

use super::Met;
use crate::kind::Kind;
use crate::machine::seen::names::Last;
use crate::machine::task;
use crate::meeting::{Act, Meeting};

/// O_WRONLY, O_RDWR, O_CREAT, O_TRUNC of open(2), and the bit of O_TMPFILE that is its own.
const CHANGING: u64 = 0o1 | 0o2 | 0o100 | 0o1000 | 0o20_000_000;
/// O_CREAT with O_EXCL, and O_NOFOLLOW, follow no link.
const NEW: u64 = 0o100 | 0o200;
const NO_FOLLOW: u64 = 0o400_000;
/// O_PATH: opens nothing, whatever else is asked for.
const PATH: u64 = 0o10_000_000;

/// AT_FDCWD of open(2).
const HERE: u64 = task::HERE as i64 as u64;
/// AT_SYMLINK_NOFOLLOW and AT_SYMLINK_FOLLOW of the calls that end in `at`.
const AT_NO_FOLLOW: u64 = 0x100;
const AT_FOLLOW: u64 = 0x400;
/// AT_REMOVEDIR of unlinkat(2); RENAME_NOREPLACE of renameat2(2).
const AT_DIRECTORY: u64 = 0x200;
const NO_REPLACE: u64 = 1;

pub(super) fn meet(met: &Met<'_>) -> io::Result<Meeting> {
    use Syscall::*;
    let [first, second, third, fourth, fifth, _] = met.arguments;
    let followed = |path| change(met, path, Last::Followed);
    let named = |path| change(met, path, Last::Named);
    let by_flags = |path, flags: u64| match flags & AT_NO_FOLLOW {
        0 => followed(path),
        _ => named(path),
    };
    Ok(match met.name {
        Open => opening(met, (HERE, first), second)?,
        Openat => opening(met, (first, second), third)?,
        Creat => opening(met, (HERE, first), CHANGING)?,
        Stat | Lstat | Fstat | Newfstatat | Statx | Access | Faccessat | Faccessat2 | Readlink
        | Readlinkat | Getcwd | Statfs | Fstatfs | Getxattr | Lgetxattr | Fgetxattr | Listxattr
        | Llistxattr | Flistxattr => Meeting::Pass(Kind::File),
        Ftruncate | Fchmod | Fchown | Fsetxattr | Fremovexattr => served(met, first)?,
        Truncate | Chmod | Chown | Utime | Utimes | Setxattr | Removexattr => {
            followed((HERE, first))?
        }
        Mkdir | Unlink | Lchown | Lsetxattr | Lremovexattr => named((HERE, first))?,
        Mkdirat => named((first, second))?,
        Unlinkat if third & AT_DIRECTORY == 0 => named((first, second))?,
        Fchmodat => followed((first, second))?,
        Symlink => named((HERE, second))?,
        Symlinkat => named((second, third))?,
        // Without a path they mean the descriptor.
        Futimesat | Utimensat if second == 0 => served(met, first)?,
        Futimesat => followed((first, second))?,
        Utimensat | Fchmodat2 => by_flags((first, second), fourth)?,
        Fchownat => by_flags((first, second), fifth)?,
        Setxattrat | Removexattrat => by_flags((first, second), third)?,
        Link => both(named((HERE, first))?, named((HERE, second))?),
        Rename => moving(met, [(HERE, first), (HERE, second)])?,
        Renameat => moving(met, [(first, second), (third, fourth)])?,
        Renameat2 if fifth & !NO_REPLACE == 0 => moving(met, [(first, second), (third, fourth)])?,
        Linkat => {
            let old = match fifth & AT_FOLLOW {
                0 => named((first, second))?,
                _ => followed((first, second))?,
            };
            both(old, named((third, fourth))?)
        }
        _ => Meeting::Wait,
    })
}

/// To open a file for reading changes nothing; to open a FIFO lets go on who writes to it, and a device may
/// do anything.
fn opening(met: &Met<'_>, (directory, path): (u64, u64), flags: u64) -> io::Result<Meeting> {
    if flags & PATH != 0 {
        return Ok(Meeting::Pass(Kind::File));
    }
    if met.known.seen.has_fifos() {
        return Ok(Meeting::Wait);
    }
    let is_new = flags & NEW == NEW;
    // What a name means that somebody may have moved, nobody knows outside. A new file is none of it.
    if met.known.seen.names().are_tangled() && !is_new {
        return Ok(Meeting::Wait);
    }
    let last = match is_new || flags & NO_FOLLOW != 0 {
        true => Last::Named,
        false => Last::Followed,
    };
    let place = place(met, (directory, path), last)?;
    Ok(match place.is_some_and(|place| is_plain(&place)) {
        true if flags & CHANGING == 0 => Meeting::Pass(Kind::File),
        true => Meeting::Act(Act::Change(None)),
        false => Meeting::Wait,
    })
}

fn place(met: &Met<'_>, path: (u64, u64), last: Last) -> io::Result<Option<PathBuf>> {
    if met.known.seen.has_jails() {
        return Ok(None);
    }
    met.known.seen.names().place(met.process, path, last)
}

/// Whether nothing else than a file or directory is at a place outside; a link is not followed there.
fn is_plain(place: &Path) -> bool {
    match rustix::fs::lstat(place) {
        Ok(stat) => matches!(
            FileType::from_raw_mode(stat.st_mode),
            FileType::RegularFile | FileType::Directory | FileType::Symlink
        ),
        Err(errno) => matches!(errno, Errno::NOENT | Errno::NOTDIR),
    }
}

/// A change of what a path leads to.
fn change(met: &Met<'_>, path: (u64, u64), last: Last) -> io::Result<Meeting> {
    Ok(match place(met, path, last)? {
        Some(_) => Meeting::Act(Act::Change(None)),
        None => Meeting::Wait,
    })
}

/// A change of what a descriptor leads to.
fn served(met: &Met<'_>, number: u64) -> io::Result<Meeting> {
    Ok(
        match met.known.seen.names().is_served(met.process, number)? {
            true => Meeting::Act(Act::Change(None)),
            false => Meeting::Wait,
        },
    )
}

/// A directory that is removed is dead to the kernel for ever, and one that is moved has its new name in the
/// kernel for each process that has it open or works there, whatever the view does. So names of files are moved alone.
fn moving(met: &Met<'_>, paths: [(u64, u64); 2]) -> io::Result<Meeting> {
    for path in paths {
        match place(met, path, Last::Named)? {
            Some(place) if !met.known.seen.names().may_be_directory(&place) => {}
            _ => return Ok(Meeting::Wait),
        }
    }
    Ok(Meeting::Act(Act::Change(None)))
}

fn both(one: Meeting, two: Meeting) -> Meeting {
    match (one, two) {
        (Meeting::Act(Act::Change(_)), Meeting::Act(Act::Change(_))) => {
            Meeting::Act(Act::Change(None))
        }
        _ => Meeting::Wait,
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;
    use crate::machine::channels::Channels;
    use crate::machine::meeting::Known;
    use crate::machine::seen::Seen;

    /// What it takes to open a file for reading.
    fn opened(seen: &Seen, path: &CStr, flags: u64) -> Meeting {
        let channels = Channels::default();
        let met = Met {
            process: rustix::process::getpid(),
            name: Syscall::Open,
            arguments: [path.as_ptr() as u64, flags, 0, 0, 0, 0],
            known: Known {
                channels: &channels,
                seen,
                member: None,
                has_changed: false,
                keeps_rights: true,
            },
        };
        meet(&met).expect("look")
    }

    #[test]
    fn only_what_is_surely_a_plain_file_is_opened_for_a_guess() {
        let seen = Seen::in_view();
        assert_eq!(opened(&seen, c"/etc/passwd", 0), Meeting::Pass(Kind::File));
        assert_eq!(opened(&seen, c"/etc/nothing", 0), Meeting::Pass(Kind::File));
        for elsewhere in [
            c"/dev/null",
            c"/proc/self/status",
            c"/proc/self/root/etc/passwd",
        ] {
            assert_eq!(opened(&seen, elsewhere, 0), Meeting::Wait, "{elsewhere:?}");
        }
        assert_eq!(opened(&seen, c"/dev/null", PATH), Meeting::Pass(Kind::File));
    }

    #[test]
    fn nothing_is_opened_for_a_guess_behind_another_root() {
        let mut seen = Seen::in_view();
        seen.look(Syscall::Chroot, &[0; 6]);
        assert_eq!(opened(&seen, c"/etc/passwd", 0), Meeting::Wait);
    }

    #[test]
    fn where_names_are_tangled_a_file_is_opened_for_a_guess_only_if_it_is_new() {
        let mut seen = Seen::in_view();
        let own = rustix::process::getpid();
        let path = c"/etc/nothing".as_ptr() as u64;
        let noted = seen.note(own, Syscall::Symlink, &[path, path, 0, 0, 0, 0]);
        noted.expect("noted");
        for flags in [0, NO_FOLLOW, CHANGING, CHANGING | NO_FOLLOW] {
            assert_eq!(opened(&seen, c"/etc/passwd", flags), Meeting::Wait);
        }
        assert_eq!(
            opened(&seen, c"nothing", NEW),
            Meeting::Act(Act::Change(None))
        );
    }
}
