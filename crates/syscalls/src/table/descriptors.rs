//! The descriptor table, and descriptors that come from no name. Rollback restores the table.

use crate::disposition::Disposition::{Allow, Track, Wait};
use crate::handler::Handler::{Descriptors, Events, Plain};
use crate::row::{Row, row};
use crate::shape::Shape::{
    Address, Command, Fd, Flags, In, InOut, Integer, Length, Out, Pid, Text,
};
use crate::table::exceptions;

/// Sorted by number.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row(  3, "close",            &[Fd],                                     [Allow, Allow, Allow], Plain,       "the vessel holds what it led to: the other end sees no end"),
    row(  7, "poll",             &[InOut, Length, Integer],                 [Allow, Track, Allow], Events,      "observes whether objects are ready"),
    row( 16, "ioctl",            &[Fd, Command, Address],                   [Allow, Wait, Allow],  Descriptors, "a device's own language").except(exceptions::IOCTL),
    row( 22, "pipe",             &[Out],                                    [Allow, Track, Allow], Descriptors, "makes a pipe"),
    row( 23, "select",           &[Integer, InOut, InOut, InOut, InOut],    [Allow, Track, Allow], Events,      "observes whether objects are ready"),
    row( 32, "dup",              &[Fd],                                     [Allow, Allow, Allow], Plain,       "the checkpoint holds the table"),
    row( 33, "dup2",             &[Fd, Fd],                                 [Allow, Allow, Allow], Plain,       "the checkpoint holds the table"),
    row( 72, "fcntl",            &[Fd, Command, Address],                   [Allow, Track, Allow], Descriptors, "descriptor flags, status flags, locks, leases, pipes up to the usual size").except(exceptions::FCNTL),
    row( 73, "flock",            &[Fd, Command],                            [Allow, Wait, Allow],  Plain,       "a lock handed over cannot be taken back"),
    row(213, "epoll_create",     &[Integer],                                [Allow, Track, Allow], Descriptors, "makes an event queue"),
    row(232, "epoll_wait",       &[Fd, Out, Integer, Integer],              [Allow, Track, Allow], Events,      "observes whether objects are ready"),
    row(233, "epoll_ctl",        &[Fd, Command, Fd, In],                    [Allow, Track, Allow], Events,      "changes what an event queue watches; files are taken, and always ready"),
    row(253, "inotify_init",     &[],                                       [Allow, Track, Allow], Descriptors, "makes a watch queue"),
    row(255, "inotify_rm_watch", &[Fd, Integer],                            [Allow, Wait, Allow],  Plain,       "events already queued cannot be taken back"),
    row(270, "pselect6",         &[Integer, InOut, InOut, InOut, InOut, In], [Allow, Track, Allow], Events,      "observes whether objects are ready"),
    row(271, "ppoll",            &[InOut, Length, InOut, In, Length],       [Allow, Track, Allow], Events,      "observes whether objects are ready"),
    row(281, "epoll_pwait",      &[Fd, Out, Integer, Integer, In, Length],  [Allow, Track, Allow], Events,      "observes whether objects are ready"),
    row(282, "signalfd",         &[Fd, In, Length],                         [Allow, Track, Allow], Descriptors, "makes or changes a signal queue"),
    row(283, "timerfd_create",   &[Integer, Flags],                         [Allow, Track, Allow], Descriptors, "makes a timer"),
    row(284, "eventfd",          &[Integer],                                [Allow, Track, Allow], Descriptors, "makes a counter"),
    row(286, "timerfd_settime",  &[Fd, Flags, In, Out],                     [Allow, Wait, Allow],  Plain,       "an armed timer is not rolled back"),
    row(287, "timerfd_gettime",  &[Fd, Out],                                [Allow, Allow, Allow], Plain,       "observes time alone"),
    row(289, "signalfd4",        &[Fd, In, Length, Flags],                  [Allow, Track, Allow], Descriptors, "makes or changes a signal queue"),
    row(290, "eventfd2",         &[Integer, Flags],                         [Allow, Track, Allow], Descriptors, "makes a counter"),
    row(291, "epoll_create1",    &[Flags],                                  [Allow, Track, Allow], Descriptors, "makes an event queue"),
    row(292, "dup3",             &[Fd, Fd, Flags],                          [Allow, Allow, Allow], Plain,       "the checkpoint holds the table"),
    row(293, "pipe2",            &[Out, Flags],                             [Allow, Track, Allow], Descriptors, "makes a pipe"),
    row(294, "inotify_init1",    &[Flags],                                  [Allow, Track, Allow], Descriptors, "makes a watch queue"),
    row(319, "memfd_create",     &[Text, Flags],                            [Allow, Track, Allow], Descriptors, "makes a file without a name"),
    row(434, "pidfd_open",       &[Pid, Flags],                             [Allow, Track, Allow], Descriptors, "makes a descriptor of a process"),
    row(436, "close_range",      &[Fd, Fd, Flags],                          [Allow, Allow, Allow], Plain,       "the vessel holds what they led to: the other ends see no end"),
    row(438, "pidfd_getfd",      &[Fd, Fd, Flags],                          [Allow, Track, Allow], Descriptors, "copies a descriptor of another process of the domain"),
    row(441, "epoll_pwait2",     &[Fd, Out, Integer, In, In, Length],       [Allow, Track, Allow], Events,      "observes whether objects are ready"),
];
