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
use rustix::time::Timespec;
use surmise_linux::mailbox::{Mailbox, Sender, mailbox};

use crate::channels::Event;
use crate::ends::OutputEnd;
use crate::release::Release;
use crate::sink::Sink;
use crate::streams::Stream;

/// How much is taken from the domain at once: what a pipe holds.
const PIECE: usize = 64 << 10;

/// As much as a pipe that is ready to be written takes without waiting.
const PIPE_BUF: usize = 4096;

pub(crate) enum Order {
    /// For the caller to see, after what has been put out so far.
    Note(String),
    /// From here on everything goes there, if nothing is held already, and nothing to the caller.
    Hold(Box<dyn Sink>),
    /// What is held so far is for the caller.
    Release,
    /// The domain stands still: take in all that it has put out, if that is held.
    Quiesce,
    /// The domain has ended: end when all is written.
    Finish,
}

/// Starts the thread. With a `sink`, nothing goes to the caller; what does, waits for its `release`.
pub(crate) fn start(
    end: OutputEnd,
    sink: Option<Box<dyn Sink>>,
    release: Release,
    events: Sender<Event>,
) -> io::Result<Sender<Order>> {
    let (sender, orders) = mailbox()?;
    let caller = Caller::new(end.stream)?;
    let pump = Pump {
        inner: Some(end.inner),
        socket: end.socket,
        caller: Some(caller),
        sink,
        release,
        orders,
        queue: VecDeque::new(),
        pending: Pending::default(),
        showing: Showing::Output,
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
    /// What is taken from the domain for the caller waits for it first.
    release: Release,
    orders: Mailbox<Order>,
    /// What is for the caller beside the domain's output, and comes next.
    queue: VecDeque<Queued>,
    /// What the caller is to get.
    pending: Pending,
    /// What that is.
    showing: Showing,
    finishing: bool,
}

/// What is for the caller beside the domain's output of this moment.
pub(crate) enum Queued {
    Note(String),
    /// Output that precedes a note.
    Output(Vec<u8>),
    /// What was held, from here on.
    Release,
    /// The rest of it.
    Released,
}

/// What the caller is being shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Showing {
    Output,
    Note,
    /// What was held, and is released.
    Held,
}

