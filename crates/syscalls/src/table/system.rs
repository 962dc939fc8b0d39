//! The machine itself: its kernel, devices, keys and logs. A domain may look at little and change
//! nothing.

use crate::disposition::Disposition::{Allow, Wait};
use crate::disposition::{EACCES, ENOSYS, EPERM};
use crate::handler::Handler::Plain;
use crate::row::{Row, row};
use crate::shape::Shape::{
    Address, Command, DirFd, Fd, Flags, In, InOut, Integer, Length, Out, Path, Pid, Text,
};

/// Sorted by number.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row( 63, "uname",             &[Out],                                    [Allow, Allow, Allow],    Plain, "observes the domain's own host name"),
    row(103, "syslog",            &[Command, InOut, Length],                 [EPERM, Wait, Wait],      Plain, "the kernel's log belongs to the machine"),
    row(139, "sysfs",             &[Command, Address, Address],              [Allow, Allow, Allow],    Plain, "observes which file systems the kernel knows"),
    row(153, "vhangup",           &[],                                       [EPERM, Wait, Wait],      Plain, "would hang up the terminal for others"),
    row(163, "acct",              &[Path],                                   [EPERM, Wait, Wait],      Plain, "accounting belongs to the machine"),
    row(167, "swapon",            &[Path, Flags],                            [EPERM, Wait, Wait],      Plain, "swap belongs to the machine"),
    row(168, "swapoff",           &[Path],                                   [EPERM, Wait, Wait],      Plain, "swap belongs to the machine"),
    row(169, "reboot",            &[Integer, Integer, Command, Address],     [EPERM, Wait, Wait],      Plain, "the machine belongs to its owner"),
    row(170, "sethostname",       &[In, Length],                             [Allow, Wait, Allow],     Plain, "changes the domain's own host name; refused to who may not outside"),
    row(171, "setdomainname",     &[In, Length],                             [Allow, Wait, Allow],     Plain, "changes the domain's own domain name; refused to who may not outside"),
    row(172, "iopl",              &[Integer],                                [EPERM, Wait, Wait],      Plain, "ports lead straight to devices"),
    row(173, "ioperm",            &[Integer, Integer, Integer],              [EPERM, Wait, Wait],      Plain, "ports lead straight to devices"),
    row(175, "init_module",       &[In, Length, Text],                       [EPERM, Wait, Wait],      Plain, "code in the kernel has no boundary"),
    row(176, "delete_module",     &[Text, Flags],                            [EPERM, Wait, Wait],      Plain, "modules belong to the machine"),
    row(246, "kexec_load",        &[Address, Length, In, Flags],             [EPERM, Wait, Wait],      Plain, "the machine belongs to its owner"),
    row(248, "add_key",           &[Text, Text, In, Length, Integer],        [ENOSYS, Wait, Wait],     Plain, "keyrings outlive the domain; programs expect kernels without"),
    row(249, "request_key",       &[Text, Text, Text, Integer],              [ENOSYS, Wait, Wait],     Plain, "keyrings outlive the domain; programs expect kernels without"),
    row(250, "keyctl",            &[Command, Address, Address, Address, Address], [ENOSYS, Wait, Wait],     Plain, "keyrings outlive the domain; programs expect kernels without"),
    row(298, "perf_event_open",   &[In, Pid, Integer, Fd, Flags],            [EACCES, Wait, Allow],    Plain, "watches past the domain; the paranoid setting's errno"),
    row(300, "fanotify_init",     &[Flags, Flags],                           [EPERM, Wait, Wait],      Plain, "watches and delays other users of a file system"),
    row(301, "fanotify_mark",     &[Fd, Flags, Flags, DirFd, Path],          [EPERM, Wait, Wait],      Plain, "watches and delays other users of a file system"),
    row(313, "finit_module",      &[Fd, Text, Flags],                        [EPERM, Wait, Wait],      Plain, "code in the kernel has no boundary"),
    row(320, "kexec_file_load",   &[Fd, Fd, Length, Text, Flags],            [EPERM, Wait, Wait],      Plain, "the machine belongs to its owner"),
    row(321, "bpf",               &[Command, InOut, Length],                 [EPERM, Wait, Wait],      Plain, "code in the kernel has no boundary"),
    row(425, "io_uring_setup",    &[Integer, InOut],                         [ENOSYS, ENOSYS, ENOSYS], Plain, "no filter sees its calls; programs fall back"),
    row(426, "io_uring_enter",    &[Fd, Integer, Integer, Flags, In, Length], [ENOSYS, ENOSYS, ENOSYS], Plain, "no filter sees its calls; programs fall back"),
    row(427, "io_uring_register", &[Fd, Command, InOut, Integer],            [ENOSYS, ENOSYS, ENOSYS], Plain, "no filter sees its calls; programs fall back"),
];
