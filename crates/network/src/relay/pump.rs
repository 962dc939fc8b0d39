//! A relayed connection: two sockets, and a flow each way.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::epoll::EventFlags;
use surmise_sys::sockets::at_urgent_mark;

use super::flow::{Flow, Scratch, Supply};
use super::poller::{Kind, Poller, Registration, Token};
use super::slab::Key;
use super::sockets;

/// Which end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The program's.
    Inside = 0,
    /// The rest of the world's.
    Outside = 1,
}

impl End {
    fn other(self) -> Self {
        match self {
            Self::Inside => Self::Outside,
            Self::Outside => Self::Inside,
        }
    }
}

/// Whether a connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    GoesOn,
    /// Both sides have closed, and know it of each other.
    Over,
}

/// A relayed connection.
#[derive(Debug)]
pub(crate) struct Pump {
    sides: [Side; 2],
}

#[derive(Debug)]
struct Side {
    socket: OwnedFd,
    registration: Registration,
    /// What is read here.
    flow: Flow,
    /// An urgent byte that was read here and not written yet.
    urgent: Option<u8>,
}

impl Pump {
    /// A connection between two sockets, of which nothing was read before.
    pub(crate) fn new(inside: OwnedFd, outside: OwnedFd) -> Self {
        Self::resume([inside, outside], [Flow::default(), Flow::default()])
    }

    /// A connection of which a part went before.
    pub(crate) fn resume(sockets: [OwnedFd; 2], flows: [Flow; 2]) -> Self {
        let [inside, outside] = sockets;
        let [outwards, inwards] = flows;
        let side = |socket, flow| Side {
            socket,
            registration: Registration::default(),
            flow,
            urgent: None,
        };
        Self {
            sides: [side(inside, outwards), side(outside, inwards)],
        }
    }

    /// Does what `flags`, told of one end, allow.
    ///
    /// # Errors
    /// The connection is broken: the other end wants to see it, too ([`Pump::reset`]).
    pub(crate) fn ready(
        &mut self,
        end: End,
        flags: EventFlags,
        scratch: &mut Scratch,
    ) -> io::Result<Life> {
        let other = end.other();
        self.side(end).registration.saw(flags);
        if flags.contains(EventFlags::ERR) {
            sockets::connected(&self.sides[end as usize].socket)?;
        }
        if flags.contains(EventFlags::OUT) {
            self.flush(other, scratch)?;
        }
        if flags.contains(EventFlags::PRI) {
            self.pass_urgent(end, scratch)?;
        }
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::RDHUP) {
            self.forward(
                end,
                flags.intersects(EventFlags::RDHUP | EventFlags::HUP),
                scratch,
            )?;
        }
        let over = self.sides.iter().all(|side| side.flow.is_over());
        Ok(if over { Life::Over } else { Life::GoesOn })
    }

    /// Tells the poller what this connection waits for.
    ///
    /// # Errors
    /// As `epoll_ctl`.
    pub(crate) fn register(&mut self, poller: &Poller, key: Key) -> io::Result<()> {
        for end in [End::Inside, End::Outside] {
            let other = self.side(end.other());
            let output = other.flow.wants_output() || other.urgent.is_some();
            let side = self.side(end);
            let mut wanted = EventFlags::empty();
            if side.flow.wants_input() && side.urgent.is_none() {
                wanted |= EventFlags::IN | EventFlags::RDHUP | EventFlags::PRI;
            }
            if output {
                wanted |= EventFlags::OUT;
            }
            let kind = match end {
                End::Inside => Kind::PumpInside,
                End::Outside => Kind::PumpOutside,
            };
            let token = Token::new(kind, key);
            side.registration.set(poller, &side.socket, token, wanted)?;
        }
        Ok(())
    }

    /// Closes both sides. What was read and not written is lost.
    pub(crate) fn close(mut self, scratch: &mut Scratch) {
        self.sides
            .iter_mut()
            .for_each(|side| side.flow.forget(scratch));
    }

    /// Closes both sides so that both see a reset.
    pub(crate) fn reset(mut self, scratch: &mut Scratch) {
        self.sides
            .iter_mut()
            .for_each(|side| side.flow.forget(scratch));
        self.sides
            .into_iter()
            .for_each(|side| sockets::reset(side.socket));
    }

    fn side(&mut self, end: End) -> &mut Side {
        &mut self.sides[end as usize]
    }

    /// The side that is read, and the socket that what it says is written to.
    fn split(&mut self, from: End) -> (&mut Side, &OwnedFd) {
        let [inside, outside] = &mut self.sides;
        match from {
            End::Inside => (inside, &outside.socket),
            End::Outside => (outside, &inside.socket),
        }
    }

    fn forward(&mut self, from: End, hung_up: bool, scratch: &mut Scratch) -> io::Result<()> {
        let (side, to) = self.split(from);
        if side.urgent.is_some() {
            return Ok(());
        }
        side.flow.forward(&side.socket, to, hung_up, scratch)
    }

    fn flush(&mut self, from: End, scratch: &mut Scratch) -> io::Result<()> {
        let (side, to) = self.split(from);
        if let Some(byte) = side.urgent {
            if !sockets::write_urgent(to, byte)? {
                return Ok(());
            }
            side.urgent = None;
        }
        side.flow.flush(to, scratch)
    }

    /// Passes the urgent byte on at its place in the stream: a read stops before it, so what precedes
    /// it was passed on when the mark is reached.
    fn pass_urgent(&mut self, from: End, scratch: &mut Scratch) -> io::Result<()> {
        let (side, to) = self.split(from);
        // Each round reads up to the mark or fills the buffer; the next event goes on.
        while side.flow.wants_input() {
            if at_urgent_mark(&side.socket)? {
                side.urgent = sockets::read_urgent(&side.socket);
                break;
            }
            if side.flow.forward_once(&side.socket, to, scratch)? == Supply::Nothing {
                break;
            }
        }
        self.flush(from, scratch)
    }
}
