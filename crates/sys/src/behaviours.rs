//! What the kernel does beyond what its manual says, and checkpoint and rollback rely on: each behaviour
//! is tried with real processes.
//!
//! Each is tried in a process of its own, with which everything that it makes ends. `doctor` tells which
//! hold; the tests of this crate ask that all do.
//!
//! The numbers are those of the design's list of kernel behaviours. Nothing relies on 7 (`clone3` gives a
//! new thread the number of one that has ended) and 10 (the vDSO and restartable sequences stay right
//! since nothing is replayed), so they are not tried. Those from 11 on were met since.

mod calls;
mod memory;
mod notifications;
mod task;
mod vessels;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, Signal, WaitOptions};
use rustix::time::Timespec;

use crate::process::{self, Child};
use crate::signals;

/// How long all of them together may take where somebody waits: a hundred times what they need.
pub const LIMIT: Duration = Duration::from_secs(2);

/// Below the size that a pipe takes in one piece.
const MESSAGE_SIZE: usize = 512;

/// Something that the kernel does.
#[derive(Clone, Copy, Debug)]
pub struct Behaviour {
    /// Names it for good.
    pub number: u8,
    /// What the kernel does, as a short sentence.
    pub name: &'static str,
    /// What relies on it.
    pub purpose: &'static str,
    /// Tries it. Runs in a process of its own, of one thread, whose children it ends.
    pub probe: fn() -> Result<(), Deviation>,
}

/// Why a behaviour cannot be relied on.
#[derive(Debug, thiserror::Error)]
pub enum Deviation {
    /// The kernel does something else: what was seen.
    #[error("{0}")]
    Differs(String),
    /// It could not be tried.
    #[error("cannot be tried: {0}")]
    Unavailable(#[from] io::Error),
}

impl From<Errno> for Deviation {
    fn from(errno: Errno) -> Self {
        Self::Unavailable(errno.into())
    }
}

/// All that is relied on, by number.
pub const BEHAVIOURS: &[Behaviour] = &[
    Behaviour {
        number: 1,
        name: "a received call is answered before its thread stops",
        purpose: "stopping a thread whose call waits",
        probe: notifications::stop_follows_the_answer,
    },
    Behaviour {
        number: 2,
        name: "no answer is lost among signals",
        purpose: "guessed and emulated answers",
        probe: notifications::answers_survive_signals,
    },
    Behaviour {
        number: 3,
        name: "a vessel is born traced and stopped, and its maker is not told",
        purpose: "checkpoints",
        probe: vessels::birth_is_quiet,
    },
    Behaviour {
        number: 4,
        name: "one step by the vDSO's instruction is one call",
        purpose: "calls that a stopped thread makes",
        probe: calls::one_step_is_one_call,
    },
    Behaviour {
        number: 5,
        name: "blocked signals wait while a stopped thread makes calls",
        purpose: "signals that come during a checkpoint",
        probe: calls::blocked_signals_wait,
    },
    Behaviour {
        number: 6,
        name: "an interrupted epoll_wait begins again",
        purpose: "stopping a thread that sleeps",
        probe: calls::interrupted_wait_begins_again,
    },
    Behaviour {
        number: 8,
        name: "a descriptor is replaced while a call waits for its answer",
        purpose: "rollback of descriptors",
        probe: notifications::descriptor_is_replaced,
    },
    Behaviour {
        number: 9,
        name: "pages tell whether they were written since a vessel's birth",
        purpose: "rollback of memory",
        probe: memory::written_pages_are_told,
    },
    Behaviour {
        number: 11,
        name: "processes tell what they share (kcmp)",
        purpose: "rollback of descriptors; vfork",
        probe: memory::shared_things_are_told,
    },
    Behaviour {
        number: 12,
        name: "a stopped thread tells its restartable sequences",
        purpose: "rollback of threads",
        probe: calls::restartable_sequences_are_told,
    },
    Behaviour {
        number: 13,
        name: "the newest child is listed last",
        purpose: "finding a new vessel",
        probe: vessels::newest_child_is_listed_last,
    },
    Behaviour {
        number: 14,
        name: "a signal that is refused waits again where it came from",
        purpose: "signals that come before a checkpoint or a rollback",
        probe: calls::refused_signal_waits_again,
    },
    Behaviour {
        number: 15,
        name: "a tracer is told what a process and its children have used",
        purpose: "exits that are held",
        probe: calls::usage_is_told,
    },
    Behaviour {
        number: 16,
        name: "a call that waits for its answer can be interrupted by it",
        purpose: "signals that come to a thread whose call waits",
        probe: notifications::answer_interrupts,
    },
];

/// Tries behaviours, all at once, so that what hangs takes `limit` and no more. The outcomes are in the
/// same order.
///
/// # Panics
/// When this process has several threads, as [`process::fork`].
pub fn check(behaviours: &[Behaviour], limit: Duration) -> Vec<Result<(), Deviation>> {
    let deadline = Instant::now() + limit;
    let trials: Vec<_> = behaviours.iter().map(Trial::start).collect();
    let finish = |trial: io::Result<Trial>| trial?.finish(deadline);
    trials.into_iter().map(finish).collect()
}

/// The first one that does not hold, and what was seen in place of it; `None` where all do.
///
/// # Panics
/// As [`check`].
pub fn missing(limit: Duration) -> Option<(&'static Behaviour, Deviation)> {
    let outcomes = BEHAVIOURS.iter().zip(check(BEHAVIOURS, limit));
    let mut deviations =
        outcomes.filter_map(|(behaviour, outcome)| Some((behaviour, outcome.err()?)));
    deviations.next()
}

/// A behaviour that is being tried.
struct Trial {
    child: Child,
    report: OwnedFd,
}

impl Trial {
    fn start(behaviour: &Behaviour) -> io::Result<Self> {
        let (report, sender) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let caller = rustix::process::getpid();
        let child = process::fork(&[sender.as_fd()], || {
            let result = prepare(caller).map_err(Deviation::from);
            let result = result.and_then(|()| (behaviour.probe)());
            reap();
            // Fails only when nobody waits for it any more.
            let _ = rustix::io::write(&sender, &encode(&result));
            0
        })?;
        Ok(Self { child, report })
    }

