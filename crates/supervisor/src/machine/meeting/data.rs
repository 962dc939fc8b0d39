//! The data behind a descriptor.
//!
//! A regular file of the view is read as often as one likes: a checkpoint holds its position. What is written
//! to it the view can undo. What is read from a pipe or a socket would be gone for others, so it is only looked
//! at; terminals let nobody look. And what is written to them is seen; output by the command's own streams is
//! held here instead. Devices that keep nothing (`/dev/null` and its like) are used as one likes. From pipes and connections
//! inside the domain bytes are really taken, and put there: all that may see them is inside.

use std::io;

use rustix::fs::FileType;
use surmise_checkpoint::{Change, is_shared_with_relatives};
use surmise_linux::proc::Opened;

use surmise_syscalls::Syscall;

use super::Met;
use crate::kind::Kind;
use crate::machine::seen::devices;
use crate::machine::{Owned, message, task};
use crate::meeting::{Act, Changing, Meeting, Moving, Wanted};
use crate::objects::files::Files;
use crate::objects::input::Place;

/// The most that is held of one write: a longer one waits.
const LENGTH_MAX: u64 = 16 << 10;

/// The most that is put into a pipe or a connection at once: what most pipes hold.
const SENT_MAX: u64 = 64 << 10;

/// Of preadv2(2): the file's own position counts, and moves.
const OWN_POSITION: u64 = u64::MAX;

pub(super) fn meet(met: &Met<'_>) -> io::Result<Meeting> {
    Ok(match met.name {
        Syscall::Read | Syscall::Pread64 | Syscall::Readv | Syscall::Preadv | Syscall::Preadv2 => {
            reading(met)?
        }
        Syscall::Lseek => seeking(met)?,
        Syscall::Getdents | Syscall::Getdents64 => listing(met)?,
        Syscall::Write
        | Syscall::Writev
        | Syscall::Pwrite64
        | Syscall::Pwritev
        | Syscall::Pwritev2
        | Syscall::Fallocate => writing(met)?,
        Syscall::CopyFileRange => copying(met)?,
        _ => Meeting::Wait,
    })
}

fn reading(met: &Met<'_>) -> io::Result<Meeting> {
    let is_elsewhere = match met.name {
        Syscall::Pread64 | Syscall::Preadv => true,
        Syscall::Preadv2 => met.arguments[3] != OWN_POSITION,
        _ => false,
    };
    Ok(match met.kind(met.arguments[0])? {
        Some(FileType::RegularFile) if is_elsewhere => Meeting::Pass(Kind::File),
        Some(FileType::RegularFile) => moving(met, met.arguments[0])?,
        // It fails by itself.
        None | Some(FileType::Directory) => Meeting::Pass(Kind::Descriptor),
        Some(FileType::Fifo | FileType::Socket) => input(met)?,
        Some(_) => without_trace(met, devices::is_source)?,
    })
}

fn writing(met: &Met<'_>) -> io::Result<Meeting> {
    let [descriptor, address, length, ..] = met.arguments;
    let bytes = (address, length);
    let Some(reached) = task::reached(met.process, descriptor)? else {
        return Ok(Meeting::Wait);
    };
    if met.name != Syscall::Fallocate && reached.device().is_some_and(devices::is_sink) {
        return Ok(Meeting::Pass(Kind::Descriptor));
    }
    let is_plain = met.name == Syscall::Write;
    let is_output = |stat| met.known.channels.leads_to_output(&reached.file, stat);
    if is_plain && length <= LENGTH_MAX && reached.stat.as_ref().is_some_and(is_output) {
        return Ok(Meeting::Act(Act::Put { descriptor, bytes }));
    }
    if matches!(reached.kind, FileType::Fifo | FileType::Socket) {
        return Ok(match met.name {
            Syscall::Write => sending(descriptor, vec![bytes]),
            Syscall::Writev => match message::pieces(met.process, address, length) {
                Ok(Some(pieces)) => sending(descriptor, pieces),
                _ => Meeting::Wait,
            },
            _ => Meeting::Wait,
        });
    }
    if reached.kind != FileType::RegularFile || !may_be_written(met, descriptor)? {
        return Ok(Meeting::Wait);
    }
    let is_elsewhere = match met.name {
        Syscall::Pwrite64 | Syscall::Pwritev | Syscall::Fallocate => true,
        Syscall::Pwritev2 => met.arguments[3] != OWN_POSITION,
        _ => false,
    };
    let mut changing = Changing {
        written: Some(descriptor),
        ..Changing::default()
    };
    if !is_elsewhere {
        let Some(moving) = whose_position(met, descriptor)? else {
            return Ok(Meeting::Wait);
        };
        changing.moved[0] = Some(moving);
    }
    Ok(Meeting::Act(Act::Change(changing)))
}

