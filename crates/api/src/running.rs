//! A command that runs in a process of its own, while the caller goes on.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;
use serde::Serialize;
use serde_json::value::RawValue;
use surmise_kept::Answer;

use crate::child::{self, Channel, Child, Said};
use crate::event::{Event, Stream};
use crate::launch::{Launch, RunError};
use crate::results::{Failed, RunResult};
use crate::settle::Then;
use crate::supervised::Supervised;
use crate::surmise::{Surmise, check_threads};
use crate::text::Text;

/// How much output one event has at most, in bytes.
pub(crate) const PIECE_MAX: usize = 16 << 10;

/// How much input waits for the command to read it at most, in bytes.
const INPUT_MAX: usize = 1 << 20;

/// Where a stream of a command leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redirect {
    /// To nowhere, `/dev/null`.
    #[default]
    Null,
    /// To the caller's own stream.
    Inherit,
    /// To the caller: output comes as [`Event::Output`], input goes by [`Running::write`].
    Pipe,
}

/// The streams of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    /// Standard input.
    pub stdin: Redirect,
    /// Standard output.
    pub stdout: Redirect,
    /// Standard error.
    pub stderr: Redirect,
}

/// A command that runs in a process of its own.
///
/// That process does what `surmise run` does, without a terminal. When this is dropped before the end, or the caller
/// ends, however it does, the process gets `SIGHUP`, as `surmise run` does when its terminal goes: it passes that on
/// to the command, and what the command did until its end is settled as was said, kept say.
#[derive(Debug)]
pub struct Running {
    child: Child,
    input: Option<Input>,
    output: Vec<(Stream, OwnedFd)>,
    result: Option<Result<Box<RawValue>, Box<Failed>>>,
    is_reaped: bool,
}

/// What the command is to read.
#[derive(Debug)]
struct Input {
    pipe: OwnedFd,
    waiting: VecDeque<u8>,
    /// Whether nothing more comes.
    is_closed: bool,
}

impl Surmise {
    /// Runs a command in a new domain, in a process of its own. `then`: what becomes of its changes. `asks`: whether
    /// the caller answers questions ([`Event::Reach`], [`Event::Stalled`]); if not, the answer is no, and where
    /// everything waits for replies to held output, the domain runs on alone and the result is an error that says
    /// so.
    ///
    /// # Errors
    /// When the process cannot be started. What fails later is the [`result`](Running::result).
    pub fn start(
        &self,
        launch: &Launch,
        then: Then,
        streams: Streams,
        asks: bool,
    ) -> Result<Running, RunError> {
        launch.check()?;
        Running::start(streams, |channel| {
            Supervised { channel, asks }.run(self, launch, then)
        })
    }
}

impl Running {
    /// Starts a process that does `work`.
    pub(crate) fn start<T: Serialize>(
        streams: Streams,
        work: impl FnOnce(&Channel) -> Result<T, Box<Failed>>,
    ) -> Result<Self, RunError> {
        check_threads()?;
        let started = || {
            let (theirs_in, input) = split(streams.stdin, |(reader, writer)| (reader, writer))?;
            let (theirs_out, output) = split(streams.stdout, |(reader, writer)| (writer, reader))?;
            let (theirs_err, error) = split(streams.stderr, |(reader, writer)| (writer, reader))?;
            if let Some(input) = &input {
                rustix::io::ioctl_fionbio(input, true)?;
            }
            let child = child::start([theirs_in, theirs_out, theirs_err], work)?;
            let output = output.map(|pipe| (Stream::Stdout, pipe));
            let error = error.map(|pipe| (Stream::Stderr, pipe));
            Ok(Self {
                child,
                input: input.map(Input::new),
                output: output.into_iter().chain(error).collect(),
                result: None,
                is_reaped: false,
            })
        };
        started().map_err(RunError::Process)
    }

