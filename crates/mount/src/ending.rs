//! How a mount is ended: by an unmount, by a signal, or without its server.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::Signal;
use rustix::time::Timespec;
use surmise_fuse::ServeError;
use surmise_remote::object::ObjectId;
use surmise_sys::signals::SignalFd;

use crate::device;
use crate::lost::{KeepError, Keeper};
use crate::owners::Owners;
use crate::shell::{GIVEN_UP, Shell};
use crate::status::{Answering, GivenUp, Kept, Status};

/// The signals that ask a process to end.
pub(crate) const STOPS: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];

/// How long programs that use a mount which is given up may take to hear of that. Then the kernel tells them.
const ANSWERS_MAX: Duration = Duration::from_secs(1);

/// How often it is looked whether a mount that was told to end waits in vain.
const LOOKS_EVERY: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 500_000_000,
};

/// Where something is mounted; `None` when it has gone. What the place shows from then on is another's.
#[derive(Clone)]
pub(crate) struct Place(Arc<Mutex<Option<PathBuf>>>);

impl Place {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self(Arc::new(Mutex::new(Some(path))))
    }

    pub(crate) fn has_gone(&self) -> Option<PathBuf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn detach(&self) {
        // Something else may be mounted on it, or the mount be gone.
        if let Some(path) = self.has_gone()
            && matches!(device::source_of(&path), Ok(Some(_)))
        {
            let _ = device::detach(&path);
        }
    }
}

/// A mount that goes when this does.
pub(crate) struct Mounted(pub(crate) Place);

impl Drop for Mounted {
    fn drop(&mut self) {
        self.0.detach();
    }
}

/// What a mount comes to its end by.
pub(crate) enum End {
    /// The kernel has nothing more to ask.
    Served(Result<(), ServeError>),
    /// It was given up.
    GivenUp,
}

/// Waits for the end of a mount.
pub(crate) fn await_end(ends: &Receiver<End>) -> Result<(), ServeError> {
    match ends.recv() {
        Ok(End::Served(served)) => served,
        Ok(End::GivenUp) => match ends.recv_timeout(ANSWERS_MAX) {
            Ok(End::Served(served)) => served,
            // Programs still use it. The end of this process is what they hear of.
            _ => Ok(()),
        },
        Err(_) => Ok(()),
    }
}

/// Ends a mount, and tells how it is.
#[derive(Clone)]
pub(crate) struct Ending {
    pub(crate) shell: Arc<Shell>,
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) root: ObjectId,
    pub(crate) owners: Owners,
    pub(crate) place: Place,
    pub(crate) device: Arc<OwnedFd>,
    pub(crate) ends: Sender<End>,
}

impl Ending {
    /// Ends the mount without the server, once the changes that this has not decided are durable in a file.
    fn give_up_server(&self) -> Result<Option<Kept>, KeepError> {
        let kept = self.shell.give_up_server(|changes| {
            let why = (GIVEN_UP.to_owned(), true);
            self.keeper.keep(changes, self.root, &self.owners, why)
        })?;
        self.place.detach();
        // The receiver goes when the mount has ended.
        let _ = self.ends.send(End::GivenUp);
        Ok(kept)
    }

    /// Has a signal unmount. Then all goes on to its end as after an unmount, except that a `SIGTERM` is what comes before a
    /// kill: a server that is not there then is given up. `tell` is told if that fails.
    pub(crate) fn by_signals(
        self,
        tell: impl Fn(&KeepError) + Send + 'static,
    ) -> io::Result<impl FnOnce() + Send> {
        let signals = SignalFd::new(&STOPS)?;
        Ok(move || {
            let mut terminated = None;
            let mut has_failed = false;
            loop {
                let mut events = [PollFd::new(&signals, PollFlags::IN)];
                let timeout = terminated.map(|_| &LOOKS_EVERY);
                let polled = rustix::event::poll(&mut events, timeout);
                if polled.is_ok_and(|ready| ready > 0)
                    && let Ok(Some(signal)) = signals.next()
                {
                    self.place.detach();
                    if signal == Signal::TERM {
                        terminated.get_or_insert_with(Instant::now);
                    }
                }
                if !terminated.is_some_and(|since| self.shell.waits_in_vain(since)) {
                    continue;
                }
                match self.give_up_server() {
                    Ok(_) => return,
                    Err(error) if !std::mem::replace(&mut has_failed, true) => tell(&error),
                    Err(_) => {}
                }
            }
        })
    }
}

impl Answering for Ending {
    fn status(&self) -> Status {
        let mut status = self.shell.status();
        // The threads that serve it may take a moment to see that.
        status.is_ending |= device::has_ended(&*self.device);
        status
    }

    fn give_up(&self) -> GivenUp {
        match self.give_up_server() {
            Ok(kept) => GivenUp::Ends(kept),
            Err(error) => GivenUp::GoesOn(error.to_string()),
        }
    }
}
