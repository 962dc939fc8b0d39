//! The thread of the terminal: keys into the domain, and what appears there out of it.
//!
//! While the caller is in the foreground of its terminal, that is raw, and its keys go as they are to
//! the domain's own terminal, whose line discipline makes lines and signals of them. In the background
//! the caller's terminal is somebody else's: its settings and keys are left alone.

pub(crate) mod inner;
mod outer;

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use rustix::time::Timespec;
use surmise_linux::mailbox::{Mailbox, Sender, mailbox};
use surmise_sys::signals::SignalFd;

use crate::channels::Event;
use crate::output::{Pending, Queued, Showing, next_of, unseen};
use crate::release::Release;
use crate::sink::Sink;
use crate::terminal::outer::Outer;

/// What changes something here: the window's size, and a place in the foreground. Blocked in all
/// threads.
pub(crate) const SIGNALS: [Signal; 2] = [Signal::WINCH, Signal::CONT];

/// How often to look whether the caller is in the foreground; only while that is waited for, since not
/// every way there sends a signal.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// How long the kernel may take to pass on what was written to the domain's terminal, between two looks
/// that find nothing.
const IN_FLIGHT: Duration = Duration::from_millis(2);

/// Nobody is at the other side any more.
const ENDS: PollFlags = PollFlags::HUP.union(PollFlags::ERR);

/// What a terminal gives at once.
const PIECE: usize = 4096;

/// How much of what the command has put out appears before a pause, at most.
const BEFORE_PAUSE_MAX: usize = 256 << 10;

pub(crate) enum Order {
    /// The domain's terminal is there.
    Attach(OwnedFd),
    /// Nothing more shall appear, and the terminal be as the caller had it.
    Pause,
    /// Go on; with `engage`, give the keys to the domain, as soon as they are the caller's to give.
    Resume {
        engage: bool,
    },
    Note(String),
    /// What appears goes there, if nothing is held already, and nothing to the caller.
    Hold(Box<dyn Sink>),
    /// What is held so far appears.
    Release,
    /// The domain stands still: take in all that it has put out, if that is held.
    Quiesce,
    /// The domain has ended: end when all has appeared.
    Finish,
    /// End at once.
    Leave,
}

/// Starts the thread. `engage`: whether keys go to the domain from the start. What appears waits for its
/// `release`.
pub(crate) fn start(
    terminal: OwnedFd,
    engage: bool,
    sink: Option<Box<dyn Sink>>,
    release: Release,
    events: Sender<Event>,
) -> io::Result<Sender<Order>> {
    let (sender, orders) = mailbox()?;
    let relay = Relay {
        outer: Outer::new(terminal, engage),
        inner: None,
        keys: Pending::default(),
        screen: Pending::default(),
        sink,
        release,
        queue: VecDeque::new(),
        showing: Showing::Output,
        pause: Pause::No,
        finishing: false,
        leaving: false,
        signals: SignalFd::new(&SIGNALS)?,
        orders,
        events,
    };
    thread::Builder::new()
        .name("terminal".into())
        .spawn(move || relay.run())?;
    Ok(sender)
}

