//! System V IPC and POSIX message queues: the domain's own IPC namespace contains them. Rare enough
//! to wait for a prediction.

use crate::disposition::Disposition::{Allow, Wait};
use crate::handler::Handler::Plain;
use crate::row::{Row, row};
use crate::shape::Shape::{
    Address, Command, Fd, Flags, In, InOut, Integer, Length, Mode, Out, Text,
};

/// Sorted by number.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row( 29, "shmget",          &[Integer, Length, Flags],                [Allow, Wait, Allow], Plain, "shared memory is not rolled back"),
    row( 30, "shmat",           &[Integer, Address, Flags],               [Allow, Wait, Allow], Plain, "shared memory is not rolled back"),
    row( 31, "shmctl",          &[Integer, Command, InOut],               [Allow, Wait, Allow], Plain, "shared memory is not rolled back"),
    row( 64, "semget",          &[Integer, Integer, Flags],               [Allow, Wait, Allow], Plain, "a semaphore taken cannot be given back"),
    row( 65, "semop",           &[Integer, In, Length],                   [Allow, Wait, Allow], Plain, "a semaphore taken cannot be given back"),
    row( 66, "semctl",          &[Integer, Integer, Command, Address],    [Allow, Wait, Allow], Plain, "a semaphore taken cannot be given back"),
    row( 67, "shmdt",           &[Address],                               [Allow, Wait, Allow], Plain, "shared memory is not rolled back"),
    row( 68, "msgget",          &[Integer, Flags],                        [Allow, Wait, Allow], Plain, "a message read cannot be put back"),
    row( 69, "msgsnd",          &[Integer, In, Length, Flags],            [Allow, Wait, Allow], Plain, "a message read cannot be put back"),
    row( 70, "msgrcv",          &[Integer, Out, Length, Integer, Flags],  [Allow, Wait, Allow], Plain, "a message read cannot be put back"),
    row( 71, "msgctl",          &[Integer, Command, InOut],               [Allow, Wait, Allow], Plain, "a message read cannot be put back"),
    row(220, "semtimedop",      &[Integer, In, Length, In],               [Allow, Wait, Allow], Plain, "a semaphore taken cannot be given back"),
    row(240, "mq_open",         &[Text, Flags, Mode, In],                 [Allow, Wait, Allow], Plain, "a message read cannot be put back"),
    row(241, "mq_unlink",       &[Text],                                  [Allow, Wait, Allow], Plain, "a message read cannot be put back"),
    row(242, "mq_timedsend",    &[Fd, In, Length, Integer, In],           [Allow, Wait, Allow], Plain, "a message read cannot be put back"),
    row(243, "mq_timedreceive", &[Fd, Out, Length, Out, In],              [Allow, Wait, Allow], Plain, "a message read cannot be put back"),
    row(244, "mq_notify",       &[Fd, In],                                [Allow, Wait, Allow], Plain, "a message read cannot be put back"),
    row(245, "mq_getsetattr",   &[Fd, In, Out],                           [Allow, Wait, Allow], Plain, "a message read cannot be put back"),
];
