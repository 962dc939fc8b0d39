//! A relayed connection: two sockets, and a flow each way.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::event::epoll::EventFlags;
use surmise_sys::sockets::{at_urgent_mark, unacknowledged};

use super::epochs::Latch;
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

/// How often the rest of a broken connection is read before others have their turn.
const BROKEN_ROUNDS: usize = 64;

/// A relayed connection.
#[derive(Debug)]
pub(crate) struct Pump {
    sides: [Side; 2],
    /// When the programs inside have ended.
    last_words: Option<LastWords>,
}

/// What programs have sent that have ended, on its way outside.
#[derive(Clone, Copy, Debug)]
struct LastWords {
    /// Bytes that the receiver has taken.
    taken: u64,
    since: Instant,
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
            last_words: None,
        }
    }

    /// What is read of the program from now on may have to wait.
    pub(crate) fn hold_back(&mut self, latch: Latch) {
        self.side(End::Inside).flow.hold_back(latch);
    }

    /// Whether something that was read of the program waits for promises to be kept.
    pub(crate) fn waits(&self) -> bool {
        self.sides[End::Inside as usize].flow.is_held_back()
    }

    /// What waits may leave by now.
    ///
    /// # Errors
    /// It never may, or the connection is broken.
    pub(crate) fn promises_kept(&mut self, scratch: &mut Scratch) -> io::Result<Life> {
        let latch = self.side(End::Inside).flow.latch();
        latch.open().map_err(io::Error::other)?;
        self.flush(End::Inside, scratch)?;
        Ok(self.life())
    }

    /// The programs inside have ended: what they have sent is still delivered, and what comes for them
    /// is thrown away. To have it told them, as that nobody takes it, would be to break the connection
    /// off before the rest has left.
    pub(crate) fn finish(&mut self, now: Instant, scratch: &mut Scratch) {
        let side = self.side(End::Outside);
        side.flow.forget(scratch);
        side.urgent = None;
        self.last_words = Some(LastWords {
            taken: 0,
            since: now,
        });
    }

    /// Since when the receiver has taken nothing, after [`Pump::finish`].
    pub(crate) fn idle_since(&mut self, now: Instant) -> Instant {
        let [inside, outside] = &self.sides;
        let left = unacknowledged(&outside.socket).unwrap_or(0);
        // Less is unacknowledged, or more was written behind it: both grow this.
        let taken = (2 * inside.flow.written()).saturating_sub(left);
        let words = self
            .last_words
            .get_or_insert(LastWords { taken, since: now });
        // A receiver takes nothing of what is held back.
        if words.taken != taken || inside.flow.is_held_back() {
            *words = LastWords { taken, since: now };
        }
        words.since
    }

    /// Whether the receiver outside has all that the programs have sent, and knows that it ends.
    pub(crate) fn is_delivered(&self) -> bool {
        let [inside, outside] = &self.sides;
        let acknowledged = || unacknowledged(&outside.socket).is_ok_and(|left| left == 0);
        inside.flow.is_over() && acknowledged()
    }

    /// Who is at the outer end.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        let peer = rustix::net::getpeername(&self.sides[End::Outside as usize].socket).ok()??;
        SocketAddr::try_from(peer).ok().map(sockets::canonical)
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
        self.side(end).registration.saw(flags);
        let result = self.serve(end, flags, scratch);
        if result.is_err() && end == End::Inside {
            // That the program has broken it off is output, too. Where that may never leave, the
            // connection is broken off all the same: the end of the domain would do so.
            let _ = self.side(end).flow.latch().release();
        }
        result
    }

    fn serve(&mut self, end: End, flags: EventFlags, scratch: &mut Scratch) -> io::Result<Life> {
        let other = end.other();
        if flags.contains(EventFlags::ERR) {
            self.pass_rest(end, scratch)?;
        }
        if flags.contains(EventFlags::OUT) {
            self.flush(other, scratch)?;
        }
        if flags.contains(EventFlags::PRI) && !self.is_unheard(end) {
            self.pass_urgent(end, scratch)?;
        }
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::RDHUP) {
            self.forward(
                end,
                flags.intersects(EventFlags::RDHUP | EventFlags::HUP),
                scratch,
            )?;
        }
        Ok(self.life())
    }

    fn life(&self) -> Life {
        let over = match self.last_words {
            Some(_) => self.is_delivered(),
            None => self.sides.iter().all(|side| side.flow.is_over()),
        };
        if over { Life::Over } else { Life::GoesOn }
    }

    /// Tells the poller what this connection waits for.
    ///
    /// # Errors
    /// As `epoll_ctl`.
    pub(crate) fn register(&mut self, poller: &Poller, key: Key) -> io::Result<()> {
        for end in [End::Inside, End::Outside] {
            let other = self.side(end.other());
            let urgent = other.urgent.is_some() && !other.flow.is_held_back();
            let output = other.flow.wants_output() || urgent;
            let unheard = self.is_unheard(end);
            let side = self.side(end);
            let mut wanted = EventFlags::empty();
            if side.flow.wants_input() && side.urgent.is_none() {
                wanted |= EventFlags::IN | EventFlags::RDHUP;
                if !unheard {
                    wanted |= EventFlags::PRI;
                }
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

    /// Whether what comes from this end is for nobody.
    fn is_unheard(&self, end: End) -> bool {
        end == End::Outside && self.last_words.is_some()
    }

    /// What came before a connection broke is passed on, as far as the other end takes it at once: of
    /// more, a receiver without a relay between would have got nothing either.
    ///
    /// # Errors
    /// That it is broken, and how.
    fn pass_rest(&mut self, end: End, scratch: &mut Scratch) -> io::Result<()> {
        for _ in 0..BROKEN_ROUNDS {
            if self.side(end).flow.is_held_back() {
                // On the spot, for it is rare: what is read of it leaves now or never.
                self.side(end)
                    .flow
                    .latch()
                    .wait()
                    .map_err(io::Error::other)?;
                self.flush(end, scratch)?;
            }
            if !self.side(end).flow.wants_input() {
                break;
            }
            self.forward(end, true, scratch)?;
        }
        sockets::connected(&self.side(end).socket)
    }

    fn forward(&mut self, from: End, hung_up: bool, scratch: &mut Scratch) -> io::Result<()> {
        let unheard = self.is_unheard(from);
        let (side, to) = self.split(from);
        if unheard {
            return side.flow.discard(&side.socket, scratch);
        }
        if side.urgent.is_some() {
            return Ok(());
        }
        side.flow.forward(&side.socket, to, hung_up, scratch)
    }

    fn flush(&mut self, from: End, scratch: &mut Scratch) -> io::Result<()> {
        let (side, to) = self.split(from);
        if side.flow.is_held_back() {
            return Ok(());
        }
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
                side.flow.latch().take().map_err(io::Error::other)?;
                break;
            }
            if side.flow.forward_once(&side.socket, to, scratch)? == Supply::Nothing {
                break;
            }
        }
        self.flush(from, scratch)
    }
}
