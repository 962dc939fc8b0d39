//! epoll, with tokens that say what an event is for, and timers beside it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::Timespec;

use super::slab::Key;

/// How many events one wakeup takes.
const BATCH: usize = 256;

/// What a descriptor, or a timer, is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Orders, and results of helper threads.
    Inbox,
    /// The outbox has room again.
    Room,
    /// Promises were kept.
    Epochs,
    /// Packets.
    Tun,
    /// Connections that the kernel accepted in the place of their destinations.
    Listener,
    /// A SYN that waits, and its connection outside.
    Gated,
    /// The inner socket of a relayed connection.
    PumpInside,
    /// Its outer socket.
    PumpOutside,
    /// The inner socket of a held connection.
    HeldInside,
    /// Its outer socket, once it was released.
    HeldOutside,
    /// The host's socket of a source of datagrams.
    Datagrams,
    /// A held sequence of datagrams.
    HeldDatagrams,
    /// The host's socket of a source of pings.
    Ping,
    /// The proxy's socket for names.
    NamesDatagrams,
    /// The proxy's listener for names.
    NamesListener,
    /// A connection that asks for names.
    NamesStream,
    /// A query under way to a nameserver of the host.
    Query,
    /// A listener of the host for a published port.
    Published,
}

impl Kind {
    const ALL: [Self; 18] = [
        Self::Inbox,
        Self::Room,
        Self::Epochs,
        Self::Tun,
        Self::Listener,
        Self::Gated,
        Self::PumpInside,
        Self::PumpOutside,
        Self::HeldInside,
        Self::HeldOutside,
        Self::Datagrams,
        Self::HeldDatagrams,
        Self::Ping,
        Self::NamesDatagrams,
        Self::NamesListener,
        Self::NamesStream,
        Self::Query,
        Self::Published,
    ];
}

/// What an event or a timer is for: a kind of thing, and which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) key: Key,
}

impl Token {
    pub(crate) fn new(kind: Kind, key: Key) -> Self {
        Self { kind, key }
    }

    pub(crate) fn only(kind: Kind) -> Self {
        Self::new(kind, Key::ONLY)
    }

    fn to_data(self) -> EventData {
        let high = (u64::from(self.kind as u8) << 24) | u64::from(self.key.generation);
        EventData::new_u64((high << 32) | u64::from(self.key.index))
    }

    fn of_data(data: EventData) -> Self {
        let data = data.u64();
        Self {
            kind: Kind::ALL[(data >> 56) as usize],
            key: Key {
                index: data as u32,
                generation: (data >> 32) as u32 & 0xff_ffff,
            },
        }
    }
}

/// epoll, level-triggered.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
        })
    }

    pub(crate) fn add(&self, fd: impl AsFd, token: Token, wanted: EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, token.to_data(), wanted)?)
    }

    pub(crate) fn modify(&self, fd: impl AsFd, token: Token, wanted: EventFlags) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, fd, token.to_data(), wanted)?)
    }

    pub(crate) fn delete(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, fd)?)
    }

    /// Waits for events, at most as long as `timeout`, and puts them into `into`.
    pub(crate) fn wait(
        &self,
        timeout: Option<Duration>,
        into: &mut Vec<(Token, EventFlags)>,
    ) -> io::Result<()> {
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: i64::try_from(timeout.as_secs())
                .unwrap_or(i64::MAX)
                .min(3600),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        into.clear();
        let mut buffer = [const { MaybeUninit::uninit() }; BATCH];
        let events = match epoll::wait(&self.epoll, &mut buffer, timeout.as_ref()) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        };
        into.extend(events.iter().map(|event| {
            let (data, flags) = (event.data, event.flags);
            (Token::of_data(data), flags)
        }));
        Ok(())
    }
}

/// How one descriptor stands with the poller.
///
/// A hang-up is reported even to those who ask for nothing, and again at every wait; so what has hung
/// up and is wanted for nothing is taken out.
#[derive(Debug, Default)]
pub(crate) struct Registration {
    flags: Option<EventFlags>,
    /// A hang-up was seen: it will be reported for ever.
    hung: bool,
}