struct Relay {
    outer: Outer,
    /// The domain's terminal: its outer side. `None` before it is there, and when nobody inside has it
    /// any more.
    inner: Option<OwnedFd>,
    /// On their way inside.
    keys: Pending,
    /// On its way to the caller's terminal.
    screen: Pending,
    /// Where what appears goes instead.
    sink: Option<Box<dyn Sink>>,
    /// What is taken from the domain to appear waits for it first.
    release: Release,
    /// What appears beside the domain's output, and comes next.
    queue: VecDeque<Queued>,
    /// What is on its way to the terminal.
    showing: Showing,
    pause: Pause,
    finishing: bool,
    leaving: bool,
    signals: SignalFd,
    orders: Mailbox<Order>,
    events: Sender<Event>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pause {
    No,
    /// What was put out before still appears; this many bytes at most.
    Soon(usize),
    Yes,
}

/// What is ready.
struct Ready {
    order: bool,
    signal: bool,
    outer: PollFlags,
    inner: PollFlags,
}

impl Relay {
    fn run(mut self) {
        let mut buffer = [0; PIECE];
        loop {
            self.next_for_screen();
            if self.leaving || (self.finishing && self.inner.is_none() && self.screen.is_empty()) {
                break;
            }
            let goes_on = self.pause == Pause::No && !self.finishing;
            if goes_on && self.engage() {
                self.events.send(Event::Engaged);
            }
            // A signal in between is seen on its descriptor.
            if let Ok(ready) = self.wait() {
                self.step(&ready, &mut buffer);
            }
        }
        self.outer.leave();
        self.clear_screen();
        if let Some(sink) = &mut self.sink {
            sink.close();
        }
        self.events.send(Event::Left);
        self.events.send(Event::Ended);
    }

    fn obey(&mut self, order: Order, buffer: &mut [u8]) {
        match order {
            Order::Attach(inner) => {
                self.inner = Some(inner);
                self.fit_window();
            }
            Order::Pause if self.pause == Pause::No => self.pause = Pause::Soon(BEFORE_PAUSE_MAX),
            Order::Pause => {}
            Order::Resume { engage } => {
                self.pause = Pause::No;
                if engage {
                    self.outer.want();
                }
                self.engage();
                let engaged = self.outer.is_engaged();
                self.events.send(Event::Resumed { engaged });
            }
            Order::Note(note) => {
                self.take_before_note(buffer);
                self.queue.push_back(Queued::Note(note));
            }
            Order::Release => self.queue.push_back(Queued::Release),
            Order::Quiesce => {
                self.drain(buffer);
                self.events.send(Event::Quiet);
            }
            Order::Hold(mut sink) => {
                self.outer.leave();
                self.outer.close();
                let kept = unseen(self.showing, &self.screen, &self.queue)
                    .try_for_each(|bytes| sink.write(bytes));
                self.clear_screen();
                match kept {
                    Ok(()) => _ = self.sink.get_or_insert(sink),
                    Err(_) => self.inner = None,
                }
                self.events.send(Event::Detached);
            }
            Order::Finish => {
                self.finishing = true;
                // What is left has to appear.
                self.pause = Pause::No;
            }
            Order::Leave => self.leaving = true,
        }
    }

    /// What appears next that does not come from the domain now. While somebody is asked something, only
    /// notes do.
    fn next_for_screen(&mut self) {
        while self.screen.is_empty() {
            self.showing = Showing::Output;
            let Some(next) = self.queue.pop_front() else {
                return;
            };
            if self.outer.terminal().is_none() {
                if let (Queued::Release, Some(sink)) = (next, &mut self.sink) {
                    sink.keep_rest(0);
                }
                continue;
            }
            if let Queued::Note(note) = next {
                self.showing = Showing::Note;
                self.screen.fill(&self.outer.lines(note.as_bytes()));
            } else if let Queued::Output(bytes) = next {
                self.screen.fill(&self.outer.as_it_is(&bytes));
            } else if self.pause != Pause::No {
                self.queue.push_front(next);
                return;
            } else if let Some(sink) = &mut self.sink {
                if matches!(next, Queued::Release) && self.release.wait().is_err() {
                    sink.keep_rest(0);
                    continue;
                }
                match next_of(next, sink.as_mut(), &mut self.queue) {
                    Ok((showing, bytes)) => {
                        self.showing = showing;
                        self.screen.fill(&self.outer.as_it_is(&bytes));
                    }
                    // It stays held.
                    Err(_) => sink.keep_rest(0),
                }
            }
        }
    }

