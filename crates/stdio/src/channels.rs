//! All channels of one domain, as its relay process runs them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use surmise_linux::mailbox::{Mailbox, Sender, mailbox};
use surmise_sync::Epochs;
use surmise_sys::signals;

use crate::ends::{self, Notices, Outer};
use crate::release::Release;
use crate::sink::Sink;
use crate::streams::Stream;
use crate::{input, output, terminal};

/// What can be held instead of being shown to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
    /// What appears on the domain's terminal.
    Terminal,
}

/// What has become of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The terminal is as the caller had it, and all that was put out before has appeared.
    Paused,
    /// The terminal goes on.
    Resumed {
        /// Whether its keys go to the domain.
        engaged: bool,
    },
    /// The terminal's keys go to the domain from now on.
    Engaged,
    /// The terminal is the caller's again, for good.
    Left,
    /// One channel has taken in what was put out.
    Quiet,
    /// One channel has let go of the caller's streams.
    Detached,
    /// What the command put out could not be passed on.
    Lost {
        /// To where.
        stream: Stream,
        /// The number of the system's error.
        errno: i32,
    },
    /// One channel has ended, and its thread with it.
    Ended,
}

/// Blocks the signals that the terminal's channel reads, in this thread and in those that it starts:
/// before there are any.
///
/// # Errors
/// As `sigprocmask`.
pub fn block_signals() -> io::Result<()> {
    signals::block(&terminal::SIGNALS)?;
    Ok(())
}

/// The running channels of a domain, one thread each.
pub struct Channels {
    input: Option<Sender<input::Order>>,
    outputs: Vec<(Stream, Sender<output::Order>)>,
    terminal: Option<Sender<terminal::Order>>,
    notices: Notices,
    events: Mailbox<Event>,
    /// Threads that live.
    living: usize,
    /// Channels that have not let go yet, while the domain is being detached.
    attached: usize,
    /// Channels that may not have taken in all that was put out, after [`Channels::quiesce`].
    stirring: usize,
}

impl Channels {
    /// Starts the threads. `engage`: whether the terminal's keys go to the domain from the start.
    /// `sink` says for each output that there is whether it is held, and where. With `epochs`, what the
    /// caller sees waits until everything is durable that was promised before.
    ///
    /// The calling process starts no further processes, and has called [`block_signals`].
    ///
    /// # Errors
    /// As starting a thread, and as `sink`.
    pub fn start(
        outer: Outer,
        engage: bool,
        epochs: Option<&Epochs>,
        sink: &mut dyn FnMut(Held) -> io::Result<Option<Box<dyn Sink>>>,
    ) -> io::Result<Self> {
        let (sender, events) = mailbox()?;
        let mut channels = Self {
            input: None,
            outputs: Vec::new(),
            terminal: None,
            notices: outer.notices,
            events,
            living: 0,
            attached: 0,
            stirring: 0,
        };
        if let Some(end) = outer.input {
            channels.input = Some(input::start(end, sender.clone())?);
            channels.living += 1;
        }
        for end in outer.outputs {
            let stream = end.stream;
            let release = Release::new(epochs);
            let started = output::start(end, sink(held_as(stream))?, release, sender.clone())?;
            channels.outputs.push((stream, started));
            channels.living += 1;
        }
        if let Some(end) = outer.terminal {
            let (release, sink) = (Release::new(epochs), sink(Held::Terminal)?);
            let started = terminal::start(end, engage, sink, release, sender.clone())?;
            channels.terminal = Some(started);
            channels.living += 1;
        }
        Ok(channels)
    }

    /// Gives the terminal's channel the outer side of the domain's terminal.
    pub fn attach_terminal(&self, inner: OwnedFd) {
        if let Some(terminal) = &self.terminal {
            terminal.send(terminal::Order::Attach(inner));
        }
    }

    /// Shows `text`, of whole lines, on the caller's standard error, after what was put out before.
    pub fn note(&self, text: String) {
        match self.notices {
            Notices::Nowhere => {}
            Notices::Terminal => {
                if let Some(terminal) = &self.terminal {
                    terminal.send(terminal::Order::Note(text));
                }
            }
            Notices::Output(wanted) => {
                let output = self.outputs.iter().find(|(stream, _)| *stream == wanted);
                if let Some((_, output)) = output {
                    output.send(output::Order::Note(text));
                }
            }
        }
    }

