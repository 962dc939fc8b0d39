//! What a call touches in the view, as far as its row and its arguments tell.
//!
//! The paths and descriptors are the caller's; the view follows them. What is not known may be anything.

use std::ffi::{CStr, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::process::Pid;
use surmise_syscalls::Syscall;

use super::meeting::touches_nothing;
use super::seen::{Seen, devices};
use super::{Machine, task, unless_out_of_reach};
use crate::call::Call;
use crate::objects::files::{Look, Manner, Reach, Target, Touch};
use crate::world::{Claim, Reaching};

/// AT_FDCWD of open(2).
const HERE: u64 = task::HERE as i64 as u64;
/// O_WRONLY, O_RDWR and O_TRUNC of open(2); O_CREAT, O_EXCL, O_NOFOLLOW and O_PATH.
const WRITING: u64 = 0o1 | 0o2 | 0o1000;
const CREATING: u64 = 0o100;
const EXCLUSIVE: u64 = 0o200;
const NO_FOLLOW: u64 = 0o400_000;
const PATH: u64 = 0o10_000_000;
/// AT_SYMLINK_NOFOLLOW and AT_SYMLINK_FOLLOW of the calls that end in `at`.
const AT_NO_FOLLOW: u64 = 0x100;
const AT_FOLLOW: u64 = 0x400;
/// MAP_SHARED and MAP_ANONYMOUS of mmap(2).
const SHARED: u64 = 1;
const WITHOUT_FILE: u64 = 0x20;

/// The number of the view's root to the kernel, until the kernel has asked the view.
const ROOT: u64 = 1;

/// The longest paths that are looked up: so long none is that a program means.
const LENGTH_MAX: usize = 8 << 10;

/// One thing that a call touches, by its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Path {
        directory: u64,
        path: u64,
        follows: bool,
        manner: Manner,
    },
    Descriptor(u64, Manner),
}

impl Reaching for Machine {
    fn touch(&self, call: &Call) -> Touch {
        touch(call.name(), call.arguments())
    }

    fn depends_on_ends(&self, call: &Call) -> bool {
        depends_on_ends(call.name(), call.arguments())
    }

    fn reach(&self, process: Pid, call: &Call) -> io::Result<Reach> {
        let Some(learnt) = &self.learnt else {
            return Ok(Reach::Everything);
        };
        let found = reach(process, (call.name(), call.arguments()), &learnt.seen);
        unless_out_of_reach(found, Reach::Everything)
    }
}

/// What a call may touch, by its name and flags alone.
fn touch(name: Syscall, arguments: &[u64; 6]) -> Touch {
    let Some(parts) = parts(name, arguments) else {
        return match name {
            // What they tell of may be anybody's, and they change nothing.
            Syscall::Statfs | Syscall::Fstatfs => Touch::Looks,
            _ => Touch::Binds,
        };
    };
    let manners = parts.iter().map(|part| match part {
        Part::Path { manner, .. } | Part::Descriptor(_, manner) => *manner,
    });
    let touches = manners.map(|manner| match manner {
        Manner::Passes | Manner::Looks | Manner::Lists | Manner::Executes => Touch::Looks,
        Manner::Opens {
            creates: false,
            changes: false,
        } => Touch::Looks,
        Manner::Binds | Manner::Opens { creates: true, .. } => Touch::Binds,
        Manner::Opens { .. } | Manner::Links | Manner::Changes => Touch::Changes,
    });
    touches.max().unwrap_or(Touch::Nothing)
}

/// Whether what a call may do depends on what its paths lead to.
fn depends_on_ends(name: Syscall, arguments: &[u64; 6]) -> bool {
    let depends = |part: &Part| match part {
        Part::Path { manner, .. } => match manner {
            Manner::Opens { .. } | Manner::Changes | Manner::Binds | Manner::Links => true,
            Manner::Passes | Manner::Looks | Manner::Lists | Manner::Executes => false,
        },
        Part::Descriptor(..) => false,
    };
    parts(name, arguments).is_some_and(|parts| parts.iter().any(depends))
}

/// What a call wants a file for that others may keep.
pub(super) fn claim(name: Syscall, arguments: &[u64; 6]) -> Option<Claim> {
    match name {
        Syscall::Execve | Syscall::Execveat => return Some(Claim::Executes),
        Syscall::Openat2 | Syscall::Truncate => return Some(Claim::Writes),
        _ => {}
    }
    let opens = |part: &Part| {
        let (Part::Path { manner, .. } | Part::Descriptor(_, manner)) = part;
        matches!(manner, Manner::Opens { changes: true, .. })
    };
    let parts = parts(name, arguments).unwrap_or_default();
    parts.iter().any(opens).then_some(Claim::Writes)
}