    /// What happens next; waits for it. `None` when the command has ended and all that it put out is told.
    ///
    /// # Errors
    /// When its process can't be heard.
    pub fn next_event(&mut self) -> io::Result<Option<Event>> {
        loop {
            if let Some(event) = self.try_event()? {
                return Ok(Some(event));
            }
            if self.is_over() {
                return Ok(None);
            }
            let mut events: Vec<_> = self
                .sources()
                .into_iter()
                .map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags))
                .collect();
            match rustix::event::poll(&mut events, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// What happens next; `None` where nothing new has, or [`Self::is_over`].
    ///
    /// # Errors
    /// When its process can't be heard.
    pub fn try_event(&mut self) -> io::Result<Option<Event>> {
        self.pass_input();
        if self.result.is_none() {
            match self.child.heard()? {
                Some(Said::Event(event)) => return Ok(Some(event)),
                Some(Said::Result(result)) => self.result = Some(result),
                Some(Said::Gone) => self.result = Some(Err(gone())),
                None => {}
            }
        }
        for at in 0..self.output.len() {
            let (stream, pipe) = &self.output[at];
            let Some(piece) = piece(pipe)? else {
                continue;
            };
            if piece.is_empty() {
                self.output.remove(at);
                return self.try_event();
            }
            let (stream, data) = (*stream, Text(piece));
            return Ok(Some(Event::Output { stream, data }));
        }
        Ok(None)
    }

    /// Whether the command has ended and all that it put out is told.
    pub fn is_over(&self) -> bool {
        self.result.is_some() && self.output.is_empty()
    }

    /// What to poll for the next event.
    pub fn sources(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        let child = self.result.is_none().then(|| self.child.as_fd());
        let output = self.output.iter().map(|(_, pipe)| pipe.as_fd());
        let read = child.into_iter().chain(output);
        let waiting = self.input.iter().filter(|input| !input.waiting.is_empty());
        let write = waiting.map(|input| (input.pipe.as_fd(), PollFlags::OUT));
        read.map(|fd| (fd, PollFlags::IN)).chain(write).collect()
    }

    /// What the command came to; waits for that, and drops events that were not asked for.
    ///
    /// # Errors
    /// When its process can't be heard.
    pub fn result(mut self) -> io::Result<Result<RunResult, Box<Failed>>> {
        while self.next_event()?.is_some() {}
        Ok(match self.take_result()? {
            Ok(value) => Ok(serde_json::from_str(value.get())?),
            Err(failed) => Err(failed),
        })
    }

    /// The result as JSON, when it [is over](Self::is_over).
    pub(crate) fn take_result(&mut self) -> io::Result<Result<Box<RawValue>, Box<Failed>>> {
        let result = self.result.take().unwrap_or_else(|| Err(gone()));
        self.child.wait()?;
        self.is_reaped = true;
        Ok(result)
    }

    /// Answers a question.
    ///
    /// # Errors
    /// When nobody hears it.
    pub fn answer(&self, question: u64, answer: Answer) -> io::Result<()> {
        self.child.answer(question, answer)
    }

    /// Lets it be known that nobody will answer any more.
    pub fn answer_no_more(&self) {
        self.child.answer_no_more();
    }

    /// Gives the command something to read. It is kept until the command reads it.
    ///
    /// # Errors
    /// `BrokenPipe` where nothing is read from the caller, or no more; `WouldBlock` where too much waits already:
    /// nothing of it is taken then.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let input = self.input.as_mut().filter(|input| !input.is_closed);
        let input = input.ok_or(io::ErrorKind::BrokenPipe)?;
        if input.waiting.len() + bytes.len() > INPUT_MAX {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        input.waiting.extend(bytes);
        self.pass_input();
        Ok(())
    }

    /// The command finds the end of its input behind what was written.
    pub fn close_input(&mut self) {
        if let Some(input) = &mut self.input {
            input.is_closed = true;
        }
        self.pass_input();
    }

    /// Sends a signal, as to `surmise run`: `INT`, `QUIT`, `TERM` and `HUP` are passed on to the command.
    pub fn signal(&self, signal: Signal) {
        self.child.signal(signal);
    }

    fn pass_input(&mut self) {
        if let Some(input) = &mut self.input
            && (!input.pass() || (input.is_closed && input.waiting.is_empty()))
        {
            self.input = None;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_over() || self.is_reaped {
            if !self.is_reaped {
                let _ = self.child.wait();
            }
            return;
        }
        self.child.signal(Signal::HUP);
    }
}

impl Input {
    fn new(pipe: OwnedFd) -> Self {
        Self {
            pipe,
            waiting: VecDeque::new(),
            is_closed: false,
        }
    }

    /// Writes what the pipe takes. False where nobody reads any more.
    fn pass(&mut self) -> bool {
        while !self.waiting.is_empty() {
            let (first, _) = self.waiting.as_slices();
            match rustix::io::write(&self.pipe, first) {
                Ok(written) => drop(self.waiting.drain(..written)),
                Err(Errno::INTR) => {}
                Err(errno) => return errno == Errno::AGAIN,
            }
        }
        true
    }
}

/// Theirs, where it is not the caller's own, and ours, where there is one.
fn split(
    redirect: Redirect,
    order: impl FnOnce((OwnedFd, OwnedFd)) -> (OwnedFd, OwnedFd),
) -> io::Result<(Option<OwnedFd>, Option<OwnedFd>)> {
    Ok(match redirect {
        Redirect::Inherit => (None, None),
        Redirect::Null => (Some(null()?), None),
        Redirect::Pipe => {
            let (theirs, ours) = order(pipe_with(PipeFlags::CLOEXEC)?);
            (Some(theirs), Some(ours))
        }
    })
}

pub(crate) fn null() -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    Ok(rustix::fs::open("/dev/null", flags, Mode::empty())?)
}

/// What is there to be read; empty at the end, `None` where nothing is there.
fn piece(pipe: &OwnedFd) -> io::Result<Option<Vec<u8>>> {
    let mut events = [PollFd::new(pipe, PollFlags::IN)];
    if rustix::event::poll(&mut events, Some(&rustix::time::Timespec::default()))? == 0 {
        return Ok(None);
    }
    let mut piece = vec![0; PIECE_MAX];
    match rustix::io::read(pipe, &mut piece) {
        Ok(length) => {
            piece.truncate(length);
            Ok(Some(piece))
        }
        Err(Errno::INTR | Errno::AGAIN) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

fn gone() -> Box<Failed> {
    let error = "the process that did this was killed".into();
    let mut failed = Failed::plain("process_killed", error, 125);
    failed.hint = Some("`surmise list` shows what is left".into());
    failed
}
