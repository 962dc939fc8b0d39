//! Signals: handlers and masks lie in the checkpoint; a signal sent is an object that carries
//! dependencies.

use crate::disposition::Disposition::{Allow, Track};
use crate::handler::Handler::{Plain, Process, Signals};
use crate::row::{Row, row};
use crate::shape::Shape::{Command, Fd, Flags, In, Length, Out, Pid, Signal};
use crate::syscall::Syscall::*;
use crate::table::exceptions;

/// Sorted by number.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row( 13, RtSigaction,      &[Signal, In, Out, Length],   [Allow, Track, Allow], Process, "the vessel holds it; noted, since asking is slow").except(exceptions::RT_SIGACTION),
    row( 14, RtSigprocmask,    &[Command, In, Out, Length],  [Allow, Allow, Allow], Plain,   "the checkpoint holds it"),
    row( 15, RtSigreturn,      &[],                          [Allow, Allow, Allow], Plain,   "registers, which the checkpoint holds"),
    row( 34, Pause,            &[],                          [Allow, Track, Allow], Signals, "a signal observed is taken from its queue"),
    row( 62, Kill,             &[Pid, Signal],               [Allow, Track, Allow], Signals, "to a task of the domain tracked, out of it output"),
    row(127, RtSigpending,     &[Out, Length],               [Allow, Track, Allow], Signals, "observes the queue"),
    row(128, RtSigtimedwait,   &[In, Out, In, Length],       [Allow, Track, Allow], Signals, "a signal observed is taken from its queue"),
    row(129, RtSigqueueinfo,   &[Pid, Signal, In],           [Allow, Track, Allow], Signals, "to a task of the domain tracked, out of it output"),
    row(130, RtSigsuspend,     &[In, Length],                [Allow, Track, Allow], Signals, "a signal observed is taken from its queue"),
    row(131, Sigaltstack,      &[In, Out],                   [Allow, Track, Allow], Process, "the vessel holds that of an only thread; of several each is asked").except(exceptions::SIGALTSTACK),
    row(200, Tkill,            &[Pid, Signal],               [Allow, Track, Allow], Signals, "to a task of the domain tracked, out of it output"),
    row(234, Tgkill,           &[Pid, Pid, Signal],          [Allow, Track, Allow], Signals, "to a task of the domain tracked, out of it output"),
    row(297, RtTgsigqueueinfo, &[Pid, Pid, Signal, In],      [Allow, Track, Allow], Signals, "to a task of the domain tracked, out of it output"),
    row(424, PidfdSendSignal,  &[Fd, Signal, In, Flags],     [Allow, Track, Allow], Signals, "to a task of the domain tracked, out of it output"),
];
