//! What the caller's standard streams are, and which of them are one.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::net::SocketType;
use rustix::termios::{tcgetpgrp, tcgetsid};
use surmise_sys::descriptors;

use crate::terminal::inner::TerminalSetup;

/// A standard stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Descriptor 0.
    Input,
    /// Descriptor 1.
    Output,
    /// Descriptor 2.
    Error,
}

impl Stream {
    /// All three, in the order of their descriptors.
    pub const ALL: [Self; 3] = [Self::Input, Self::Output, Self::Error];

    /// As messages call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Input => "standard input",
            Self::Output => "standard output",
            Self::Error => "standard error",
        }
    }

    /// This process' own.
    pub(crate) fn descriptor(self) -> BorrowedFd<'static> {
        match self {
            Self::Input => rustix::stdio::stdin(),
            Self::Output => rustix::stdio::stdout(),
            Self::Error => rustix::stdio::stderr(),
        }
    }
}

/// A standard stream that cannot be proxied.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", stream.name())]
pub struct StreamError {
    /// Which one.
    pub stream: Stream,
    /// Why not.
    pub source: io::Error,
}

/// What a stream of the caller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `/dev/null`, which a domain has, too.
    Null,
    /// The caller's controlling terminal.
    Terminal,
    /// A socket, of this type.
    Socket(SocketType),
    /// Anything else: a pipe, a file, another terminal.
    Plain,
}

/// The caller's standard streams.
#[derive(Debug)]
pub struct Streams {
    pub(crate) kinds: [Kind; 3],
    /// For each stream the first one that has the same open description.
    pub(crate) first: [usize; 3],
    /// The caller's controlling terminal, opened anew: what is set on this descriptor is not set on
    /// the caller's. Only where one of the streams is that terminal.
    pub(crate) terminal: Option<OwnedFd>,
}

impl Streams {
    /// Looks at the standard streams of this process.
    ///
    /// # Errors
    /// For a stream that is a directory, which would be a way around the view.
    pub fn of_caller() -> Result<Self, StreamError> {
        let mut terminal = open_terminal();
        let mut kinds = [Kind::Null; 3];
        for (stream, kind) in Stream::ALL.into_iter().zip(&mut kinds) {
            let failed = |source| StreamError { stream, source };
            *kind = kind_of(stream.descriptor(), terminal.is_some()).map_err(failed)?;
        }
        if !kinds.contains(&Kind::Terminal) {
            terminal = None;
        }
        Ok(Self {
            kinds,
            first: first_of_each(),
            terminal,
        })
    }

    /// What the domain's own terminal needs to be like the caller's; `None` where no stream is a
    /// terminal.
    ///
    /// # Errors
    /// As `tcgetattr`.
    pub fn terminal(&self) -> io::Result<Option<TerminalSetup>> {
        let Some(terminal) = &self.terminal else {
            return Ok(None);
        };
        let foreground = tcgetpgrp(terminal) == Ok(rustix::process::getpgrp());
        let setup = TerminalSetup::of(terminal, foreground && !self.are_pipeline())?;
        Ok(Some(setup))
    }

    /// Whether a neighbour in a pipeline may be the one that reads the terminal's keys, as the pager in
    /// `surmise run -- make | less`.
    fn are_pipeline(&self) -> bool {
        let is_keyboard = self.kinds[0] == Kind::Terminal;
        let is_pipe = |stream: Stream| {
            rustix::fs::fstat(stream.descriptor()).is_ok_and(|stat| {
                matches!(
                    FileType::from_raw_mode(stat.st_mode),
                    FileType::Fifo | FileType::Socket
                )
            })
        };
        !is_keyboard || [Stream::Output, Stream::Error].into_iter().any(is_pipe)
    }
}

fn open_terminal() -> Option<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    rustix::fs::open("/dev/tty", flags, Mode::empty()).ok()
}

fn kind_of(fd: BorrowedFd<'_>, terminal: bool) -> io::Result<Kind> {
    let stat = rustix::fs::fstat(fd)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Err(io::ErrorKind::IsADirectory.into()),
        FileType::CharacterDevice if is_null(&stat) => Ok(Kind::Null),
        // Only the controlling terminal tells whose session it is.
        FileType::CharacterDevice if terminal && tcgetsid(fd).is_ok() => Ok(Kind::Terminal),
        FileType::Socket => Ok(Kind::Socket(rustix::net::sockopt::socket_type(fd)?)),
        _ => Ok(Kind::Plain),
    }
}

fn is_null(stat: &Stat) -> bool {
    stat.st_rdev == rustix::fs::makedev(1, 3)
}

fn first_of_each() -> [usize; 3] {
    let fd = |index: usize| Stream::ALL[index].descriptor();
    [0, 1, 2].map(|index| {
        let mut earlier = 0..index;
        earlier
            .find(|&earlier| are_one(fd(earlier), fd(index)))
            .unwrap_or(index)
    })
}

/// Whether both have one open description; where the kernel does not tell, whether they look like it.
fn are_one(one: BorrowedFd<'_>, two: BorrowedFd<'_>) -> bool {
    descriptors::same_description(one, two)
        .or_else(|_| -> io::Result<bool> {
            let look = |fd| -> io::Result<_> {
                let stat = rustix::fs::fstat(fd)?;
                let flags = rustix::fs::fcntl_getfl(fd)?;
                // What has no offset fails alike for both.
                let offset = rustix::fs::tell(fd);
                Ok((stat.st_dev, stat.st_ino, flags, offset))
            };
            Ok(look(one)? == look(two)?)
        })
        .unwrap_or(false)
}
