//! The two ends of each channel.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

use crate::streams::{Kind, Stream, Streams};
use crate::terminal::inner::TERMINAL;

/// What the relay process pumps.
#[derive(Debug)]
pub struct Outer {
    pub(crate) input: Option<InputEnd>,
    pub(crate) outputs: Vec<OutputEnd>,
    pub(crate) terminal: Option<OwnedFd>,
    /// Where a notice for the caller goes: the terminal, or no channel for `/dev/null`.
    pub(crate) notices: Notices,
}

/// Which channel leads to the caller's standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notices {
    Nowhere,
    Terminal,
    /// The output whose first stream is this one.
    Output(Stream),
}

/// From the caller's standard input into the domain.
#[derive(Debug)]
pub(crate) struct InputEnd {
    /// The writing end.
    pub(crate) inner: OwnedFd,
    pub(crate) source: Source,
}

/// How much can be taken from standard input without taking more than the command reads.
#[derive(Debug)]
pub(crate) enum Source {
    /// A file: what the command did not read is given back by its offset. With the channel's reading
    /// end, which tells how much that is when the command has ended.
    File(OwnedFd),
    /// A pipe: what is in it can be looked at without being taken.
    Pipe,
    /// Anything else.
    Other,
}

/// From the domain to one of the caller's streams.
#[derive(Debug)]
pub(crate) struct OutputEnd {
    /// The first stream of those that this channel serves.
    pub(crate) stream: Stream,
    /// The reading end.
    pub(crate) inner: OwnedFd,
    pub(crate) socket: bool,
}

/// What the command gets for its standard streams.
#[derive(Debug)]
pub struct Inner {
    ends: [End; 3],
    descriptors: Vec<OwnedFd>,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Null,
    Terminal,
    /// One of the descriptors.
    Channel(usize),
}

/// A pipe of one page: it has room exactly when all in it has been read.
const PAGE: usize = 4096;

impl Streams {
    /// Makes the channels. Both ends are closed by an exec.
    ///
    /// # Errors
    /// As `pipe` and `socketpair`.
    pub fn open(self) -> io::Result<(Outer, Inner)> {
        let mut opened = Opened::default();
        for index in 0..self.kinds.len() {
            let end = match self.kinds[index] {
                Kind::Null => End::Null,
                Kind::Terminal => End::Terminal,
                Kind::Socket(kind) => match self.first[index] {
                    first if first < index => opened.ends[first],
                    _ => opened.socket(Stream::ALL[index], kind)?,
                },
                Kind::Plain if index == 0 => opened.input()?,
                // One that can be read and written is standard input and output in one.
                Kind::Plain => match self.first[index].max(1) {
                    first if first < index && self.first[first] == self.first[index] => {
                        opened.ends[first]
                    }
                    _ => opened.output(Stream::ALL[index])?,
                },
            };
            opened.ends[index] = end;
        }
        let notices = match self.kinds[2] {
            Kind::Null => Notices::Nowhere,
            Kind::Terminal => Notices::Terminal,
            Kind::Socket(_) => Notices::Output(Stream::ALL[self.first[2]]),
            Kind::Plain if self.first[2] == self.first[1] => Notices::Output(Stream::Output),
            Kind::Plain => Notices::Output(Stream::Error),
        };
        let outer = Outer {
            input: opened.input,
            outputs: opened.outputs,
            terminal: self.terminal,
            notices,
        };
        let inner = Inner {
            ends: opened.ends,
            descriptors: opened.descriptors,
        };
        Ok((outer, inner))
    }
}

struct Opened {
    ends: [End; 3],
    descriptors: Vec<OwnedFd>,
    input: Option<InputEnd>,
    outputs: Vec<OutputEnd>,
}

impl Default for Opened {
    fn default() -> Self {
        Self {
            ends: [End::Null; 3],
            descriptors: Vec::new(),
            input: None,
            outputs: Vec::new(),
        }
    }
}