impl Pump {
    fn run(mut self, events: &Sender<Event>) {
        let mut buffer = vec![0; PIECE];
        loop {
            self.next_for_caller(events);
            if self.finishing && self.inner.is_none() && self.pending.is_empty() {
                break;
            }
            match self.step(&mut buffer) {
                Ok(false) => {}
                Ok(true) => self.obey(&mut buffer, events),
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

    fn obey(&mut self, buffer: &mut [u8], events: &Sender<Event>) {
        while let Some(order) = self.orders.next() {
            match order {
                Order::Note(note) => {
                    self.take_before_note(buffer, events);
                    self.queue.push_back(Queued::Note(note));
                }
                Order::Hold(mut sink) => {
                    // The caller has not got it, and will not.
                    let kept = unseen(self.showing, &self.pending, &self.queue)
                        .try_for_each(|bytes| sink.write(bytes));
                    self.let_go();
                    match kept {
                        Ok(()) => _ = self.sink.get_or_insert(sink),
                        Err(_) => self.close_inner(),
                    }
                    events.send(Event::Detached);
                }
                Order::Release => match (&self.caller, &mut self.sink) {
                    (None, Some(sink)) => sink.keep_rest(0),
                    _ => self.queue.push_back(Queued::Release),
                },
                Order::Quiesce => {
                    if let Err(error) = self.drain(buffer) {
                        self.tell(&error, events);
                        self.give_up();
                    }
                    events.send(Event::Quiet);
                }
                Order::Finish => self.finishing = true,
            }
        }
    }

    /// What the caller gets next that does not come from the domain now.
    fn next_for_caller(&mut self, events: &Sender<Event>) {
        while self.pending.is_empty() {
            self.showing = Showing::Output;
            let Some(next) = self.queue.pop_front() else {
                return;
            };
            let (Some(sink), Some(_)) = (&mut self.sink, &self.caller) else {
                match (next, &self.caller) {
                    (Queued::Note(note), Some(_)) => {
                        self.showing = Showing::Note;
                        self.pending.fill(note.as_bytes());
                    }
                    (Queued::Output(bytes), Some(_)) => self.pending.fill(&bytes),
                    _ => {}
                }
                continue;
            };
            if matches!(next, Queued::Release) && self.release.wait().is_err() {
                sink.keep_rest(0);
                continue;
            }
            match next_of(next, sink.as_mut(), &mut self.queue) {
                Ok((showing, bytes)) => {
                    self.showing = showing;
                    self.pending.fill(&bytes);
                }
                Err(error) => {
                    sink.keep_rest(0);
                    self.tell(&error, events);
                }
            }
        }
    }

    /// A note comes after what was put out before it, which may not have been read yet.
    fn take_before_note(&mut self, buffer: &mut [u8], events: &Sender<Event>) {
        let (Some(inner), None) = (&self.inner, &self.sink) else {
            return;
        };
        let mut polled = [PollFd::new(inner, PollFlags::IN)];
        let is_ready = poll(&mut polled, Some(&Timespec::default())) == Ok(1);
        if !is_ready || !polled[0].revents().contains(PollFlags::IN) {
            return;
        }
        // A pipe holds no more.
        let before = self.release.before();
        match rustix::io::read(inner, &mut *buffer) {
            Ok(0) => self.end_of_output(),
            Ok(length) if self.release.take(before, length < buffer.len()).is_ok() => self
                .queue
                .push_back(Queued::Output(buffer[..length].to_vec())),
            Ok(_) => self.close_inner(),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => {
                self.tell(&errno.into(), events);
                self.give_up();
            }
        }
    }

    /// Takes in what the domain has put out, which stands still, if that is held.
    fn drain(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        while let (Some(inner), Some(_)) = (&self.inner, &self.sink) {
            let mut polled = [PollFd::new(inner, PollFlags::IN)];
            match poll(&mut polled, Some(&Timespec::default())) {
                Ok(0) => return Ok(()),
                Ok(_) => self.take(buffer)?,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
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
            // What is held stays held for somebody else.
            Err(_) if self.sink.is_some() => self.let_go(),
            Err(errno) => return Err(errno.into()),
        }
        Ok(())
    }

    fn take(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let inner = self.inner.as_ref().expect("it was ready");
        let before = self.release.before();
        match rustix::io::read(inner, &mut *buffer) {
            Ok(0) => self.end_of_output(),
            Ok(length) => match &mut self.sink {
                Some(sink) => return sink.write(&buffer[..length]),
                None if self.release.take(before, length < buffer.len()).is_ok() => {
                    self.pending.fill(&buffer[..length])
                }
                // Nothing that the domain puts out may be seen any more; notes may.
                None => self.close_inner(),
            },
            // The other end of a socket was closed with something unread, which is told once: what was written before
            // is still to come, or the end.
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNRESET) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(())
    }

    fn end_of_output(&mut self) {
        // That nothing more comes is output, too.
        if self.sink.is_none() && self.release.wait().is_err() {
            return self.close_inner();
        }
        if let (true, Some(inner), Some(caller)) = (self.socket, &self.inner, &self.caller)
            && self.sink.is_none()
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
        self.let_go();
        self.close_inner();
    }

    /// The caller gets nothing more.
    fn let_go(&mut self) {
        if let Some(sink) = &mut self.sink {
            sink.keep_rest(match self.showing {
                Showing::Held => self.pending.gone(),
                // The last piece went before this began.
                Showing::Output | Showing::Note => usize::MAX,
            });
        }
        self.showing = Showing::Output;
        self.pending = Pending::default();
        self.queue.clear();
        self.caller = None;
    }

    fn close_inner(&mut self) {
        if let (true, Some(inner)) = (self.socket, &self.inner) {
            // Its other direction is another thread's.
            let _ = shutdown(inner, Shutdown::Read);
        }
        self.inner = None;
    }
}

/// What the domain has put out, was read, and the caller has not seen.
pub(crate) fn unseen<'a>(
    showing: Showing,
    pending: &'a Pending,
    queue: &'a VecDeque<Queued>,
) -> impl Iterator<Item = &'a [u8]> {
    let first = match showing {
        Showing::Output => pending.rest(),
        Showing::Note | Showing::Held => &[],
    };
    let queued = queue.iter().filter_map(|queued| match queued {
        Queued::Output(bytes) => Some(&bytes[..]),
        _ => None,
    });
    [first].into_iter().chain(queued)
}

/// What to show for `next`. The rest of what is released is put in front of `queue`.
pub(crate) fn next_of(
    next: Queued,
    sink: &mut dyn Sink,
    queue: &mut VecDeque<Queued>,
) -> io::Result<(Showing, Vec<u8>)> {
    match next {
        Queued::Note(note) => return Ok((Showing::Note, note.into_bytes())),
        Queued::Output(bytes) => return Ok((Showing::Output, bytes)),
        Queued::Release => sink.release()?,
        Queued::Released => {}
    }
    let mut piece = Vec::new();
    if sink.next(&mut piece)? {
        queue.push_front(Queued::Released);
    }
    Ok((Showing::Held, piece))
}

fn is_closed(socket: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(socket, PollFlags::empty())];
    let now = Timespec::default();
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
    /// How much has gone since there was nothing.
    pub(crate) fn gone(&self) -> usize {
        self.from
    }

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
mod tests;
