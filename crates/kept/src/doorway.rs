//! The way to a running domain for the user's other commands: a socket in its state directory.
//!
//! Its user alone may enter that directory, and ask. One connection carries one request and
//! what becomes of it: any number of [`Reply::Progress`], for a commit a [`Reply::Applied`], then one
//! other reply. A watcher gets any number of [`Reply::Noticed`], until the domain has ended.

mod lines;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde::{Deserialize, Serialize};
use surmise_commit::Conflict;

pub use self::lines::fit;
use crate::link::Link;
use crate::notice::{Answer, Notice};

/// The socket's name.
const NAME: &str = "control";

/// Of the requests and replies. Two programs that differ in it do not try to understand each other.
pub const VERSION: u32 = 4;

/// How many files that were merely read are named; the others are counted.
const READ_CHANGED_MAX: usize = 20;

/// All their lines, in bytes as a message has them.
const READ_CHANGED_BYTES_MAX: usize = 8 << 10;

/// What is asked.
#[derive(Debug, Serialize, Deserialize)]
pub struct Request {
    /// [`VERSION`] of the program that asks.
    pub version: u32,
    /// What it wants.
    pub wish: Wish,
}

/// What a person decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wish {
    /// Make everything so far real, and go on.
    Commit {
        /// Not if something that was merely read has changed outside.
        is_strict: bool,
    },
    /// End, and throw everything away.
    Abort,
    /// Do this with output that is held and whose replies tasks wait for.
    Decide(Answer),
    /// Tell what happens, from now on.
    Watch,
}

/// What has become of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// How far a commit is.
    Progress {
        /// What it does now, by [`Activity::name`](surmise_commit::Activity::name).
        activity: String,
        /// Steps of that which are done.
        done: usize,
        /// All steps of that.
        total: usize,
    },
    /// All changes are real, and the domain goes on. Held output still goes out.
    Applied(Done),
    /// It is done.
    Done(Done),
    /// It is not, and nothing has changed unless the text says so.
    Failed(Refusal),
    /// Of a domain that is watched.
    Noticed(Notice),
}

/// What a commit of a running domain did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// How many changes are real now.
    pub changes: usize,
    /// What somebody outside was faster with, a line each.
    pub left: Vec<String>,
    /// What the domain merely read and had changed outside by then.
    pub read_changed: ReadChanged,
    /// Held output that went out: where to, and how many bytes.
    pub sent: Vec<(String, u64)>,
    /// Held output that did not: where to, how many bytes did, and why not the rest.
    pub unsent: Vec<(String, u64, String)>,
    /// Whether held output still goes out, and nobody has waited for that.
    pub is_sending: bool,
}

/// What a domain merely read and had changed outside when it was committed, where that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadChanged {
    /// How many.
    pub count: usize,
    /// The first of them by path, a line each.
    pub first: Vec<String>,
}

impl ReadChanged {
    /// Of all that was found.
    pub fn of(found: &[Conflict]) -> Self {
        let first = found.iter().take(READ_CHANGED_MAX);
        let mut first: Vec<String> = first.map(ToString::to_string).collect();
        fit(&mut first, READ_CHANGED_MAX, READ_CHANGED_BYTES_MAX);
        Self {
            count: found.len(),
            first,
        }
    }
}

/// Why a request was not granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// What is wrong.
    pub error: String,
    /// A line each.
    pub details: Vec<String>,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Refusal {
    /// One without details.
    pub fn new(error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            error: error.into(),
            details: Vec::new(),
            hint: Some(hint.into()),
        }
    }
}

/// Control's end: where the others knock.
#[derive(Debug)]
pub struct Doorway {
    listener: OwnedFd,
}

impl Doorway {
    /// In the state directory of a domain whose lock the caller holds. What an earlier holder left
    /// is replaced.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn open(state: &Path) -> io::Result<Self> {
        let directory = open_directory(state)?;
        match rustix::fs::unlinkat(&directory, NAME, rustix::fs::AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        let listener = socket(SocketFlags::NONBLOCK)?;
        rustix::net::bind(&listener, &address(&directory)?)?;
        rustix::net::listen(&listener, 8)?;
        Ok(Self { listener })
    }

    /// Who knocks; `None` when nobody does any more.
    ///
    /// # Errors
    /// When no more files may be open.
    pub fn accept(&self) -> io::Result<Option<Link>> {
        match rustix::net::accept_with(&self.listener, SocketFlags::CLOEXEC) {
            Ok(client) => Ok(Some(Link::of(client))),
            Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Readable when somebody knocks.
impl AsFd for Doorway {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// Knocks at the domain kept in `state`; `None` when nobody is there.
pub(crate) fn knock(state: &Path, wish: Wish) -> io::Result<Option<Link>> {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};

    let directory = open_directory(state)?;
    let socket = socket(SocketFlags::empty())?;
    match rustix::net::connect(&socket, &address(&directory)?) {
        Ok(()) => {}
        Err(Errno::NOENT | Errno::CONNREFUSED) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    }
    let link = Link::of(socket);
    let request = Request {
        version: VERSION,
        wish,
    };
    match link.send(&request) {
        Ok(()) => Ok(Some(link)),
        // The process that served it has gone since.
        Err(error) if matches!(error.kind(), BrokenPipe | ConnectionReset) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether somebody would answer.
pub(crate) fn is_open(state: &Path) -> io::Result<bool> {
    let directory = open_directory(state)?;
    let socket = socket(SocketFlags::empty())?;
    Ok(rustix::net::connect(&socket, &address(&directory)?).is_ok())
}

fn socket(flags: SocketFlags) -> io::Result<OwnedFd> {
    let flags = flags | SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        flags,
        None,
    )?)
}

fn open_directory(state: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, state, flags, Mode::empty())?)
}

/// By way of the descriptor: a socket's address is at most 107 bytes, and a state directory may have a
/// longer path.
fn address(directory: &OwnedFd) -> io::Result<SocketAddrUnix> {
    let path = format!("/proc/self/fd/{}/{NAME}", directory.as_raw_fd());
    Ok(SocketAddrUnix::new(path)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_and_its_reply_go_through_however_long_the_path() {
        let root = tempfile::tempdir().expect("a directory");
        let state = root.path().join("x".repeat(200));
        std::fs::create_dir(&state).expect("mkdir");
        assert!(knock(&state, Wish::Abort).expect("nobody").is_none());
        for _ in 0..2 {
            let doorway = Doorway::open(&state).expect("open");
            assert!(doorway.accept().expect("accept").is_none());
            let wish = Wish::Commit { is_strict: true };
            let client = knock(&state, wish).expect("knock").expect("a link");
            let link = doorway.accept().expect("accept").expect("a client");
            let request: Request = link.receive().expect("receive").expect("a request");
            assert_eq!((request.version, request.wish), (VERSION, wish));
            link.send(&Reply::Done(Done::default())).expect("send");
            let reply = client.receive().expect("receive");
            assert!(matches!(reply, Some(Reply::Done(done)) if done == Done::default()));
        }
        assert!(knock(&state, Wish::Abort).expect("nobody").is_none());
    }
}
