//! The descriptor table, and descriptors that come from no name. Rollback restores the table.

use crate::disposition::Disposition::{Allow, Track, Wait};
use crate::handler::Handler::{Descriptors, Events, Plain};
use crate::row::{Row, row};
use crate::shape::Shape::{
    Address, Command, Fd, Flags, In, InOut, Integer, Length, Out, Pid, Text,
};
use crate::syscall::Syscall::*;
use crate::table::exceptions;

/// Sorted by number.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row(  3, Close,          &[Fd],                                     [Allow, Allow, Allow], Plain,       "the vessel holds what it led to: the other end sees no end"),
    row(  7, Poll,           &[InOut, Length, Integer],                 [Allow, Track, Allow], Events,      "observes whether objects are ready"),
    row( 16, Ioctl,          &[Fd, Command, Address],                   [Allow, Wait, Allow],  Descriptors, "a device's own language").except(exceptions::IOCTL),
    row( 22, Pipe,           &[Out],                                    [Allow, Track, Allow], Descriptors, "makes a pipe"),
    row( 23, Select,         &[Integer, InOut, InOut, InOut, InOut],    [Allow, Track, Allow], Events,      "observes whether objects are ready"),
    row( 32, Dup,            &[Fd],                                     [Allow, Allow, Allow], Plain,       "the checkpoint holds the table"),
    row( 33, Dup2,           &[Fd, Fd],                                 [Allow, Allow, Allow], Plain,       "the checkpoint holds the table"),
    row( 72, Fcntl,          &[Fd, Command, Address],                   [Allow, Track, Allow], Descriptors, "descriptor flags, status flags, locks, leases, pipes up to the usual size").except(exceptions::FCNTL),
    row( 73, Flock,          &[Fd, Command],                            [Allow, Wait, Allow],  Plain,       "a lock handed over cannot be taken back"),
    row(213, EpollCreate,    &[Integer],                                [Allow, Track, Allow], Descriptors, "makes an event queue"),
    row(232, EpollWait,      &[Fd, Out, Integer, Integer],              [Allow, Track, Allow], Events,      "observes whether objects are ready"),
    row(233, EpollCtl,       &[Fd, Command, Fd, In],                    [Allow, Track, Allow], Events,      "changes what an event queue watches; files are taken, and always ready"),
    row(253, InotifyInit,    &[],                                       [Allow, Track, Allow], Descriptors, "makes a watch queue"),
    row(255, InotifyRmWatch, &[Fd, Integer],                            [Allow, Wait, Allow],  Plain,       "events already queued cannot be taken back"),
    row(270, Pselect6,       &[Integer, InOut, InOut, InOut, InOut, In], [Allow, Track, Allow], Events,      "observes whether objects are ready"),
    row(271, Ppoll,          &[InOut, Length, InOut, In, Length],       [Allow, Track, Allow], Events,      "observes whether objects are ready"),
    row(281, EpollPwait,     &[Fd, Out, Integer, Integer, In, Length],  [Allow, Track, Allow], Events,      "observes whether objects are ready"),
    row(282, Signalfd,       &[Fd, In, Length],                         [Allow, Track, Allow], Descriptors, "makes or changes a signal queue"),
    row(283, TimerfdCreate,  &[Integer, Flags],                         [Allow, Track, Allow], Descriptors, "makes a timer"),
    row(284, Eventfd,        &[Integer],                                [Allow, Track, Allow], Descriptors, "makes a counter"),
    row(286, TimerfdSettime, &[Fd, Flags, In, Out],                     [Allow, Wait, Allow],  Plain,       "an armed timer is not rolled back"),
    row(287, TimerfdGettime, &[Fd, Out],                                [Allow, Allow, Allow], Plain,       "observes time alone"),
    row(289, Signalfd4,      &[Fd, In, Length, Flags],                  [Allow, Track, Allow], Descriptors, "makes or changes a signal queue"),
    row(290, Eventfd2,       &[Integer, Flags],                         [Allow, Track, Allow], Descriptors, "makes a counter"),
    row(291, EpollCreate1,   &[Flags],                                  [Allow, Track, Allow], Descriptors, "makes an event queue"),
    row(292, Dup3,           &[Fd, Fd, Flags],                          [Allow, Allow, Allow], Plain,       "the checkpoint holds the table"),
    row(293, Pipe2,          &[Out, Flags],                             [Allow, Track, Allow], Descriptors, "makes a pipe"),
    row(294, InotifyInit1,   &[Flags],                                  [Allow, Track, Allow], Descriptors, "makes a watch queue"),
    row(319, MemfdCreate,    &[Text, Flags],                            [Allow, Track, Allow], Descriptors, "makes a file without a name"),
    row(434, PidfdOpen,      &[Pid, Flags],                             [Allow, Track, Allow], Descriptors, "makes a descriptor of a process"),
    row(436, CloseRange,     &[Fd, Fd, Flags],                          [Allow, Allow, Allow], Plain,       "the vessel holds what they led to: the other ends see no end"),
    row(438, PidfdGetfd,     &[Fd, Fd, Flags],                          [Allow, Track, Allow], Descriptors, "copies a descriptor of another process of the domain"),
    row(441, EpollPwait2,    &[Fd, Out, Integer, In, In, Length],       [Allow, Track, Allow], Events,      "observes whether objects are ready"),
];
