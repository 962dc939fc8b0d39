//! Names in the view: looked up, created, renamed, removed. An observer takes the entry's
//! dependencies; a change is undone or joins the epoch.

use crate::disposition::Disposition::{Allow, Track, Wait};
use crate::handler::Handler::{Plain, View};
use crate::row::{Row, row};
use crate::shape::Shape::{DirFd, Fd, Flags, In, InOut, Integer, Length, Mode, Out, Path, Text};
use crate::table::exceptions;

/// Sorted by number.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row(  2, "open",              &[Path, Flags, Mode],                [Allow, Track, Track], View,  "finds a file, and may create or truncate it").except(exceptions::OPEN),
    row(  4, "stat",              &[Path, Out],                        [Allow, Track, Allow], View,  "observes a file through its name"),
    row(  6, "lstat",             &[Path, Out],                        [Allow, Track, Allow], View,  "observes a name without following it"),
    row( 21, "access",            &[Path, Mode],                       [Allow, Track, Allow], View,  "observes a file's rights"),
    row( 79, "getcwd",            &[Out, Length],                      [Allow, Track, Allow], View,  "observes the name of the working directory"),
    row( 82, "rename",            &[Path, Path],                       [Allow, Track, Track], View,  "moves a name"),
    row( 83, "mkdir",             &[Path, Mode],                       [Allow, Track, Track], View,  "creates a directory"),
    row( 84, "rmdir",             &[Path],                             [Allow, Track, Track], View,  "removes a directory"),
    row( 85, "creat",             &[Path, Mode],                       [Allow, Track, Track], View,  "creates or truncates a file"),
    row( 86, "link",              &[Path, Path],                       [Allow, Track, Track], View,  "adds a name to a file"),
    row( 87, "unlink",            &[Path],                             [Allow, Track, Track], View,  "removes a name"),
    row( 88, "symlink",           &[Text, Path],                       [Allow, Track, Track], View,  "creates a symbolic link"),
    row( 89, "readlink",          &[Path, Out, Length],                [Allow, Track, Allow], View,  "observes a symbolic link"),
    row(133, "mknod",             &[Path, Mode, Integer],              [Allow, Track, Track], View,  "creates a name; devices need a right that the domain lacks"),
    row(137, "statfs",            &[Path, Out],                        [Allow, Track, Allow], View,  "observes the space of a file system"),
    row(254, "inotify_add_watch", &[Fd, Path, Flags],                  [Allow, Wait, Allow],  Plain, "events already queued cannot be taken back"),
    row(257, "openat",            &[DirFd, Path, Flags, Mode],         [Allow, Track, Track], View,  "finds a file, and may create or truncate it").except(exceptions::OPENAT),
    row(258, "mkdirat",           &[DirFd, Path, Mode],                [Allow, Track, Track], View,  "creates a directory"),
    row(259, "mknodat",           &[DirFd, Path, Mode, Integer],       [Allow, Track, Track], View,  "creates a name; devices need a right that the domain lacks"),
    row(262, "newfstatat",        &[DirFd, Path, Out, Flags],          [Allow, Track, Allow], View,  "observes a file through its name"),
    row(263, "unlinkat",          &[DirFd, Path, Flags],               [Allow, Track, Track], View,  "removes a name"),
    row(264, "renameat",          &[DirFd, Path, DirFd, Path],         [Allow, Track, Track], View,  "moves a name"),
    row(265, "linkat",            &[DirFd, Path, DirFd, Path, Flags],  [Allow, Track, Track], View,  "adds a name to a file"),
    row(266, "symlinkat",         &[Text, DirFd, Path],                [Allow, Track, Track], View,  "creates a symbolic link"),
    row(267, "readlinkat",        &[DirFd, Path, Out, Length],         [Allow, Track, Allow], View,  "observes a symbolic link"),
    row(269, "faccessat",         &[DirFd, Path, Mode],                [Allow, Track, Allow], View,  "observes a file's rights"),
    row(303, "name_to_handle_at", &[DirFd, Path, InOut, Out, Flags],   [Allow, Track, Allow], View,  "observes a file's handle, which opens nothing in here"),
    row(316, "renameat2",         &[DirFd, Path, DirFd, Path, Flags],  [Allow, Track, Track], View,  "moves or exchanges names"),
    row(332, "statx",             &[DirFd, Path, Flags, Mode, Out],    [Allow, Track, Allow], View,  "observes a file through its name"),
    row(437, "openat2",           &[DirFd, Path, In, Length],          [Allow, Track, Track], View,  "finds a file, and may create or truncate it"),
    row(439, "faccessat2",        &[DirFd, Path, Mode, Flags],         [Allow, Track, Allow], View,  "observes a file's rights"),
];
