//! After the command: the relay process passes on what is left, and ends.
//!
//! A reader that is slow, or stopped, only delays the end, unless somebody asks for the end. Control hears the relay
//! process meanwhile, which waits for room for each report.
//!
//! Under external synchrony the supervisor makes the commits that output waits for. If the supervisor dies, the rest of
//! the output is given up.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::Signal;
use rustix::time::Timespec;
use surmise_kept::Link;
use surmise_sys::process::Child;

use super::supervisor::SupervisorRole;
use crate::message::{RelayOrder, RelayReport};
use crate::signals::Signals;
use crate::stops;

/// How long a reader of output has when the domain was asked to end.
const DRAINING_MAX: Duration = Duration::from_secs(2);

/// How long the relay process may take to obey.
const OBEYING_MAX: Duration = Duration::from_secs(1);

/// How urgent the end is.
enum Urgency {
    /// As long as the readers take.
    None,
    /// Given up then.
    GiveUpAt(Instant),
    /// Told to give up; killed then.
    KillAt(Instant),
}

impl Urgency {
    /// How long nothing has to be done about it.
    fn limit(&self) -> Option<Timespec> {
        let at = match self {
            Self::None => return None,
            Self::GiveUpAt(at) | Self::KillAt(at) => at,
        };
        let rest = at.saturating_duration_since(Instant::now());
        Some(Timespec::try_from(rest).expect("a short wait"))
    }

    /// Somebody asks for the end, or it takes too long.
    fn give_up(self, relay: &Child, link: &Link) -> Self {
        match self {
            Self::None | Self::GiveUpAt(_) => {
                let _ = link.send(&RelayOrder::Abandon);
                Self::KillAt(Instant::now() + OBEYING_MAX)
            }
            Self::KillAt(at) => {
                // Fails only if it has ended.
                let _ = relay.signal(Signal::KILL);
                Self::KillAt(at + OBEYING_MAX)
            }
        }
    }
}

/// Returns when the relay process has ended and all that it said was given to `hear`; pid 1 has ended
/// before. `syncer`: the supervisor, if output waits for its commits and it is not known to have died. `asked`: whether
/// a signal has asked for the end.
pub(super) fn finish(
    (relay, link): (&Child, &Link),
    mut syncer: Option<&SupervisorRole>,
    signals: &Signals,
    asked: bool,
    hear: &mut dyn FnMut(RelayReport),
) -> io::Result<()> {
    // If it has died, its end is the first event.
    let _ = link.send(&RelayOrder::Finish);
    let mut urgency = match asked {
        true => Urgency::GiveUpAt(Instant::now() + DRAINING_MAX),
        false => Urgency::None,
    };
    let mut silent = false;
    loop {
        let limit = urgency.limit();
        let (relay_fd, signal_fd, link_fd) = (relay.as_fd(), signals.as_fd(), link.as_fd());
        let syncer_fd = syncer.map(|role| role.process.as_fd());
        // A source that has ended would be ready for ever. The relay process' end, which is looked at first, stands in
        // for it.
        let sources = [
            relay_fd,
            signal_fd,
            if silent { relay_fd } else { link_fd },
            syncer_fd.unwrap_or(relay_fd),
        ];
        let mut events = sources
            .each_ref()
            .map(|source| PollFd::new(source, PollFlags::IN));
        let timed_out = match rustix::event::poll(&mut events, limit.as_ref()) {
            Ok(ready) => ready == 0,
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
        };
        let [ended, _, said, died] = events.map(|event| !event.revents().is_empty());
        if ended {
            while let Some(report) = link.receive()? {
                hear(report);
            }
            return Ok(());
        }
        if died && let Some(syncer) = syncer.take() {
            // What is left of output waits for a commit, which will not come.
            syncer.gone();
            let _ = link.send(&RelayOrder::Abandon);
        }
        if said {
            match link.receive()? {
                Some(report) => hear(report),
                None => silent = true,
            }
        }
        let give_up = match signals.next()? {
            Some(Signal::TSTP) => {
                stops::stop(signals, Signal::TSTP)?;
                false
            }
            Some(_) => true,
            None => timed_out,
        };
        if give_up {
            urgency = urgency.give_up(relay, link);
        }
    }
}