impl Opened {
    fn keep(&mut self, inner: OwnedFd) -> End {
        self.descriptors.push(inner);
        End::Channel(self.descriptors.len() - 1)
    }

    fn input(&mut self) -> io::Result<End> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        let input = Stream::Input.descriptor();
        let kind = FileType::from_raw_mode(rustix::fs::fstat(input)?.st_mode);
        let source = match kind {
            FileType::RegularFile | FileType::BlockDevice => Source::File(reader.try_clone()?),
            FileType::Fifo => Source::Pipe,
            _ => Source::Other,
        };
        if !matches!(source, Source::File(_)) {
            fcntl_setpipe_size(&writer, PAGE)?;
        }
        // The inner end is an open description of its own and stays as programs expect it.
        set_nonblocking(&writer)?;
        self.input = Some(InputEnd {
            inner: writer,
            source,
        });
        Ok(self.keep(reader))
    }

    fn output(&mut self, stream: Stream) -> io::Result<End> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        self.outputs.push(OutputEnd {
            stream,
            inner: reader,
            socket: false,
        });
        Ok(self.keep(writer))
    }

    fn socket(&mut self, stream: Stream, kind: SocketType) -> io::Result<End> {
        let unix = AddressFamily::UNIX;
        // Raw sockets have no pairs; their packets keep their bounds in these.
        let kind = match kind {
            SocketType::STREAM | SocketType::SEQPACKET => kind,
            _ => SocketType::DGRAM,
        };
        let (outer, inner) = rustix::net::socketpair(unix, kind, SocketFlags::CLOEXEC, None)?;
        set_nonblocking(&outer)?;
        if stream == Stream::Input {
            self.input = Some(InputEnd {
                inner: outer.try_clone()?,
                source: Source::Other,
            });
        }
        self.outputs.push(OutputEnd {
            stream,
            inner: outer,
            socket: true,
        });
        Ok(self.keep(inner))
    }
}

impl Outer {
    /// What the relay process has to keep open.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let input = self.input.iter().flat_map(|end| {
            let reader = match &end.source {
                Source::File(reader) => Some(reader.as_fd()),
                Source::Pipe | Source::Other => None,
            };
            reader.into_iter().chain([end.inner.as_fd()])
        });
        let outputs = self.outputs.iter().map(|end| end.inner.as_fd());
        let terminal = self.terminal.iter().map(AsFd::as_fd);
        input.chain(outputs).chain(terminal).collect()
    }
}

impl Inner {
    /// What pid 1 and the command's process have to keep open.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.descriptors.iter().map(AsFd::as_fd).collect()
    }

    /// Makes them the standard streams of this process, which is inside the domain.
    ///
    /// # Errors
    /// As opening the domain's own `/dev/null` and terminal.
    pub fn become_streams(&self) -> io::Result<()> {
        for (stream, end) in Stream::ALL.into_iter().zip(self.ends) {
            match end {
                End::Null => become_stream(stream, open("/dev/null")?.as_fd())?,
                End::Terminal => become_stream(stream, open(TERMINAL)?.as_fd())?,
                End::Channel(index) => become_stream(stream, self.descriptors[index].as_fd())?,
            }
        }
        Ok(())
    }
}

/// Lets go of the caller's streams in this process; they are `/dev/null` afterwards.
///
/// # Errors
/// As opening that.
pub fn let_go() -> io::Result<()> {
    let null = open("/dev/null")?;
    for stream in Stream::ALL {
        become_stream(stream, null.as_fd())?;
    }
    Ok(())
}

fn open(path: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

fn become_stream(stream: Stream, fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(match stream {
        Stream::Input => rustix::stdio::dup2_stdin(fd),
        Stream::Output => rustix::stdio::dup2_stdout(fd),
        Stream::Error => rustix::stdio::dup2_stderr(fd),
    }?)
}

fn set_nonblocking(fd: &OwnedFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(fd)?;
    Ok(rustix::fs::fcntl_setfl(fd, flags | OFlags::NONBLOCK)?)
}