/// What a call of a process touches.
fn reach(process: Pid, (name, arguments): (Syscall, &[u64; 6]), seen: &Seen) -> io::Result<Reach> {
    let Some(parts) = parts(name, arguments) else {
        return Ok(Reach::Everything);
    };
    if parts.is_empty() {
        return Ok(Reach::Nothing);
    }
    let is_known = !seen.has_jails() && !seen.has_namespaces();
    let Some(elsewhere) = seen.names().elsewhere().filter(|_| is_known) else {
        return Ok(Reach::Everything);
    };
    let mut looks = Vec::new();
    let (mut length, mut in_doubt) = (0, false);
    for part in parts {
        match look(process, part, seen)? {
            Found::Nothing => {}
            Found::Look { look, is_sure } => {
                in_doubt |= !is_sure;
                if let Target::Path { base, path, .. } = &look.target {
                    length += base.as_os_str().len() + path.as_os_str().len();
                }
                looks.push(look);
            }
            Found::Unknown => return Ok(Reach::Everything),
        }
    }
    Ok(match (looks.is_empty(), length <= LENGTH_MAX) {
        (true, _) => Reach::Nothing,
        (false, false) => Reach::Everything,
        (false, true) => Reach::At {
            looks,
            elsewhere: Arc::clone(elsewhere),
            in_doubt,
        },
    })
}

enum Found {
    Nothing,
    Look { look: Look, is_sure: bool },
    Unknown,
}

fn look(process: Pid, part: Part, seen: &Seen) -> io::Result<Found> {
    match part {
        Part::Descriptor(number, manner) => opened(process, number, manner, seen),
        Part::Path {
            directory,
            path,
            follows,
            manner,
        } => {
            let Some(string) = devices::path_of(process, path) else {
                // The call fails, or without a path it means the descriptor.
                return Ok(Found::Unknown);
            };
            let bytes = string.to_bytes();
            let text = Path::new(OsStr::from_bytes(bytes));
            if bytes.is_empty() {
                return match (directory as i32 == task::HERE, manner) {
                    // Nothing is bound to no name: it fails (path_resolution(7)).
                    (_, Manner::Binds) => Ok(Found::Nothing),
                    // It fails, or means the working directory.
                    (true, _) | (_, Manner::Links | Manner::Executes) => Ok(Found::Unknown),
                    (false, _) => opened(process, directory, manner, seen),
                };
            }
            if follows && let Some(number) = devices::named_descriptor(seen.names(), &string) {
                return opened(process, number, manner, seen);
            }
            if is_elsewhere(&string, seen) {
                return Ok(Found::Nothing);
            }
            // Another thread may be about to change directory.
            let is_sure = text.is_absolute() || !seen.has_threads(process);
            let base = match text.is_absolute() {
                true => PathBuf::from("/"),
                false if directory as i32 == task::HERE => task::directory(process)?,
                false if !seen.names().is_served(process, directory)? => {
                    return Ok(Found::Unknown);
                }
                false => task::link(process, directory)?,
            };
            // Where it was removed, nobody knows what was there.
            let is_removed = base.as_os_str().as_bytes().ends_with(b" (deleted)");
            if !base.is_absolute() || is_removed {
                return Ok(Found::Unknown);
            }
            let target = Target::Path {
                base,
                path: text.to_owned(),
                follows: follows || bytes.ends_with(b"/") || bytes.ends_with(b"/."),
            };
            let look = Look { target, manner };
            Ok(Found::Look { look, is_sure })
        }
    }
}

/// Whether a path is the name of what is no part of the view, whatever names the domain has changed.
fn is_elsewhere(string: &CStr, seen: &Seen) -> bool {
    let bytes = string.to_bytes();
    let text = Path::new(OsStr::from_bytes(bytes));
    // Nobody moves what something is mounted at.
    let is_mount = text.is_absolute() && !bytes.ends_with(b"/") && seen.names().has_mount_at(text);
    is_mount || devices::is_fact(seen.names(), string)
}

fn opened(process: Pid, number: u64, manner: Manner, seen: &Seen) -> io::Result<Found> {
    let opened = task::opened(process, number)?;
    let Some(opened) = opened.filter(|opened| seen.names().is_view(opened.mount)) else {
        return Ok(Found::Nothing);
    };
    Ok(match opened.inode {
        Some(ROOT) => Found::Unknown,
        // Another thread may be about to put another file in its place.
        Some(_) if seen.has_threads(process) => Found::Unknown,
        Some(inode) => Found::Look {
            look: Look {
                target: Target::Inode(inode),
                manner,
            },
            is_sure: true,
        },
        None => Found::Unknown,
    })
}

