//! Who hears calls only to tell what was refused, as a thread of the relay process; and who answers for
//! nameservers where the network has no gate.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use surmise_network::Nobody;
use surmise_refusals::{Observer, Tally};
use surmise_sys::seccomp::Listener;

use crate::message::{Failure, Listened};
use crate::refusals::{Telling, observer};

/// What the witness is made of, as far as it was handed over.
pub(super) struct Parts {
    telling: Telling,
    tally: Tally,
    nameservers: Vec<OwnedFd>,
    /// Of the domain's network namespace.
    diagnostics: Option<OwnedFd>,
}

impl Parts {
    pub(super) fn new(telling: Telling, tally: Tally) -> Self {
        Self {
            telling,
            tally,
            nameservers: Vec::new(),
            diagnostics: None,
        }
    }

    /// Whether nobody else hears calls.
    pub(super) fn is_alone(&self) -> bool {
        self.telling.is_alone()
    }

    /// The socket of the next nameserver.
    pub(super) fn nameserver(&mut self, socket: OwnedFd) {
        self.nameservers.push(socket);
    }

    pub(super) fn diagnostics(&mut self, socket: OwnedFd) {
        self.diagnostics = Some(socket);
    }

    /// Starts the witness. `listener`: where nobody else listens. It lives until its process ends.
    pub(super) fn start(
        self,
        listened: Listened,
        listener: Option<Listener>,
    ) -> Result<(), Failure> {
        let Some(diagnostics) = self.diagnostics else {
            return Ok(());
        };
        let failed = Failure::at("look at calls");
        let copy = diagnostics.try_clone().map_err(failed)?;
        let observer = observer(Some(&self.telling), listened, (&self.tally, copy))?;
        let sockets: Vec<_> = self.nameservers.into_iter().filter_map(addressed).collect();
        let nobody = (!sockets.is_empty()).then(|| Nobody::new(sockets, diagnostics, self.tally));
        if listener.is_none() && nobody.is_none() {
            return Ok(());
        }
        let witness = Witness {
            listener: listener.zip(observer),
            nobody,
        };
        let thread = thread::Builder::new().name("witness".into());
        // When it ends, its listener is closed, and calls fail that it would have heard: what is refused
        // stays refused.
        let spawned = thread.spawn(move || witness.run());
        spawned
            .map(drop)
            .map_err(Failure::at("hear what is refused"))
    }
}

fn addressed(socket: OwnedFd) -> Option<(std::net::SocketAddr, OwnedFd)> {
    let address = rustix::net::getsockname(&socket).ok()?;
    Some((address.try_into().ok()?, socket))
}

struct Witness {
    /// Until no task is left.
    listener: Option<(Listener, Observer)>,
    nobody: Option<Nobody>,
}

impl Witness {
    fn run(mut self) -> io::Result<()> {
        loop {
            let (called, is_asked) = self.wait()?;
            if called.contains(PollFlags::IN) {
                self.hear()?;
            } else if !called.is_empty() {
                self.listener = None;
            }
            if is_asked && let Some(nobody) = &mut self.nobody {
                nobody.answer();
            }
            if self.listener.is_none() && self.nobody.is_none() {
                return Ok(());
            }
        }
    }

    /// What the listener tells, and whether a nameserver was asked.
    fn wait(&self) -> io::Result<(PollFlags, bool)> {
        let listener = self.listener.iter().map(|(listener, _)| listener.as_fd());
        let nobody = self.nobody.iter().flat_map(Nobody::sources);
        let sources: Vec<_> = listener.chain(nobody).collect();
        let mut events: Vec<_> = sources
            .iter()
            .map(|source| PollFd::new(source, PollFlags::IN))
            .collect();
        match rustix::event::poll(&mut events, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let told: Vec<_> = events.iter().map(PollFd::revents).collect();
        let (called, asked) = told.split_at(usize::from(self.listener.is_some()));
        let called = called.first().copied().unwrap_or(PollFlags::empty());
        Ok((called, asked.iter().any(|asked| !asked.is_empty())))
    }

    fn hear(&self) -> io::Result<()> {
        let Some((listener, observer)) = &self.listener else {
            return Ok(());
        };
        if let Some(call) = listener.receive()? {
            // One that has gone needs no answer.
            listener.answer(call.id, observer.answer(&call))?;
        }
        Ok(())
    }
}
