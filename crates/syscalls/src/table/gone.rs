//! Numbers that Linux 6.18 still reserves but no longer serves: ENOSYS, whatever the kernel below
//! does.

use crate::disposition::ENOSYS;
use crate::handler::Handler::Plain;
use crate::row::{Row, row};
use crate::shape::Shape::{Command, In, InOut, Integer, Length, Out, Path, Text};

/// Sorted by number.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row(134, "uselib",          &[Path],                             [ENOSYS, ENOSYS, ENOSYS], Plain, "libraries in the a.out format are gone"),
    row(156, "_sysctl",         &[InOut],                            [ENOSYS, ENOSYS, ENOSYS], Plain, "removed in Linux 5.5"),
    row(174, "create_module",   &[Text, Length],                     [ENOSYS, ENOSYS, ENOSYS], Plain, "removed in Linux 2.6"),
    row(177, "get_kernel_syms", &[Out],                              [ENOSYS, ENOSYS, ENOSYS], Plain, "removed in Linux 2.6"),
    row(178, "query_module",    &[Text, Command, Out, Length, Out],  [ENOSYS, ENOSYS, ENOSYS], Plain, "removed in Linux 2.6"),
    row(180, "nfsservctl",      &[Command, In, Out],                 [ENOSYS, ENOSYS, ENOSYS], Plain, "removed in Linux 3.1"),
    row(181, "getpmsg",         &[],                                 [ENOSYS, ENOSYS, ENOSYS], Plain, "never served"),
    row(182, "putpmsg",         &[],                                 [ENOSYS, ENOSYS, ENOSYS], Plain, "never served"),
    row(183, "afs_syscall",     &[],                                 [ENOSYS, ENOSYS, ENOSYS], Plain, "never served"),
    row(184, "tuxcall",         &[],                                 [ENOSYS, ENOSYS, ENOSYS], Plain, "never served"),
    row(185, "security",        &[],                                 [ENOSYS, ENOSYS, ENOSYS], Plain, "never served"),
    row(205, "set_thread_area", &[In],                               [ENOSYS, ENOSYS, ENOSYS], Plain, "for 32-bit programs only"),
    row(211, "get_thread_area", &[In],                               [ENOSYS, ENOSYS, ENOSYS], Plain, "for 32-bit programs only"),
    row(212, "lookup_dcookie",  &[Integer, Out, Length],             [ENOSYS, ENOSYS, ENOSYS], Plain, "removed in Linux 6.8"),
    row(214, "epoll_ctl_old",   &[],                                 [ENOSYS, ENOSYS, ENOSYS], Plain, "never served"),
    row(215, "epoll_wait_old",  &[],                                 [ENOSYS, ENOSYS, ENOSYS], Plain, "never served"),
    row(236, "vserver",         &[],                                 [ENOSYS, ENOSYS, ENOSYS], Plain, "never served"),
];
