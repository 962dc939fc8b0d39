//! Who a process is, and what it may use: users, groups, capabilities, limits, scheduling.
//! Contained by the user namespace.

use crate::disposition::Disposition::{Allow, Track, Wait};
use crate::handler::Handler::{Plain, Process};
use crate::row::{Row, row};
use crate::shape::Shape::{Address, Command, Flags, In, InOut, Integer, Length, Out, Owner, Pid};
use crate::table::exceptions;

/// Sorted by number.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row( 24, "sched_yield",            &[],                            [Allow, Allow, Allow], Plain,   "shows nothing"),
    row( 39, "getpid",                 &[],                            [Allow, Allow, Allow], Plain,   "never changes"),
    row( 97, "getrlimit",              &[Integer, Out],                [Allow, Allow, Allow], Plain,   "observes its own limits"),
    row( 98, "getrusage",              &[Integer, Out],                [Allow, Allow, Allow], Plain,   "observes time used, which is not rolled back either"),
    row( 99, "sysinfo",                &[Out],                         [Allow, Allow, Allow], Plain,   "observes the machine"),
    row(102, "getuid",                 &[],                            [Allow, Allow, Allow], Plain,   "observes itself"),
    row(104, "getgid",                 &[],                            [Allow, Allow, Allow], Plain,   "observes itself"),
    row(105, "setuid",                 &[Owner],                       [Allow, Wait, Allow],  Plain,   "credentials are not rolled back"),
    row(106, "setgid",                 &[Owner],                       [Allow, Wait, Allow],  Plain,   "credentials are not rolled back"),
    row(107, "geteuid",                &[],                            [Allow, Allow, Allow], Plain,   "observes itself"),
    row(108, "getegid",                &[],                            [Allow, Allow, Allow], Plain,   "observes itself"),
    row(110, "getppid",                &[],                            [Allow, Allow, Allow], Plain,   "observes itself"),
    row(111, "getpgrp",                &[],                            [Allow, Allow, Allow], Plain,   "observes itself"),
    row(113, "setreuid",               &[Owner, Owner],                [Allow, Wait, Allow],  Plain,   "credentials are not rolled back"),
    row(114, "setregid",               &[Owner, Owner],                [Allow, Wait, Allow],  Plain,   "credentials are not rolled back"),
    row(115, "getgroups",              &[Length, Out],                 [Allow, Allow, Allow], Plain,   "observes itself"),
    row(116, "setgroups",              &[Length, In],                  [Allow, Wait, Allow],  Plain,   "credentials are not rolled back"),
    row(117, "setresuid",              &[Owner, Owner, Owner],         [Allow, Wait, Allow],  Plain,   "credentials are not rolled back"),
    row(118, "getresuid",              &[Out, Out, Out],               [Allow, Allow, Allow], Plain,   "observes itself"),
    row(119, "setresgid",              &[Owner, Owner, Owner],         [Allow, Wait, Allow],  Plain,   "credentials are not rolled back"),
    row(120, "getresgid",              &[Out, Out, Out],               [Allow, Allow, Allow], Plain,   "observes itself"),
    row(121, "getpgid",                &[Pid],                         [Allow, Track, Allow], Process, "observes what setpgid journals"),
    row(122, "setfsuid",               &[Owner],                       [Allow, Wait, Allow],  Plain,   "credentials are not rolled back"),
    row(123, "setfsgid",               &[Owner],                       [Allow, Wait, Allow],  Plain,   "credentials are not rolled back"),
    row(124, "getsid",                 &[Pid],                         [Allow, Allow, Allow], Plain,   "observes a process of the domain"),
    row(125, "capget",                 &[InOut, Out],                  [Allow, Allow, Allow], Plain,   "observes itself"),
    row(126, "capset",                 &[In, In],                      [Allow, Wait, Allow],  Plain,   "capabilities are not rolled back"),
    row(140, "getpriority",            &[Command, Pid],                [Allow, Allow, Allow], Plain,   "how fast a task runs shows nothing"),
    row(141, "setpriority",            &[Command, Pid, Integer],       [Allow, Wait, Allow],  Plain,   "a priority is not rolled back; raised as far as limits allow, by root freely"),
    row(142, "sched_setparam",         &[Pid, In],                     [Allow, Wait, Allow],  Plain,   "a priority is not rolled back; raised as far as limits allow, by root freely"),
    row(143, "sched_getparam",         &[Pid, Out],                    [Allow, Allow, Allow], Plain,   "how fast a task runs shows nothing"),
    row(144, "sched_setscheduler",     &[Pid, Command, In],            [Allow, Wait, Allow],  Plain,   "a priority is not rolled back; raised as far as limits allow, by root freely"),
    row(145, "sched_getscheduler",     &[Pid],                         [Allow, Allow, Allow], Plain,   "how fast a task runs shows nothing"),
    row(146, "sched_get_priority_max", &[Command],                     [Allow, Allow, Allow], Plain,   "never changes"),
    row(147, "sched_get_priority_min", &[Command],                     [Allow, Allow, Allow], Plain,   "never changes"),
    row(148, "sched_rr_get_interval",  &[Pid, Out],                    [Allow, Allow, Allow], Plain,   "how fast a task runs shows nothing"),
    row(160, "setrlimit",              &[Integer, In],                 [Allow, Wait, Allow],  Plain,   "limits are not rolled back; to raise one takes a right that the domain lacks"),
    row(186, "gettid",                 &[],                            [Allow, Allow, Allow], Plain,   "never changes"),
    row(203, "sched_setaffinity",      &[Pid, Length, In],             [Allow, Wait, Allow],  Plain,   "an affinity is not rolled back"),
    row(204, "sched_getaffinity",      &[Pid, Length, Out],            [Allow, Allow, Allow], Plain,   "observes itself"),
    row(251, "ioprio_set",             &[Command, Pid, Integer],       [Allow, Wait, Allow],  Plain,   "a priority is not rolled back; real time takes a right that the domain lacks"),
    row(252, "ioprio_get",             &[Command, Pid],                [Allow, Allow, Allow], Plain,   "how fast a task runs shows nothing"),
    row(302, "prlimit64",              &[Pid, Integer, In, Out],       [Allow, Wait, Allow],  Plain,   "limits are not rolled back; to raise one takes a right that the domain lacks").except(exceptions::PRLIMIT64),
    row(309, "getcpu",                 &[Out, Out, Address],           [Allow, Allow, Allow], Plain,   "observes the machine"),
    row(314, "sched_setattr",          &[Pid, In, Flags],              [Allow, Wait, Allow],  Plain,   "a priority is not rolled back; raised as far as limits allow, by root freely"),
    row(315, "sched_getattr",          &[Pid, Out, Length, Flags],     [Allow, Allow, Allow], Plain,   "how fast a task runs shows nothing"),
    row(459, "lsm_get_self_attr",      &[Integer, Out, InOut, Flags],  [Allow, Allow, Allow], Plain,   "observes itself"),
    row(460, "lsm_set_self_attr",      &[Integer, In, Length, Flags],  [Allow, Wait, Allow],  Plain,   "security attributes are not rolled back"),
    row(461, "lsm_list_modules",       &[Out, InOut, Flags],           [Allow, Allow, Allow], Plain,   "observes the machine"),
];
