//! Who a process is, and what it may use: users, groups, capabilities, limits, scheduling.
//! Contained by the user namespace.

use crate::disposition::Disposition::{Allow, Track, Wait};
use crate::handler::Handler::{Plain, Process};
use crate::row::{Row, row};
use crate::shape::Shape::{Address, Command, Flags, In, InOut, Integer, Length, Out, Owner, Pid};
use crate::syscall::Syscall::*;
use crate::table::exceptions;

/// Sorted by number.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row( 24, SchedYield,          &[],                            [Allow, Allow, Allow], Plain,   "shows nothing"),
    row( 39, Getpid,              &[],                            [Allow, Allow, Allow], Plain,   "never changes"),
    row( 97, Getrlimit,           &[Integer, Out],                [Allow, Allow, Allow], Plain,   "observes its own limits"),
    row( 98, Getrusage,           &[Integer, Out],                [Allow, Allow, Allow], Plain,   "observes time used, which is not rolled back either"),
    row( 99, Sysinfo,             &[Out],                         [Allow, Allow, Allow], Plain,   "observes the machine"),
    row(102, Getuid,              &[],                            [Allow, Allow, Allow], Plain,   "observes itself"),
    row(104, Getgid,              &[],                            [Allow, Allow, Allow], Plain,   "observes itself"),
    row(105, Setuid,              &[Owner],                       [Allow, Wait, Allow],  Plain,   "credentials are not rolled back"),
    row(106, Setgid,              &[Owner],                       [Allow, Wait, Allow],  Plain,   "credentials are not rolled back"),
    row(107, Geteuid,             &[],                            [Allow, Allow, Allow], Plain,   "observes itself"),
    row(108, Getegid,             &[],                            [Allow, Allow, Allow], Plain,   "observes itself"),
    row(110, Getppid,             &[],                            [Allow, Allow, Allow], Plain,   "observes itself"),
    row(111, Getpgrp,             &[],                            [Allow, Allow, Allow], Plain,   "observes itself"),
    row(113, Setreuid,            &[Owner, Owner],                [Allow, Wait, Allow],  Plain,   "credentials are not rolled back"),
    row(114, Setregid,            &[Owner, Owner],                [Allow, Wait, Allow],  Plain,   "credentials are not rolled back"),
    row(115, Getgroups,           &[Length, Out],                 [Allow, Allow, Allow], Plain,   "observes itself"),
    row(116, Setgroups,           &[Length, In],                  [Allow, Wait, Allow],  Plain,   "credentials are not rolled back"),
    row(117, Setresuid,           &[Owner, Owner, Owner],         [Allow, Track, Allow], Process, "other credentials are not rolled back"),
    row(118, Getresuid,           &[Out, Out, Out],               [Allow, Allow, Allow], Plain,   "observes itself"),
    row(119, Setresgid,           &[Owner, Owner, Owner],         [Allow, Track, Allow], Process, "other credentials are not rolled back"),
    row(120, Getresgid,           &[Out, Out, Out],               [Allow, Allow, Allow], Plain,   "observes itself"),
    row(121, Getpgid,             &[Pid],                         [Allow, Track, Allow], Process, "observes what setpgid journals"),
    row(122, Setfsuid,            &[Owner],                       [Allow, Wait, Allow],  Plain,   "credentials are not rolled back"),
    row(123, Setfsgid,            &[Owner],                       [Allow, Wait, Allow],  Plain,   "credentials are not rolled back"),
    row(124, Getsid,              &[Pid],                         [Allow, Allow, Allow], Plain,   "observes a process of the domain"),
    row(125, Capget,              &[InOut, Out],                  [Allow, Allow, Allow], Plain,   "observes itself"),
    row(126, Capset,              &[In, In],                      [Allow, Wait, Allow],  Plain,   "capabilities are not rolled back"),
    row(140, Getpriority,         &[Command, Pid],                [Allow, Allow, Allow], Plain,   "how fast a task runs shows nothing"),
    row(141, Setpriority,         &[Command, Pid, Integer],       [Allow, Wait, Allow],  Plain,   "a priority is not rolled back; raised as far as limits allow, by root freely"),
    row(142, SchedSetparam,       &[Pid, In],                     [Allow, Wait, Allow],  Plain,   "a priority is not rolled back; raised as far as limits allow, by root freely"),
    row(143, SchedGetparam,       &[Pid, Out],                    [Allow, Allow, Allow], Plain,   "how fast a task runs shows nothing"),
    row(144, SchedSetscheduler,   &[Pid, Command, In],            [Allow, Wait, Allow],  Plain,   "a priority is not rolled back; raised as far as limits allow, by root freely"),
    row(145, SchedGetscheduler,   &[Pid],                         [Allow, Allow, Allow], Plain,   "how fast a task runs shows nothing"),
    row(146, SchedGetPriorityMax, &[Command],                     [Allow, Allow, Allow], Plain,   "never changes"),
    row(147, SchedGetPriorityMin, &[Command],                     [Allow, Allow, Allow], Plain,   "never changes"),
    row(148, SchedRrGetInterval,  &[Pid, Out],                    [Allow, Allow, Allow], Plain,   "how fast a task runs shows nothing"),
    row(160, Setrlimit,           &[Integer, In],                 [Allow, Track, Allow], Process, "soft limits are rolled back; to raise one takes a right that the domain lacks"),
    row(186, Gettid,              &[],                            [Allow, Allow, Allow], Plain,   "never changes"),
    row(203, SchedSetaffinity,    &[Pid, Length, In],             [Allow, Wait, Allow],  Plain,   "an affinity is not rolled back"),
    row(204, SchedGetaffinity,    &[Pid, Length, Out],            [Allow, Allow, Allow], Plain,   "observes itself"),
    row(251, IoprioSet,           &[Command, Pid, Integer],       [Allow, Wait, Allow],  Plain,   "a priority is not rolled back; real time takes a right that the domain lacks"),
    row(252, IoprioGet,           &[Command, Pid],                [Allow, Allow, Allow], Plain,   "how fast a task runs shows nothing"),
    row(302, Prlimit64,           &[Pid, Integer, In, Out],       [Allow, Track, Allow], Process, "soft limits are rolled back; to raise one takes a right that the domain lacks").except(exceptions::PRLIMIT64),
    row(309, Getcpu,              &[Out, Out, Address],           [Allow, Allow, Allow], Plain,   "observes the machine"),
    row(314, SchedSetattr,        &[Pid, In, Flags],              [Allow, Wait, Allow],  Plain,   "a priority is not rolled back; raised as far as limits allow, by root freely"),
    row(315, SchedGetattr,        &[Pid, Out, Length, Flags],     [Allow, Allow, Allow], Plain,   "how fast a task runs shows nothing"),
    row(459, LsmGetSelfAttr,      &[Integer, Out, InOut, Flags],  [Allow, Allow, Allow], Plain,   "observes itself"),
    row(460, LsmSetSelfAttr,      &[Integer, In, Length, Flags],  [Allow, Wait, Allow],  Plain,   "security attributes are not rolled back"),
    row(461, LsmListModules,      &[Out, InOut, Flags],           [Allow, Allow, Allow], Plain,   "observes the machine"),
];
