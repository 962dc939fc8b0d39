//! The data behind a descriptor.
//!
//! A regular file of the view is read as often as one likes: a checkpoint holds its position. What is written
//! to it the view can undo. What is read from a pipe or a socket would be gone for others, so it is only looked
//! at; terminals let nobody look. And what is written to them is seen; output by the command's own streams is
//! held here instead.

use std::io;

use rustix::fs::FileType;
use surmise_checkpoint::{Change, is_shared_with_relatives};

use surmise_syscalls::Syscall;

use super::Met;
use crate::kind::Kind;
use crate::machine::{Machine, task};
use crate::meeting::{Act, Meeting, Wanted};
use crate::member::Member;

/// The most that is held of one write: a longer one waits.
const LENGTH_MAX: u64 = 16 << 10;

pub(super) fn meet(met: &Met<'_>) -> io::Result<Meeting> {
    let descriptor = met.arguments[0];
    /// Of preadv2(2): the file's own position counts, and moves.
    const OWN_POSITION: u64 = u64::MAX;
    Ok(match met.name {
        Syscall::Read | Syscall::Pread64 | Syscall::Readv | Syscall::Preadv | Syscall::Preadv2 => {
            let is_elsewhere = matches!(
                met.name,
                Syscall::Pread64 | Syscall::Preadv | Syscall::Preadv2
            ) && (met.name != Syscall::Preadv2
                || met.arguments[3] != OWN_POSITION);
            match task::file_type(met.process, descriptor)? {
                Some(FileType::RegularFile) if is_elsewhere => Meeting::Pass(Kind::File),
                Some(FileType::RegularFile) => moving(met)?,
                // It fails by itself.
                None | Some(FileType::Directory) => Meeting::Pass(Kind::Descriptor),
                Some(FileType::Fifo | FileType::Socket) => input(met)?,
                Some(_) => Meeting::Wait,
            }
        }
        // A directory that is listed from the start stays so listed, whatever is undone.
        Syscall::Getdents | Syscall::Getdents64 if met.known.has_changed => Meeting::Wait,
        Syscall::Lseek | Syscall::Getdents | Syscall::Getdents64 => moving(met)?,
        Syscall::Write
            if met.arguments[2] <= LENGTH_MAX && met.known.channels.is_output(met)? =>
        {
            Meeting::Act(Act::Put {
                descriptor,
                bytes: (met.arguments[1], met.arguments[2]),
            })
        }
        Syscall::Write
        | Syscall::Writev
        | Syscall::Pwrite64
        | Syscall::Pwritev
        | Syscall::Pwritev2
        | Syscall::Fallocate
            if is_regular(met)?
                && met.known.seen.names().is_served(met.process, descriptor)?
                && !is_mapped_elsewhere(met)? =>
        {
            let is_elsewhere = matches!(
                met.name,
                Syscall::Pwrite64 | Syscall::Pwritev | Syscall::Fallocate
            ) || met.name == Syscall::Pwritev2
                && met.arguments[3] != OWN_POSITION;
            match is_elsewhere {
                true => Meeting::Act(Act::Change(None)),
                false => match moving(met)? {
                    Meeting::Note(change) => Meeting::Act(Act::Change(Some(change))),
                    other => other,
                },
            }
        }
        _ => Meeting::Wait,
    })
}

fn is_regular(met: &Met<'_>) -> io::Result<bool> {
    let found = task::file_type(met.process, met.arguments[0])?;
    Ok(found == Some(FileType::RegularFile))
}

/// Whether others may have the file mapped. The kernel shows them what is written before it asks the view,
/// where a change of data that they have open would wait.
fn is_mapped_elsewhere(met: &Met<'_>) -> io::Result<bool> {
    let inode = task::inode_of(met.process, met.arguments[0])?;
    let (Some(device), Some(inode)) = (met.known.seen.names().device(), inode) else {
        return Ok(true);
    };
    let is_own = |process| {
        process == met.process
            || met
                .known
                .member
                .is_some_and(|member| member.has_vessel(process))
    };
    met.known.seen.bystanders().map(device, inode, is_own)
}

/// What comes in order, and is there once.
fn input(met: &Met<'_>) -> io::Result<Meeting> {
    /// Buffers of one call: the C library has two.
    const BUFFERS_MAX: u64 = 16;
    let [descriptor, address, length, ..] = met.arguments;
    let room = match met.name {
        Syscall::Read => vec![(address, length)],
        Syscall::Readv if length <= BUFFERS_MAX => {
            let buffers = (0..length).map(|index| address + 16 * index);
            let pair = |at| {
                Ok((
                    task::word(met.process, at)?,
                    task::word(met.process, at + 8)?,
                ))
            };
            match buffers.map(pair).collect::<io::Result<Vec<_>>>() {
                Ok(room) => room,
                Err(_) => return Ok(Meeting::Wait),
            }
        }
        _ => return Ok(Meeting::Wait),
    };
    Ok(Meeting::Act(Act::Take(Wanted { descriptor, room })))
}

/// A position that the process shares with others is theirs, too. A file that it has opened since its
/// checkpoint nobody shares, unless it has borne somebody.
fn moving(met: &Met<'_>) -> io::Result<Meeting> {
    let number = met.arguments[0] as i32;
    let may_share =
        |member: &Member<Machine>| !member.shares_only_what_it_had() || member.had(number);
    let is_old = met.known.member.is_none_or(may_share);
    let is_vessel = |process| {
        met.known
            .member
            .is_some_and(|member| member.has_vessel(process))
    };
    if is_old && is_shared_with_relatives(met.process, number, is_vessel)? {
        return Ok(Meeting::Wait);
    }
    Ok(Meeting::Note(Change::Position(number)))
}