/// Bytes go to what may be a pipe or a connection inside.
pub(super) fn sending(descriptor: u64, bytes: Vec<(u64, u64)>) -> Meeting {
    let mut lengths = bytes.iter().map(|&(_, length)| length);
    let length = lengths.try_fold(0, u64::checked_add);
    match length.is_some_and(|length| length <= SENT_MAX) {
        true => Meeting::Act(Act::Send { descriptor, bytes }),
        false => Meeting::Wait,
    }
}

/// Of both files the position moves where none is named.
fn copying(met: &Met<'_>) -> io::Result<Meeting> {
    let [from, from_position, to, to_position, ..] = met.arguments;
    let is_plain = |number| {
        let kind = task::file_type(met.process, number);
        kind.map(|kind| kind == Some(FileType::RegularFile))
    };
    if !is_plain(from)? || !is_plain(to)? || !may_be_written(met, to)? {
        return Ok(Meeting::Wait);
    }
    let mut changing = Changing {
        written: Some(to),
        ..Changing::default()
    };
    let ends = [(from, from_position), (to, to_position)];
    for (one, (descriptor, position)) in changing.moved.iter_mut().zip(ends) {
        if position == 0 {
            *one = whose_position(met, descriptor)?;
            if one.is_none() {
                return Ok(Meeting::Wait);
            }
        }
    }
    Ok(Meeting::Act(Act::Change(changing)))
}

/// Whether a file that a descriptor leads to is one that the view can give back, and that nobody else sees change.
fn may_be_written(met: &Met<'_>, descriptor: u64) -> io::Result<bool> {
    let opened = task::opened(met.process, descriptor)?;
    match opened.filter(|opened| met.known.seen.names().is_view(opened.mount)) {
        Some(opened) => Ok(!is_mapped_elsewhere(met, &opened)?),
        None => Ok(false),
    }
}

/// A call that begins a directory again has the view list the directory anew. A reader that goes on midway after a rollback would be
/// given the rest of the new list. So the call waits where there may be such a reader.
fn listing(met: &Met<'_>) -> io::Result<Meeting> {
    let descriptor = met.arguments[0];
    let number = descriptor as i32;
    let opened = task::opened(met.process, descriptor)?;
    if opened.is_none_or(|opened| opened.position != 0) {
        return moving(met, descriptor);
    }
    let was_midway = met.known.member.is_some_and(|member| {
        let mut images = member.images();
        images.any(|image| image.was_midway(met.process, number))
    });
    Ok(match was_midway || is_shared(met, number)? {
        true => Meeting::Wait,
        false => Meeting::Note(Change::Position(number)),
    })
}

/// Only what has a position can be moved. With a pipe or a socket the call fails by itself; a device that keeps nothing
/// stays where it is.
fn seeking(met: &Met<'_>) -> io::Result<Meeting> {
    let has_position = match met.kind(met.arguments[0])? {
        None | Some(FileType::Fifo | FileType::Socket) => false,
        Some(FileType::CharacterDevice) => !device(met)?.is_some_and(devices::is_source),
        Some(_) => true,
    };
    match has_position {
        true => moving(met, met.arguments[0]),
        false => Ok(Meeting::Pass(Kind::Descriptor)),
    }
}

/// Nothing has to be undone of what is done to a device of such a kind.
fn without_trace(met: &Met<'_>, is_such: impl Fn(u64) -> bool) -> io::Result<Meeting> {
    Ok(match device(met)?.is_some_and(is_such) {
        true => Meeting::Pass(Kind::Descriptor),
        false => Meeting::Wait,
    })
}

/// The number of the character device that the descriptor leads to, if to one.
fn device(met: &Met<'_>) -> io::Result<Option<u64>> {
    let reached = task::reached(met.process, met.arguments[0])?;
    Ok(reached.and_then(|reached| reached.device()))
}

