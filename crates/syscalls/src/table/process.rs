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
use crate::syscall::Syscall::{self, *};
use crate::table::exceptions;

/// Sorted by number.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row( 56, Clone,                 &[Flags, Address, Out, Out, Address],      [Allow, Track, Allow], Process,  "a child born after the checkpoint dies in a rollback"),
    row( 57, Fork,                  &[],                                       [Allow, Track, Allow], Process,  "a child born after the checkpoint dies in a rollback"),
    row( 58, Vfork,                 &[],                                       [Allow, Track, Allow], Process,  "a child born after the checkpoint dies in a rollback"),
    row( 59, Execve,                &[Path, In, In],                           [Allow, Track, Allow], Exec,     "undone in place"),
    row( 60, Syscall::Exit,         &[Integer],                                [Allow, Hold, Hold],   Exit,     "a thread's end is held until it is certain"),
    row( 61, Wait4,                 &[Pid, Out, Flags, Out],                   [Allow, Track, Allow], Children, "observes a child"),
    row( 80, Chdir,                 &[Path],                                   [Allow, Track, Allow], Process,  "journaled with the task"),
    row( 81, Fchdir,                &[Fd],                                     [Allow, Track, Allow], Process,  "journaled with the task"),
    row( 95, Umask,                 &[Mode],                                   [Allow, Track, Allow], Process,  "journaled with the task"),
    row(101, Ptrace,                &[Command, Pid, Address, Address],         [Allow, Wait, Allow],  Plain,    "control of another process is not rolled back").except(exceptions::PTRACE),
    row(109, Setpgid,               &[Pid, Pid],                               [Allow, Track, Allow], Process,  "journaled with the task"),
    row(112, Setsid,                &[],                                       [Allow, Wait, Allow],  Plain,    "leaving a session cannot be undone"),
    row(135, Personality,           &[Flags],                                  [Allow, Wait, Allow],  Plain,    "not rolled back; no value of it opens foreign entry"),
    row(157, Prctl,                 &[Command, Address, Address, Address, Address], [Allow, Wait, Allow],  Process,  "few of its attributes are rolled back; strict seccomp is refused by the kernel").except(exceptions::PRCTL),
    row(158, ArchPrctl,             &[Command, Address],                       [Allow, Wait, Allow],  Plain,    "switches of the processor, not rolled back").except(exceptions::ARCH_PRCTL),
    row(161, Chroot,                &[Path],                                   [Allow, Wait, Allow],  Plain,    "a root is not rolled back; no root here leads out"),
    row(202, Futex,                 &[Address, Command, Integer, In, Address, Integer], [Allow, Allow, Allow], Plain,    "memory, which the checkpoint holds").except(exceptions::FUTEX),
    row(218, SetTidAddress,         &[Address],                                [Allow, Track, Allow], Process,  "kept with the checkpoint, of an only thread"),
    row(219, RestartSyscall,        &[],                                       [Allow, Allow, Allow], Plain,    "continues a sleep"),
    row(231, ExitGroup,             &[Integer],                                [Allow, Hold, Hold],   Exit,     "the end of a process is held until it is certain"),
    row(247, Waitid,                &[Command, Pid, Out, Flags, Out],          [Allow, Track, Allow], Children, "observes a child"),
    row(272, Unshare,               &[Flags],                                  [Allow, Wait, Allow],  Plain,    "not rolled back; most need a new user namespace; mounting stays refused"),
    row(273, SetRobustList,         &[Address, Length],                        [Allow, Allow, Allow], Plain,    "the checkpoint holds it"),
    row(274, GetRobustList,         &[Pid, Out, Out],                          [Allow, Allow, Allow], Plain,    "the checkpoint holds it"),
    row(310, ProcessVmReadv,        &[Pid, OutVectors, Integer, InVectors, Integer, Flags], [Allow, Wait, Allow],  Plain,    "observes the memory of another process"),
    row(311, ProcessVmWritev,       &[Pid, InVectors, Integer, InVectors, Integer, Flags], [Allow, Wait, Allow],  Plain,    "modifies the memory of another process"),
    row(312, Kcmp,                  &[Pid, Pid, Command, Integer, Integer],    [Allow, Allow, Allow], Plain,    "compares kernel objects and shows no content"),
    row(317, Seccomp,               &[Command, Flags, InOut],                  [Allow, Wait, Allow],  Plain,    "a filter can never be removed; where there is one, strict mode is refused").except(exceptions::SECCOMP),
    row(322, Execveat,              &[DirFd, Path, In, In, Flags],             [Allow, Track, Allow], Exec,     "undone in place"),
    row(334, Rseq,                  &[Address, Length, Flags, Integer],        [Allow, Allow, Allow], Plain,    "the checkpoint holds it"),
    row(335, Uretprobe,             &[],                                       [Allow, Allow, Allow], Plain,    "a probe's trampoline, called by the kernel's own page"),
    row(336, Uprobe,                &[],                                       [Allow, Allow, Allow], Plain,    "a probe's trampoline, called by the kernel's own page"),
    row(435, Clone3,                &[InOut, Length],                          [ENOSYS, ENOSYS, ENOSYS], Plain,  "a child may enter any control group, unseen by a filter; programs fall back"),
    row(444, LandlockCreateRuleset, &[In, Length, Flags],                      [Allow, Wait, Allow],  Plain,    "rules only take rights away"),
    row(445, LandlockAddRule,       &[Fd, Command, In, Flags],                 [Allow, Wait, Allow],  Plain,    "rules only take rights away"),
    row(446, LandlockRestrictSelf,  &[Fd, Flags],                              [Allow, Wait, Allow],  Plain,    "a restriction can never be lifted"),
    row(449, FutexWaitv,            &[Address, Length, Flags, In, Integer],    [Allow, Allow, Allow], Plain,    "memory, which the checkpoint holds"),
    row(454, FutexWake,             &[Address, Integer, Integer, Flags],       [Allow, Allow, Allow], Plain,    "memory, which the checkpoint holds").except(exceptions::FUTEX_WAKE),
    row(455, FutexWait,             &[Address, Integer, Integer, Flags, In, Integer], [Allow, Allow, Allow], Plain,    "memory, which the checkpoint holds"),
    row(456, FutexRequeue,          &[Address, Flags, Integer, Integer],       [Allow, Wait, Allow],  Plain,    "may wake a task that does not depend on the caller"),
];
