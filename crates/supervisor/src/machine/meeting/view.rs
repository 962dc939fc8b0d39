//! Names and attributes of files in the view. To look changes nothing; what is changed the view can undo, and
//! nobody else could.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::process::Pid;
use surmise_syscalls::Syscall;

use super::{Known, Met};
use crate::kind::Kind;
use crate::machine::seen::devices;
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
        // It fails: nothing has no name (path_resolution(7)).
        Mkdir | Unlink | Rmdir if is_nameless(met, first) => Meeting::Pass(Kind::File),
        Rmdir => removing(met, (HERE, first))?,
        Unlinkat if third & AT_DIRECTORY != 0 => removing(met, (first, second))?,
        Mkdir | Unlink | Lchown | Lsetxattr | Lremovexattr => named((HERE, first))?,
        Mkdirat => named((first, second))?,
        Unlinkat => named((first, second))?,
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

/// Whether a call removes a directory, if it does what its arguments ask for.
pub(crate) fn removes_directory(name: Syscall, arguments: &[u64; 6]) -> bool {
    match name {
        Syscall::Rmdir => true,
        Syscall::Unlinkat => arguments[2] & AT_DIRECTORY != 0,
        _ => false,
    }
}

/// The kernel drops the name of a directory that is removed, also where the removal is undone. In a process that works in the
/// directory, getcwd(2) would fail from then on. So such a removal waits.
fn removing(met: &Met<'_>, path: (u64, u64)) -> io::Result<Meeting> {
    let change = change(met, path, Last::Named)?;
    let text = task::string(met.process, path.1);
    let text = text.as_ref().map(|text| OsStr::from_bytes(text.to_bytes()));
    let name = text.and_then(|text| Path::new(text).file_name());
    Ok(match change {
        Meeting::Act(_) if works_in(met, name)? => Meeting::Wait,
        change => change,
    })
}

/// Whether any process of the domain, an image among them, works in a directory of this name. True in doubt.
fn works_in(met: &Met<'_>, name: Option<&OsStr>) -> io::Result<bool> {
    let Some(name) = name else {
        return Ok(true);
    };
    let tasks = met.known.seen.bystanders().tasks()?;
    let mut processes: Vec<_> = tasks.into_iter().map(|(process, _)| process).collect();
    processes.dedup();
    let works_there = |process: &Pid| match task::directory(*process) {
        Ok(directory) => directory.file_name() == Some(name),
        Err(error) => !task::is_gone(&error),
    };
    Ok(processes.iter().any(works_there))
}

fn is_nameless(met: &Met<'_>, path: u64) -> bool {
    task::string(met.process, path).is_some_and(|text| text.is_empty())
}

/// To open a file for reading changes nothing; to open a FIFO lets go on who writes to it, and a device may
/// do anything but for those that keep nothing.
fn opening(met: &Met<'_>, (directory, path): (u64, u64), flags: u64) -> io::Result<Meeting> {
    if flags & PATH != 0 {
        return Ok(Meeting::Pass(Kind::File));
    }
    let changes = flags & CHANGING != 0;
    let seen = met.known.seen;
    if !seen.has_jails()
        && let Some(text) = devices::path_of(met.process, path)
    {
        if devices::is_named(seen.names(), &text) {
            return Ok(Meeting::Pass(Kind::Descriptor));
        }
        if !changes && devices::is_fact(seen.names(), &text) {
            return Ok(Meeting::Pass(Kind::File));
        }
    }
    let is_new = flags & NEW == NEW;
    let last = match is_new || flags & NO_FOLLOW != 0 {
        true => Last::Named,
        false => Last::Followed,
    };
    let place = place(met, (directory, path), last)?;
    let Known { seen, files, .. } = met.known;
    let is_plain = |place: PathBuf| seen.names().is_plain(&place, files);
    Ok(match place.is_some_and(is_plain) {
        true if flags & CHANGING == 0 => Meeting::Pass(Kind::File),
        true => Meeting::Act(Act::Change([None; 2])),
        false => Meeting::Wait,
    })
}

fn place(met: &Met<'_>, path: (u64, u64), last: Last) -> io::Result<Option<PathBuf>> {
    if met.known.seen.has_jails() {
        return Ok(None);
    }
    let Known { seen, files, .. } = met.known;
    seen.names().place(met.process, path, last, files)
}