impl Registration {
    /// Remembers what `flags` tell about the descriptor.
    pub(crate) fn saw(&mut self, flags: EventFlags) {
        self.hung |= flags.contains(EventFlags::HUP);
    }

    /// From now on the poller reports `wanted` of `fd` (and resets, as long as it has not hung up).
    ///
    /// # Errors
    /// As `epoll_ctl`: `ENOMEM`, `ENOSPC`.
    pub(crate) fn set(
        &mut self,
        poller: &Poller,
        fd: impl AsFd,
        token: Token,
        wanted: EventFlags,
    ) -> io::Result<()> {
        let wanted = (!wanted.is_empty() || !self.hung).then_some(wanted);
        match (self.flags, wanted) {
            (old, new) if old == new => return Ok(()),
            (None, Some(flags)) => poller.add(fd, token, flags)?,
            (Some(_), Some(flags)) => poller.modify(fd, token, flags)?,
            (Some(_), None) => poller.delete(fd)?,
            (None, None) => {}
        }
        self.flags = wanted;
        Ok(())
    }

    /// The poller forgets `fd`.
    pub(crate) fn remove(&mut self, poller: &Poller, fd: impl AsFd) {
        if self.flags.take().is_some() {
            // Fails only for what is not there.
            let _ = poller.delete(fd);
        }
    }
}

/// Moments at which something is looked at again.
///
/// A timer cannot be taken back: the called part looks whether there is still something to do.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, Token)>>,
}

impl Timers {
    pub(crate) fn set(&mut self, at: Instant, token: Token) {
        self.heap.push(Reverse((at, token)));
    }

    /// How long it is until the next one.
    pub(crate) fn next_in(&self, now: Instant) -> Option<Duration> {
        let Reverse((at, _)) = self.heap.peek()?;
        Some(at.saturating_duration_since(now))
    }

    /// The next one that is due.
    pub(crate) fn due(&mut self, now: Instant) -> Option<Token> {
        let Reverse((at, _)) = self.heap.peek()?;
        if *at > now {
            return None;
        }
        self.heap.pop().map(|Reverse((_, token))| token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_the_kernel() {
        for (number, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
            let key = Key {
                index: u32::MAX - 1,
                generation: 0xab_cdef,
            };
            let token = Token::new(kind, key);
            assert_eq!(Token::of_data(token.to_data()), token);
        }
    }

    #[test]
    fn what_hung_up_and_is_not_wanted_is_silent() {
        let poller = Poller::new().expect("epoll");
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let token = Token::only(Kind::Room);
        let mut registration = Registration::default();
        let mut events = Vec::new();
        registration
            .set(&poller, &reader, token, EventFlags::empty())
            .expect("set");
        drop(writer);
        poller.wait(None, &mut events).expect("wait");
        assert_eq!(events, [(token, EventFlags::HUP)]);
        registration.saw(events[0].1);
        registration
            .set(&poller, &reader, token, EventFlags::empty())
            .expect("set");
        poller
            .wait(Some(Duration::ZERO), &mut events)
            .expect("wait");
        assert_eq!(events, []);
    }

    #[test]
    fn timers_come_in_order_and_not_early() {
        let mut timers = Timers::default();
        let (now, step) = (Instant::now(), Duration::from_millis(5));
        assert_eq!(timers.next_in(now), None);
        let (room, tun) = (Token::only(Kind::Room), Token::only(Kind::Tun));
        timers.set(now + 2 * step, room);
        timers.set(now + step, tun);
        assert_eq!(timers.next_in(now), Some(step));
        assert_eq!(timers.due(now), None);
        assert_eq!(timers.due(now + step), Some(tun));
        assert_eq!(timers.due(now + step), None);
        assert_eq!(timers.due(now + 3 * step), Some(room));
        assert_eq!(timers.next_in(now), None);
    }
}