/// What a call touches; `None` if it may be anything.
fn parts(name: Syscall, arguments: &[u64; 6]) -> Option<Vec<Part>> {
    use Manner::{Binds, Changes, Executes, Links, Lists, Looks, Passes};
    use Syscall::*;
    if touches_nothing(name) {
        return Some(Vec::new());
    }
    let [first, second, third, fourth, fifth, _] = *arguments;
    let path = in_directory;
    let followed = |at: u64, manner| vec![path(HERE, at, true, manner)];
    let named = |at: u64, manner| vec![path(HERE, at, false, manner)];
    let by_flags =
        |flags: u64, manner| vec![path(first, second, flags & AT_NO_FOLLOW == 0, manner)];
    let of = |number: u64, manner| vec![Part::Descriptor(number, manner)];
    Some(match name {
        Open => opening((HERE, first), second),
        Openat => opening((first, second), third),
        Creat => opening((HERE, first), WRITING | CREATING),
        Stat => followed(first, Looks),
        Access | Getxattr | Listxattr | Chdir => followed(first, Passes),
        Lstat => named(first, Looks),
        Readlink | Lgetxattr | Llistxattr => named(first, Passes),
        Newfstatat => by_flags(fourth, Looks),
        Statx => by_flags(third, Looks),
        Faccessat => vec![path(first, second, true, Passes)],
        Faccessat2 => by_flags(fourth, Passes),
        Readlinkat => vec![path(first, second, false, Passes)],
        Fstat | Lseek => of(first, Looks),
        Read | Readv | Pread64 | Preadv | Preadv2 | Fchdir | Fgetxattr | Flistxattr | Fsync
        | Fdatasync => of(first, Passes),
        Getdents | Getdents64 => of(first, Lists),
        Ftruncate | Fchmod | Fchown | Fsetxattr | Fremovexattr | Write | Writev | Pwrite64
        | Pwritev | Pwritev2 | Fallocate | Ioctl => of(first, Changes),
        CopyFileRange | Splice => [of(first, Passes), of(third, Changes)].concat(),
        Sendfile => [of(first, Changes), of(second, Passes)].concat(),
        Mmap if fourth & WITHOUT_FILE != 0 => Vec::new(),
        Mmap if fourth & SHARED != 0 => of(fifth, Changes),
        Mmap => of(fifth, Passes),
        Execve => followed(first, Executes),
        Truncate | Chmod | Chown | Utime | Utimes | Setxattr | Removexattr => {
            followed(first, Changes)
        }
        Lchown | Lsetxattr | Lremovexattr => named(first, Changes),
        Mkdir | Unlink | Rmdir | Mknod => named(first, Binds),
        Mkdirat | Unlinkat | Mknodat => vec![path(first, second, false, Binds)],
        Fchmodat => vec![path(first, second, true, Changes)],
        Futimesat | Utimensat if second == 0 => of(first, Changes),
        Futimesat => vec![path(first, second, true, Changes)],
        Utimensat | Fchmodat2 => by_flags(fourth, Changes),
        Fchownat => by_flags(fifth, Changes),
        Setxattrat | Removexattrat => by_flags(third, Changes),
        Symlink => named(second, Binds),
        Symlinkat => vec![path(second, third, false, Binds)],
        Rename => [named(first, Binds), named(second, Binds)].concat(),
        Renameat | Renameat2 => vec![
            path(first, second, false, Binds),
            path(third, fourth, false, Binds),
        ],
        Link => [named(first, Links), named(second, Binds)].concat(),
        Linkat => vec![
            path(first, second, fifth & AT_FOLLOW != 0, Links),
            path(third, fourth, false, Binds),
        ],
        _ => return None,
    })
}

fn in_directory(directory: u64, path: u64, follows: bool, manner: Manner) -> Part {
    Part::Path {
        directory,
        path,
        follows,
        manner,
    }
}

