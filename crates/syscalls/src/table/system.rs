//! The machine itself: its kernel, devices, keys and logs. A domain may look at little and change
//! nothing.

use crate::disposition::Disposition::{Allow, Wait};
use crate::disposition::{EACCES, ENOSYS, EPERM};
use crate::handler::Handler::Plain;
use crate::row::{Row, row};
use crate::shape::Shape::{
    Address, Command, DirFd, Fd, Flags, In, InOut, Integer, Length, Out, Path, Pid, Text,
};
use crate::syscall::Syscall::*;

/// Sorted by number.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row( 63, Uname,           &[Out],                                    [Allow, Allow, Allow],    Plain, "observes the domain's own host name"),
    row(103, Syslog,          &[Command, InOut, Length],                 [EPERM, Wait, Wait],      Plain, "the kernel's log belongs to the machine"),
    row(139, Sysfs,           &[Command, Address, Address],              [Allow, Allow, Allow],    Plain, "observes which file systems the kernel knows"),
    row(153, Vhangup,         &[],                                       [EPERM, Wait, Wait],      Plain, "would hang up the terminal for others"),
    row(163, Acct,            &[Path],                                   [EPERM, Wait, Wait],      Plain, "accounting belongs to the machine"),
    row(167, Swapon,          &[Path, Flags],                            [EPERM, Wait, Wait],      Plain, "swap belongs to the machine"),
    row(168, Swapoff,         &[Path],                                   [EPERM, Wait, Wait],      Plain, "swap belongs to the machine"),
    row(169, Reboot,          &[Integer, Integer, Command, Address],     [EPERM, Wait, Wait],      Plain, "the machine belongs to its owner"),
    row(170, Sethostname,     &[In, Length],                             [Allow, Wait, Allow],     Plain, "changes the domain's own host name; refused to who may not outside"),
    row(171, Setdomainname,   &[In, Length],                             [Allow, Wait, Allow],     Plain, "changes the domain's own domain name; refused to who may not outside"),
    row(172, Iopl,            &[Integer],                                [EPERM, Wait, Wait],      Plain, "ports lead straight to devices"),
    row(173, Ioperm,          &[Integer, Integer, Integer],              [EPERM, Wait, Wait],      Plain, "ports lead straight to devices"),
    row(175, InitModule,      &[In, Length, Text],                       [EPERM, Wait, Wait],      Plain, "code in the kernel has no boundary"),
    row(176, DeleteModule,    &[Text, Flags],                            [EPERM, Wait, Wait],      Plain, "modules belong to the machine"),
    row(246, KexecLoad,       &[Address, Length, In, Flags],             [EPERM, Wait, Wait],      Plain, "the machine belongs to its owner"),
    row(248, AddKey,          &[Text, Text, In, Length, Integer],        [ENOSYS, Wait, Wait],     Plain, "keyrings outlive the domain; programs expect kernels without"),
    row(249, RequestKey,      &[Text, Text, Text, Integer],              [ENOSYS, Wait, Wait],     Plain, "keyrings outlive the domain; programs expect kernels without"),
    row(250, Keyctl,          &[Command, Address, Address, Address, Address], [ENOSYS, Wait, Wait],     Plain, "keyrings outlive the domain; programs expect kernels without"),
    row(298, PerfEventOpen,   &[In, Pid, Integer, Fd, Flags],            [EACCES, Wait, Allow],    Plain, "watches past the domain; the paranoid setting's errno"),
    row(300, FanotifyInit,    &[Flags, Flags],                           [EPERM, Wait, Wait],      Plain, "watches and delays other users of a file system"),
    row(301, FanotifyMark,    &[Fd, Flags, Flags, DirFd, Path],          [EPERM, Wait, Wait],      Plain, "watches and delays other users of a file system"),
    row(313, FinitModule,     &[Fd, Text, Flags],                        [EPERM, Wait, Wait],      Plain, "code in the kernel has no boundary"),
    row(320, KexecFileLoad,   &[Fd, Fd, Length, Text, Flags],            [EPERM, Wait, Wait],      Plain, "the machine belongs to its owner"),
    row(321, Bpf,             &[Command, InOut, Length],                 [EPERM, Wait, Wait],      Plain, "code in the kernel has no boundary"),
    row(425, IoUringSetup,    &[Integer, InOut],                         [ENOSYS, ENOSYS, ENOSYS], Plain, "no filter sees its calls; programs fall back"),
    row(426, IoUringEnter,    &[Fd, Integer, Integer, Flags, In, Length], [ENOSYS, ENOSYS, ENOSYS], Plain, "no filter sees its calls; programs fall back"),
    row(427, IoUringRegister, &[Fd, Command, InOut, Integer],            [ENOSYS, ENOSYS, ENOSYS], Plain, "no filter sees its calls; programs fall back"),
];
