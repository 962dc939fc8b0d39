//! What tasks do.

use rustix::process::Pid;
use surmise_syscalls::{Row, Syscall, row_of};

use super::cells::FILES;
use super::family::End;
use super::sides::Side;
use super::signals::Sent;
use crate::objects::pipe::Queue;

/// What a task does, each by one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core::simulation) enum Op {
    /// Is told what the file of a name holds.
    Look(usize),
    /// Is told what all files hold, and where all names lead.
    List,
    /// Adds to what the file of a name holds.
    Add(usize),
    /// Has a name lead to the next file.
    Turn(usize),
    /// Likewise, by a call that the view carries out unknown to the kernel.
    Remove(usize),
    /// Moves the position of a file that all have open.
    Move,
    /// Writes a number to the stream.
    Put(u8),
    /// Reads a byte from the pipe.
    Take,
    /// Writes a byte to the pipe inside.
    Send(u8),
    /// Reads a byte from the pipe inside, if there is one.
    Receive,
    /// Writes a byte to a queue of the connection inside.
    Say(Queue, u8),
    /// Reads a byte from a queue of the connection inside, if there is one.
    Hear(Queue),
    /// Is told how many bytes are in the pipes and in the connection.
    Poll,
    /// Is told whether a read of the pipe inside would find a byte or the end.
    Ask,
    /// Closes a side of the pipe inside, for its process.
    Close(Side),
    /// Is told whether anybody has a side of the pipe inside open, as a call is that opens the other side of a FIFO.
    Open(Side),
    /// Asks for durability.
    Sync,
    /// Comes to ignore a signal.
    Ignore,
    /// Does what nobody can take back.
    Irrevocable,
    /// Bears a process.
    Bear,
    /// Bears a process that has the memory until it executes a program or ends.
    Lend,
    /// Has the memory back.
    Regain,
    /// Executes a program, and is told which one it executed before.
    Execute,
    /// Waits for any child of its process.
    Wait,
    /// Sleeps until a signal tells of the end of a child, or for a while.
    Doze,
    /// Ends, and its process with its last thread, which tells this status.
    Exit(u8),
    /// Has closed what its process had open, and is killed before it has ended.
    Leave,
    /// Sets its timer.
    Arm,
    /// Sends another process a signal.
    Kick(Pid),
    /// Takes a signal.
    Signal(Sent),
    /// Somebody outside writes to the pipe.
    Push(u8),
    /// Somebody kills a process.
    Kill(Pid),
}

/// What a task is told that has lent its memory, and one that could not do what it wanted to.
pub(in crate::core::simulation) const LENT: i64 = 50_000;
pub(in crate::core::simulation) const FAILED: i64 = -2;

impl Op {
    /// What a task does that was told all this.
    pub(super) fn after(seed: u64, told: &[i64]) -> Self {
        let hash = hash(seed, told);
        // Those that have got a child's end are likely to end soon, but for some that go on, and may be sent a signal then.
        let is_of_child = told.last().is_some_and(|&told| told >= End::TOLD_MIN);
        let may_end = match is_of_child {
            true if seed % 4 == 2 => false,
            true => hash.is_multiple_of(2),
            false => told.len() > 6 && hash.is_multiple_of(8),
        };
        if told.len() >= 30 || may_end {
            return Self::Exit((hash >> 48) as u8);
        }
        if is_of_child && hash.is_multiple_of(3) {
            return Self::Lend;
        }
        let place = (hash >> 32) as usize % FILES;
        // In some schedules most of what is written and read inside is by a connection.
        let by_connection = seed & 16 != 0 && hash & (3 << 56) != 0;
        let queue = queue_of(hash);
        let kind = match hash / 16 % 32 {
            // In some schedules there is nothing but files, output and children.
            11..=14 | 18 if seed.is_multiple_of(2) => hash / 1024 % 11,
            // Or timers are set again and again.
            4..=8 | 19..=22 if seed % 4 == 1 => 14,
            // In others there is hardly anything but a pipe whose ends are closed.
            4..=8 if seed % 4 == 3 => 21,
            9 | 10 | 12 if seed % 4 == 3 => 26,
            18 | 29 | 31 if seed % 4 == 3 => return Self::Open(side_of(hash)),
            15..=17 if seed % 4 == 3 => 13,
            // Or many bear children and wait for these, or sleep until a signal tells of these.
            0..=3 if seed % 4 == 2 => 15,
            4 | 5 | 8 if seed % 4 == 2 => 23,
            9 | 10 | 18 if seed % 4 == 2 => 17,
            // Or execute programs.
            11 | 12 if seed % 4 == 2 => 25,
            kind => kind,
        };
        match kind {
            0..=2 => Self::Look(place),
            3 => Self::Move,
            4 => Self::List,
            5 | 6 => Self::Add(place),
            7 if hash & (1 << 60) != 0 => Self::Remove(place),
            7 => Self::Turn(place),
            8..=10 => Self::Put((hash >> 40) as u8),
            11 | 12 => Self::Take,
            13 => Self::Poll,
            14..=16 if seed & 32 != 0 && hash & (1 << 57) != 0 => Self::Kick(receiver(hash)),
            14 if hash & (3 << 60) != 0 => Self::Arm,
            14 => Self::Sync,
            15 | 16 => Self::Wait,
            17 => Self::Doze,
            19 | 20 if by_connection => Self::Say(queue, (hash >> 40) as u8),
            21 | 22 if by_connection => Self::Hear(queue),
            19 | 20 => Self::Send((hash >> 40) as u8),
            21 | 22 => Self::Receive,
            23 | 24 => Self::Bear,
            25 => Self::Execute,
            26 | 27 => Self::Close(Side::Writing),
            28 => Self::Close(Side::Reading),
            29 => Self::Lend,
            30 if hash & (1 << 60) != 0 => Self::Open(side_of(hash)),
            30 => Self::Ask,
            31 => Self::Ignore,
            _ => Self::Irrevocable,
        }
    }

