//! What it takes to let a call of a task happen that depends on something undecided.

use rustix::process::Pid;
use surmise_checkpoint::Change;

use crate::kind::Kind;

/// The most that is given or held at once of what a read or a write is about: what the largest pipe of an ordinary user
/// holds.
pub(crate) const LENGTH_MAX: usize = 1 << 20;

/// What it takes to let a call happen.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Meeting {
    /// Nothing: a rollback undoes it, or there is nothing to undo. Counted for objects of this kind.
    Pass(Kind),
    /// That the images know of it.
    Note(Change),
    /// That an image knows of it which is taken for this very call. Those that there are know, or are of a time before there was what
    /// changes.
    NoteInNew(Change),
    /// That the images know of it, and that another process makes the call, which has the same handlers of signals: what waits
    /// of a signal would be lost if the caller itself came to ignore the signal.
    Depute(Change),
    /// That the thread makes the call while it is stopped, and the images know what the timer of its process was before.
    SetTimer,
    /// That the position of what this descriptor leads to can be given back. It is other processes', too.
    Move(u64),
    /// That the kind of object concerned can take it back, or hold it.
    Act(Act),
    /// That the process which it bears depends on the same, and is destroyed where it would not have been born.
    Bear,
    /// As [`Self::Bear`], and that neither of both processes comes to depend on more while they have one memory: until
    /// the child executes a program or ends.
    Lend {
        /// Whether its thread is the only one of its process.
        is_alone: bool,
    },
    /// That the process to which it sends a signal depends on the same as its own process, and this on the same as that.
    Signal(Sending),
    /// That its process, which is one thread, executes a program. Images know of it, and a rollback could have the process execute
    /// its present one again, if it can leave the other one.
    Execute,
    /// That nothing is undecided.
    Wait,
}

/// A signal that a call sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sending {
    /// To which process.
    pub(crate) to: Pid,
    /// 0 where the call only asks whether it could send one.
    pub(crate) number: u32,
}

/// The end of a process by its own call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) parent: Pid,
    /// The number of the process that ends, as its parent sees it.
    pub(crate) number: u64,
    /// Its exit status.
    pub(crate) status: u8,
}

/// What a task does to an object whose kind takes part in that.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// It changes files of the view.
    Change(Changing),
    /// It writes to a stream of the domain, which does not happen: the bytes are held.
    Put {
        descriptor: u64,
        /// Address and length of the bytes.
        bytes: (u64, u64),
    },
    /// It writes to what may be a pipe or a connection inside the domain, which does not happen: the bytes are put in.
    Send {
        descriptor: u64,
        /// Addresses and lengths of the bytes, in order.
        bytes: Vec<(u64, u64)>,
    },
    /// It reads, which does not happen: the caller is given what it would read, which is not taken.
    Take(Wanted),
    /// It asks what is ready. Where that are pipes inside the domain on which something is undecided, it does not happen: the
    /// caller is told.
    Ask,
}

/// What comes with a change of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changing {
    /// The positions that the call moves.
    pub(crate) moved: [Option<Moving>; 2],
    /// The descriptor of the file whose data it changes, unless it only sets the file's size.
    pub(crate) written: Option<u64>,
}

/// A position that a call moves, of what a descriptor leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moving {
    /// The process' own.
    Own(i32),
    /// Other processes', too.
    Shared(u64),
}

impl Act {
    pub(crate) const fn kind(&self) -> Kind {
        match self {
            Self::Change(_) => Kind::ChangedFile,
            Self::Put { .. } => Kind::Stream,
            Self::Send { .. } => Kind::Pipe,
            Self::Take(_) => Kind::Input,
            Self::Ask => Kind::Events,
        }
    }
}

/// What a read asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) descriptor: u64,
    /// Where in the process' memory there is room for how many bytes, to be filled in this order.
    pub(crate) room: Vec<(u64, u64)>,
    /// Where recvmsg(2) has its header, which tells that nothing but bytes has come.
    pub(crate) header: Option<u64>,
    /// Whether it may wait until there is something.
    pub(crate) waits: bool,
}

impl Wanted {
    /// How much room there is altogether; `None` where it is more than is ever given. The lengths are the
    /// program's, and may be any numbers: what the kernel says to them it says itself.
    pub(crate) fn length(&self) -> Option<usize> {
        let mut lengths = self.room.iter().map(|&(_, length)| length);
        let length = lengths.try_fold(0, u64::checked_add)?;
        let length = usize::try_from(length).ok()?;
        (length <= LENGTH_MAX).then_some(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_counted_as_far_as_anything_is_given() {
        let length = |room: &[(u64, u64)]| {
            let room = room.to_vec();
            Wanted {
                descriptor: 0,
                room,
                header: None,
                waits: true,
            }
            .length()
        };
        const MOST: u64 = LENGTH_MAX as u64;
        assert_eq!(length(&[]), Some(0));
        assert_eq!(length(&[(1, 3), (9, 0), (5, 4)]), Some(7));
        assert_eq!(length(&[(1, MOST - 1), (9, 1)]), Some(LENGTH_MAX));
        assert_eq!(length(&[(1, MOST), (9, 1)]), None);
        assert_eq!(length(&[(1, u64::MAX)]), None);
        assert_eq!(length(&[(1, u64::MAX), (9, 1)]), None);
        assert_eq!(length(&[(1, 1 << 63), (2, 1 << 63), (3, 5)]), None);
    }
}