    /// A note comes after what was put out before it, which may not have been read yet.
    fn take_before_note(&mut self, buffer: &mut [u8]) {
        let before = self.release.before();
        if let (Some(inner), None) = (&self.inner, &self.sink)
            && self.pause != Pause::Yes
            // It never waits. What fails will fail again.
            && let Ok(length @ 1..) = rustix::io::read(inner, &mut *buffer)
        {
            match self.release.take(before, length < buffer.len()) {
                Ok(()) => self
                    .queue
                    .push_back(Queued::Output(buffer[..length].to_vec())),
                Err(_) => self.lose_inner(),
            }
        }
    }

    /// What has not appeared will not; what was held is held still.
    fn clear_screen(&mut self) {
        if let Some(sink) = &mut self.sink {
            // Where some of a piece has appeared, all of it counts: line ends may have become fewer. A pause comes
            // only between two pieces, so what was being shown before another thing has appeared as a whole.
            sink.keep_rest(match (self.showing, self.screen.gone()) {
                (Showing::Held, 0) => 0,
                _ => usize::MAX,
            });
        }
        self.showing = Showing::Output;
        self.screen = Pending::default();
        self.queue.clear();
    }

    /// Takes in what the domain has put out, which stands still, if that is held.
    fn drain(&mut self, buffer: &mut [u8]) {
        let mut quiet = 0;
        while let (Some(inner), Some(_), 0..2) = (&self.inner, &self.sink, quiet) {
            let mut polled = [PollFd::new(inner, PollFlags::IN)];
            let limit = Timespec::try_from(IN_FLIGHT).expect("a short wait");
            match poll(&mut polled, Some(&limit)) {
                Ok(0) => quiet += 1,
                Ok(_) => self.read_screen(buffer),
                Err(_) => {}
            }
        }
    }

    /// True when that was done now.
    fn engage(&mut self) -> bool {
        let Some(inner) = &self.inner else {
            return false;
        };
        let Some(typed) = self.outer.engage(inner) else {
            return false;
        };
        self.keys.fill(&typed);
        self.fit_window();
        true
    }

    fn wait(&mut self) -> io::Result<Ready> {
        let flag = |condition: bool, flag: PollFlags| match condition {
            true => flag,
            false => PollFlags::empty(),
        };
        let reads_keys = self.outer.is_engaged()
            && self.pause == Pause::No
            && self.inner.is_some()
            && self.keys.is_empty();
        let of_outer =
            flag(reads_keys, PollFlags::IN) | flag(!self.screen.is_empty(), PollFlags::OUT);
        let reads_screen = self.screen.is_empty() && self.pause != Pause::Yes;
        let of_inner =
            flag(reads_screen, PollFlags::IN) | flag(!self.keys.is_empty(), PollFlags::OUT);
        let mut polled = vec![
            PollFd::new(&self.orders, PollFlags::IN),
            PollFd::new(&self.signals, PollFlags::IN),
        ];
        // One that has hung up would be ready for ever, so it is not looked at for nothing.
        let outer = self.outer.terminal().filter(|_| !of_outer.is_empty());
        let inner = self.inner.as_ref().filter(|_| !of_inner.is_empty());
        polled.extend(outer.map(|fd| PollFd::new(fd, of_outer)));
        polled.extend(inner.map(|fd| PollFd::new(fd, of_inner)));
        let soon = matches!(self.pause, Pause::Soon(_));
        let limit = if soon && self.screen.is_empty() {
            Some(Duration::ZERO)
        } else if self.outer.is_waiting() && self.pause == Pause::No && self.inner.is_some() {
            Some(LOOK_AGAIN)
        } else {
            None
        };
        let limit = limit.map(|limit| Timespec::try_from(limit).expect("a short wait"));
        poll(&mut polled, limit.as_ref())?;
        let mut revents = polled.iter().map(PollFd::revents);
        let mut of = |there: bool| match there {
            true => revents.next().unwrap_or(PollFlags::empty()),
            false => PollFlags::empty(),
        };
        Ok(Ready {
            order: !of(true).is_empty(),
            signal: !of(true).is_empty(),
            outer: of(outer.is_some()),
            inner: of(inner.is_some()),
        })
    }

