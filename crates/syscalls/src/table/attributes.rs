//! Attributes of files in the view: modes, owners, times, extended attributes, sizes.

use crate::disposition::Disposition::{Allow, Track};
use crate::handler::Handler::View;
use crate::row::{Row, row};
use crate::shape::Shape::{
    DirFd, Fd, Flags, In, InOut, Integer, Length, Mode, Out, Owner, Path, Text,
};

/// Sorted by number.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row(  5, "fstat",         &[Fd, Out],                                [Allow, Track, Allow], View,  "observes a file through a descriptor"),
    row( 76, "truncate",      &[Path, Length],                           [Allow, Track, Track], View,  "changes a file's size"),
    row( 77, "ftruncate",     &[Fd, Length],                             [Allow, Track, Allow], View,  "changes a file's size"),
    row( 90, "chmod",         &[Path, Mode],                             [Allow, Track, Track], View,  "changes a file's mode"),
    row( 91, "fchmod",        &[Fd, Mode],                               [Allow, Track, Track], View,  "changes a file's mode"),
    row( 92, "chown",         &[Path, Owner, Owner],                     [Allow, Track, Track], View,  "changes a file's owner"),
    row( 93, "fchown",        &[Fd, Owner, Owner],                       [Allow, Track, Track], View,  "changes a file's owner"),
    row( 94, "lchown",        &[Path, Owner, Owner],                     [Allow, Track, Track], View,  "changes a link's owner"),
    row(132, "utime",         &[Path, In],                               [Allow, Track, Track], View,  "changes a file's times"),
    row(136, "ustat",         &[Integer, Out],                           [Allow, Track, Allow], View,  "observes the space of a file system"),
    row(138, "fstatfs",       &[Fd, Out],                                [Allow, Track, Allow], View,  "observes the space of a file system"),
    row(188, "setxattr",      &[Path, Text, In, Length, Flags],          [Allow, Track, Track], View,  "changes an extended attribute; some take a right that the domain lacks"),
    row(189, "lsetxattr",     &[Path, Text, In, Length, Flags],          [Allow, Track, Track], View,  "changes an extended attribute; some take a right that the domain lacks"),
    row(190, "fsetxattr",     &[Fd, Text, In, Length, Flags],            [Allow, Track, Track], View,  "changes an extended attribute; some take a right that the domain lacks"),
    row(191, "getxattr",      &[Path, Text, Out, Length],                [Allow, Track, Allow], View,  "observes an extended attribute"),
    row(192, "lgetxattr",     &[Path, Text, Out, Length],                [Allow, Track, Allow], View,  "observes an extended attribute"),
    row(193, "fgetxattr",     &[Fd, Text, Out, Length],                  [Allow, Track, Allow], View,  "observes an extended attribute"),
    row(194, "listxattr",     &[Path, Out, Length],                      [Allow, Track, Allow], View,  "observes extended attributes"),
    row(195, "llistxattr",    &[Path, Out, Length],                      [Allow, Track, Allow], View,  "observes extended attributes"),
    row(196, "flistxattr",    &[Fd, Out, Length],                        [Allow, Track, Allow], View,  "observes extended attributes"),
    row(197, "removexattr",   &[Path, Text],                             [Allow, Track, Track], View,  "removes an extended attribute"),
    row(198, "lremovexattr",  &[Path, Text],                             [Allow, Track, Track], View,  "removes an extended attribute"),
    row(199, "fremovexattr",  &[Fd, Text],                               [Allow, Track, Track], View,  "removes an extended attribute"),
    row(235, "utimes",        &[Path, In],                               [Allow, Track, Track], View,  "changes a file's times"),
    row(260, "fchownat",      &[DirFd, Path, Owner, Owner, Flags],       [Allow, Track, Track], View,  "changes a file's owner"),
    row(261, "futimesat",     &[DirFd, Path, In],                        [Allow, Track, Track], View,  "changes a file's times"),
    row(268, "fchmodat",      &[DirFd, Path, Mode],                      [Allow, Track, Track], View,  "changes a file's mode"),
    row(280, "utimensat",     &[DirFd, Path, In, Flags],                 [Allow, Track, Track], View,  "changes a file's times"),
    row(452, "fchmodat2",     &[DirFd, Path, Mode, Flags],               [Allow, Track, Track], View,  "changes a file's mode"),
    row(463, "setxattrat",    &[DirFd, Path, Flags, Text, In, Length],   [Allow, Track, Track], View,  "changes an extended attribute; some take a right that the domain lacks"),
    row(464, "getxattrat",    &[DirFd, Path, Flags, Text, InOut, Length], [Allow, Track, Allow], View,  "observes an extended attribute"),
    row(465, "listxattrat",   &[DirFd, Path, Flags, Out, Length],        [Allow, Track, Allow], View,  "observes extended attributes"),
    row(466, "removexattrat", &[DirFd, Path, Flags, Text],               [Allow, Track, Track], View,  "removes an extended attribute"),
    row(468, "file_getattr",  &[DirFd, Path, Out, Length, Flags],        [Allow, Track, Allow], View,  "observes a file's flags and project"),
    row(469, "file_setattr",  &[DirFd, Path, In, Length, Flags],         [Allow, Track, Track], View,  "changes a file's flags and project, which the view lacks"),
];
