//! Where calls by name change something: on the volume, where order is kept, or elsewhere.

use std::io;
use std::os::fd::RawFd;
use std::path::Path;

use rustix::fs::FileType;
use rustix::process::Pid;
use surmise_sys::memory;
use surmise_sys::seccomp::Notification;
use surmise_syscalls::{ByName, Row, Shape, Syscall};

use crate::hazards::is_elsewhere;
use crate::target::{Base, Target, parent, path_of, read_path};

/// O_WRONLY, O_RDWR, O_CREAT and O_TRUNC.
const CHANGES: u64 = 0x243;

/// What a call by name does, as far as the order of changes goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing, or something on the volume, or where nothing is kept.
    Ordered,
    /// It changes something elsewhere, and that is all.
    Elsewhere,
    /// It opens something elsewhere for changes to come.
    OpensElsewhere,
}

/// What a call by name is about to do. Where that cannot be told it is taken to be elsewhere.
pub(crate) fn change_of(call: &Notification, row: &Row, volume: u64) -> Change {
    let opens = row.changes_by_name() == Some(ByName::Opens);
    if opens && !may_change(call, row).unwrap_or(true) {
        return Change::Ordered;
    }
    // Entries are changes of the directory, not of what is in it.
    let whole = row.changes_by_name() != Some(ByName::Entries);
    let holds = |at: usize| !is_argument_elsewhere(call, row, at, whole, volume).unwrap_or(true);
    match (0..row.arguments().len()).all(holds) {
        true => Change::Ordered,
        false if opens => Change::OpensElsewhere,
        false => Change::Elsewhere,
    }
}

/// Whether what it opens may be changed by it.
fn may_change(call: &Notification, row: &Row) -> io::Result<bool> {
    let flags = match row.name() {
        Syscall::Open => call.arguments[1],
        Syscall::Openat => call.arguments[2],
        Syscall::Openat2 => {
            let mut how = [0; 8];
            memory::read(call.thread, call.arguments[2], &mut how)?;
            u64::from_ne_bytes(how)
        }
        _ => CHANGES,
    };
    Ok(flags & CHANGES != 0)
}

fn is_argument_elsewhere(
    call: &Notification,
    row: &Row,
    at: usize,
    whole: bool,
    volume: u64,
) -> io::Result<bool> {
    let shapes = row.arguments();
    let base = match at.checked_sub(1).map(|before| shapes[before]) {
        Some(Shape::DirFd) => base(call.arguments[at - 1]),
        _ => Base::Working,
    };
    let name = match shapes[at] {
        Shape::Fd => {
            let target = Target::of_descriptor(call.thread, call.arguments[at] as RawFd)?;
            return Ok(target.is_some_and(|target| is_elsewhere(&target, volume)));
        }
        Shape::Path if call.arguments[at] == 0 => "".into(),
        Shape::Path => read_path(call.thread, call.arguments[at])?,
        _ => return Ok(false),
    };
    is_name_elsewhere(call.thread, base, &name, whole, volume)
}

/// `whole`: whether the call changes what the name leads to; else the directory that holds it.
fn is_name_elsewhere(
    thread: Pid,
    base: Base,
    name: &Path,
    whole: bool,
    volume: u64,
) -> io::Result<bool> {
    let path = path_of(thread, base, name);
    if whole && let Some(named) = Target::named(path.clone())? {
        let target = match named.kind() {
            FileType::Symlink => Target::at(path)?,
            _ => Some(named),
        };
        // What a link leads to may be made anywhere.
        return Ok(target.is_none_or(|target| is_elsewhere(&target, volume)));
    }
    let holds = Target::at(path_of(thread, base, &parent(name)))?;
    // Nothing is made in what is not there.
    Ok(holds.is_some_and(|holds| is_elsewhere(&holds, volume)))
}

fn base(descriptor: u64) -> Base {
    const AT_FDCWD: i32 = -100;
    match descriptor as i32 {
        AT_FDCWD => Base::Working,
        number => Base::Descriptor(number),
    }
}
