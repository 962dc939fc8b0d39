//! Mounts: the view is the only file system of a domain, so every way to add, move or reach another
//! is refused with the errno of a missing right.

use crate::disposition::Disposition::{Allow, Wait};
use crate::disposition::EPERM;
use crate::handler::Handler::Plain;
use crate::row::{Row, row};
use crate::shape::Shape::{
    Command, DirFd, Fd, Flags, In, InOut, Integer, Length, Out, Owner, Path, Text,
};
use crate::syscall::Syscall::*;

/// Sorted by number.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row(155, PivotRoot,      &[Path, Path],                       [EPERM, Wait, Wait],   Plain, "would leave the view"),
    row(165, Mount,          &[Path, Path, Text, Flags, In],      [EPERM, Wait, Wait],   Plain, "would reach a file system past the view"),
    row(166, Umount2,        &[Path, Flags],                      [EPERM, Wait, Wait],   Plain, "would uncover what the view covers"),
    row(179, Quotactl,       &[Command, Path, Owner, InOut],      [EPERM, Wait, Wait],   Plain, "acts on the real file systems"),
    row(304, OpenByHandleAt, &[Fd, In, Flags],                    [EPERM, Wait, Wait],   Plain, "opens files without their names"),
    row(308, Setns,          &[Fd, Flags],                        [EPERM, Wait, Wait],   Plain, "would enter namespaces that the command did not make"),
    row(428, OpenTree,       &[DirFd, Path, Flags],               [EPERM, Wait, Wait],   Plain, "copies mounts"),
    row(429, MoveMount,      &[DirFd, Path, DirFd, Path, Flags],  [EPERM, Wait, Wait],   Plain, "would reach a file system past the view"),
    row(430, Fsopen,         &[Text, Flags],                      [EPERM, Wait, Wait],   Plain, "would reach a file system past the view"),
    row(431, Fsconfig,       &[Fd, Command, Text, In, Integer],   [EPERM, Wait, Wait],   Plain, "would reach a file system past the view"),
    row(432, Fsmount,        &[Fd, Flags, Flags],                 [EPERM, Wait, Wait],   Plain, "would reach a file system past the view"),
    row(433, Fspick,         &[DirFd, Path, Flags],               [EPERM, Wait, Wait],   Plain, "would change the view's own mount"),
    row(442, MountSetattr,   &[DirFd, Path, Flags, In, Length],   [EPERM, Wait, Wait],   Plain, "would change the view's own mount"),
    row(443, QuotactlFd,     &[Fd, Command, Owner, InOut],        [EPERM, Wait, Wait],   Plain, "acts on the real file systems"),
    row(457, Statmount,      &[In, Out, Length, Flags],           [Allow, Allow, Allow], Plain, "observes mounts, which never change"),
    row(458, Listmount,      &[In, Out, Length, Flags],           [Allow, Allow, Allow], Plain, "observes mounts, which never change"),
    row(467, OpenTreeAttr,   &[DirFd, Path, Flags, In, Length],   [EPERM, Wait, Wait],   Plain, "copies mounts"),
];
