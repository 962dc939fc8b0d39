//! Settings under `/proc/sys/net` that a domain's network takes over from the host.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags};

const PORTS: &str = "ipv4/ip_unprivileged_port_start";
const PINGS: &str = "ipv4/ping_group_range";
const BACKLOG: &str = "core/somaxconn";
const FILTER: &str = "ipv4/conf/all/rp_filter";

/// The host's settings, and the way to those of another network namespace.
///
/// An open `/proc/sys/net` shows the network namespace of whoever looks at it, so a descriptor
/// that was opened outside reaches the settings of a domain's network, where the domain's own
/// `/proc/sys` is read-only.
#[derive(Debug)]
pub struct HostSettings {
    directory: OwnedFd,
    /// First port that anyone may serve.
    ports: String,
    /// First and last group whose members may make ping sockets, if there are any.
    pings: Option<(u32, u32)>,
}

impl HostSettings {
    /// Reads them. The calling thread is in the host's network namespace and sees the host's `/proc`.
    ///
    /// # Errors
    /// As `open` and `read`.
    pub fn read() -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(CWD, "/proc/sys/net", flags, Mode::empty())?;
        Ok(Self {
            ports: get(directory.as_fd(), PORTS)?,
            pings: parse_groups(&get(directory.as_fd(), PINGS)?),
            directory,
        })
    }

    /// Gives the network namespace of the calling thread the host's settings, and what a gate needs.
    ///
    /// A container may have a read-only `/proc/sys`. Then ports below 1024 and ping sockets are
    /// for the domain's root only, and a burst of more than 4096 connections waits; nothing else
    /// is lost, so this is no error.
    pub(super) fn apply(&self) {
        let set = |name, value: &str| set(self.directory.as_fd(), name, value).is_ok();
        set(PORTS, &self.ports);
        if let Some((first, last)) = self.pings {
            // Groups are numbers of this user namespace, in which those of the host may be missing.
            let own = rustix::process::getegid().as_raw();
            if !set(PINGS, &format!("{first} {last}")) && (first..=last).contains(&own) {
                set(PINGS, &format!("{own} {own}"));
            }
        }
        set(BACKLOG, "65535");
        set(FILTER, "0");
    }
}

/// The directory, to be kept open in copies of the process.
impl AsFd for HostSettings {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

/// The kernel shows no groups as a range whose first is greater than its last.
fn parse_groups(text: &str) -> Option<(u32, u32)> {
    let mut bounds = text.split_whitespace().map(str::parse);
    match (bounds.next()?, bounds.next()?) {
        (Ok(first), Ok(last)) if first <= last => Some((first, last)),
        _ => None,
    }
}

fn get(directory: BorrowedFd<'_>, name: &str) -> io::Result<String> {
    let mut text = String::new();
    open(directory, name, OFlags::RDONLY)?.read_to_string(&mut text)?;
    Ok(text.trim().into())
}

fn set(directory: BorrowedFd<'_>, name: &str, value: &str) -> io::Result<()> {
    open(directory, name, OFlags::WRONLY)?.write_all(value.as_bytes())
}

fn open(directory: BorrowedFd<'_>, name: &str, access: OFlags) -> io::Result<File> {
    let flags = access | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(directory, name, flags, Mode::empty())?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_parsed() {
        assert_eq!(parse_groups("0\t2147483647"), Some((0, 2_147_483_647)));
        assert_eq!(parse_groups("7 7"), Some((7, 7)));
        assert_eq!(parse_groups("1\t0"), None);
        assert_eq!(parse_groups("1"), None);
    }
}
