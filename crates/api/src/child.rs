//! A process that does one thing for this one, tells what happens, and ends with a result.
//!
//! It is a copy of this process. The two speak in packets, the first byte of which says what it is:
//!
//! | byte | rest |
//! |---|---|
//! | `e` | an [`Event`] as JSON |
//! | `p` | a part of the result, more follows |
//! | `d` | the last part of a result, as JSON |
//! | `f` | the last part of a [`Failed`], as JSON |
//! | `a` | to the child: an [`Answered`] as JSON |

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::process::{Pid, Signal};
use rustix::time::Timespec;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use surmise_kept::Answer;
use surmise_launch::Question;
use surmise_sys::process::{self, Child as Process};

use crate::event::Event;
use crate::interrupt;
use crate::results::Failed;

/// How much of a result goes into one packet, in bytes: well below what a socket takes.
const PART_MAX: usize = 32 << 10;

/// No packet is longer. (A piece of output is at most [`crate::running::PIECE_MAX`] bytes, and six times that in
/// JSON.)
const PACKET_MAX: usize = 100 << 10;

/// One end of the link between the two.
#[derive(Debug)]
pub(crate) struct Channel(OwnedFd);

/// What a person has answered.
#[derive(Serialize, Deserialize)]
struct Answered {
    question: u64,
    answer: Answer,
}

/// What the child says.
#[derive(Debug)]
pub(crate) enum Said {
    /// Something happened.
    Event(Event),
    /// It is done, and says no more.
    Result(Result<Box<RawValue>, Box<Failed>>),
    /// It has ended without a result.
    Gone,
}

/// The child, for its parent.
#[derive(Debug)]
pub(crate) struct Child {
    process: Process,
    channel: Channel,
    /// Of a result.
    parts: Vec<u8>,
}

/// What the child is given: the channel, and what becomes its streams, where these are not the parent's.
struct Given {
    channel: Channel,
    streams: [Option<OwnedFd>; 3],
}

/// Starts a child that does `work`. It leads a session of its own, without a terminal. The kernel tells it to hang up
/// when this process ends.
///
/// # Errors
/// When there are no processes or descriptors left.
pub(crate) fn start<T: Serialize>(
    streams: [Option<OwnedFd>; 3],
    work: impl FnOnce(&Channel) -> Result<T, Box<Failed>>,
) -> io::Result<Child> {
    let (ours, channel) = Channel::pair()?;
    let parent = rustix::process::getpid();
    let live = |given: Given| u8::from(given.live(parent, work).is_err());
    let process = process::fork_with(Given { channel, streams }, Given::descriptors, live)?;
    Ok(Child {
        process,
        channel: ours,
        parts: Vec::new(),
    })
}

impl Given {
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let streams = self.streams.iter().flatten().map(AsFd::as_fd);
        streams.chain([self.channel.as_fd()]).collect()
    }

    fn live<T: Serialize>(
        self,
        parent: Pid,
        work: impl FnOnce(&Channel) -> Result<T, Box<Failed>>,
    ) -> io::Result<()> {
        rustix::process::setsid()?;
        interrupt::listen_again()?;
        rustix::process::set_parent_process_death_signal(Some(Signal::HUP))?;
        if rustix::process::getppid() != Some(parent) {
            // It ended before the kernel knew that this process wants to hear of it.
            return Ok(());
        }
        let Self { channel, streams } = self;
        let [input, output, error] = streams;
        if let Some(input) = input {
            rustix::stdio::dup2_stdin(input)?;
        }
        if let Some(output) = output {
            rustix::stdio::dup2_stdout(output)?;
        }
        if let Some(error) = error {
            rustix::stdio::dup2_stderr(error)?;
        }
        channel.finish(work(&channel))
    }
}

