//! What the roles of one domain tell each other: whole messages over socket pairs.
//!
//! Both ends of a pair are the same program, forked, so the form of a message is no format.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use rustix::time::Timespec;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use surmise_network::Verdict;
use surmise_outbox::Sender;
use surmise_refusals::Refusals;
use surmise_sys::seccomp::Listener;

use crate::exit::Exit;
use crate::launch::{Lingering, LostStream};

/// Longest message, in bytes; a socket's default buffer holds several.
const BYTES_MAX: usize = 64 << 10;

/// From control to pid 1, and between pid 1 and the command's process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// What the other waits for is done (the user namespace has its numbers, the network is there, the
    /// domain is built): go on.
    Go,
    /// Control got this signal: pass it on; if it asks to end, then end.
    Signal(i32),
    /// A command that has stopped goes on.
    Continue {
        /// Whether it may read the keys of the domain's terminal.
        foreground: bool,
    },
    /// Bring all that was written through shared mappings to the view; [`Report::Done`] answers.
    Flush,
    /// Control is about to be another process; [`Report::Done`] answers.
    Adopt,
}

/// From the command's process to pid 1, where somebody hears calls.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Listening {
    /// The number that its listener is about to have. Afterwards it says nothing more: that would be a
    /// tracked call.
    pub(crate) descriptor: RawFd,
}

/// From pid 1 to the relay process, each followed by the descriptor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Handed {
    /// The outer side of the domain's terminal.
    Terminal,
    /// A copy of the listener, the last thing that is handed over.
    Listener(Listened),
    /// A socket for a nameserver inside.
    Nameserver,
    /// A socket by which it is found out whose a socket inside is, and who listens; before the listener.
    Diagnostics,
}

/// What goes with a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listened {
    /// The inode of the domain's network namespace.
    pub(crate) network: u64,
}

/// From control to the view, for a commit of a running domain. [`Report::Done`] or
/// [`Report::NotDone`] answers each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ViewOrder {
    /// Stop all calls, and keep what the commit takes away outside and a task still holds.
    Prepare,
    /// The real tree is what the view shows.
    Rebase,
    /// Let the calls go on.
    GoOn,
    /// The caller goes: let go of its standard error.
    LetGo,
    /// End at once, although calls wait. Nothing answers.
    End,
}

impl ViewOrder {
    /// What it does, for messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Prepare => "prepare the view for the commit",
            Self::Rebase => "take the commit into the view",
            Self::GoOn => "let the view go on",
            Self::LetGo => "let go of the caller's streams",
            Self::End => "end",
        }
    }
}

/// From control to the relay process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum RelayOrder {
    /// Lines for the caller's standard error.
    Note(String),
    /// Make the terminal the caller's again; [`RelayReport::Paused`] answers.
    PauseTerminal,
    /// Let the terminal go on; with `engage`, its keys go to the domain as soon as the caller is in the
    /// foreground. [`RelayReport::Resumed`] answers.
    ResumeTerminal { engage: bool },
    /// Let go of the caller's streams and hold what comes; [`RelayReport::Detached`] answers.
    Detach,
    /// Take in all that the tasks, which stand still, have sent; [`RelayReport::Quiet`] answers.
    Quiesce,
    /// Send what is held; [`RelayReport::Released`] answers.
    Release,
    /// The person's answer to [`RelayReport::Asked`].
    Answer { question: u64, verdict: Verdict },
    /// The person's decision about the host of a hold.
    Decide { hold: u64, verdict: Verdict },
    /// The domain has ended: pass on what is left, then end.
    Finish,
    /// Make the terminal the caller's again, and end without passing on what is left.
    Abandon,
}

/// From the relay process to control.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum RelayReport {
    /// The relay process could not go on.
    Failed(Failure),
    /// The terminal is the caller's, and what was put out before has appeared.
    Paused,
    /// The terminal goes on.
    Resumed {
        /// Whether its keys go to the domain.
        engaged: bool,
    },
    /// The terminal's keys go to the domain from now on.
    Engaged,
    /// The caller's streams are let go of.
    Detached,
    /// A task wants to reach a host that only the person can allow, and waits.
    Asked {
        question: u64,
        peer: String,
        sender: Option<Process>,
    },
    /// Something is held from now on.
    Held { hold: u64 },
    /// A task has sent something that is held, and probably waits for a reply.
    Waiting {
        hold: u64,
        peer: String,
        sender: Option<Process>,
        bytes: u64,
        /// Its socket; 0 if unknown.
        inode: u64,
    },
    /// It waits no more.
    Settled { hold: u64 },
    /// What was refused so far that nobody else tells of; the last that it says.
    RefusedInside(Refusals),
    /// Output could not be kept, and its connection was reset.
    NotKept { peer: String, error: String },
    /// What was put out could not be passed on.
    Lost(LostStream),
    /// The tasks' output is in the outbox; or why it is not.
    Quiet { failed: Option<String> },
    /// What is to go out is chosen: what is sent from now on waits for the next consent.
    Releasing,
    /// What was held has gone out.
    Released(Delivery),
}

