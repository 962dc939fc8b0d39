//! The relay's side of the epochs: bytes that were taken from a program leave when all earlier promises of
//! durability are kept ([`Epochs`]).
//!
//! The relay has one thread, which waits for no commit. A connection keeps the bytes that were read of it and reads
//! no more ([`Latch`]); packets and queries for names queue up ([`Waiting`]). All of them go on at the
//! epochs' event. Rare output, such as a reset, waits on the spot.
//!
//! Nothing stalls: a part that waits has asked for the event after the last event was taken, or was told that
//! it need not wait. Where no commit comes any more, nothing that waits leaves: connections are broken
//! off, and packets get lost.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::time::Instant;

use rustix::event::epoll::EventFlags;
use rustix::event::{PollFd, PollFlags, poll};
use surmise_sync::{Epoch, Epochs, Outlet, Stopped};

use super::dns::Asker;
use super::poller::{Kind, Poller, Token};
use super::slab::Key;

/// How many packets and queries wait at once; more are lost, as packets may be.
const PIECES_MAX: usize = 1024;

/// What a piece of output waits for, and since when.
#[derive(Clone, Copy, Debug)]
struct Wait {
    epoch: Epoch,
    since: Instant,
}

impl Wait {
    /// For what was just taken from a program; `None` if it may leave. What else is on its way in the kernel cannot be
    /// seen; mostly programs send in turn.
    fn of_taken(outlet: &mut Outlet) -> Option<Self> {
        let epoch = outlet.take_in_turn()?;
        let since = Instant::now();
        Some(Self { epoch, since })
    }

    /// Whether it is over. If not, the epochs' event comes when that is to be asked again.
    fn is_over(&self, epochs: &Epochs) -> Result<bool, Stopped> {
        if epochs.is_durable(self.epoch) || !epochs.await_event(self.epoch) {
            return Ok(true);
        }
        // Looked at in this order: who stops them later sends the event, and the commit before a stop
        // is seen.
        let stopped = epochs.is_stopped();
        match epochs.is_durable(self.epoch) {
            false if stopped => Err(Stopped),
            is_durable => Ok(is_durable),
        }
    }
}

/// Holds back what one connection's program has sent. Without epochs it is always open.
#[derive(Debug, Default)]
pub(crate) struct Latch {
    outlet: Option<Outlet>,
    wait: Option<Wait>,
}

impl Latch {
    /// Something was taken from the program, and nothing of it waits yet: closes if that has to wait,
    /// and says so.
    ///
    /// # Errors
    /// It never may leave.
    pub(crate) fn take(&mut self) -> Result<bool, Stopped> {
        let Some(outlet) = &mut self.outlet else {
            return Ok(false);
        };
        if let Some(wait) = Wait::of_taken(outlet)
            && !wait.is_over(outlet.epochs())?
        {
            self.wait = Some(wait);
        }
        Ok(self.is_closed())
    }

    /// Whether something waits.
    pub(crate) fn is_closed(&self) -> bool {
        self.wait.is_some()
    }

    /// Opens if what was taken may leave by now.
    ///
    /// # Errors
    /// It never may.
    pub(crate) fn open(&mut self) -> Result<(), Stopped> {
        if let (Some(epochs), Some(wait)) = (self.epochs(), self.wait)
            && wait.is_over(epochs)?
        {
            epochs.held(wait.since.elapsed());
            self.wait = None;
        }
        Ok(())
    }

    /// Waits on the spot until what was taken may leave.
    ///
    /// # Errors
    /// It never may.
    pub(crate) fn wait(&mut self) -> Result<(), Stopped> {
        if let (Some(epochs), Some(wait)) = (self.epochs(), self.wait) {
            epochs.hold(wait.epoch, wait.since)?;
            self.wait = None;
        }
        Ok(())
    }

    /// Waits on the spot until something may leave that the program does now.
    ///
    /// # Errors
    /// It never may.
    pub(crate) fn release(&self) -> Result<(), Stopped> {
        release(self.epochs())
    }