/// Whether others may have the file mapped: the kernel shows them what is written before it asks the view.
fn is_mapped_elsewhere(met: &Met<'_>, opened: &Opened) -> io::Result<bool> {
    let names = met.known.seen.names();
    let (Some(device), Some(inode)) = (names.device(), opened.inode) else {
        return Ok(true);
    };
    let since = owns_since(met, opened);
    let may_be = |files: &dyn Files| files.may_be_mapped(inode, since).unwrap_or(true);
    if !met.known.files.is_none_or(may_be) {
        return Ok(false);
    }
    let is_own = |process| {
        process == met.process
            || met
                .known
                .member
                .is_some_and(|member| member.has_vessel(process))
    };
    met.known.seen.bystanders().map(device, inode, is_own)
}

/// A mark of the view: if the process' open file was opened after that and is the only one by which the file can be read, nobody else
/// has the file mapped.
///
/// Since its first image the process has one memory and one table of descriptors of its own. It can have got no open file of after
/// that but by opening it, and has given none away: it has borne nobody, and nobody has passed descriptors. So an open file of
/// after that, and each map by it, is the process' alone.
fn owns_since(met: &Met<'_>, opened: &Opened) -> Option<u64> {
    let (seen, process) = (met.known.seen, met.process);
    let is_own =
        opened.is_for_reading() && !seen.has_borne(process) && !seen.may_share_descriptors(process);
    met.known.member.filter(|_| is_own)?.since()
}

/// What comes in order, and is there once.
fn input(met: &Met<'_>) -> io::Result<Meeting> {
    let [descriptor, address, length, ..] = met.arguments;
    let room = match met.name {
        Syscall::Read => vec![(address, length)],
        Syscall::Readv => match message::pieces(met.process, address, length) {
            Ok(Some(pieces)) => pieces,
            _ => return Ok(Meeting::Wait),
        },
        _ => return Ok(Meeting::Wait),
    };
    Ok(Meeting::Act(Act::Take(Wanted {
        descriptor,
        room,
        header: None,
        waits: true,
    })))
}

fn moving(met: &Met<'_>, descriptor: u64) -> io::Result<Meeting> {
    let owned = owned(met, descriptor as i32);
    Ok(match whose(met, descriptor, owned)? {
        // Also of a file that no image has yet: one may be taken for this very call.
        Some(Moving::Own(number)) if owned == Owned::AsNoted => {
            Meeting::NoteInNew(Change::Position(number))
        }
        Some(Moving::Own(number)) => Meeting::Note(Change::Position(number)),
        Some(Moving::Shared(descriptor)) => Meeting::Move(descriptor),
        None => Meeting::Wait,
    })
}

/// Whose the position is of what a descriptor leads to; `None` where it may be somebody's outside, or another thread may be about to
/// put another file in the descriptor's place.
fn whose_position(met: &Met<'_>, descriptor: u64) -> io::Result<Option<Moving>> {
    whose(met, descriptor, owned(met, descriptor as i32))
}

fn whose(met: &Met<'_>, descriptor: u64, owned: Owned) -> io::Result<Option<Moving>> {
    let number = descriptor as i32;
    if !is_shared_if(met, number, owned)? {
        return Ok(Some(Moving::Own(number)));
    }
    let found = task::file(met.process, descriptor)?;
    let is_from_outside =
        found.is_some_and(|(_, stat)| met.known.channels.is_from_outside(Place::of(&stat)));
    let is_known = !is_from_outside && !met.known.seen.has_threads(met.process);
    Ok(is_known.then_some(Moving::Shared(descriptor)))
}

/// Whether others may have the same open file: its position and its flags are theirs, too.
pub(super) fn is_shared(met: &Met<'_>, number: i32) -> io::Result<bool> {
    is_shared_if(met, number, owned(met, number))
}

fn is_shared_if(met: &Met<'_>, number: i32, owned: Owned) -> io::Result<bool> {
    if owned != Owned::Unknown {
        return Ok(false);
    }
    let is_vessel = |process| {
        met.known
            .member
            .is_some_and(|member| member.has_vessel(process))
    };
    is_shared_with_relatives(met.process, number, is_vessel)
}

/// What is known of an open file without a look at others. Nobody has one that the process has opened since its checkpoint, or has
/// moved since as its own, unless the process has borne somebody.
fn owned(met: &Met<'_>, number: i32) -> Owned {
    let passes = met.known.seen.passes_descriptors();
    let owned = met.known.member.map(|member| member.owns(number, passes));
    owned.unwrap_or(Owned::Unknown)
}