/// A process inside, as messages name it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) name: String,
}

/// What became of held output: where to, how many bytes, and why not the rest.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Delivery {
    pub(crate) sent: Vec<(String, u64)>,
    pub(crate) unsent: Vec<(String, u64, String)>,
}

impl From<Sender> for Process {
    fn from(sender: Sender) -> Self {
        Self {
            pid: sender.pid,
            name: sender.name,
        }
    }
}

impl From<Process> for Sender {
    fn from(process: Process) -> Self {
        Self {
            pid: process.pid,
            name: process.name,
        }
    }
}

/// From pid 1, the command's process before its exec, the view, or the syncer, to control.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The domain could not go on.
    Failed(Failure),
    /// The command is about to start.
    Started,
    /// This signal has stopped the command.
    Stopped(i32),
    /// The command has ended, and so has every other process of the domain.
    Ended(Ended),
    /// What the syncer refused so far; the last that it says.
    RefusedInside(Refusals),
    /// An order was carried out.
    Done,
    /// It could not be.
    NotDone(String),
    /// Of the syncer, in the end: why syncs were made at once.
    MadeAtOnce(Vec<surmise_sync::Counted>),
}

/// How a domain's processes ended.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) exit: Exit,
    pub(crate) lingering: Vec<Lingering>,
}

/// What failed in another process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Failure {
    /// A step of the start or end.
    Step {
        what: String,
        errno: Option<i32>,
        /// For an error that is no number of the kernel's.
        text: String,
    },
    /// Entering the starting directory.
    Directory { errno: i32 },
    /// Executing the command.
    Command { errno: i32 },
}

impl Failure {
    /// For `map_err`: `what` is the step, in the words of an error message.
    pub(crate) fn at<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |error| {
            let error = error.into();
            Self::Step {
                what,
                errno: error.raw_os_error(),
                text: error.to_string(),
            }
        }
    }
}

/// One end of a pair.
#[derive(Debug)]
pub(crate) struct Link(OwnedFd);

impl Link {
    pub(crate) fn pair() -> io::Result<(Self, Self)> {
        let (one, two) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok((Self(one), Self(two)))
    }

    /// An end of a connection between two programs.
    pub(crate) fn of(socket: OwnedFd) -> Self {
        Self(socket)
    }

    pub(crate) fn send(&self, message: &impl Serialize) -> io::Result<()> {
        self.send_with(message, SendFlags::empty())
    }

    /// As [`Self::send`], but fails where that would wait.
    pub(crate) fn try_send(&self, message: &impl Serialize) -> io::Result<()> {
        self.send_with(message, SendFlags::DONTWAIT)
    }

    fn send_with(&self, message: &impl Serialize, flags: SendFlags) -> io::Result<()> {
        let bytes = serde_json::to_vec(message).expect("a message is plain data");
        assert!(
            bytes.len() <= BYTES_MAX,
            "a message of {} bytes",
            bytes.len()
        );
        // NOSIGNAL: the other role may have died, which is for the caller to deal with.
        let flags = flags | SendFlags::NOSIGNAL;
        rustix::io::retry_on_intr(|| rustix::net::send(&self.0, &bytes, flags))?;
        Ok(())
    }

    /// The next message; `None` when the other end is closed in all processes.
    pub(crate) fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<T>> {
        self.receive_with(RecvFlags::empty())
    }

