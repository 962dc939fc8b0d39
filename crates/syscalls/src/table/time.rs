//! Clocks and timers. Nothing is replayed, so reading a clock is free. Of armed timers that of real time alone is rolled back.

use crate::disposition::Disposition::{Allow, Track, Wait};
use crate::disposition::EPERM;
use crate::handler::Handler::{Plain, Process};
use crate::row::{Row, row};
use crate::shape::Shape::{Command, Flags, In, InOut, Integer, Length, Out};
use crate::syscall::Syscall::*;

/// Sorted by number.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row( 35, Nanosleep,       &[In, Out],                  [Allow, Allow, Allow], Plain, "sleeps again after a rollback"),
    row( 36, Getitimer,       &[Command, Out],             [Allow, Allow, Allow], Plain, "observes time alone"),
    row( 37, Alarm,           &[Integer],                  [Allow, Track, Allow], Process, "the timer is kept with the checkpoint when it is set first"),
    row( 38, Setitimer,       &[Command, In, Out],         [Allow, Track, Allow], Process, "the timer of real time is kept with the checkpoint when it is set first"),
    row( 96, Gettimeofday,    &[Out, Out],                 [Allow, Allow, Allow], Plain, "observes time alone"),
    row(100, Times,           &[Out],                      [Allow, Allow, Allow], Plain, "observes time alone"),
    row(159, Adjtimex,        &[InOut],                    [Allow, Wait, Allow],  Plain, "to read it is harmless; to change it needs a right that the domain lacks"),
    row(164, Settimeofday,    &[In, In],                   [EPERM, Wait, Wait],   Plain, "the clock belongs to the machine"),
    row(201, Time,            &[Out],                      [Allow, Allow, Allow], Plain, "observes time alone"),
    row(222, TimerCreate,     &[Integer, In, Out],         [Allow, Wait, Allow],  Plain, "an armed timer is not rolled back; alarms take a right that the domain lacks"),
    row(223, TimerSettime,    &[Integer, Flags, In, Out],  [Allow, Wait, Allow],  Plain, "an armed timer is not rolled back"),
    row(224, TimerGettime,    &[Integer, Out],             [Allow, Allow, Allow], Plain, "observes time alone"),
    row(225, TimerGetoverrun, &[Integer],                  [Allow, Allow, Allow], Plain, "observes time alone"),
    row(226, TimerDelete,     &[Integer],                  [Allow, Wait, Allow],  Plain, "an armed timer is not rolled back"),
    row(227, ClockSettime,    &[Integer, In],              [EPERM, Wait, Wait],   Plain, "the clock belongs to the machine"),
    row(228, ClockGettime,    &[Integer, Out],             [Allow, Allow, Allow], Plain, "observes time alone"),
    row(229, ClockGetres,     &[Integer, Out],             [Allow, Allow, Allow], Plain, "never changes"),
    row(230, ClockNanosleep,  &[Integer, Flags, In, Out],  [Allow, Allow, Allow], Plain, "sleeps again after a rollback"),
    row(305, ClockAdjtime,    &[Integer, InOut],           [Allow, Wait, Allow],  Plain, "to read it is harmless; to change it needs a right that the domain lacks"),
    row(318, Getrandom,       &[Out, Length, Flags],       [Allow, Allow, Allow], Plain, "as good a second time"),
];