/// A change of what a path leads to.
fn change(met: &Met<'_>, path: (u64, u64), last: Last) -> io::Result<Meeting> {
    let seen = met.known.seen;
    if last == Last::Followed
        && !seen.has_jails()
        && let Some(text) = devices::path_of(met.process, path.1)
        && let Some(number) = devices::named_descriptor(seen.names(), &text)
    {
        return served(met, number);
    }
    Ok(match place(met, path, last)? {
        Some(_) => Meeting::Act(Act::Change([None; 2])),
        None => Meeting::Wait,
    })
}

/// A change of what a descriptor leads to.
fn served(met: &Met<'_>, number: u64) -> io::Result<Meeting> {
    Ok(
        match met.known.seen.names().is_served(met.process, number)? {
            true => Meeting::Act(Act::Change([None; 2])),
            false => Meeting::Wait,
        },
    )
}

/// A directory that is moved has its new name in the kernel for each process that has it open or works there, whatever the view
/// does. So names of files are moved alone.
fn moving(met: &Met<'_>, paths: [(u64, u64); 2]) -> io::Result<Meeting> {
    let Known { seen, files, .. } = met.known;
    for path in paths {
        match place(met, path, Last::Named)? {
            Some(place) if !seen.names().may_be_directory(&place, files) => {}
            _ => return Ok(Meeting::Wait),
        }
    }
    Ok(Meeting::Act(Act::Change([None; 2])))
}

