//! Signals: handlers and masks lie in the checkpoint; a signal sent is an object that carries
//! dependencies.

use crate::disposition::Disposition::{Allow, Track, Wait};
use crate::handler::Handler::{Plain, Process, Signals};
use crate::row::{Row, row};
use crate::shape::Shape::{Command, Fd, Flags, In, Length, Out, Pid, Signal};
use crate::table::exceptions;

/// Sorted by number.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row( 13, "rt_sigaction",      &[Signal, In, Out, Length],   [Allow, Track, Allow], Process, "the vessel holds it; noted, since asking is slow").except(exceptions::RT_SIGACTION),
    row( 14, "rt_sigprocmask",    &[Command, In, Out, Length],  [Allow, Allow, Allow], Plain,   "the checkpoint holds it"),
    row( 15, "rt_sigreturn",      &[],                          [Allow, Allow, Allow], Plain,   "registers, which the checkpoint holds"),
    row( 34, "pause",             &[],                          [Allow, Track, Allow], Signals, "a signal observed is taken from its queue"),
    row( 62, "kill",              &[Pid, Signal],               [Allow, Track, Allow], Signals, "to a task of the domain tracked, out of it output"),
    row(127, "rt_sigpending",     &[Out, Length],               [Allow, Track, Allow], Signals, "observes the queue"),
    row(128, "rt_sigtimedwait",   &[In, Out, In, Length],       [Allow, Track, Allow], Signals, "a signal observed is taken from its queue"),
    row(129, "rt_sigqueueinfo",   &[Pid, Signal, In],           [Allow, Track, Allow], Signals, "to a task of the domain tracked, out of it output"),
    row(130, "rt_sigsuspend",     &[In, Length],                [Allow, Track, Allow], Signals, "a signal observed is taken from its queue"),
    row(131, "sigaltstack",       &[In, Out],                   [Allow, Wait, Allow],  Plain,   "a vessel holds that of one thread only").except(exceptions::SIGALTSTACK),
    row(200, "tkill",             &[Pid, Signal],               [Allow, Track, Allow], Signals, "to a task of the domain tracked, out of it output"),
    row(234, "tgkill",            &[Pid, Pid, Signal],          [Allow, Track, Allow], Signals, "to a task of the domain tracked, out of it output"),
    row(297, "rt_tgsigqueueinfo", &[Pid, Pid, Signal, In],      [Allow, Track, Allow], Signals, "to a task of the domain tracked, out of it output"),
    row(424, "pidfd_send_signal", &[Fd, Signal, In, Flags],     [Allow, Track, Allow], Signals, "to a task of the domain tracked, out of it output"),
];