    /// Makes the terminal the caller's again. [`Event::Paused`] tells when; false when it will not
    /// come, for there is no terminal.
    pub fn pause_terminal(&self) -> bool {
        let order = terminal::Order::Pause;
        self.terminal.as_ref().is_some_and(|to| to.send(order))
    }

    /// Lets the terminal go on; with `engage`, its keys go to the domain as soon as the caller is in the
    /// foreground. [`Event::Resumed`] answers; false when it will not come.
    pub fn resume_terminal(&self, engage: bool) -> bool {
        let order = terminal::Order::Resume { engage };
        self.terminal.as_ref().is_some_and(|to| to.send(order))
    }

    /// Lets go of the caller's streams and terminal: standard input has ended, and outputs go to what
    /// `sink` gives. [`Self::is_detached`] tells when that is done.
    pub fn detach(&mut self, sink: &mut dyn FnMut(Held) -> Box<dyn Sink>) {
        let mut attached = 0;
        if let Some(input) = &self.input {
            attached += usize::from(input.send(input::Order::Close));
        }
        for (stream, output) in &self.outputs {
            attached += usize::from(output.send(output::Order::Hold(sink(held_as(*stream)))));
        }
        if let Some(terminal) = &self.terminal {
            attached += usize::from(terminal.send(terminal::Order::Hold(sink(Held::Terminal))));
        }
        self.attached = attached;
        self.let_go_if_detached();
    }

    /// The domain stands still: all that it has put out and that is held goes to its sink.
    /// [`Self::is_quiet`] tells when that is done.
    pub fn quiesce(&mut self) {
        let outputs = self.outputs.iter();
        let mut stirring = outputs
            .filter(|(_, output)| output.send(output::Order::Quiesce))
            .count();
        if let Some(terminal) = &self.terminal {
            stirring += usize::from(terminal.send(terminal::Order::Quiesce));
        }
        self.stirring = stirring;
    }

    /// Whether all that was put out has been taken in, after [`Self::quiesce`].
    pub fn is_quiet(&self) -> bool {
        self.stirring == 0
    }

    /// What is held so far goes to the caller, in order with notes, as long as there is a caller; what
    /// comes from now on is held again.
    pub fn release(&self) {
        for (_, output) in &self.outputs {
            output.send(output::Order::Release);
        }
        if let Some(terminal) = &self.terminal {
            terminal.send(terminal::Order::Release);
        }
    }

    /// Whether all channels have let go of the caller's streams, after [`Self::detach`].
    pub fn is_detached(&self) -> bool {
        self.attached == 0
    }

    /// The domain has ended: what is left of its output goes to the caller, what is left of the caller's
    /// input is given back, and each channel ends. [`Self::are_ended`] tells when.
    pub fn finish(&self) {
        if let Some(input) = &self.input {
            input.send(input::Order::Finish);
        }
        for (_, output) in &self.outputs {
            output.send(output::Order::Finish);
        }
        if let Some(terminal) = &self.terminal {
            terminal.send(terminal::Order::Finish);
        }
    }

    /// Makes the terminal the caller's again at once; nothing else happens on it afterwards.
    /// [`Event::Left`] tells when; false when it will not come.
    pub fn leave_terminal(&self) -> bool {
        let order = terminal::Order::Leave;
        self.terminal.as_ref().is_some_and(|to| to.send(order))
    }

    /// Whether every channel has ended.
    pub fn are_ended(&self) -> bool {
        self.living == 0
    }

    /// What has happened, if anything has.
    pub fn next_event(&mut self) -> Option<Event> {
        let event = self.events.next()?;
        match event {
            Event::Ended => {
                self.living -= 1;
                self.attached = self.attached.min(self.living);
                self.stirring = self.stirring.min(self.living);
            }
            Event::Quiet => self.stirring = self.stirring.saturating_sub(1),
            Event::Detached => {
                self.attached = self.attached.saturating_sub(1);
                self.let_go_if_detached();
            }
            _ => {}
        }
        Some(event)
    }

    fn let_go_if_detached(&self) {
        if self.attached == 0 {
            // Without a /dev/null they stay open, and nobody uses them.
            let _ = ends::let_go();
        }
    }
}

/// Readable while [`Channels::next_event`] may give something.
impl AsFd for Channels {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

fn held_as(stream: Stream) -> Held {
    match stream {
        // A socket may be standard input, too.
        Stream::Input | Stream::Output => Held::Output,
        Stream::Error => Held::Error,
    }
}
