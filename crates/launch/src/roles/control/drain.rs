//! After the command: the relay process passes on what is left, and ends.
//!
//! A reader that is slow, or stopped, only delays the end, unless somebody asks for it. What the relay
//! process says is heard meanwhile: it waits for room to say it.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::Signal;
use rustix::time::Timespec;
use surmise_kept::Link;
use surmise_sys::process::Child;

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

/// Returns when the relay process has ended and all that it said was given to `hear`; pid 1 has ended
/// before. `asked`: whether a signal has asked for the end.
pub(super) fn finish(
    relay: &Child,
    link: &Link,
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
        let at = match urgency {
            Urgency::None => None,
            Urgency::GiveUpAt(at) | Urgency::KillAt(at) => Some(at),
        };
        let rest = at.map(|at| at.saturating_duration_since(Instant::now()));
        let limit = rest.map(|rest| Timespec::try_from(rest).expect("a short wait"));
        let (relay_fd, signal_fd, link_fd) = (relay.as_fd(), signals.as_fd(), link.as_fd());
        let mut events = vec![
            PollFd::new(&relay_fd, PollFlags::IN),
            PollFd::new(&signal_fd, PollFlags::IN),
        ];
        // Its end would be ready for ever.
        events.extend((!silent).then(|| PollFd::new(&link_fd, PollFlags::IN)));
        let timed_out = match rustix::event::poll(&mut events, limit.as_ref()) {
            Ok(ready) => ready == 0,
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
        };
        if !events[0].revents().is_empty() {
            while let Some(report) = link.receive()? {
                hear(report);
            }
            return Ok(());
        }
        if events.get(2).is_some_and(|link| !link.revents().is_empty()) {
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
            urgency = match urgency {
                Urgency::None | Urgency::GiveUpAt(_) => {
                    let _ = link.send(&RelayOrder::Abandon);
                    Urgency::KillAt(Instant::now() + OBEYING_MAX)
                }
                Urgency::KillAt(at) => {
                    // Fails only if it has ended.
                    let _ = relay.signal(Signal::KILL);
                    Urgency::KillAt(at + OBEYING_MAX)
                }
            };
        }
    }
}
