//! Clocks and timers. Nothing is replayed, so reading a clock is free; an armed timer is not rolled
//! back.

use crate::disposition::Disposition::{Allow, Wait};
use crate::disposition::EPERM;
use crate::handler::Handler::Plain;
use crate::row::{Row, row};
use crate::shape::Shape::{Command, Flags, In, InOut, Integer, Length, Out};

/// Sorted by number.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row( 35, "nanosleep",        &[In, Out],                  [Allow, Allow, Allow], Plain, "sleeps again after a rollback"),
    row( 36, "getitimer",        &[Command, Out],             [Allow, Allow, Allow], Plain, "observes time alone"),
    row( 37, "alarm",            &[Integer],                  [Allow, Wait, Allow],  Plain, "an armed timer is not rolled back"),
    row( 38, "setitimer",        &[Command, In, Out],         [Allow, Wait, Allow],  Plain, "an armed timer is not rolled back"),
    row( 96, "gettimeofday",     &[Out, Out],                 [Allow, Allow, Allow], Plain, "observes time alone"),
    row(100, "times",            &[Out],                      [Allow, Allow, Allow], Plain, "observes time alone"),
    row(159, "adjtimex",         &[InOut],                    [Allow, Wait, Allow],  Plain, "to read it is harmless; to change it needs a right that the domain lacks"),
    row(164, "settimeofday",     &[In, In],                   [EPERM, Wait, Wait],   Plain, "the clock belongs to the machine"),
    row(201, "time",             &[Out],                      [Allow, Allow, Allow], Plain, "observes time alone"),
    row(222, "timer_create",     &[Integer, In, Out],         [Allow, Wait, Allow],  Plain, "an armed timer is not rolled back; alarms take a right that the domain lacks"),
    row(223, "timer_settime",    &[Integer, Flags, In, Out],  [Allow, Wait, Allow],  Plain, "an armed timer is not rolled back"),
    row(224, "timer_gettime",    &[Integer, Out],             [Allow, Allow, Allow], Plain, "observes time alone"),
    row(225, "timer_getoverrun", &[Integer],                  [Allow, Allow, Allow], Plain, "observes time alone"),
    row(226, "timer_delete",     &[Integer],                  [Allow, Wait, Allow],  Plain, "an armed timer is not rolled back"),
    row(227, "clock_settime",    &[Integer, In],              [EPERM, Wait, Wait],   Plain, "the clock belongs to the machine"),
    row(228, "clock_gettime",    &[Integer, Out],             [Allow, Allow, Allow], Plain, "observes time alone"),
    row(229, "clock_getres",     &[Integer, Out],             [Allow, Allow, Allow], Plain, "never changes"),
    row(230, "clock_nanosleep",  &[Integer, Flags, In, Out],  [Allow, Allow, Allow], Plain, "sleeps again after a rollback"),
    row(305, "clock_adjtime",    &[Integer, InOut],           [Allow, Wait, Allow],  Plain, "to read it is harmless; to change it needs a right that the domain lacks"),
    row(318, "getrandom",        &[Out, Length, Flags],       [Allow, Allow, Allow], Plain, "as good a second time"),
];
