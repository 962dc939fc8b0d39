//! The witness, a thread of the relay process by which refusals are told. It hears refused calls where there is no
//! supervisor, answers for nameservers where the network has no gate, and looks for tasks that wait at FIFOs outside.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::time::Timespec;
use surmise_network::Nobody;
use surmise_refusals::{Fifos, Observer, Tally};
use surmise_sys::seccomp::Listener;

use crate::message::{Failure, Listened};
use crate::refusals::{Telling, observer};

/// When tasks are looked at, after a name has led to a FIFO: one that is seen to wait at both is told.
const LOOKS: [Duration; 2] = [Duration::from_millis(500), Duration::from_millis(1500)];

/// What the witness is made of, as far as it was handed over.
pub(super) struct Parts {
    telling: Telling,
    tally: Tally,
    nameservers: Vec<OwnedFd>,
    /// Of the domain's network namespace.
    diagnostics: Option<OwnedFd>,
    /// From the view: names lead to FIFOs outside.
    fifos: Option<OwnedFd>,
}

impl Parts {
    pub(super) fn new(telling: Telling, tally: Tally, fifos: Option<OwnedFd>) -> Self {
        Self {
            telling,
            tally,
            nameservers: Vec::new(),
            diagnostics: None,
            fifos,
        }
    }

    /// The socket of the next nameserver.
    pub(super) fn nameserver(&mut self, socket: OwnedFd) {
        self.nameservers.push(socket);
    }

    pub(super) fn diagnostics(&mut self, socket: OwnedFd) {
        self.diagnostics = Some(socket);
    }

    /// Starts the witness, which lives until its process ends. Gives the listener back where another process
    /// hears.
    pub(super) fn start(
        self,
        listened: Listened,
        listener: OwnedFd,
    ) -> Result<Option<OwnedFd>, Failure> {
        // pid 1 has died in between, which is the next event.
        let Some(diagnostics) = self.diagnostics else {
            return Ok(Some(listener));
        };
        let copy = diagnostics
            .try_clone()
            .map_err(Failure::at("look at calls"))?;
        let observer = observer(Some(&self.telling), listened, (&self.tally, copy))?;
        let (own, held) = match self.telling.is_alone() {
            true => (
                Some(Listener::new(listener).map_err(Failure::at("listen"))?),
                None,
            ),
            false => (None, Some(listener)),
        };
        let sockets: Vec<_> = self.nameservers.into_iter().filter_map(addressed).collect();
        let witness = Witness {
            listener: own,
            observer: observer.expect("there is somebody to tell"),
            nobody: Nobody::new(sockets, diagnostics, self.tally),
            met: self.fifos,
            fifos: Fifos::default(),
            looks: Vec::new(),
        };
        let thread = thread::Builder::new().name("witness".into());
        // When it ends, its listener is closed, and calls fail that it would have heard: what is refused
        // stays refused.
        let spawned = thread.spawn(move || witness.run());
        spawned.map_err(Failure::at("hear what is refused"))?;
        Ok(held)
    }
}

fn addressed(socket: OwnedFd) -> Option<(SocketAddr, OwnedFd)> {
    let address = rustix::net::getsockname(&socket).ok()?;
    Some((address.try_into().ok()?, socket))
}

struct Witness {
    /// Where nobody else hears, until no task is left.
    listener: Option<Listener>,
    observer: Observer,
    nobody: Nobody,
    met: Option<OwnedFd>,
    fifos: Fifos,
    /// When to look for tasks that wait at FIFOs.
    looks: Vec<Instant>,
}

/// What the witness hears.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Listener,
    Fifos,
    Nameserver,
}

impl Witness {
    fn run(mut self) -> io::Result<()> {
        loop {
            for (source, told) in self.wait()? {
                match source {
                    Source::Listener if told.contains(PollFlags::IN) => self.hear()?,
                    Source::Listener => self.listener = None,
                    Source::Fifos => self.plan_looks(),
                    Source::Nameserver => self.nobody.answer(),
                }
            }
            let now = Instant::now();
            if self.looks.iter().any(|at| *at <= now) {
                self.looks.retain(|at| *at > now);
                self.fifos.look(&self.observer);
            }
        }
    }

    fn wait(&self) -> io::Result<Vec<(Source, PollFlags)>> {
        let listener = self
            .listener
            .iter()
            .map(|one| (Source::Listener, one.as_fd()));
        let met = self.met.iter().map(|one| (Source::Fifos, one.as_fd()));
        let asked = self
            .nobody
            .sources()
            .into_iter()
            .map(|one| (Source::Nameserver, one));
        let sources: Vec<(Source, BorrowedFd<'_>)> = listener.chain(met).chain(asked).collect();
        let mut events: Vec<_> = sources
            .iter()
            .map(|(_, source)| PollFd::new(source, PollFlags::IN))
            .collect();
        let next = self.looks.iter().min();
        let rest = next.map(|at| at.saturating_duration_since(Instant::now()));
        let rest = rest.map(|rest| Timespec::try_from(rest).expect("a short wait"));
        match rustix::event::poll(&mut events, rest.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let told = sources.iter().zip(&events);
        let told = told.map(|((source, _), event)| (*source, event.revents()));
        Ok(told.filter(|(_, told)| !told.is_empty()).collect())
    }

    fn hear(&self) -> io::Result<()> {
        let Some(listener) = &self.listener else {
            return Ok(());
        };
        if let Some(call) = listener.receive()? {
            // One that has gone needs no answer.
            listener.answer(call.id, self.observer.answer(&call))?;
        }
        Ok(())
    }

    fn plan_looks(&mut self) {
        if let Some(met) = &self.met {
            let _ = rustix::io::read(met, &mut [0; 8]);
        }
        // Who walks through many names has some looked at, and what came last is looked at last.
        self.looks.truncate(LOOKS.len());
        let now = Instant::now();
        self.looks.extend(LOOKS.iter().map(|after| now + *after));
    }
}
