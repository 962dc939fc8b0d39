//! Unix sockets that a task reaches by a name of a file system, and whether the server listens inside or outside.

use std::io;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, stat};
use rustix::io::Errno;
use surmise_linux::proc;
use surmise_refusals::Address;
use surmise_sys::memory;
use surmise_sys::seccomp::Notification;
use surmise_syscalls::Syscall;

use crate::hazards::is_of_view;
use crate::target::{Base, Target, path_of};

/// Where a structure for sendmsg(2) has the address, and its length.
const MESSAGE: usize = 12;

/// The size of one structure of sendmmsg(2).
const MESSAGE_OF_MANY: u64 = 64;

/// The kernel sends no more of them at once (`UIO_MAXIOV`).
const MANY_MAX: u64 = 1024;

/// Whom a call reaches by the name of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Nobody, or somebody of the domain.
    Inside,
    /// Nobody: nothing has the name. That is the call's error, for a moment later somebody outside may
    /// have it.
    Missing(Errno),
    /// Somebody outside, or it cannot be told.
    Outside,
}

/// Whom a call reaches. `is_in_view`: whether files that cannot be looked at are a view's, which leads to nobody outside.
pub(crate) fn reach(call: &Notification, name: Syscall, is_in_view: bool) -> Reach {
    let reach = match reach_by_name(call, name) {
        Err(error) if is_in_view && is_of_view(&error) => Reach::Inside,
        reach => reach.unwrap_or(Reach::Outside),
    };
    match reach {
        // What else is wrong with it comes first.
        Reach::Missing(_) if !is_socket(call) => Reach::Inside,
        reach => reach,
    }
}

/// Whether the call's descriptor is a socket; if not, the call fails and reaches nobody.
fn is_socket(call: &Notification) -> bool {
    let found = Target::of_descriptor(call.thread, call.arguments[0] as RawFd);
    found.is_ok_and(|found| found.is_some_and(|found| found.kind() == FileType::Socket))
}

/// The name that a socket is bound to, if it is one of a file system.
pub(crate) fn bound_name(call: &Notification) -> io::Result<Option<PathBuf>> {
    let [_, address, length, ..] = call.arguments;
    name_at(call, address, length)
}

fn reach_by_name(call: &Notification, name: Syscall) -> io::Result<Reach> {
    let [_, first, second, _, address, length] = call.arguments;
    match name {
        Syscall::Connect => of_address(call, first, second),
        Syscall::Sendto => of_address(call, address, length),
        Syscall::Sendmsg => of_message(call, first),
        _ => {
            for message in 0..second.min(MANY_MAX) {
                let message = first.wrapping_add(message * MESSAGE_OF_MANY);
                // Those before it are sent, so a missing name is not the error of the call.
                if of_message(call, message)? != Reach::Inside {
                    return Ok(Reach::Outside);
                }
            }
            Ok(Reach::Inside)
        }
    }
}

fn of_message(call: &Notification, message: u64) -> io::Result<Reach> {
    let mut head = [0; MESSAGE];
    memory::read(call.thread, message, &mut head)?;
    let (address, length) = head.split_at(8);
    let address = u64::from_ne_bytes(address.try_into().expect("eight bytes"));
    let length = u32::from_ne_bytes(length.try_into().expect("four bytes"));
    of_address(call, address, length.into())
}

fn of_address(call: &Notification, address: u64, length: u64) -> io::Result<Reach> {
    let Some(name) = name_at(call, address, length)? else {
        return Ok(Reach::Inside);
    };
    let path = path_of(call.thread, Base::Working, &name);
    let found = match stat(&path) {
        Ok(found) => found,
        Err(errno @ (Errno::NOENT | Errno::NOTDIR)) => return Ok(Reach::Missing(errno)),
        Err(errno) => return Err(errno.into()),
    };
    // All that are bound in the domain's own network, by the names that they were bound to.
    let sockets = proc::unix_sockets(call.thread)?;
    let is_it = |bound: &Path| {
        let bound = stat(path_of(call.thread, Base::Working, bound));
        bound.is_ok_and(|bound| (bound.st_dev, bound.st_ino) == (found.st_dev, found.st_ino))
    };
    let mut names = sockets.iter().filter_map(|socket| socket.path());
    Ok(match names.any(is_it) {
        true => Reach::Inside,
        false => Reach::Outside,
    })
}

/// A name of a file system in a socket's address.
fn name_at(call: &Notification, address: u64, length: u64) -> io::Result<Option<PathBuf>> {
    Ok(match Address::read(call.thread, address, length)? {
        Some(Address::Path(name)) => Some(name),
        Some(Address::Host(_) | Address::Abstract(_)) | None => None,
    })
}
