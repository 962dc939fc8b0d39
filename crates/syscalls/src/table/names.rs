//! Names in the view: looked up, created, renamed, removed. An observer takes the entry's
//! dependencies; a change is undone or joins the epoch.

use crate::by_name::ByName::{Entries, Opens};
use crate::disposition::Disposition::{Allow, Track, Wait};
use crate::handler::Handler::{Plain, View};
use crate::row::{Row, row};
use crate::shape::Shape::{DirFd, Fd, Flags, In, InOut, Integer, Length, Mode, Out, Path, Text};
use crate::syscall::Syscall::*;
use crate::table::exceptions;

/// Sorted by number.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row(  2, Open,            &[Path, Flags, Mode],                [Allow, Track, Track], View,  "finds a file, and may create or truncate it").except(exceptions::OPEN).changing(Opens),
    row(  4, Stat,            &[Path, Out],                        [Allow, Track, Allow], View,  "observes a file through its name"),
    row(  6, Lstat,           &[Path, Out],                        [Allow, Track, Allow], View,  "observes a name without following it"),
    row( 21, Access,          &[Path, Mode],                       [Allow, Track, Allow], View,  "observes a file's rights"),
    row( 79, Getcwd,          &[Out, Length],                      [Allow, Track, Allow], View,  "observes the name of the working directory"),
    row( 82, Rename,          &[Path, Path],                       [Allow, Track, Track], View,  "moves a name").changing(Entries),
    row( 83, Mkdir,           &[Path, Mode],                       [Allow, Track, Track], View,  "creates a directory").changing(Entries),
    row( 84, Rmdir,           &[Path],                             [Allow, Track, Track], View,  "removes a directory").changing(Entries),
    row( 85, Creat,           &[Path, Mode],                       [Allow, Track, Track], View,  "creates or truncates a file").changing(Opens),
    row( 86, Link,            &[Path, Path],                       [Allow, Track, Track], View,  "adds a name to a file").changing(Entries),
    row( 87, Unlink,          &[Path],                             [Allow, Track, Track], View,  "removes a name").changing(Entries),
    row( 88, Symlink,         &[Text, Path],                       [Allow, Track, Track], View,  "creates a symbolic link").changing(Entries),
    row( 89, Readlink,        &[Path, Out, Length],                [Allow, Track, Allow], View,  "observes a symbolic link"),
    row(133, Mknod,           &[Path, Mode, Integer],              [Allow, Track, Track], View,  "creates a name; devices need a right that the domain lacks").changing(Entries),
    row(137, Statfs,          &[Path, Out],                        [Allow, Track, Allow], View,  "observes the space of a file system"),
    row(254, InotifyAddWatch, &[Fd, Path, Flags],                  [Allow, Wait, Allow],  Plain, "events already queued cannot be taken back"),
    row(257, Openat,          &[DirFd, Path, Flags, Mode],         [Allow, Track, Track], View,  "finds a file, and may create or truncate it").except(exceptions::OPENAT).changing(Opens),
    row(258, Mkdirat,         &[DirFd, Path, Mode],                [Allow, Track, Track], View,  "creates a directory").changing(Entries),
    row(259, Mknodat,         &[DirFd, Path, Mode, Integer],       [Allow, Track, Track], View,  "creates a name; devices need a right that the domain lacks").changing(Entries),
    row(262, Newfstatat,      &[DirFd, Path, Out, Flags],          [Allow, Track, Allow], View,  "observes a file through its name"),
    row(263, Unlinkat,        &[DirFd, Path, Flags],               [Allow, Track, Track], View,  "removes a name").changing(Entries),
    row(264, Renameat,        &[DirFd, Path, DirFd, Path],         [Allow, Track, Track], View,  "moves a name").changing(Entries),
    row(265, Linkat,          &[DirFd, Path, DirFd, Path, Flags],  [Allow, Track, Track], View,  "adds a name to a file").changing(Entries),
    row(266, Symlinkat,       &[Text, DirFd, Path],                [Allow, Track, Track], View,  "creates a symbolic link").changing(Entries),
    row(267, Readlinkat,      &[DirFd, Path, Out, Length],         [Allow, Track, Allow], View,  "observes a symbolic link"),
    row(269, Faccessat,       &[DirFd, Path, Mode],                [Allow, Track, Allow], View,  "observes a file's rights"),
    row(303, NameToHandleAt,  &[DirFd, Path, InOut, Out, Flags],   [Allow, Track, Allow], View,  "observes a file's handle, which opens nothing in here"),
    row(316, Renameat2,       &[DirFd, Path, DirFd, Path, Flags],  [Allow, Track, Track], View,  "moves or exchanges names").changing(Entries),
    row(332, Statx,           &[DirFd, Path, Flags, Mode, Out],    [Allow, Track, Allow], View,  "observes a file through its name"),
    row(437, Openat2,         &[DirFd, Path, In, Length],          [Allow, Track, Track], View,  "finds a file, and may create or truncate it").changing(Opens),
    row(439, Faccessat2,      &[DirFd, Path, Mode, Flags],         [Allow, Track, Allow], View,  "observes a file's rights"),
];