    fn step(&mut self, ready: &Ready, buffer: &mut [u8]) {
        if ready.order {
            // They change what is waited for.
            while let Some(order) = self.orders.next() {
                self.obey(order, buffer);
            }
            return;
        }
        if ready.signal {
            while let Ok(Some(signal)) = self.signals.next() {
                if signal == Signal::WINCH {
                    self.fit_window();
                }
            }
        }
        if !self.screen.is_empty() {
            if !ready.outer.is_empty() {
                self.show();
            }
        } else if ready.inner.intersects(ENDS | PollFlags::IN) {
            self.read_screen(buffer);
        } else if let Pause::Soon(_) = self.pause {
            self.pause();
        }
        if ready.outer.intersects(ENDS | PollFlags::IN) && self.keys.is_empty() {
            self.read_keys(buffer);
        }
        if !self.keys.is_empty() {
            self.type_keys();
        }
    }

    fn show(&mut self) {
        let Some(terminal) = self.outer.terminal() else {
            self.clear_screen();
            return;
        };
        match rustix::io::write(terminal, self.screen.rest()) {
            Ok(length) => self.screen.advance(length),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.hang_up(),
        }
    }

    fn read_screen(&mut self, buffer: &mut [u8]) {
        let Some(inner) = &self.inner else {
            return;
        };
        let before = self.release.before();
        let length = match rustix::io::read(inner, &mut *buffer) {
            Err(Errno::AGAIN | Errno::INTR) => return,
            Ok(length @ 1..) => length,
            // Nobody inside has it any more, and all that was put out has been read.
            Ok(_) | Err(_) => return self.lose_inner(),
        };
        if let Pause::Soon(rest) = self.pause {
            self.pause = Pause::Soon(rest.saturating_sub(length));
            if length >= rest {
                self.pause();
            }
        }
        let is_all = length < buffer.len();
        let bytes = &buffer[..length];
        if let Some(sink) = &mut self.sink {
            if sink.write(bytes).is_err() {
                self.inner = None;
            }
        } else if self.outer.terminal().is_some() {
            match self.release.take(before, is_all) {
                Ok(()) => self.screen.fill(&self.outer.as_it_is(bytes)),
                // Nothing that the domain puts out may appear any more; notes may.
                Err(_) => self.lose_inner(),
            }
        }
    }

    /// Nothing goes to the domain's terminal any more, or comes from it.
    fn lose_inner(&mut self) {
        self.inner = None;
        self.keys = Pending::default();
    }

    fn pause(&mut self) {
        self.pause = Pause::Yes;
        self.outer.leave();
        self.events.send(Event::Paused);
    }

    fn read_keys(&mut self, buffer: &mut [u8]) {
        let Some(terminal) = self.outer.terminal() else {
            return;
        };
        match rustix::io::read(terminal, &mut *buffer) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            Ok(length @ 1..) => self.keys.fill(&buffer[..length]),
            // In the background; the settings are somebody else's by now.
            Err(Errno::IO) if !self.outer.is_in_foreground() => self.outer.lose(),
            Ok(_) | Err(_) => self.hang_up(),
        }
    }

    fn type_keys(&mut self) {
        let Some(inner) = &self.inner else {
            self.keys = Pending::default();
            return;
        };
        match rustix::io::write(inner, self.keys.rest()) {
            Ok(length) => self.keys.advance(length),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.keys = Pending::default(),
        }
    }

    /// The caller's terminal is gone. Closing the domain's tells those inside, as it was told outside.
    fn hang_up(&mut self) {
        self.outer.close();
        self.lose_inner();
        self.clear_screen();
    }

    fn fit_window(&self) {
        if let Some(inner) = &self.inner {
            self.outer.fit(inner);
        }
    }
}