    /// What a task does that has its parent's memory, and was told so much since.
    pub(super) fn with_loan(seed: u64, told: &[i64], since: usize) -> Self {
        let hash = hash(seed, told);
        match told.len() - since {
            // That was its program.
            _ if told.last() == Some(&FAILED) => Self::Exit((hash >> 48) as u8),
            steps if steps > 4 || hash.is_multiple_of(3) => Self::Execute,
            _ => Self::after(seed, told),
        }
    }

    pub(super) fn row(self) -> &'static Row {
        row_of(match self {
            Self::Look(_) => Syscall::Stat,
            Self::List => Syscall::Getdents,
            Self::Add(_) => Syscall::Chmod,
            Self::Turn(_) => Syscall::Rename,
            Self::Remove(_) => Syscall::Rmdir,
            Self::Move => Syscall::Lseek,
            Self::Put(_) => Syscall::Write,
            Self::Take => Syscall::Read,
            Self::Send(_) => Syscall::Writev,
            Self::Receive => Syscall::Readv,
            Self::Say(..) => Syscall::Sendto,
            Self::Hear(_) => Syscall::Recvfrom,
            Self::Poll => Syscall::Poll,
            Self::Ask => Syscall::Ppoll,
            Self::Sync => Syscall::Fsync,
            Self::Ignore => Syscall::RtSigaction,
            Self::Irrevocable => Syscall::Execve,
            Self::Kick(_) => Syscall::Kill,
            Self::Bear => Syscall::Fork,
            Self::Lend => Syscall::Vfork,
            Self::Execute => Syscall::Execveat,
            Self::Wait => Syscall::Wait4,
            Self::Doze => Syscall::Pause,
            Self::Close(_) => Syscall::Close,
            Self::Open(_) => Syscall::Open,
            Self::Arm => Syscall::Alarm,
            Self::Exit(_)
            | Self::Leave
            | Self::Push(_)
            | Self::Kill(_)
            | Self::Regain
            | Self::Signal(_) => Syscall::Exit,
        })
    }
}

fn queue_of(hash: u64) -> Queue {
    match hash & (1 << 58) {
        0 => Queue::First,
        _ => Queue::Second,
    }
}

fn side_of(hash: u64) -> Side {
    match hash & (1 << 61) {
        0 => Side::Reading,
        _ => Side::Writing,
    }
}

fn hash(seed: u64, told: &[i64]) -> u64 {
    told.iter()
        .fold(seed ^ 0x9e37_79b9_7f4a_7c15, |hash, word| {
            (hash ^ word.cast_unsigned())
                .wrapping_mul(0x0100_0000_01b3)
                .rotate_left(23)
        })
}

/// One of the processes that there are from the start, or would be if there were more.
fn receiver(hash: u64) -> Pid {
    Pid::from_raw(100 * (1 + (hash >> 52) as i32 % 4)).expect("a number")
}