fn opening((directory, path): (u64, u64), flags: u64) -> Vec<Part> {
    let manner = match flags & PATH {
        0 => Manner::Opens {
            creates: flags & CREATING != 0,
            changes: flags & WRITING != 0,
        },
        _ => Manner::Passes,
    };
    let is_new = flags & (CREATING | EXCLUSIVE) == CREATING | EXCLUSIVE;
    vec![Part::Path {
        directory,
        path,
        follows: flags & NO_FOLLOW == 0 && !is_new,
        manner,
    }]
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use surmise_syscalls::{Disposition, Kind, rows};

    use super::*;

    /// A call that only looks is no change to the table, and what changes is none that is let go without a look.
    #[test]
    fn a_call_that_is_ordered_with_others_of_its_names_is_a_change() {
        for row in rows() {
            let arguments = [0, 0, 0, 0, 0, 0];
            let epoch = row.disposition_with(Kind::Epoch, &arguments);
            let may_change = touch(row.name(), &arguments) >= Touch::Changes;
            let is_of_view = row.handler() == surmise_syscalls::Handler::View;
            if is_of_view && epoch == Disposition::Track {
                // Without flags they open for reading.
                let opens = matches!(row.name(), Syscall::Open | Syscall::Openat);
                assert!(may_change || opens, "{}", row.name());
            }
        }
    }

    #[test]
    fn paths_are_the_callers_and_what_is_mounted_elsewhere_is_none() {
        let own = rustix::process::getpid();
        let seen = Seen::in_view();
        let of = |name, arguments: [u64; 6]| reach(own, (name, &arguments), &seen).expect("look");
        let at = |path: &CStr| path.as_ptr() as u64;
        assert_eq!(
            of(Syscall::Stat, [at(c"/dev/null"), 0, 0, 0, 0, 0]),
            Reach::Nothing
        );
        assert_eq!(of(Syscall::Stat, [0; 6]), Reach::Everything, "no text");
        assert_eq!(of(Syscall::Wait4, [0; 6]), Reach::Nothing);
        assert_eq!(
            of(Syscall::Statfs, [at(c"/etc"), 0, 0, 0, 0, 0]),
            Reach::Everything
        );
        let link = [at(c"to"), at(c"/etc/link/"), 0, 0, 0, 0];
        let Reach::At {
            looks, elsewhere, ..
        } = of(Syscall::Symlink, link)
        else {
            panic!("it has a path");
        };
        let target = Target::Path {
            base: "/".into(),
            path: "/etc/link/".into(),
            follows: true,
        };
        let manner = Manner::Binds;
        assert_eq!(looks, [Look { target, manner }]);
        assert!(elsewhere.contains(&PathBuf::from("/proc")));
        let rename = [at(c"one"), at(c"other"), 0, 0, 0, 0];
        let Reach::At { looks, .. } = of(Syscall::Rename, rename) else {
            panic!("it has two paths");
        };
        let here = std::env::current_dir().expect("a directory");
        let Target::Path { base, .. } = &looks[1].target else {
            panic!("it has a path");
        };
        assert_eq!((looks.len(), base), (2, &here));
    }

    #[test]
    fn behind_another_root_or_with_other_mounts_a_path_may_lead_anywhere() {
        let own = rustix::process::getpid();
        for name in [Syscall::Chroot, Syscall::Unshare] {
            let mut seen = Seen::in_view();
            seen.look_at(name, &[0; 6]);
            let arguments = [c"/etc".as_ptr() as u64, 0, 0, 0, 0, 0];
            let found = reach(own, (Syscall::Stat, &arguments), &seen);
            assert_eq!(found.expect("look"), Reach::Everything, "{name}");
            let found = reach(own, (Syscall::Wait4, &arguments), &seen);
            assert_eq!(found.expect("look"), Reach::Nothing, "{name}");
        }
    }

    #[test]
    fn a_path_that_names_a_descriptor_reaches_what_is_open_there() {
        let (reader, _writer) = rustix::pipe::pipe().expect("a pipe");
        let own = rustix::process::getpid();
        let seen = Seen::in_view();
        let of = |name, path: String| {
            let path = std::ffi::CString::new(path).expect("a path");
            let arguments = [path.as_ptr() as u64, 0, 0, 0, 0, 0];
            reach(own, (name, &arguments), &seen).expect("look")
        };
        let number = reader.as_raw_fd();
        let path = |end: &str| format!("/proc/self/fd/{number}{end}");
        assert_eq!(of(Syscall::Chmod, path("")), Reach::Nothing);
        for (name, path) in [
            (Syscall::Chmod, path("/")),
            (Syscall::Chmod, "/proc/self/fd/+1".into()),
            (Syscall::Lchown, path("")),
        ] {
            assert!(matches!(of(name, path), Reach::At { .. }));
        }
    }

    #[test]
    fn a_descriptor_of_something_else_than_the_view_touches_nothing() {
        let (reader, _writer) = rustix::pipe::pipe().expect("a pipe");
        let own = rustix::process::getpid();
        let arguments = [reader.as_raw_fd() as u64, 0, 0, 0, 0, 0];
        let found = reach(own, (Syscall::Read, &arguments), &Seen::in_view());
        assert_eq!(found.expect("look"), Reach::Nothing);
    }
}
