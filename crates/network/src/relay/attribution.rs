//! Which process inside sent something.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::Pid;
use surmise_linux::network::gate::{Protocol, has_listener, owner};
use surmise_linux::proc::{self, Link, Status};
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
    recent: Vec<Pid>,
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
        let mut candidates = self.recent.clone();
        // The newest first, as far as numbers tell.
        candidates.extend(proc::processes().unwrap_or_default().into_iter().rev());
        let process = candidates
            .into_iter()
            .find(|&process| has_open(process, inode))?;
        self.recent.retain(|&recent| recent != process);
        self.recent.truncate(RECENT - 1);
        self.recent.insert(0, process);
        describe(process)
    }
}

fn has_open(process: Pid, inode: u64) -> bool {
    let mut found = false;
    let look = |_, link| found |= link == Link::Socket(inode);
    // It may have ended, or not be ours to look into.
    let _ = proc::each_link(process, look);
    found
}

/// The name and the innermost process id.
fn describe(process: Pid) -> Option<Sender> {
    let status = Status::of(process).ok()?;
    Some(Sender {
        pid: status.inner()?.as_raw_nonzero().get(),
        name: status.name().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_holder_of_a_socket_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        let inode = rustix::fs::fstat(&listener).expect("stat").st_ino;
        let (unused, _) = rustix::pipe::pipe().expect("a pipe");
        let mut attribution = Attribution::new(unused);
        let sender = attribution.sender(inode).expect("found");
        assert_eq!(sender.pid, std::process::id() as i32);
        assert_eq!(attribution.recent, [rustix::process::getpid()]);
        assert!(attribution.sender(u64::MAX).is_none());
    }
}