    /// As [`Self::receive`]; the outer `None` where that would wait.
    pub(crate) fn try_receive<T: DeserializeOwned>(&self) -> io::Result<Option<Option<T>>> {
        match self.receive_with(RecvFlags::DONTWAIT) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            received => received.map(Some),
        }
    }

    fn receive_with<T: DeserializeOwned>(&self, flags: RecvFlags) -> io::Result<Option<T>> {
        let mut bytes = Vec::with_capacity(BYTES_MAX);
        let received =
            beyond_reset(|| rustix::net::recv(&self.0, spare_capacity(&mut bytes), flags));
        match received {
            Ok((0, _)) => Ok(None),
            Ok(_) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Whether the other end sends no more.
    pub(crate) fn is_over(&self) -> bool {
        let mut events = [PollFd::new(&self.0, PollFlags::RDHUP)];
        let polled = rustix::event::poll(&mut events, Some(&Timespec::default()));
        polled.is_err() || !events[0].revents().is_empty()
    }

    pub(crate) fn send_descriptor(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        let fds = [fd];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        rustix::net::sendmsg(
            &self.0,
            &[IoSlice::new(b"\0")],
            &mut control,
            SendFlags::NOSIGNAL,
        )?;
        Ok(())
    }

    /// The descriptor that the other end sends; `None` when it is closed first.
    pub(crate) fn receive_descriptor(&self) -> io::Result<Option<OwnedFd>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        beyond_reset(|| {
            rustix::net::recvmsg(
                &self.0,
                &mut [IoSliceMut::new(&mut byte)],
                &mut control,
                RecvFlags::CMSG_CLOEXEC,
            )
        })?;
        let mut rights = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        Ok(rights.next().and_then(|mut descriptors| descriptors.next()))
    }

    /// The listener that pid 1 sends, and a socket for diagnostics of the domain's network; `None` if it died before, or the command's process:
    /// its own report tells why.
    pub(crate) fn receive_listener(self) -> Result<Option<(Listened, Listener, OwnedFd)>, Failure> {
        let failed = Failure::at("receive the listener");
        let received = self.receive().and_then(|listened| match listened {
            Some(listened) => {
                let listener = self.receive_descriptor()?;
                let diagnostics = self.receive_descriptor()?;
                Ok(listener
                    .zip(diagnostics)
                    .map(|(one, other)| (listened, one, other)))
            }
            None => Ok(None),
        });
        let Some((listened, listener, diagnostics)) = received.map_err(failed)? else {
            return Ok(None);
        };
        let listener = Listener::new(listener).map_err(Failure::at("listen"))?;
        Ok(Some((listened, listener, diagnostics)))
    }
}

/// A role that ends with messages unread resets the pair, which the kernel tells once, and before what that role still
/// said.
fn beyond_reset<T>(mut receive: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    match rustix::io::retry_on_intr(&mut receive) {
        Err(Errno::CONNRESET) => rustix::io::retry_on_intr(receive),
        received => received,
    }
}

/// Readable when a message is there or the other end is closed.
impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_heard_also_of_one_that_ended_with_messages_unread() {
        let (one, two) = Link::pair().expect("a pair");
        one.send(&Order::Signal(15)).expect("send");
        two.send(&Order::Go).expect("send");
        drop(one);
        assert!(matches!(two.receive(), Ok(Some(Order::Signal(15)))));
        assert!(matches!(two.receive::<Order>(), Ok(None)));

        let (one, two) = Link::pair().expect("a pair");
        one.send_descriptor(two.as_fd()).expect("send");
        two.send(&Order::Go).expect("send");
        drop(one);
        assert!(matches!(two.receive_descriptor(), Ok(Some(_))));
        assert!(matches!(two.receive_descriptor(), Ok(None)));
    }

    #[test]
    fn messages_keep_their_bounds_and_an_end_is_seen() {
        let (one, two) = Link::pair().expect("a pair");
        one.send(&Order::Go).expect("send");
        one.send(&Order::Signal(15)).expect("send");
        assert!(!two.is_over());
        drop(one);
        assert!(two.is_over());
        assert!(matches!(two.receive(), Ok(Some(Order::Go))));
        assert!(matches!(two.receive(), Ok(Some(Order::Signal(15)))));
        assert!(matches!(two.receive::<Order>(), Ok(None)));
    }

    #[test]
    fn a_descriptor_goes_across() {
        let (one, two) = Link::pair().expect("a pair");
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        one.send_descriptor(writer.as_fd()).expect("send");
        let received = two.receive_descriptor().expect("receive").expect("one");
        rustix::io::write(received, b"x").expect("write");
        let mut byte = [0];
        rustix::io::read(reader, &mut byte).expect("read");
        assert_eq!(&byte, b"x");
        drop(one);
        assert!(two.receive_descriptor().expect("receive").is_none());
    }
}
