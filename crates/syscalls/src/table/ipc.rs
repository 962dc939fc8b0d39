//! System V IPC and POSIX message queues: the domain's own IPC namespace contains them. Rare enough
//! to wait for a prediction.

use crate::disposition::Disposition::{Allow, Wait};
use crate::handler::Handler::Plain;
use crate::row::{Row, row};
use crate::shape::Shape::{
    Address, Command, Fd, Flags, In, InOut, Integer, Length, Mode, Out, Text,
};
use crate::syscall::Syscall::*;

/// Sorted by number.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row( 29, Shmget,         &[Integer, Length, Flags],                [Allow, Wait, Allow], Plain, "shared memory is not rolled back"),
    row( 30, Shmat,          &[Integer, Address, Flags],               [Allow, Wait, Allow], Plain, "shared memory is not rolled back"),
    row( 31, Shmctl,         &[Integer, Command, InOut],               [Allow, Wait, Allow], Plain, "shared memory is not rolled back"),
    row( 64, Semget,         &[Integer, Integer, Flags],               [Allow, Wait, Allow], Plain, "a semaphore taken cannot be given back"),
    row( 65, Semop,          &[Integer, In, Length],                   [Allow, Wait, Allow], Plain, "a semaphore taken cannot be given back"),
    row( 66, Semctl,         &[Integer, Integer, Command, Address],    [Allow, Wait, Allow], Plain, "a semaphore taken cannot be given back"),
    row( 67, Shmdt,          &[Address],                               [Allow, Wait, Allow], Plain, "shared memory is not rolled back"),
    row( 68, Msgget,         &[Integer, Flags],                        [Allow, Wait, Allow], Plain, "a message read cannot be put back"),
    row( 69, Msgsnd,         &[Integer, In, Length, Flags],            [Allow, Wait, Allow], Plain, "a message read cannot be put back"),
    row( 70, Msgrcv,         &[Integer, Out, Length, Integer, Flags],  [Allow, Wait, Allow], Plain, "a message read cannot be put back"),
    row( 71, Msgctl,         &[Integer, Command, InOut],               [Allow, Wait, Allow], Plain, "a message read cannot be put back"),
    row(220, Semtimedop,     &[Integer, In, Length, In],               [Allow, Wait, Allow], Plain, "a semaphore taken cannot be given back"),
    row(240, MqOpen,         &[Text, Flags, Mode, In],                 [Allow, Wait, Allow], Plain, "a message read cannot be put back"),
    row(241, MqUnlink,       &[Text],                                  [Allow, Wait, Allow], Plain, "a message read cannot be put back"),
    row(242, MqTimedsend,    &[Fd, In, Length, Integer, In],           [Allow, Wait, Allow], Plain, "a message read cannot be put back"),
    row(243, MqTimedreceive, &[Fd, Out, Length, Out, In],              [Allow, Wait, Allow], Plain, "a message read cannot be put back"),
    row(244, MqNotify,       &[Fd, In],                                [Allow, Wait, Allow], Plain, "a message read cannot be put back"),
    row(245, MqGetsetattr,   &[Fd, In, Out],                           [Allow, Wait, Allow], Plain, "a message read cannot be put back"),
];
