//! Names and attributes of files in the view. To look changes nothing; what is changed the view can undo, and
//! nobody else could.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::process::Pid;
use surmise_syscalls::Syscall;

use super::Met;
use crate::kind::Kind;
use crate::machine::seen::devices;
use crate::machine::task;
use crate::meeting::{Act, Changing, Meeting};
use crate::objects::files::End;

/// O_WRONLY, O_RDWR, O_CREAT, O_TRUNC of open(2), and the bit of O_TMPFILE that is its own.
const CHANGING: u64 = 0o1 | 0o2 | 0o100 | 0o1000 | 0o20_000_000;
/// O_PATH: opens nothing, whatever else is asked for.
const PATH: u64 = 0o10_000_000;

/// AT_SYMLINK_NOFOLLOW and AT_SYMLINK_FOLLOW of the calls that end in `at`.
const AT_NO_FOLLOW: u64 = 0x100;
const AT_FOLLOW: u64 = 0x400;
/// AT_REMOVEDIR of unlinkat(2); RENAME_NOREPLACE of renameat2(2).
const AT_DIRECTORY: u64 = 0x200;
const NO_REPLACE: u64 = 1;

pub(super) fn meet(met: &Met<'_>) -> io::Result<Meeting> {
    use Syscall::*;
    let [first, second, third, fourth, fifth, _] = met.arguments;
    let named = || change(end(met));
    let by_flags = |path, flags: u64| match flags & AT_NO_FOLLOW {
        0 => followed(met, path),
        _ => Ok(named()),
    };
    Ok(match met.name {
        Open => opening(met, first, second),
        Openat => opening(met, second, third),
        Creat => opening(met, first, CHANGING),
        Stat | Lstat | Fstat | Newfstatat | Statx | Access | Faccessat | Faccessat2 | Readlink
        | Readlinkat | Getcwd | Statfs | Fstatfs | Getxattr | Lgetxattr | Fgetxattr | Listxattr
        | Llistxattr | Flistxattr => Meeting::Pass(Kind::File),
        Ftruncate | Fchmod | Fchown | Fsetxattr | Fremovexattr => served(met, first)?,
        Truncate | Chmod | Chown | Utime | Utimes | Setxattr | Removexattr => followed(met, first)?,
        // It fails: nothing has no name (path_resolution(7)).
        Mkdir | Unlink | Rmdir if is_nameless(met, first) => Meeting::Pass(Kind::File),
        Rmdir => removing(met, first)?,
        Unlinkat if third & AT_DIRECTORY != 0 => removing(met, second)?,
        Mkdir | Mkdirat | Unlink | Unlinkat | Symlink | Symlinkat | Lchown | Lsetxattr
        | Lremovexattr => named(),
        Fchmodat => followed(met, second)?,
        // Without a path they mean the descriptor.
        Futimesat | Utimensat if second == 0 => served(met, first)?,
        Futimesat => followed(met, second)?,
        Utimensat | Fchmodat2 => by_flags(second, fourth)?,
        Fchownat => by_flags(second, fifth)?,
        Setxattrat | Removexattrat => by_flags(second, third)?,
        Link => linking(ends(met)),
        Linkat if fifth & AT_FOLLOW != 0 => linking_open(met, second)?,
        Linkat => linking(ends(met)),
        Rename | Renameat => moving(ends(met)),
        Renameat2 if fifth & !NO_REPLACE == 0 => moving(ends(met)),
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
fn removing(met: &Met<'_>, path: u64) -> io::Result<Meeting> {
    let change = change(end(met));
    let text = task::string(met.process, path);
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
fn opening(met: &Met<'_>, path: u64, flags: u64) -> Meeting {
    if flags & PATH != 0 {
        return Meeting::Pass(Kind::File);
    }
    let changes = flags & CHANGING != 0;
    let seen = met.known.seen;
    if !seen.has_jails()
        && let Some(text) = devices::path_of(met.process, path)
    {
        if devices::is_named(seen.names(), &text) {
            return Meeting::Pass(Kind::Descriptor);
        }
        if !changes && devices::is_fact(seen.names(), &text) {
            return Meeting::Pass(Kind::File);
        }
    }
    match end(met) {
        End::Unknown | End::Other => Meeting::Wait,
        End::Nothing | End::Directory | End::File | End::Link if changes => {
            Meeting::Act(Act::Change(Changing::default()))
        }
        End::Nothing | End::Directory | End::File | End::Link => Meeting::Pass(Kind::File),
    }
}

/// What the path of a call leads to that has one.
fn end(met: &Met<'_>) -> End {
    match met.known.ends {
        [end] => *end,
        _ => End::Unknown,
    }
}

/// What the paths of a call lead to that has two.
fn ends(met: &Met<'_>) -> [End; 2] {
    let ends = met.known.ends.try_into();
    ends.unwrap_or([End::Unknown; 2])
}

/// A change of what a path leads to, or of its name.
fn change(end: End) -> Meeting {
    match end {
        End::Unknown => Meeting::Wait,
        End::Nothing | End::Directory | End::File | End::Link | End::Other => {
            Meeting::Act(Act::Change(Changing::default()))
        }
    }
}

/// A change of what a path leads to that is followed to its end.
fn followed(met: &Met<'_>, path: u64) -> io::Result<Meeting> {
    match followed_descriptor(met, path) {
        Some(number) => served(met, number),
        None => Ok(change(end(met))),
    }
}

/// The descriptor that a path names, which is followed to its end.
fn followed_descriptor(met: &Met<'_>, path: u64) -> Option<u64> {
    let seen = met.known.seen;
    let text = devices::path_of(met.process, path).filter(|_| !seen.has_jails())?;
    devices::named_descriptor(seen.names(), &text)
}

/// A change of what a descriptor leads to.
fn served(met: &Met<'_>, number: u64) -> io::Result<Meeting> {
    Ok(
        match met.known.seen.names().is_served(met.process, number)? {
            true => Meeting::Act(Act::Change(Changing::default())),
            false => Meeting::Wait,
        },
    )
}

/// A directory that is moved has its new name in the kernel for each process that has it open or works there, whatever the view
/// does. So names of files are moved alone.
fn moving(ends: [End; 2]) -> Meeting {
    match ends.contains(&End::Directory) {
        true => Meeting::Wait,
        false => linking(ends),
    }
}

/// A name is given to what a path leads to. A file without a name has the path of its descriptor.
fn linking_open(met: &Met<'_>, path: u64) -> io::Result<Meeting> {
    let [old, new] = ends(met);
    match (followed_descriptor(met, path), new) {
        (Some(_), End::Unknown) => Ok(Meeting::Wait),
        (Some(number), _) => served(met, number),
        (None, new) => Ok(linking([old, new])),
    }
}

/// Both names are the view's.
fn linking(ends: [End; 2]) -> Meeting {
    match ends.contains(&End::Unknown) {
        true => Meeting::Wait,
        false => Meeting::Act(Act::Change(Changing::default())),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;
    use crate::machine::channels::Channels;
    use crate::machine::kinds::Kinds;
    use crate::machine::meeting::Known;
    use crate::machine::seen::Seen;

    /// What it takes that a call happens.
    fn met(seen: &Seen, (name, arguments): (Syscall, [u64; 6]), ends: &[End]) -> Meeting {
        let channels = Channels::default();
        let met = Met {
            call: 0,
            process: rustix::process::getpid(),
            thread: rustix::process::getpid(),
            name,
            arguments,
            known: Known {
                channels: &channels,
                seen,
                kinds: &Kinds::default(),
                member: None,
                ends,
                files: None,
                keeps_rights: true,
                can_undo_executions: true,
            },
        };
        meet(&met).expect("look")
    }

    /// What it takes to open a file.
    fn opened(seen: &Seen, path: &CStr, flags: u64, ends: &[End]) -> Meeting {
        let arguments = [path.as_ptr() as u64, flags, 0, 0, 0, 0];
        met(seen, (Syscall::Open, arguments), ends)
    }

    const CHANGE: Meeting = Meeting::Act(Act::Change(Changing {
        moved: [None; 2],
        written: None,
    }));

    #[test]
    fn only_what_is_surely_a_plain_file_is_opened_for_a_guess() {
        let seen = Seen::in_view();
        for end in [End::File, End::Directory, End::Link, End::Nothing] {
            let opened = |flags| opened(&seen, c"/x", flags, &[end]);
            assert_eq!(opened(0), Meeting::Pass(Kind::File));
            assert_eq!(opened(CHANGING), CHANGE);
        }
        for ends in [&[][..], &[End::Unknown], &[End::Other], &[End::File; 2]] {
            for flags in [0, CHANGING] {
                assert_eq!(opened(&seen, c"/x", flags, ends), Meeting::Wait);
            }
            assert_eq!(opened(&seen, c"/x", PATH, ends), Meeting::Pass(Kind::File));
        }
    }

    #[test]
    fn what_the_kernel_tells_of_the_machine_or_of_the_caller_is_opened_for_a_guess() {
        let seen = Seen::in_view();
        let opened = |path, flags| opened(&seen, path, flags, &[]);
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
    fn a_device_that_keeps_nothing_is_opened_but_behind_another_root() {
        const APPENDING: u64 = CHANGING & !0o20_000_000 | 0o2000;
        let mut seen = Seen::in_view();
        for flags in [0, 1, 2, APPENDING] {
            assert_eq!(
                opened(&seen, c"/dev/null", flags, &[]),
                Meeting::Pass(Kind::Descriptor)
            );
        }
        seen.look_at(Syscall::Chroot, &[0; 6]);
        assert_eq!(opened(&seen, c"/dev/null", 0, &[]), Meeting::Wait);
    }

    #[test]
    fn names_are_changed_where_all_paths_stay_in_the_view_and_no_directory_is_moved() {
        use End::{Directory, File, Link, Nothing, Other, Unknown};
        let seen = Seen::in_view();
        let path = c"/x".as_ptr() as u64;
        let of = |name, ends: &[End]| met(&seen, (name, [path, path, 0, 0, 0, 0]), ends);
        for end in [Directory, File, Link, Nothing, Other] {
            assert_eq!(of(Syscall::Unlink, &[end]), CHANGE);
            assert_eq!(of(Syscall::Chmod, &[end]), CHANGE);
            assert_eq!(of(Syscall::Link, &[end, Nothing]), CHANGE);
        }
        for end in [File, Link, Nothing, Other] {
            assert_eq!(of(Syscall::Rename, &[end, File]), CHANGE);
            assert_eq!(of(Syscall::Rename, &[end, Directory]), Meeting::Wait);
            assert_eq!(of(Syscall::Rename, &[Directory, end]), Meeting::Wait);
        }
        for name in [Syscall::Unlink, Syscall::Chmod, Syscall::Mkdir] {
            assert_eq!(of(name, &[Unknown]), Meeting::Wait);
            assert_eq!(of(name, &[]), Meeting::Wait);
        }
        for name in [Syscall::Link, Syscall::Rename] {
            assert_eq!(of(name, &[Unknown, Nothing]), Meeting::Wait);
            assert_eq!(of(name, &[File, Unknown]), Meeting::Wait);
            assert_eq!(of(name, &[File]), Meeting::Wait, "one is elsewhere");
        }
    }
}
