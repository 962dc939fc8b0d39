//! The table of descriptors, which a vessel holds too: what a rollback finds in the process and not there,
//! it closes.

use std::io;

use surmise_checkpoint::Change;

use super::{Met, data};
use crate::kind::Kind;
use crate::machine::task;
use crate::meeting::Meeting;
use crate::objects::input::Place;
use surmise_syscalls::Syscall;

/// FICLONE, FICLONERANGE of ioctl(2): they have files share blocks, which files of FUSE never do.
const CLONES: [u32; 2] = [0x4004_9409, 0x4020_940d];

/// F_SETFL of fcntl(2), FIONBIO of ioctl(2): they change status flags.
const SET_FLAGS: u32 = 4;
const SET_NON_BLOCKING: u32 = 0x5421;

/// O_ASYNC: from then on processes are sent signals for the file.
const ASYNC: u64 = 0o20_000;

pub(super) fn meet(met: &Met<'_>) -> io::Result<Meeting> {
    let [first, command, flags, ..] = met.arguments;
    let sets_flags = match met.name {
        Syscall::Fcntl => command as u32 == SET_FLAGS && flags & ASYNC == 0,
        Syscall::Ioctl => command as u32 == SET_NON_BLOCKING,
        _ => false,
    };
    if sets_flags {
        return setting_flags(met, first as i32);
    }
    let is_harmless = match met.name {
        Syscall::Pipe
        | Syscall::Pipe2
        | Syscall::EpollCreate
        | Syscall::EpollCreate1
        | Syscall::Eventfd
        | Syscall::Eventfd2
        | Syscall::TimerfdCreate
        | Syscall::MemfdCreate
        | Syscall::InotifyInit
        | Syscall::InotifyInit1
        | Syscall::PidfdOpen => true,
        // One that is there would be changed.
        Syscall::Signalfd | Syscall::Signalfd4 => first as i32 == -1,
        Syscall::Ioctl if CLONES.contains(&(command as u32)) => {
            met.known.seen.names().is_served(met.process, first)?
        }
        Syscall::Ioctl => observes_device(command as u32),
        Syscall::Fcntl => observes_file(command as u32),
        _ => false,
    };
    Ok(match is_harmless {
        true => Meeting::Pass(Kind::Descriptor),
        false => Meeting::Wait,
    })
}

/// The flags are given back, unless others have the same open file, be it outside.
fn setting_flags(met: &Met<'_>, number: i32) -> io::Result<Meeting> {
    let found = task::file(met.process, met.arguments[0])?;
    let is_from_outside =
        found.is_some_and(|(_, stat)| met.known.channels.is_from_outside(Place::of(&stat)));
    Ok(match is_from_outside || data::is_shared(met, number)? {
        true => Meeting::Wait,
        false => Meeting::Note(Change::Flags(number)),
    })
}

/// A task that depends on a guess changes no terminal: that waits. A task that was given input has its guesses decided before
/// the input is looked at. And flags of the descriptor are the table's.
fn observes_device(command: u32) -> bool {
    /// TCGETS, TIOCGPGRP, TIOCGWINSZ, FIONREAD, FIONCLEX, FIOCLEX.
    const HARMLESS: [u32; 6] = [0x5401, 0x540f, 0x5413, 0x541b, 0x5450, 0x5451];
    HARMLESS.contains(&command)
}

/// Likewise locks, owners and sizes of pipes.
fn observes_file(command: u32) -> bool {
    /// F_GETFL, F_GETLK, F_GETOWN, F_GETSIG, F_GETOWN_EX, F_OFD_GETLK, F_GETPIPE_SZ, F_GET_SEALS.
    const HARMLESS: [u32; 8] = [3, 5, 9, 11, 16, 36, 1032, 1034];
    HARMLESS.contains(&command)
}

#[cfg(test)]
mod tests {
    use surmise_syscalls::{Disposition, Kind as Column, row_of};

    use super::*;

    /// What the table says waits never comes here; what comes here and is not known, waits, too.
    #[test]
    fn what_changes_a_file_or_a_device_is_not_harmless() {
        let waits = |name: Syscall, command: u32| {
            let row = row_of(name);
            let arguments = [0, command.into(), 0, 0, 0, 0];
            row.disposition_with(Column::Prediction, &arguments) == Disposition::Wait
        };
        for command in 0..=u32::from(u16::MAX) {
            assert!(
                !(waits(Syscall::Ioctl, command) && observes_device(command)),
                "{command:#x}"
            );
            assert!(
                !(waits(Syscall::Fcntl, command) && observes_file(command)),
                "{command}"
            );
        }
        // F_SETFL, F_SETOWN, F_SETSIG, F_SETPIPE_SZ, F_ADD_SEALS; FIONBIO, TCSETS.
        for command in [4, 8, 10, 1031, 1033] {
            assert!(!observes_file(command), "{command}");
        }
        for command in [0x5421, 0x5402] {
            assert!(!observes_device(command), "{command:#x}");
        }
    }
}
