//! Locks of files: fcntl(2) and flock(2).

use crate::abi::{flags, input};

/// A lock that a program wants, has, or lifts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLock {
    /// Who: a process, or an open file, by a number that the kernel made up. [`FileSystem::flush`](crate::FileSystem::flush) tells the
    /// former's.
    pub owner: u64,
    /// The first byte.
    pub first: u64,
    /// The last byte.
    pub last: u64,
    /// What becomes of these bytes.
    pub kind: LockKind,
    /// The process that calls; where a lock is told of, the process that has it, or 0.
    pub process: u32,
    /// It is by flock(2), and of the whole file. Such locks and others do not know of each other.
    pub is_flock: bool,
}

/// What a lock allows to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Locks of the same kind (`F_RDLCK`, `LOCK_SH`).
    Shared,
    /// Nothing (`F_WRLCK`, `LOCK_EX`).
    Exclusive,
    /// There is none (`F_UNLCK`, `LOCK_UN`).
    None,
}

impl LockKind {
    fn of_wire(number: u32) -> Option<Self> {
        let all = [Self::Shared, Self::Exclusive, Self::None];
        all.into_iter().find(|kind| kind.to_wire() == number)
    }

    fn to_wire(self) -> u32 {
        match self {
            Self::Shared => 0,
            Self::Exclusive => 1,
            Self::None => 2,
        }
    }
}

impl FileLock {
    pub(crate) fn of_wire(wire: &input::LkIn) -> Option<Self> {
        Some(Self {
            owner: wire.owner,
            first: wire.lk.start,
            last: wire.lk.end,
            kind: LockKind::of_wire(wire.lk.kind)?,
            process: wire.lk.pid,
            is_flock: wire.lk_flags & flags::LK_FLOCK != 0,
        })
    }

    pub(crate) fn to_wire(self) -> input::FileLock {
        input::FileLock {
            start: self.first,
            end: self.last,
            kind: self.kind.to_wire(),
            pid: self.process,
        }
    }
}