    fn epochs(&self) -> Option<&Epochs> {
        self.outlet.as_ref().map(Outlet::epochs)
    }
}

/// As [`Epochs::release`], where there are epochs.
///
/// # Errors
/// As that.
pub(crate) fn release(epochs: Option<&Epochs>) -> Result<(), Stopped> {
    epochs.map_or(Ok(()), Epochs::release)
}

/// What is no connection's, as it was taken from a program.
#[derive(Debug)]
pub(crate) enum Piece {
    /// Out of the TUN.
    Packet(Vec<u8>),
    /// From the proxy's own sockets, or a connection that asks for names.
    Query(Asker, Vec<u8>),
}

/// Packets and queries that wait, in their order, and which connections do.
#[derive(Debug)]
pub(crate) struct Waiting {
    epochs: Option<Epochs>,
    pieces: VecDeque<(Wait, Piece)>,
    connections: BTreeSet<Key>,
}

impl Waiting {
    /// # Errors
    /// As `epoll_ctl`.
    pub(crate) fn new(poller: &Poller, epochs: Option<Epochs>) -> io::Result<Self> {
        if let Some(epochs) = &epochs {
            poller.add(epochs, Token::only(Kind::Epochs), EventFlags::IN)?;
        }
        Ok(Self {
            epochs,
            pieces: VecDeque::new(),
            connections: BTreeSet::new(),
        })
    }

    /// What everything waits for.
    pub(crate) fn epochs(&self) -> Option<&Epochs> {
        self.epochs.as_ref()
    }

    /// For a new connection.
    pub(crate) fn latch(&self) -> Latch {
        let outlet = self.epochs.clone().map(Outlet::new);
        Latch { outlet, wait: None }
    }

    /// A piece was just taken from a program: whether it is none of the caller's business any more, since
    /// it waits here or is lost.
    pub(crate) fn takes(&mut self, piece: impl FnOnce() -> Piece) -> bool {
        let Some(epochs) = &self.epochs else {
            return false;
        };
        // Each piece counts as the first of its way.
        let outlet = &mut Outlet::new(epochs.clone());
        let wait = match (Wait::of_taken(outlet), self.pieces.back()) {
            (Some(wait), _) => wait,
            // A commit has just come, whose event lets the others go on; it must not overtake them.
            (None, Some((last, _))) => *last,
            (None, None) => return false,
        };
        match wait.is_over(epochs) {
            Ok(true) if self.pieces.is_empty() => return false,
            Ok(_) if self.pieces.len() < PIECES_MAX => self.pieces.push_back((wait, piece())),
            Ok(_) | Err(Stopped) => {}
        }
        true
    }

    /// The next piece that may leave, and when it was taken.
    pub(crate) fn next(&mut self) -> Option<(Piece, Instant)> {
        let (epochs, (wait, _)) = (self.epochs.as_ref()?, self.pieces.front()?);
        match wait.is_over(epochs) {
            Ok(true) => {
                epochs.held(wait.since.elapsed());
                let (wait, piece) = self.pieces.pop_front()?;
                Some((piece, wait.since))
            }
            Ok(false) => None,
            Err(Stopped) => {
                self.pieces.clear();
                None
            }
        }
    }

    /// Whether pieces wait.
    pub(crate) fn has_pieces(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// A connection's latch is closed.
    pub(crate) fn add(&mut self, connection: Key) {
        self.connections.insert(connection);
    }

    /// Takes the epochs' event. Gives the connections that have waited for it; what else has, is
    /// [`Self::next`]'s.
    pub(crate) fn take_event(&mut self) -> BTreeSet<Key> {
        if let Some(epochs) = &self.epochs {
            epochs.take_event();
        }
        std::mem::take(&mut self.connections)
    }

    /// Waits on the spot for the event, which has to be due: pieces wait.
    pub(crate) fn await_event(&self) {
        if let Some(epochs) = &self.epochs {
            // What interrupts it lets the caller look again.
            let _ = poll(&mut [PollFd::new(epochs, PollFlags::IN)], None);
        }
    }
}
