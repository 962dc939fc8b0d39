//! The thread of one output channel: from the domain to a stream of the caller.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::FileType;
use rustix::io::{Errno, ioctl_fionread};
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use rustix::pipe::fcntl_getpipe_size;

use crate::channels::Event;
use crate::ends::OutputEnd;
use crate::mailbox::{Mailbox, Sender, mailbox};
use crate::sink::Sink;
use crate::streams::Stream;

/// How much is taken from the domain at once: what a pipe holds.
const PIECE: usize = 64 << 10;

/// As much as a pipe that is ready to be written takes without waiting.
const PIPE_BUF: usize = 4096;

pub(crate) enum Order {
    /// For the caller to see, after what has been put out so far.
    Note(String),
    /// From here on everything goes there.
    Hold(Box<dyn Sink>),
    /// The domain has ended: end when all is written.
    Finish,
}

/// Starts the thread. With a `sink`, nothing goes to the caller.
pub(crate) fn start(
    end: OutputEnd,
    sink: Option<Box<dyn Sink>>,
    events: Sender<Event>,
) -> io::Result<Sender<Order>> {
    let (sender, orders) = mailbox()?;
    let caller = Caller::new(end.stream)?;
    let pump = Pump {
        inner: Some(end.inner),
        socket: end.socket,
        caller: Some(caller),
        sink,
        orders,
        notes: VecDeque::new(),
        pending: Pending::default(),
        noting: false,
        finishing: false,
    };
    thread::Builder::new()
        .name(format!("output-{}", end.stream as u8))
        .spawn(move || pump.run(&events))?;
    Ok(sender)
}

struct Pump {
    /// `None` when the domain has closed it, or nobody is left to read what it puts out.
    inner: Option<OwnedFd>,
    socket: bool,
    /// `None` when the caller's reader is gone.
    caller: Option<Caller>,
    /// Where the domain's output goes instead of to the caller.
    sink: Option<Box<dyn Sink>>,
    orders: Mailbox<Order>,
    notes: VecDeque<String>,
    /// What the caller is to get.
    pending: Pending,
    /// Whether that is a note.
    noting: bool,
    finishing: bool,
}

impl Pump {
    fn run(mut self, events: &Sender<Event>) {
        let mut buffer = vec![0; PIECE];
        loop {
            self.next_note();
            if self.finishing && self.inner.is_none() && self.pending.is_empty() {
                break;
            }
            match self.step(&mut buffer) {
                Ok(false) => {}
                Ok(true) => self.obey(events),
                Err(error) => {
                    self.tell(&error, events);
                    self.give_up();
                }
            }
        }
        if let Some(sink) = &mut self.sink {
            sink.close();
        }
        events.send(Event::Ended);
    }

    /// That nobody reads any more is no news to the caller.
    fn tell(&self, error: &io::Error, events: &Sender<Event>) {
        let is_gone = [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset].contains(&error.kind());
        if let (false, Some(errno), Some(caller)) = (is_gone, error.raw_os_error(), &self.caller) {
            let stream = caller.stream;
            events.send(Event::Lost { stream, errno });
        }
    }

    fn obey(&mut self, events: &Sender<Event>) {
        while let Some(order) = self.orders.next() {
            match order {
                Order::Note(note) => self.notes.push_back(note),
                Order::Hold(mut sink) => {
                    // The caller has not got it, and will not.
                    let kept = match self.noting {
                        true => Ok(()),
                        false => sink.write(self.pending.rest()),
                    };
                    self.pending = Pending::default();
                    self.notes.clear();
                    self.caller = None;
                    match kept {
                        Ok(()) => self.sink = Some(sink),
                        Err(_) => self.close_inner(),
                    }
                    events.send(Event::Detached);
                }
                Order::Finish => self.finishing = true,
            }
        }
    }

    fn next_note(&mut self) {
        if self.pending.is_empty() {
            self.noting = false;
            if let Some(note) = self.notes.pop_front()
                && self.caller.is_some()
            {
                self.noting = true;
                self.pending.fill(note.as_bytes());
            }
        }
    }

