//! Unix sockets that a task reaches by a name of a file system, whoever listens there: inside, or outside.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::stat;
use surmise_sys::memory;
use surmise_sys::seccomp::Notification;

use crate::target::{Base, path_of};

/// `sa_family_t` of unix(7).
const AF_UNIX: u16 = 1;

/// `struct sockaddr_un`.
const ADDRESS_MAX: usize = 110;

/// Where a structure for sendmsg(2) has the address, and its length.
const MESSAGE: usize = 12;

/// The size of one structure of sendmmsg(2).
const MESSAGE_OF_MANY: u64 = 64;

/// The kernel sends no more of them at once (`UIO_MAXIOV`).
const MANY_MAX: u64 = 1024;

/// Whether a call reaches a socket by a name behind which nobody of the domain listens. Where that cannot be
/// told it is taken to.
pub(crate) fn reaches_outside(call: &Notification, name: &str) -> bool {
    reaches(call, name).unwrap_or(true)
}

/// The name that a socket is bound to, if it is one of a file system.
pub(crate) fn bound_name(call: &Notification) -> io::Result<Option<PathBuf>> {
    let [_, address, length, ..] = call.arguments;
    name_at(call, address, length)
}

fn reaches(call: &Notification, name: &str) -> io::Result<bool> {
    let [_, first, second, _, address, length] = call.arguments;
    match name {
        "connect" => is_outside(call, first, second),
        "sendto" => is_outside(call, address, length),
        "sendmsg" => message_reaches(call, first),
        _ => {
            for message in 0..second.min(MANY_MAX) {
                if message_reaches(call, first.wrapping_add(message * MESSAGE_OF_MANY))? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
    }
}

fn message_reaches(call: &Notification, message: u64) -> io::Result<bool> {
    let mut head = [0; MESSAGE];
    memory::read(call.thread, message, &mut head)?;
    let (address, length) = head.split_at(8);
    let address = u64::from_ne_bytes(address.try_into().expect("eight bytes"));
    let length = u32::from_ne_bytes(length.try_into().expect("four bytes"));
    is_outside(call, address, length.into())
}

fn is_outside(call: &Notification, address: u64, length: u64) -> io::Result<bool> {
    let Some(name) = name_at(call, address, length)? else {
        return Ok(false);
    };
    let path = path_of(call.thread, Base::Working, &name);
    let Ok(found) = stat(&path) else {
        // Nobody is reached.
        return Ok(false);
    };
    // All that are bound in the domain's own network, by the names that they were bound to.
    let list = fs::read(format!("/proc/{}/net/unix", call.thread.as_raw_nonzero()))?;
    let is_it = |bound: &Path| {
        let bound = stat(path_of(call.thread, Base::Working, bound));
        bound.is_ok_and(|bound| (bound.st_dev, bound.st_ino) == (found.st_dev, found.st_ino))
    };
    Ok(!list
        .split(|byte| *byte == b'\n')
        .filter_map(name_in)
        .any(is_it))
}

/// The name in a line of /proc/net/unix (unix(7)), if it is one of a file system.
fn name_in(line: &[u8]) -> Option<&Path> {
    const BEFORE: usize = 7;
    let mut rest = line;
    for _ in 0..BEFORE {
        rest = rest.trim_ascii_start();
        let end = rest.iter().position(|byte| *byte == b' ')?;
        rest = &rest[end..];
    }
    let name = &rest[1..];
    let is_path = !name.is_empty() && !name.starts_with(b"@");
    is_path.then(|| Path::new(OsStr::from_bytes(name)))
}

/// A name of a file system in a socket's address.
fn name_at(call: &Notification, address: u64, length: u64) -> io::Result<Option<PathBuf>> {
    let length = usize::try_from(length).unwrap_or(0).min(ADDRESS_MAX);
    if address == 0 || length <= 2 {
        return Ok(None);
    }
    let mut bytes = vec![0; length];
    memory::read(call.thread, address, &mut bytes)?;
    let (family, name) = bytes.split_at(2);
    if u16::from_ne_bytes(family.try_into().expect("two bytes")) != AF_UNIX {
        return Ok(None);
    }
    let end = name
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(name.len());
    Ok((end > 0).then(|| OsStr::from_bytes(&name[..end]).into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_list_has_a_name_or_none() {
        let named = "0000000000000000: 00000002 00000000 00010000 0001 01 12345 /run/a socket";
        assert_eq!(name_in(named.as_bytes()), Some(Path::new("/run/a socket")));
        let padded = "0000000000000000: 00000002 00000000 00000000 0002 01   345 relative";
        assert_eq!(name_in(padded.as_bytes()), Some(Path::new("relative")));
        let abstracted = "0000000000000000: 00000002 00000000 00010000 0001 01 12345 @name";
        assert_eq!(name_in(abstracted.as_bytes()), None);
        let none = "0000000000000000: 00000002 00000000 00000000 0001 03 12345";
        assert_eq!(name_in(none.as_bytes()), None);
    }
}
