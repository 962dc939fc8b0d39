//! Sockets of the host for what has no connection: one for each source inside, kept for replies.

use std::collections::HashMap;
use std::hash::Hash;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::SendFlags;
use surmise_sys::sockets::keep_errors;

use super::core::Core;
use super::poller::{Kind, Token};
use super::slab::{Key, Slab};

/// How long a socket is kept for replies.
pub(crate) const IDLE: Duration = Duration::from_secs(60);

/// The sockets of one kind, by what tells sources apart; with each goes a `T`.
#[derive(Debug)]
pub(crate) struct Sources<I, T> {
    kind: Kind,
    /// How many there are at most; then the one that was idle longest makes room.
    limit: usize,
    sources: Slab<Source<I, T>>,
    by_inside: HashMap<I, Key>,
}

/// One source, and its socket.
#[derive(Debug)]
pub(crate) struct Source<I, T> {
    pub(crate) inside: I,
    pub(crate) socket: OwnedFd,
    pub(crate) last_used: Instant,
    pub(crate) state: T,
}

impl<I: Copy + Eq + Hash, T> Sources<I, T> {
    /// None yet. The poller tells of their sockets as of `kind`.
    pub(crate) fn new(kind: Kind, limit: usize) -> Self {
        Self {
            kind,
            limit,
            sources: Slab::new(),
            by_inside: HashMap::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sources.len() == 0
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Source<I, T>> {
        self.sources.get_mut(key)
    }

    pub(crate) fn find(&mut self, inside: I) -> Option<&mut Source<I, T>> {
        self.sources.get_mut(*self.by_inside.get(&inside)?)
    }

    /// The one for a source, which is used now. If there is none, `open` gives its socket, of IPv6 or not.
    ///
    /// # Errors
    /// As `open` and the poller.
    pub(crate) fn of(
        &mut self,
        core: &mut Core,
        inside: I,
        open: impl FnOnce() -> io::Result<(OwnedFd, bool, T)>,
    ) -> io::Result<&mut Source<I, T>> {
        let key = match self.by_inside.get(&inside) {
            Some(&key) => key,
            None => self.add(core, inside, open)?,
        };
        let source = self.sources.get_mut(key).expect("listed or just added");
        source.last_used = core.now;
        Ok(source)
    }

    fn add(
        &mut self,
        core: &mut Core,
        inside: I,
        open: impl FnOnce() -> io::Result<(OwnedFd, bool, T)>,
    ) -> io::Result<Key> {
        if self.sources.len() >= self.limit {
            let sources = self.sources.iter();
            let oldest = sources.min_by_key(|(_, source)| source.last_used);
            let oldest = oldest.map(|(key, _)| key);
            oldest.into_iter().for_each(|key| self.close(core, key));
        }
        let (socket, is_ipv6, state) = open()?;
        keep_errors(socket.as_fd(), is_ipv6)?;
        let key = self.sources.insert(Source {
            inside,
            socket,
            last_used: core.now,
            state,
        });
        let socket = &self.sources.get(key).expect("just inserted").socket;
        let token = Token::new(self.kind, key);
        if let Err(error) = core.poller.add(socket, token, EventFlags::IN) {
            self.sources.remove(key);
            return Err(error);
        }
        self.by_inside.insert(inside, key);
        Ok(key)
    }

    /// Closes what is idle.
    pub(crate) fn sweep(&mut self, core: &mut Core) {
        for key in self.sources.keys() {
            let source = self.sources.get(key).expect("listed just now");
            if core.now.saturating_duration_since(source.last_used) > IDLE {
                self.close(core, key);
            }
        }
    }

    fn close(&mut self, core: &mut Core, key: Key) {
        if let Some(source) = self.sources.remove(key) {
            self.by_inside.remove(&source.inside);
            // A delivery may still have a copy.
            let _ = core.poller.delete(&source.socket);
            core.released_descriptors = true;
        }
    }
}

impl<I, T> Source<I, T> {
    /// Sends something; `pass_errors` is called where the socket tells of something that was sent earlier.
    ///
    /// # Errors
    /// As `sendto`.
    pub(crate) fn send(
        &self,
        message: &[u8],
        to: SocketAddr,
        pass_errors: impl FnOnce(),
    ) -> Result<(), Errno> {
        let send = || rustix::net::sendto(&self.socket, message, SendFlags::NOSIGNAL, &to);
        let mut sent = send();
        if matches!(sent, Err(Errno::CONNREFUSED | Errno::HOSTUNREACH)) {
            pass_errors();
            sent = send();
        }
        sent.map(drop)
    }
}
