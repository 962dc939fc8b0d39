//! Processes and threads: birth, exec, exit, waiting, control of one by another. Contained by the
//! pid namespace.

use crate::disposition::Disposition::{Allow, Hold, Track, Wait};
use crate::disposition::ENOSYS;
use crate::handler::Handler::{Children, Exec, Exit, Plain, Process};
use crate::row::{Row, row};
use crate::shape::Shape::{
    Address, Command, DirFd, Fd, Flags, In, InOut, InVectors, Integer, Length, Mode, Out,
    OutVectors, Path, Pid,
};
use crate::table::exceptions;

/// Sorted by number.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row( 56, "clone",                   &[Flags, Address, Out, Out, Address],      [Allow, Track, Allow], Process,  "a child born after the checkpoint dies in a rollback"),
    row( 57, "fork",                    &[],                                       [Allow, Track, Allow], Process,  "a child born after the checkpoint dies in a rollback"),
    row( 58, "vfork",                   &[],                                       [Allow, Track, Allow], Process,  "a child born after the checkpoint dies in a rollback"),
    row( 59, "execve",                  &[Path, In, In],                           [Allow, Track, Allow], Exec,     "undone in place"),
    row( 60, "exit",                    &[Integer],                                [Allow, Hold, Hold],   Exit,     "a thread's end is held until it is certain"),
    row( 61, "wait4",                   &[Pid, Out, Flags, Out],                   [Allow, Track, Allow], Children, "observes a child"),
    row( 80, "chdir",                   &[Path],                                   [Allow, Track, Allow], Process,  "journaled with the task"),
    row( 81, "fchdir",                  &[Fd],                                     [Allow, Track, Allow], Process,  "journaled with the task"),
    row( 95, "umask",                   &[Mode],                                   [Allow, Track, Allow], Process,  "journaled with the task"),
    row(101, "ptrace",                  &[Command, Pid, Address, Address],         [Allow, Wait, Allow],  Plain,    "control of another process is not rolled back").except(exceptions::PTRACE),
    row(109, "setpgid",                 &[Pid, Pid],                               [Allow, Track, Allow], Process,  "journaled with the task"),
    row(112, "setsid",                  &[],                                       [Allow, Wait, Allow],  Plain,    "leaving a session cannot be undone"),
    row(135, "personality",             &[Flags],                                  [Allow, Wait, Allow],  Plain,    "not rolled back; no value of it opens foreign entry"),
    row(157, "prctl",                   &[Command, Address, Address, Address, Address], [Allow, Wait, Allow],  Plain,    "few of its attributes are rolled back; strict seccomp is refused by the kernel").except(exceptions::PRCTL),
    row(158, "arch_prctl",              &[Command, Address],                       [Allow, Wait, Allow],  Plain,    "switches of the processor, not rolled back").except(exceptions::ARCH_PRCTL),
    row(161, "chroot",                  &[Path],                                   [Allow, Wait, Allow],  Plain,    "a root is not rolled back; no root here leads out"),
    row(202, "futex",                   &[Address, Command, Integer, In, Address, Integer], [Allow, Allow, Allow], Plain,    "memory, which the checkpoint holds").except(exceptions::FUTEX),
    row(218, "set_tid_address",         &[Address],                                [Allow, Wait, Allow],  Plain,    "nobody but the thread can be asked what it was"),
    row(219, "restart_syscall",         &[],                                       [Allow, Allow, Allow], Plain,    "continues a sleep"),
    row(231, "exit_group",              &[Integer],                                [Allow, Hold, Hold],   Exit,     "the end of a process is held until it is certain"),
    row(247, "waitid",                  &[Command, Pid, Out, Flags, Out],          [Allow, Track, Allow], Children, "observes a child"),
    row(272, "unshare",                 &[Flags],                                  [Allow, Wait, Allow],  Plain,    "not rolled back; most need a new user namespace; mounting stays refused"),
    row(273, "set_robust_list",         &[Address, Length],                        [Allow, Allow, Allow], Plain,    "the checkpoint holds it"),
    row(274, "get_robust_list",         &[Pid, Out, Out],                          [Allow, Allow, Allow], Plain,    "the checkpoint holds it"),
    row(310, "process_vm_readv",        &[Pid, OutVectors, Integer, InVectors, Integer, Flags], [Allow, Wait, Allow],  Plain,    "observes the memory of another process"),
    row(311, "process_vm_writev",       &[Pid, InVectors, Integer, InVectors, Integer, Flags], [Allow, Wait, Allow],  Plain,    "modifies the memory of another process"),
    row(312, "kcmp",                    &[Pid, Pid, Command, Integer, Integer],    [Allow, Allow, Allow], Plain,    "compares kernel objects and shows no content"),
    row(317, "seccomp",                 &[Command, Flags, InOut],                  [Allow, Wait, Allow],  Plain,    "a filter can never be removed; where there is one, strict mode is refused").except(exceptions::SECCOMP),
    row(322, "execveat",                &[DirFd, Path, In, In, Flags],             [Allow, Track, Allow], Exec,     "undone in place"),
    row(334, "rseq",                    &[Address, Length, Flags, Integer],        [Allow, Allow, Allow], Plain,    "the checkpoint holds it"),
    row(335, "uretprobe",               &[],                                       [Allow, Allow, Allow], Plain,    "a probe's trampoline, called by the kernel's own page"),
    row(336, "uprobe",                  &[],                                       [Allow, Allow, Allow], Plain,    "a probe's trampoline, called by the kernel's own page"),
    row(435, "clone3",                  &[InOut, Length],                          [ENOSYS, ENOSYS, ENOSYS], Plain,  "a child may enter any control group, unseen by a filter; programs fall back"),
    row(444, "landlock_create_ruleset", &[In, Length, Flags],                      [Allow, Wait, Allow],  Plain,    "rules only take rights away"),
    row(445, "landlock_add_rule",       &[Fd, Command, In, Flags],                 [Allow, Wait, Allow],  Plain,    "rules only take rights away"),
    row(446, "landlock_restrict_self",  &[Fd, Flags],                              [Allow, Wait, Allow],  Plain,    "a restriction can never be lifted"),
    row(449, "futex_waitv",             &[Address, Length, Flags, In, Integer],    [Allow, Allow, Allow], Plain,    "memory, which the checkpoint holds"),
    row(454, "futex_wake",              &[Address, Integer, Integer, Flags],       [Allow, Allow, Allow], Plain,    "memory, which the checkpoint holds").except(exceptions::FUTEX_WAKE),
    row(455, "futex_wait",              &[Address, Integer, Integer, Flags, In, Integer], [Allow, Allow, Allow], Plain,    "memory, which the checkpoint holds"),
    row(456, "futex_requeue",           &[Address, Flags, Integer, Integer],       [Allow, Wait, Allow],  Plain,    "may wake a task that does not depend on the caller"),
];
