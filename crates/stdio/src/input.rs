//! The thread of standard input: from the caller into the domain, and never more than is read there.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::SeekFrom;
use rustix::io::{Errno, ioctl_fionread};
use rustix::net::{Shutdown, shutdown};
use rustix::pipe::{SpliceFlags, tee};
use surmise_linux::mailbox::{Mailbox, Sender, mailbox};

use crate::channels::Event;
use crate::ends::{InputEnd, Source};
use crate::output::Pending;
use crate::streams::Stream;

/// How much is taken from a file at once; what is not read of it is given back.
const PIECE_OF_FILE: usize = 64 << 10;

/// How much is taken from anything else at once: what the channel's pipe holds.
const PIECE: usize = 4096;

pub(crate) enum Order {
    /// The caller's stream is no longer read: the command meets its end.
    Close,
    /// The domain has ended: give back what it did not read, and end.
    Finish,
}

/// Starts the thread.
pub(crate) fn start(end: InputEnd, events: Sender<Event>) -> io::Result<Sender<Order>> {
    let (sender, orders) = mailbox()?;
    let pump = Pump {
        inner: Some(end.inner),
        source: end.source,
        caller: Stream::Input.descriptor(),
        orders,
        pending: Pending::default(),
        shown: 0,
        full: false,
    };
    thread::Builder::new()
        .name("input".into())
        .spawn(move || pump.run(&events))?;
    Ok(sender)
}

struct Pump {
    /// `None` when the caller's stream has ended, or nobody is left to read.
    inner: Option<OwnedFd>,
    source: Source,
    caller: BorrowedFd<'static>,
    orders: Mailbox<Order>,
    /// What was taken from the caller and not yet passed on.
    pending: Pending,
    /// How many bytes of the caller's pipe are in the channel, too, and still to be taken or left.
    shown: usize,
    /// Whether the channel has to have room first: it has something unread, or, from a file, much.
    full: bool,
}

/// What can be done next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ready {
    Order,
    /// The channel has room.
    Room,
    /// The caller's stream has something, or has ended.
    Caller,
    /// No reader is left inside.
    Deserted,
}

impl Pump {
    fn run(mut self, events: &Sender<Event>) {
        let mut buffer = vec![0; PIECE_OF_FILE];
        'ordered: loop {
            match self.wait() {
                Ok(Ready::Order) => {
                    while let Some(order) = self.orders.next() {
                        match order {
                            Order::Finish => break 'ordered,
                            Order::Close => {
                                self.settle();
                                self.close();
                                events.send(Event::Detached);
                            }
                        }
                    }
                }
                Ok(Ready::Room) => {
                    self.full = false;
                    self.settle();
                    self.pass_on();
                }
                Ok(Ready::Caller) => {
                    // What cannot be read has ended, for the command as for anybody.
                    if !self.take(&mut buffer).unwrap_or(false) {
                        self.close();
                    }
                }
                Ok(Ready::Deserted) | Err(_) => {
                    self.settle();
                    self.close();
                }
            }
        }
        self.settle();
        self.give_back();
        events.send(Event::Ended);
    }

    /// Room is waited for first, and only then the caller: what would have to wait stays outside.
    fn wait(&self) -> io::Result<Ready> {
        let mut polled = vec![PollFd::new(&self.orders, PollFlags::IN)];
        if let Some(inner) = &self.inner {
            let wanted = match self.full {
                true => PollFlags::OUT,
                false => PollFlags::empty(),
            };
            polled.push(PollFd::new(inner, wanted));
            if !self.full {
                polled.push(PollFd::from_borrowed_fd(self.caller, PollFlags::IN));
            }
        }
        match poll(&mut polled, None) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Ready::Order),
            Err(errno) => return Err(errno.into()),
        }
        let is = |index: usize| {
            polled
                .get(index)
                .map_or(PollFlags::empty(), PollFd::revents)
        };
        if !is(0).is_empty() {
            Ok(Ready::Order)
        } else if is(1).intersects(PollFlags::ERR | PollFlags::HUP) {
            Ok(Ready::Deserted)
        } else if !is(2).is_empty() {
            Ok(Ready::Caller)
        } else if !is(1).is_empty() {
            Ok(Ready::Room)
        } else {
            Ok(Ready::Order)
        }
    }

    /// False at the end of the caller's stream.
    fn take(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        let inner = self.inner.as_ref().expect("it has room");
        if let Source::Pipe = self.source {
            match tee(self.caller, inner, PIECE, SpliceFlags::NONBLOCK) {
                Ok(length) => {
                    self.shown = length;
                    self.full = true;
                    return Ok(length > 0);
                }
                Err(Errno::AGAIN | Errno::INTR) => return Ok(true),
                Err(_) => self.source = Source::Other,
            }
        }
        let piece = match self.source {
            Source::File(_) => PIECE_OF_FILE,
            Source::Pipe | Source::Other => PIECE,
        };
        match rustix::io::read(self.caller, &mut buffer[..piece]) {
            Ok(0) => return Ok(false),
            Ok(length) => self.pending.fill(&buffer[..length]),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        self.pass_on();
        Ok(true)
    }

    fn pass_on(&mut self) {
        let Some(inner) = &self.inner else {
            return;
        };
        if self.pending.is_empty() {
            return;
        }
        match rustix::io::write(inner, self.pending.rest()) {
            Ok(length) => self.pending.advance(length),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => return self.close(),
        }
        // Of a file all may be in the channel, since it can be given back.
        let is_file = matches!(self.source, Source::File(_));
        self.full = !is_file || !self.pending.is_empty();
    }

    /// Takes from the caller's pipe what was read inside of what is in the channel, too.
    fn settle(&mut self) {
        let Some(inner) = self.inner.as_ref().filter(|_| self.shown > 0) else {
            return;
        };
        let unread = ioctl_fionread(inner).map_or(0, |unread| unread as usize);
        let mut rest = self.shown.saturating_sub(unread);
        self.shown = 0;
        let mut taken = [0; PIECE];
        while rest > 0 {
            match rustix::io::read(self.caller, &mut taken[..rest.min(PIECE)]) {
                Ok(length @ 1..) => rest -= length,
                Err(Errno::INTR) => {}
                // Somebody else was quicker.
                Ok(_) | Err(_) => break,
            }
        }
    }

    /// Puts the offset of the caller's file back to where the command has read.
    fn give_back(&self) {
        let Source::File(channel) = &self.source else {
            return;
        };
        let unread = ioctl_fionread(channel).unwrap_or_default() + self.pending.rest().len() as u64;
        if unread > 0 {
            // Of what cannot be sought, nothing can be given back.
            let _ = rustix::fs::seek(self.caller, SeekFrom::Current(-(unread as i64)));
        }
    }

    fn close(&mut self) {
        let is_file = matches!(self.source, Source::File(_));
        if let Some(inner) = &self.inner
            && !is_file
        {
            // Of a socket the other direction stays open.
            let _ = shutdown(inner, Shutdown::Write);
        }
        self.inner = None;
        if !is_file {
            self.pending = Pending::default();
        }
    }
}
