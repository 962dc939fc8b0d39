//! Attributes of files in the view: modes, owners, times, extended attributes, sizes.

use crate::by_name::ByName::Contents;
use crate::disposition::Disposition::{Allow, Track};
use crate::handler::Handler::View;
use crate::row::{Row, row};
use crate::shape::Shape::{
    DirFd, Fd, Flags, In, InOut, Integer, Length, Mode, Out, Owner, Path, Text,
};
use crate::syscall::Syscall::*;

/// Sorted by number.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row(  5, Fstat,         &[Fd, Out],                                [Allow, Track, Allow], View,  "observes a file through a descriptor"),
    row( 76, Truncate,      &[Path, Length],                           [Allow, Track, Track], View,  "changes a file's size").changing(Contents),
    row( 77, Ftruncate,     &[Fd, Length],                             [Allow, Track, Allow], View,  "changes a file's size"),
    row( 90, Chmod,         &[Path, Mode],                             [Allow, Track, Track], View,  "changes a file's mode"),
    row( 91, Fchmod,        &[Fd, Mode],                               [Allow, Track, Track], View,  "changes a file's mode"),
    row( 92, Chown,         &[Path, Owner, Owner],                     [Allow, Track, Track], View,  "changes a file's owner"),
    row( 93, Fchown,        &[Fd, Owner, Owner],                       [Allow, Track, Track], View,  "changes a file's owner"),
    row( 94, Lchown,        &[Path, Owner, Owner],                     [Allow, Track, Track], View,  "changes a link's owner"),
    row(132, Utime,         &[Path, In],                               [Allow, Track, Track], View,  "changes a file's times"),
    row(136, Ustat,         &[Integer, Out],                           [Allow, Track, Allow], View,  "observes the space of a file system"),
    row(138, Fstatfs,       &[Fd, Out],                                [Allow, Track, Allow], View,  "observes the space of a file system"),
    row(188, Setxattr,      &[Path, Text, In, Length, Flags],          [Allow, Track, Track], View,  "changes an extended attribute; some take a right that the domain lacks"),
    row(189, Lsetxattr,     &[Path, Text, In, Length, Flags],          [Allow, Track, Track], View,  "changes an extended attribute; some take a right that the domain lacks"),
    row(190, Fsetxattr,     &[Fd, Text, In, Length, Flags],            [Allow, Track, Track], View,  "changes an extended attribute; some take a right that the domain lacks"),
    row(191, Getxattr,      &[Path, Text, Out, Length],                [Allow, Track, Allow], View,  "observes an extended attribute"),
    row(192, Lgetxattr,     &[Path, Text, Out, Length],                [Allow, Track, Allow], View,  "observes an extended attribute"),
    row(193, Fgetxattr,     &[Fd, Text, Out, Length],                  [Allow, Track, Allow], View,  "observes an extended attribute"),
    row(194, Listxattr,     &[Path, Out, Length],                      [Allow, Track, Allow], View,  "observes extended attributes"),
    row(195, Llistxattr,    &[Path, Out, Length],                      [Allow, Track, Allow], View,  "observes extended attributes"),
    row(196, Flistxattr,    &[Fd, Out, Length],                        [Allow, Track, Allow], View,  "observes extended attributes"),
    row(197, Removexattr,   &[Path, Text],                             [Allow, Track, Track], View,  "removes an extended attribute"),
    row(198, Lremovexattr,  &[Path, Text],                             [Allow, Track, Track], View,  "removes an extended attribute"),
    row(199, Fremovexattr,  &[Fd, Text],                               [Allow, Track, Track], View,  "removes an extended attribute"),
    row(235, Utimes,        &[Path, In],                               [Allow, Track, Track], View,  "changes a file's times"),
    row(260, Fchownat,      &[DirFd, Path, Owner, Owner, Flags],       [Allow, Track, Track], View,  "changes a file's owner"),
    row(261, Futimesat,     &[DirFd, Path, In],                        [Allow, Track, Track], View,  "changes a file's times"),
    row(268, Fchmodat,      &[DirFd, Path, Mode],                      [Allow, Track, Track], View,  "changes a file's mode"),
    row(280, Utimensat,     &[DirFd, Path, In, Flags],                 [Allow, Track, Track], View,  "changes a file's times"),
    row(452, Fchmodat2,     &[DirFd, Path, Mode, Flags],               [Allow, Track, Track], View,  "changes a file's mode"),
    row(463, Setxattrat,    &[DirFd, Path, Flags, Text, In, Length],   [Allow, Track, Track], View,  "changes an extended attribute; some take a right that the domain lacks"),
    row(464, Getxattrat,    &[DirFd, Path, Flags, Text, InOut, Length], [Allow, Track, Allow], View,  "observes an extended attribute"),
    row(465, Listxattrat,   &[DirFd, Path, Flags, Out, Length],        [Allow, Track, Allow], View,  "observes extended attributes"),
    row(466, Removexattrat, &[DirFd, Path, Flags, Text],               [Allow, Track, Track], View,  "removes an extended attribute"),
    row(468, FileGetattr,   &[DirFd, Path, Out, Length, Flags],        [Allow, Track, Allow], View,  "observes a file's flags and project"),
    row(469, FileSetattr,   &[DirFd, Path, In, Length, Flags],         [Allow, Track, Track], View,  "changes a file's flags and project, which the view lacks"),
];