    fn finish(self, deadline: Instant) -> Result<(), Deviation> {
        let told = await_readable(self.report.as_fd(), deadline)?;
        if !told {
            // What it traces and what it has made is killed with it.
            self.child.signal(Signal::KILL)?;
        }
        let status = self.child.wait()?;
        if !told {
            return Err(Deviation::Differs(
                "nothing happens where something should".to_owned(),
            ));
        }
        let mut message = [0; MESSAGE_SIZE];
        let length = rustix::io::retry_on_intr(|| rustix::io::read(&self.report, &mut message))?;
        decode(&message[..length]).unwrap_or_else(|| {
            let seen = match status.terminating_signal() {
                Some(signal) => format!("the trial ended by signal {signal}"),
                None => "the trial ended and told nothing".to_owned(),
            };
            Err(Deviation::Differs(seen))
        })
    }
}

fn await_readable(fd: BorrowedFd<'_>, deadline: Instant) -> io::Result<bool> {
    loop {
        let rest = deadline.saturating_duration_since(Instant::now());
        let rest = Timespec::try_from(rest).map_err(|_| io::ErrorKind::InvalidInput)?;
        match rustix::event::poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&rest)) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// The caller may have its own ways with signals, and a trial may not outlive it.
fn prepare(caller: Pid) -> io::Result<()> {
    task::end_with(caller)?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    for signal in [Signal::CHILD, Signal::USR1] {
        signals::reset(signal)?;
    }
    signals::unblock(&[Signal::CHILD, Signal::USR1])?;
    Ok(())
}

/// Ends what the trial has left, whose makers have ended, and waits for it: nobody else has to.
fn reap() {
    let all = WaitOptions::from_bits_retain(libc::__WALL.cast_unsigned());
    loop {
        // Fails on a kernel that behaves otherwise; then the caller waits no longer than it said.
        for child in vessels::children(rustix::process::getpid()).unwrap_or_default() {
            let _ = rustix::process::kill_process(child, Signal::KILL);
        }
        match rustix::process::wait(all) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

const HOLDS: u8 = b'h';
const DIFFERS: u8 = b'd';
const UNAVAILABLE: u8 = b'u';

fn encode(result: &Result<(), Deviation>) -> Vec<u8> {
    let text = |kind: u8, text: &str| {
        let length = text.len().min(MESSAGE_SIZE - 1);
        [&[kind], &text.as_bytes()[..length]].concat()
    };
    match result {
        Ok(()) => vec![HOLDS],
        Err(Deviation::Differs(seen)) => text(DIFFERS, seen),
        Err(Deviation::Unavailable(error)) => match error.raw_os_error() {
            Some(errno) => [&[UNAVAILABLE], &errno.to_ne_bytes()[..]].concat(),
            None => text(DIFFERS, &error.to_string()),
        },
    }
}

/// `None` for what [`encode`] does not write.
fn decode(message: &[u8]) -> Option<Result<(), Deviation>> {
    let (&kind, rest) = message.split_first()?;
    Some(match kind {
        HOLDS => Ok(()),
        DIFFERS => Err(Deviation::Differs(
            String::from_utf8_lossy(rest).into_owned(),
        )),
        UNAVAILABLE => {
            let errno = i32::from_ne_bytes(rest.try_into().ok()?);
            Err(io::Error::from_raw_os_error(errno).into())
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_trial_tells_is_heard() {
        let back = |result| decode(&encode(&result)).expect("a message");
        assert!(back(Ok(())).is_ok());
        let differs = back(Err(Deviation::Differs("x".repeat(2 * MESSAGE_SIZE))));
        let differs = differs.expect_err("differs").to_string();
        assert_eq!(differs, "x".repeat(MESSAGE_SIZE - 1));
        let unavailable = back(Err(Errno::PERM.into())).expect_err("unavailable");
        assert!(
            matches!(unavailable, Deviation::Unavailable(error) if error.raw_os_error() == Some(1))
        );
        assert!(decode(&[]).is_none());
        assert!(decode(&[UNAVAILABLE, 1]).is_none());
    }

    #[test]
    fn numbers_rise() {
        assert!(BEHAVIOURS.is_sorted_by(|one, next| one.number < next.number));
    }
}
