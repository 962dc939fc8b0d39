//! Which process inside sent something.

use std::ffi::OsStr;
use std::fs;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use surmise_linux::network::gate::{Protocol, has_listener, owner};
use surmise_outbox::Sender;

/// How many processes are remembered to be asked first.
const RECENT: usize = 8;

/// Finds the process at the inner end of a connection.
///
/// The kernel tells the inode of the socket, /proc the process that has it open. That is a search
/// through all processes: only for what a person is told of, never for what is allowed.
#[derive(Debug)]
pub(crate) struct Attribution {
    diagnostics: OwnedFd,
    recent: Vec<u32>,
}

impl Attribution {
    pub(crate) fn new(diagnostics: OwnedFd) -> Self {
        Self {
            diagnostics,
            recent: Vec::new(),
        }
    }

    /// The inode of the socket at the inner end, as long as a process has it open.
    pub(crate) fn inode(
        &self,
        protocol: Protocol,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Option<u64> {
        let owner = owner(self.diagnostics.as_fd(), protocol, local, remote);
        // An orphaned socket has no inode.
        Some(owner.ok()??.inode).filter(|&inode| inode != 0)
    }

    /// Whether a server inside would take a connection to this address.
    pub(crate) fn is_served_inside(&self, address: SocketAddr) -> bool {
        has_listener(self.diagnostics.as_fd(), address).unwrap_or(false)
    }

    /// The process that has the socket open.
    pub(crate) fn sender(&mut self, inode: u64) -> Option<Sender> {
        let link = format!("socket:[{inode}]");
        let mut candidates = self.recent.clone();
        candidates.extend(processes());
        let pid = candidates
            .into_iter()
            .find(|&pid| has_open(pid, OsStr::new(&link)))?;
        self.recent.retain(|&recent| recent != pid);
        self.recent.truncate(RECENT - 1);
        self.recent.insert(0, pid);
        describe(pid)
    }
}

/// Every process, the newest first, as far as numbers tell.
fn processes() -> Vec<u32> {
    let mut pids = numbers(Path::new("/proc"));
    pids.sort_unstable_by(|one, other| other.cmp(one));
    pids
}

fn has_open(pid: u32, link: &OsStr) -> bool {
    let directory = Path::new("/proc").join(pid.to_string()).join("fd");
    let mut fds = numbers(&directory);
    // What was opened last is what sends first.
    fds.sort_unstable_by(|one, other| other.cmp(one));
    fds.into_iter().any(|fd| {
        fs::read_link(directory.join(fd.to_string()))
            .is_ok_and(|target| target.as_os_str().as_bytes() == link.as_bytes())
    })
}

/// The names of a directory that are numbers; none where it can't be read.
fn numbers(directory: &Path) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
    names
        .filter_map(|name| name.to_str()?.parse().ok())
        .collect()
}

/// The name and the innermost process id. Only `status` is read: other files of /proc read the
/// process's memory, which may have to come from the view.
fn describe(pid: u32) -> Option<Sender> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    parse_status(&status)
}

fn parse_status(status: &str) -> Option<Sender> {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::trim)
    };
    let pid = field("NSpid:")?.split_whitespace().next_back()?;
    Some(Sender {
        pid: pid.parse().ok()?,
        name: field("Name:")?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn the_process_is_described_as_it_is_inside() {
        let status = "Name:\tmy curl\nUmask:\t0022\nNSpid:\t4100\t41\nVmPeak: 1 kB\n";
        let sender = parse_status(status).expect("parse");
        assert_eq!((sender.pid, sender.name.as_str()), (41, "my curl"));
        assert!(parse_status("Name:\tx\n").is_none());
    }

    #[test]
    fn the_holder_of_a_socket_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        let path = format!(
            "/proc/self/fd/{}",
            std::os::fd::AsRawFd::as_raw_fd(&listener)
        );
        let inode = fs::metadata(path).expect("stat").ino();
        let (unused, _) = rustix::pipe::pipe().expect("a pipe");
        let mut attribution = Attribution::new(unused);
        let sender = attribution.sender(inode).expect("found");
        assert_eq!(sender.pid, std::process::id() as i32);
        assert_eq!(attribution.recent, [std::process::id()]);
        assert!(attribution.sender(u64::MAX).is_none());
    }
}
