//! Numbers that Linux 6.18 still reserves but no longer serves: ENOSYS, whatever the kernel below
//! does.

use crate::disposition::ENOSYS;
use crate::handler::Handler::Plain;
use crate::row::{Row, row};
use crate::shape::Shape::{Command, In, InOut, Integer, Length, Out, Path, Text};
use crate::syscall::Syscall::*;

/// Sorted by number.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row(134, Uselib,        &[Path],                             [ENOSYS, ENOSYS, ENOSYS], Plain, "libraries in the a.out format are gone"),
    row(156, Sysctl,        &[InOut],                            [ENOSYS, ENOSYS, ENOSYS], Plain, "removed in Linux 5.5"),
    row(174, CreateModule,  &[Text, Length],                     [ENOSYS, ENOSYS, ENOSYS], Plain, "removed in Linux 2.6"),
    row(177, GetKernelSyms, &[Out],                              [ENOSYS, ENOSYS, ENOSYS], Plain, "removed in Linux 2.6"),
    row(178, QueryModule,   &[Text, Command, Out, Length, Out],  [ENOSYS, ENOSYS, ENOSYS], Plain, "removed in Linux 2.6"),
    row(180, Nfsservctl,    &[Command, In, Out],                 [ENOSYS, ENOSYS, ENOSYS], Plain, "removed in Linux 3.1"),
    row(181, Getpmsg,       &[],                                 [ENOSYS, ENOSYS, ENOSYS], Plain, "never served"),
    row(182, Putpmsg,       &[],                                 [ENOSYS, ENOSYS, ENOSYS], Plain, "never served"),
    row(183, AfsSyscall,    &[],                                 [ENOSYS, ENOSYS, ENOSYS], Plain, "never served"),
    row(184, Tuxcall,       &[],                                 [ENOSYS, ENOSYS, ENOSYS], Plain, "never served"),
    row(185, Security,      &[],                                 [ENOSYS, ENOSYS, ENOSYS], Plain, "never served"),
    row(205, SetThreadArea, &[In],                               [ENOSYS, ENOSYS, ENOSYS], Plain, "for 32-bit programs only"),
    row(211, GetThreadArea, &[In],                               [ENOSYS, ENOSYS, ENOSYS], Plain, "for 32-bit programs only"),
    row(212, LookupDcookie, &[Integer, Out, Length],             [ENOSYS, ENOSYS, ENOSYS], Plain, "removed in Linux 6.8"),
    row(214, EpollCtlOld,   &[],                                 [ENOSYS, ENOSYS, ENOSYS], Plain, "never served"),
    row(215, EpollWaitOld,  &[],                                 [ENOSYS, ENOSYS, ENOSYS], Plain, "never served"),
    row(236, Vserver,       &[],                                 [ENOSYS, ENOSYS, ENOSYS], Plain, "never served"),
];