    /// Waits until something can be done, and does it. True when there is an order.
    fn step(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        let writing = !self.pending.is_empty();
        let mut polled = vec![PollFd::new(&self.orders, PollFlags::IN)];
        let inner = self.inner.as_ref().filter(|_| !writing);
        let caller = self.caller.as_ref();
        polled.extend(inner.map(|inner| PollFd::new(inner, PollFlags::IN)));
        let first_of_caller = polled.len();
        if let Some(caller) = caller {
            let wanted = if writing {
                PollFlags::OUT
            } else {
                // To learn that the reader is gone, which programs ask, too.
                PollFlags::empty()
            };
            // A reader whom nobody would tell anything is not watched: its end would be ready for ever.
            if writing || (inner.is_some() && self.sink.is_none()) {
                polled.push(PollFd::from_borrowed_fd(caller.fd, wanted));
            }
        }
        match poll(&mut polled, None) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        }
        if !polled[0].revents().is_empty() {
            return Ok(true);
        }
        let inner_is_ready = inner.is_some() && !polled[1].revents().is_empty();
        let caller_is = polled
            .get(first_of_caller)
            .map_or(PollFlags::empty(), PollFd::revents);
        if writing && !caller_is.is_empty() {
            self.put()?;
        } else if inner_is_ready {
            self.take(buffer)?;
        } else if caller_is.intersects(PollFlags::ERR | PollFlags::NVAL) {
            return Err(Errno::PIPE.into());
        }
        Ok(false)
    }

    fn put(&mut self) -> io::Result<()> {
        let caller = self.caller.as_ref().expect("what is pending is for it");
        match caller.write(self.pending.rest()) {
            Ok(length) => self.pending.advance(length),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(())
    }

    fn take(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let inner = self.inner.as_ref().expect("it was ready");
        match rustix::io::read(inner, &mut *buffer) {
            Ok(0) => self.end_of_output(),
            Ok(length) => match &mut self.sink {
                Some(sink) => return sink.write(&buffer[..length]),
                None => self.pending.fill(&buffer[..length]),
            },
            Err(Errno::AGAIN | Errno::INTR) => {}
            // The other end of a socket was closed with something unread.
            Err(Errno::CONNRESET) => self.end_of_output(),
            Err(errno) => return Err(errno.into()),
        }
        Ok(())
    }

    fn end_of_output(&mut self) {
        if let (true, Some(inner), Some(caller)) = (self.socket, &self.inner, &self.caller)
            && !is_closed(inner)
        {
            // The program said that it will send no more, and lives on.
            let _ = shutdown(caller.fd, Shutdown::Write);
        }
        self.inner = None;
    }

    /// The reader is gone, or what it reads has no room: the program learns of it as without Surmise,
    /// by `EPIPE` and `SIGPIPE`.
    fn give_up(&mut self) {
        self.pending = Pending::default();
        self.notes.clear();
        self.caller = None;
        self.close_inner();
    }

    fn close_inner(&mut self) {
        if let (true, Some(inner)) = (self.socket, &self.inner) {
            // Its other direction is another thread's.
            let _ = shutdown(inner, Shutdown::Read);
        }
        self.inner = None;
    }
}

fn is_closed(socket: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(socket, PollFlags::empty())];
    let now = rustix::time::Timespec::default();
    poll(&mut polled, Some(&now)).is_ok() && polled[0].revents().contains(PollFlags::HUP)
}

/// A stream of the caller, written so that the thread waits in `poll` and nowhere else: the caller's
/// description may be one that others wait for, too, so it stays as it is.
struct Caller {
    stream: Stream,
    fd: BorrowedFd<'static>,
    kind: FileType,
}

impl Caller {
    fn new(stream: Stream) -> io::Result<Self> {
        let fd = stream.descriptor();
        let kind = FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode);
        Ok(Self { stream, fd, kind })
    }

    /// Writes a part of `bytes`.
    fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        match self.kind {
            FileType::RegularFile | FileType::BlockDevice => rustix::io::write(self.fd, bytes),
            FileType::Socket => send(self.fd, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL),
            _ => rustix::io::write(self.fd, &bytes[..whole_lines(bytes, self.room())]),
        }
    }

    /// How much one that is ready to be written takes without waiting.
    fn room(&self) -> usize {
        let is_empty = self.kind == FileType::Fifo && ioctl_fionread(self.fd) == Ok(0);
        let size = if is_empty {
            fcntl_getpipe_size(self.fd).unwrap_or(PIPE_BUF)
        } else {
            PIPE_BUF
        };
        size.max(PIPE_BUF)
    }
}

/// How much of `bytes` to write where there is `room`; whole lines where possible, so that those of
/// several writers do not mix.
fn whole_lines(bytes: &[u8], room: usize) -> usize {
    if bytes.len() <= room {
        return bytes.len();
    }
    let lines = bytes[..room].iter().rposition(|&byte| byte == b'\n');
    lines.map_or(room, |end| end + 1)
}

/// Bytes on their way.
#[derive(Default)]
pub(crate) struct Pending {
    bytes: Vec<u8>,
    from: usize,
}

impl Pending {
    pub(crate) fn is_empty(&self) -> bool {
        self.rest().is_empty()
    }

    pub(crate) fn rest(&self) -> &[u8] {
        &self.bytes[self.from..]
    }

    /// Adds `bytes` behind the rest.
    pub(crate) fn fill(&mut self, bytes: &[u8]) {
        if self.is_empty() {
            self.bytes.clear();
            self.from = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn advance(&mut self, length: usize) {
        self.from += length;
        assert!(self.from <= self.bytes.len(), "more than there was");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_output_is_cut_at_the_end_of_a_line() {
        assert_eq!(whole_lines(b"no end", PIPE_BUF), 6);
        let mut bytes = vec![b'x'; PIPE_BUF + 10];
        assert_eq!(whole_lines(&bytes, PIPE_BUF), PIPE_BUF);
        bytes[100] = b'\n';
        assert_eq!(whole_lines(&bytes, PIPE_BUF), 101);
    }
}
