//! The socket that clients come to.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Pid, Signal};
use surmise_sys::process::{self, Child};

use super::connection;
use crate::error::Explained;
use crate::interrupt::{self, Interrupts};
use crate::protocol::{Problem, Rejected};
use crate::surmise::Surmise;

/// How many clients are served at a time; others wait.
const CLIENTS_MAX: usize = 64;

/// Only the user reaches the socket.
const OTHERS: Mode = Mode::RWXG.union(Mode::RWXO).union(Mode::XUSR);

/// A Unix socket that clients come to. It is gone when this is dropped.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    path: PathBuf,
}

/// Why nobody can be listened to.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Somebody listens there, or something else is there.
    #[error("{} exists", path.display())]
    Exists {
        /// Where.
        path: PathBuf,
    },
    /// There can be no socket.
    #[error("{}: {source}", path.display())]
    Socket {
        /// Where.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Clients could not be waited for, or not be served.
    #[error("serve clients: {0}")]
    Serve(#[source] io::Error),
}

impl Listener {
    /// Listens at `path`, with mode 0600. What an earlier server left there and nobody listens at is replaced.
    ///
    /// # Errors
    /// When there is something else, or no socket can be made.
    pub fn open(path: &Path) -> Result<Self, ListenError> {
        let failed = |source: Errno| match source {
            Errno::ADDRINUSE => ListenError::Exists { path: path.into() },
            source => ListenError::Socket {
                path: path.into(),
                source: source.into(),
            },
        };
        let socket = socket().map_err(failed)?;
        let address = SocketAddrUnix::new(path).map_err(failed)?;
        let bind = || {
            // One thread: nobody makes a file meanwhile.
            let before = rustix::process::umask(OTHERS);
            let bound = rustix::net::bind(&socket, &address);
            rustix::process::umask(before);
            bound
        };
        match bind() {
            Err(Errno::ADDRINUSE) if is_abandoned(path, &address) => {
                rustix::fs::unlink(path).map_err(failed)?;
                bind().map_err(failed)?;
            }
            bound => bound.map_err(failed)?,
        }
        rustix::net::listen(&socket, 16).map_err(failed)?;
        Ok(Self {
            socket,
            path: path.into(),
        })
    }

    /// Serves clients until a signal asks to stop. To be called by a process with one thread.
    ///
    /// # Errors
    /// When clients can't be waited for.
    pub fn serve(&self, surmise: &Surmise) -> Result<(), ListenError> {
        let interrupts = Interrupts::hold().map_err(ListenError::Serve)?;
        let mut clients: Vec<Child> = Vec::new();
        loop {
            let room = clients.len() < CLIENTS_MAX;
            let mut events = vec![PollFd::new(&interrupts, PollFlags::IN)];
            events.extend(
                clients
                    .iter()
                    .map(|client| PollFd::new(client, PollFlags::IN)),
            );
            events.extend(room.then(|| PollFd::new(&self.socket, PollFlags::IN)));
            match rustix::event::poll(&mut events, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(ListenError::Serve(errno.into())),
            }
            let ready: Vec<_> = events
                .iter()
                .map(|event| !event.revents().is_empty())
                .collect();
            if interrupts.arrived() {
                return Ok(());
            }
            let ended = ready[1..].to_vec();
            let mut at = 0;
            clients.retain(|client| {
                let has_ended = ended[at];
                at += 1;
                if has_ended {
                    // It is no more; how it ended is its client's business.
                    let _ = client.wait();
                }
                !has_ended
            });
            if room && ready.last() == Some(&true) {
                clients.extend(self.accept(surmise)?);
            }
        }
    }

    /// The process of the next client.
    fn accept(&self, surmise: &Surmise) -> Result<Option<Child>, ListenError> {
        let client = match rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC) {
            Ok(client) => client,
            Err(Errno::INTR | Errno::CONNABORTED | Errno::AGAIN) => return Ok(None),
            Err(errno) => return Err(ListenError::Serve(errno.into())),
        };
        if let Err(rejected) = check_user(&client) {
            // One that does not read learns it by the end.
            let flags = rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL;
            let _ = rustix::net::send(&client, rejected.encode().as_bytes(), flags);
            return Ok(None);
        }
        let parent = rustix::process::getpid();
        let live = || u8::from(live(surmise, &client, parent).is_err());
        match process::fork(&[client.as_fd()], live) {
            Ok(child) => Ok(Some(child)),
            // The client sees the end; others may come later.
            Err(_) => Ok(None),
        }
    }
}

/// The life of a client's process.
fn live(surmise: &Surmise, client: &OwnedFd, parent: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::HUP))?;
    if rustix::process::getppid() != Some(parent) {
        return Ok(());
    }
    interrupt::listen_again()?;
    let (input, output) = (client.try_clone()?, client.try_clone()?);
    connection::serve(surmise.clone(), input, output)
}

fn socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// Whether there is a socket at which nobody listens.
fn is_abandoned(path: &Path, address: &SocketAddrUnix) -> bool {
    let is_socket = rustix::fs::lstat(path).is_ok_and(|stat| {
        rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Socket
    });
    is_socket
        && socket()
            .is_ok_and(|probe| rustix::net::connect(&probe, address) == Err(Errno::CONNREFUSED))
}

/// # Errors
/// When the client is neither this process' user nor root.
fn check_user(client: &OwnedFd) -> Result<(), Rejected> {
    let rejected = |error: String| Rejected {
        id: None,
        problem: Problem::NotAllowed,
        error,
    };
    let peer = rustix::net::sockopt::socket_peercred(client);
    let peer = peer.map_err(|errno| rejected(format!("who asks is not known: {errno}")))?;
    let own = rustix::process::geteuid();
    match peer.uid == own || peer.uid.is_root() {
        true => Ok(()),
        false => Err(rejected(format!(
            "user {} may not use what is user {}'s",
            peer.uid.as_raw(),
            own.as_raw()
        ))),
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Should it stay, the next server replaces it.
        let _ = rustix::fs::unlink(&self.path);
    }
}

impl Explained for ListenError {
    fn code(&self) -> &'static str {
        match self {
            Self::Exists { .. } => "socket_taken",
            Self::Socket { .. } => "no_socket",
            Self::Serve(_) => "not_served",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Exists { .. } => {
                Some("choose another path, or end the server that listens there".into())
            }
            _ => None,
        }
    }
}
