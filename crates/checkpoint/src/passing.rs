//! Threads that come to the boundary of a call, each for a moment.

use std::io;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use surmise_linux::proc::is_gone;
use surmise_sys::ptrace::{self, News, Stop, Stopped};

use crate::process::is_own_tracee;

/// What came of having threads come to the boundaries of their calls.
#[derive(Debug, Default)]
pub struct Passed {
    /// Whether each of them has: whatever call it was in before is over, or will be made again.
    pub all: bool,
    /// Tracees that have stopped to take a signal instead. They stay so until somebody lets them.
    pub at_signal: Vec<Stopped>,
    /// Tracees that are no more.
    pub ended: Vec<Pid>,
}

/// Has each of some threads come to the boundary of a call within `patience`, and go on at once as if nothing had been. `waits`
/// tells whether a thread waits for the answer to a call by now, which has not happened either.
///
/// A thread that does not come in time stops later, and is then one that was asked to stop.
///
/// # Errors
/// As ptrace, but for threads that have ended.
pub fn pass_boundaries(
    threads: &[Pid],
    patience: Duration,
    mut waits: impl FnMut(Pid) -> io::Result<bool>,
) -> io::Result<Passed> {
    /// For how long a wait is not worth giving the processor up.
    const AT_ONCE: Duration = Duration::from_micros(40);
    let mut passed = Passed::default();
    let mut coming = Vec::new();
    for &thread in threads {
        coming.extend(Coming::begin(thread)?);
    }
    let begun = Instant::now();
    loop {
        let mut still = Vec::new();
        for one in coming {
            if !one.has_passed(&mut passed)? && !waits(one.thread)? {
                still.push(one);
            }
        }
        coming = still;
        let waited = begun.elapsed();
        if coming.is_empty() {
            passed.all = true;
            return Ok(passed);
        }
        if waited >= patience {
            return Ok(passed);
        }
        match waited < AT_ONCE {
            true => std::hint::spin_loop(),
            false => std::thread::yield_now(),
        }
    }
}

/// A thread that was asked to stop.
struct Coming {
    thread: Pid,
    /// Whether it was a tracee before.
    was_traced: bool,
}

impl Coming {
    /// `None`: it has ended.
    fn begin(thread: Pid) -> io::Result<Option<Self>> {
        let was_traced = match ptrace::seize(thread) {
            Ok(()) => false,
            Err(error) if is_gone(&error) => return Ok(None),
            Err(_) if is_own_tracee(thread) => true,
            Err(error) => return Err(error),
        };
        match ptrace::interrupt(thread) {
            Err(error) if is_gone(&error) => Ok(None),
            asked => asked.map(|()| Some(Self { thread, was_traced })),
        }
    }

    fn has_passed(&self, passed: &mut Passed) -> io::Result<bool> {
        let stopped = match ptrace::poll(self.thread) {
            Err(error) if is_gone(&error) => return Ok(true),
            polled => match polled? {
                None => return Ok(false),
                Some(News::Ended(thread)) => {
                    passed.ended.push(thread);
                    return Ok(true);
                }
                Some(News::Stopped(stopped, Stop::Signal(_))) if self.was_traced => {
                    passed.at_signal.push(stopped);
                    return Ok(true);
                }
                Some(News::Stopped(stopped, stop)) => (stopped, stop),
            },
        };
        match self.go_on(stopped) {
            Err(error) if !is_gone(&error) => Err(error),
            _ => Ok(true),
        }
    }

    fn go_on(&self, (stopped, stop): (Stopped, Stop)) -> io::Result<()> {
        match stop {
            Stop::Signal(_) => {
                let signal = stopped.signal()?;
                stopped.detach_with(&signal)
            }
            Stop::Group(_) if self.was_traced => stopped.stay_stopped(),
            _ => {
                if let Some(registers) = stopped.registers()?.undisturbed_if_changed() {
                    stopped.set_registers(&registers)?;
                }
                match self.was_traced {
                    true => stopped.go_on(),
                    false => stopped.detach(),
                }
            }
        }
    }
}