fn both(one: Meeting, two: Meeting) -> Meeting {
    match (one, two) {
        (Meeting::Act(Act::Change(_)), Meeting::Act(Act::Change(_))) => {
            Meeting::Act(Act::Change([None; 2]))
        }
        _ => Meeting::Wait,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::ffi::CStr;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
    use std::path::Path;
    use std::sync::Arc;

    use rustix::process::Pid;

    use super::*;
    use crate::machine::channels::Channels;
    use crate::machine::seen::Seen;
    use crate::objects::files::{At, Files, Look, Touches};

    /// A view in which there is a FIFO, a link and a file.
    #[derive(Debug)]
    struct Inside(OwnedFd);

    impl AsFd for Inside {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }

    impl Files for Inside {
        fn mark(&self, _: Pid, _: bool) -> io::Result<u64> {
            unreachable!("nothing is changed")
        }

        fn settle(&self, _: &[u64]) -> io::Result<()> {
            unreachable!("nothing is changed")
        }

        fn give_way(&self, _: &[u64], _: bool) -> io::Result<()> {
            unreachable!("nothing is changed")
        }

        fn give_up(&self, _: &[u64]) -> io::Result<()> {
            unreachable!("nothing is changed")
        }

        fn undo(&self, _: &[u64]) -> io::Result<()> {
            unreachable!("nothing is changed")
        }

        fn conceal(&self, _: Pid) -> io::Result<bool> {
            unreachable!("nothing is changed")
        }

        fn concealed(&self) -> io::Result<bool> {
            unreachable!("nothing is changed")
        }

        fn at(&self, place: &Path) -> io::Result<At> {
            Ok(match place.to_str() {
                Some("/pipe") => At::Other,
                Some("/link") => At::Link("/proc/null".into()),
                Some("/to") => At::Link("pipe".into()),
                Some("/file") => At::File,
                Some("/lost") => return Err(io::ErrorKind::NotFound.into()),
                _ => At::Nothing,
            })
        }

        fn touches(&self, _: &[Look], _: &Arc<HashSet<PathBuf>>) -> io::Result<Touches> {
            unreachable!("nothing is looked up")
        }

        fn asked(&self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What it takes to open a file for reading.
    fn opened(seen: &Seen, path: &CStr, flags: u64, files: Option<&dyn Files>) -> Meeting {
        let channels = Channels::default();
        let met = Met {
            process: rustix::process::getpid(),
            thread: rustix::process::getpid(),
            name: Syscall::Open,
            arguments: [path.as_ptr() as u64, flags, 0, 0, 0, 0],
            known: Known {
                channels: &channels,
                seen,
                member: None,
                files,
                keeps_rights: true,
            },
        };
        meet(&met).expect("look")
    }

    #[test]
    fn only_what_is_surely_a_plain_file_is_opened_for_a_guess() {
        let seen = Seen::in_view();
        let opened = |path, flags| opened(&seen, path, flags, None);
        assert_eq!(opened(c"/etc/passwd", 0), Meeting::Pass(Kind::File));
        assert_eq!(opened(c"/etc/nothing", 0), Meeting::Pass(Kind::File));
        assert_eq!(opened(c"/proc/filesystems", 0), Meeting::Pass(Kind::File));
        assert_eq!(opened(c"/proc/filesystems", CHANGING), Meeting::Wait);
        assert_eq!(opened(c"/proc/self/maps", 0), Meeting::Pass(Kind::File));
        assert_eq!(opened(c"/proc/self/fd", 0), Meeting::Pass(Kind::File));
        assert_eq!(opened(c"/proc/self/limits", CHANGING), Meeting::Wait);
        assert_eq!(opened(c"/dev/tty", 2), Meeting::Pass(Kind::Descriptor));
        for elsewhere in [
            c"/dev/tty/",
            c"/dev/null/",
            // A domain whose mount has no such device of its own.
            c"/dev/zero",
            c"/proc/self/status",
            c"/proc/self/fd/0",
            c"/proc/1/maps",
            c"/proc/self/root/etc/passwd",
        ] {
            assert_eq!(opened(elsewhere, 0), Meeting::Wait, "{elsewhere:?}");
        }
        assert_eq!(opened(c"/dev/null", PATH), Meeting::Pass(Kind::File));
    }

    #[test]
    fn a_device_that_keeps_nothing_is_opened_whatever_names_the_domain_has_changed() {
        const APPENDING: u64 = CHANGING & !0o20_000_000 | 0o2000;
        let mut seen = Seen::in_view();
        let own = rustix::process::getpid();
        let path = c"/etc/nothing".as_ptr() as u64;
        let noted = seen.note(own, Syscall::Symlink, &[path, path, 0, 0, 0, 0]);
        noted.expect("noted");
        seen.look_at(Syscall::Mknod, &[0; 6]);
        for flags in [0, 1, 2, APPENDING] {
            assert_eq!(
                opened(&seen, c"/dev/null", flags, None),
                Meeting::Pass(Kind::Descriptor)
            );
        }
        seen.look_at(Syscall::Chroot, &[0; 6]);
        assert_eq!(opened(&seen, c"/dev/null", 0, None), Meeting::Wait);
    }

    #[test]
    fn nothing_is_opened_for_a_guess_behind_another_root() {
        let mut seen = Seen::in_view();
        seen.look_at(Syscall::Chroot, &[0; 6]);
        assert_eq!(opened(&seen, c"/etc/passwd", 0, None), Meeting::Wait);
    }

    #[test]
    fn where_names_are_tangled_a_file_is_opened_for_a_guess_if_it_is_one_inside() {
        let mut seen = Seen::in_view();
        let own = rustix::process::getpid();
        let path = c"/etc/nothing".as_ptr() as u64;
        let noted = seen.note(own, Syscall::Symlink, &[path, path, 0, 0, 0, 0]);
        noted.expect("noted");
        for flags in [0, NO_FOLLOW, CHANGING, CHANGING | NO_FOLLOW] {
            assert_eq!(opened(&seen, c"/etc/passwd", flags, None), Meeting::Wait);
        }
        let files = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC);
        let inside = Inside(files.expect("a descriptor"));
        let opened = |path, flags| opened(&seen, path, flags, Some(&inside));
        let change = || Meeting::Act(Act::Change([None; 2]));
        for path in [c"/file", c"/none"] {
            assert_eq!(opened(path, 0), Meeting::Pass(Kind::File));
            assert_eq!(opened(path, CHANGING), change());
        }
        assert_eq!(opened(c"/link", NO_FOLLOW), Meeting::Pass(Kind::File));
        assert_eq!(opened(c"/link", NEW), change());
        for (path, flags) in [
            (c"/pipe", 0),
            (c"/pipe", CHANGING),
            (c"/to", 0),
            (c"/link", 0),
            (c"/lost", 0),
        ] {
            assert_eq!(opened(path, flags), Meeting::Wait, "{path:?}");
        }
    }
}