impl Channel {
    fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok((Self(one), Self(other)))
    }

    fn send(&self, kind: u8, bytes: &[u8], flags: SendFlags) -> io::Result<()> {
        let packet: Vec<u8> = [kind].iter().chain(bytes).copied().collect();
        assert!(packet.len() <= PACKET_MAX, "{} bytes", packet.len());
        let flags = flags | SendFlags::NOSIGNAL;
        rustix::io::retry_on_intr(|| rustix::net::send(&self.0, &packet, flags))?;
        Ok(())
    }

    /// Tells of an event, unless the parent does not read. For a process that must not wait.
    pub(crate) fn note(&self, event: &Event) {
        let bytes = serde_json::to_vec(event).expect("an event is plain data");
        let _ = self.send(b'e', &bytes, SendFlags::DONTWAIT);
    }

    /// Tells of an event.
    ///
    /// # Errors
    /// When the parent has gone.
    pub(crate) fn tell(&self, event: &Event) -> io::Result<()> {
        let bytes = serde_json::to_vec(event).expect("an event is plain data");
        self.send(b'e', &bytes, SendFlags::empty())
    }

    fn finish<T: Serialize>(&self, result: Result<T, Box<Failed>>) -> io::Result<()> {
        let (kind, bytes) = match result {
            Ok(value) => (b'd', serde_json::to_vec(&value)),
            Err(failed) => (b'f', serde_json::to_vec(&failed)),
        };
        let bytes = bytes.expect("a result is plain data");
        let mut parts = bytes.chunks(PART_MAX).peekable();
        while let Some(part) = parts.next() {
            let kind = if parts.peek().is_some() { b'p' } else { kind };
            self.send(kind, part, SendFlags::empty())?;
        }
        Ok(())
    }

    /// Whether the parent may still answer.
    pub(crate) fn is_heard(&self) -> bool {
        let mut events = [PollFd::new(&self.0, PollFlags::RDHUP)];
        rustix::event::poll(&mut events, Some(&Timespec::default())) == Ok(0)
    }

    /// Asks a question and waits for its answer. That is no where nobody can answer any more.
    pub(crate) fn ask(&self, question: &Question) -> Answer {
        // One is asked after the other, each by a process of its own.
        let number = rustix::process::getpid().as_raw_pid();
        let number = u64::from(number.unsigned_abs());
        if self.tell(&Event::asked(number, question)).is_err() {
            return Answer::Refuse;
        }
        loop {
            match self.receive(RecvFlags::empty()) {
                Ok(Some(packet)) if packet.first() == Some(&b'a') => {
                    match serde_json::from_slice(&packet[1..]) {
                        Ok(Answered { question, answer }) if question == number => return answer,
                        // Of an earlier question, which nobody asks any more.
                        _ => {}
                    }
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return Answer::Refuse,
            }
        }
    }

    /// The next packet; `None` when the other end is closed.
    fn receive(&self, flags: RecvFlags) -> io::Result<Option<Vec<u8>>> {
        let mut packet = vec![0; PACKET_MAX];
        let received = rustix::io::retry_on_intr(|| {
            rustix::net::recv(&self.0, packet.as_mut_slice(), flags).map(|(length, _)| length)
        });
        match received {
            Ok(0) | Err(Errno::CONNRESET) => Ok(None),
            Ok(length) => {
                packet.truncate(length);
                Ok(Some(packet))
            }
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Readable when the other end has said something, or is closed.
impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Child {
    /// What it says; `None` where it has said nothing new.
    ///
    /// # Errors
    /// When the channel fails.
    pub(crate) fn heard(&mut self) -> io::Result<Option<Said>> {
        loop {
            let packet = match self.channel.receive(RecvFlags::DONTWAIT) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                packet => packet?,
            };
            let Some(packet) = packet else {
                return Ok(Some(Said::Gone));
            };
            let (kind, bytes) = packet.split_first().expect("no packet is empty");
            match kind {
                b'e' => return Ok(Some(Said::Event(serde_json::from_slice(bytes)?))),
                b'p' => self.parts.extend(bytes),
                _ => {
                    self.parts.extend(bytes);
                    let parts = std::mem::take(&mut self.parts);
                    let result = match kind {
                        b'd' => Ok(serde_json::from_slice(&parts)?),
                        _ => Err(serde_json::from_slice(&parts)?),
                    };
                    return Ok(Some(Said::Result(result)));
                }
            }
        }
    }

    /// Answers a question.
    ///
    /// # Errors
    /// When nobody hears it.
    pub(crate) fn answer(&self, question: u64, answer: Answer) -> io::Result<()> {
        let bytes = serde_json::to_vec(&Answered { question, answer });
        let bytes = bytes.expect("an answer is plain data");
        self.channel.send(b'a', &bytes, SendFlags::DONTWAIT)
    }

    /// Lets it know that nobody will answer any more.
    pub(crate) fn answer_no_more(&self) {
        // Fails only if it has ended.
        let _ = rustix::net::shutdown(&self.channel, rustix::net::Shutdown::Write);
    }

    /// Sends it a signal. One that has ended does nothing with it.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = self.process.signal(signal);
    }

    /// Waits for its end: not long after it has said its result.
    ///
    /// # Errors
    /// As `waitid`.
    pub(crate) fn wait(&self) -> io::Result<()> {
        self.process.wait().map(drop)
    }
}

/// Readable when it has said something.
impl AsFd for Child {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}
