//! A process whose threads its supervisor stops, copies, restores and lets go on.

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags};
use rustix::time::Timespec;
use surmise_linux::proc::{self, Status, Task, is_gone};
use surmise_sys::ptrace::{self, SignalInfo, Stopped};
use surmise_sys::vdso;

use crate::birth::Borne;
use crate::error::{CheckpointError, taking};
use crate::gate::{Gate, PendingCall};
use crate::halted::Halted;
use crate::held::{Departure, Held, Stopping, restore_order};
use crate::threads::Threads;
use crate::vessel::{Children, Vessel};

/// How long a process that was killed may take to be seen to have ended.
const ENDING: Duration = Duration::from_secs(2);

/// The instruction of a process that may not be looked into.
pub(crate) const UNKNOWN: u64 = 0;

pub(crate) fn check_known(instruction: u64) -> io::Result<()> {
    match instruction {
        UNKNOWN => Err(io::ErrorKind::PermissionDenied.into()),
        _ => Ok(()),
    }
}

/// A process of whose threads some may be tracees of this one.
#[derive(Debug)]
pub struct Process {
    pub(crate) pid: Pid,
    pub(crate) pidfd: OwnedFd,
    pub(crate) traced: HashSet<Pid>,
    /// Its number as it sees that itself, which it keeps for life; asked for when it is first needed.
    pub(crate) inner: Option<u64>,
    /// Where its threads make calls for the supervisor; looked up when it is first needed.
    instruction: Option<u64>,
    threads: Threads,
    pub(crate) children: Children,
    /// How many vessels it has made.
    pub(crate) vessels: u64,
    /// Vessels that were killed, and not reaped by the process.
    pub(crate) killed: Vec<Vessel>,
    /// The processes that it has borne.
    pub(crate) borne: Vec<Borne>,
    /// It may have executed a program since it has made vessels: to the kernel their parent is another one.
    pub(crate) has_executed: bool,
}

impl Process {
    /// A process that is not traced.
    ///
    /// # Errors
    /// As `pidfd_open`.
    pub fn new(pid: Pid) -> io::Result<Self> {
        let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
        Ok(Self {
            pid,
            pidfd,
            traced: HashSet::new(),
            inner: None,
            instruction: None,
            threads: Threads::of(pid),
            children: Children::default(),
            vessels: 0,
            killed: Vec::new(),
            borne: Vec::new(),
            has_executed: false,
        })
    }

    /// Its number, as the supervisor sees it.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Whether a thread is one of its threads that are traced.
    pub fn traces(&self, thread: Pid) -> bool {
        self.traced.contains(&thread)
    }

    /// Whether a thread is one of its threads.
    pub fn has(&self, thread: Pid) -> bool {
        let (process, thread) = (self.pid.as_raw_nonzero(), thread.as_raw_nonzero());
        std::fs::exists(format!("/proc/{process}/task/{thread}")).unwrap_or(false)
    }

    /// Whether it executes nothing any more. Its first thread is the last to end of those that are seen to
    /// live, unless it has ended by itself: a process that has lost it gets no image.
    pub fn has_ended(&self) -> bool {
        let now = Timespec::default();
        let mut events = [PollFd::new(&self.pidfd, PollFlags::IN)];
        rustix::event::poll(&mut events, Some(&now)).is_ok_and(|ready| ready > 0)
            || is_zombie(self.pid, self.pid)
    }

    /// Whether the process has ended, which explains an error of a call on it. A process that was killed ceases to be a tracee
    /// before it is seen to have ended, so this may wait for that.
    pub fn has_ended_by(&self, error: &io::Error) -> bool {
        self.has_ended() || is_gone(error) && self.ends_soon()
    }

    /// Whether it is seen to have ended before long.
    pub(crate) fn ends_soon(&self) -> bool {
        const PAUSE: Duration = Duration::from_millis(1);
        let deadline = Instant::now() + ENDING;
        while !self.has_ended() {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(PAUSE);
        }
        true
    }

    /// Whether any of its threads is traced.
    pub fn is_traced(&self) -> bool {
        !self.traced.is_empty()
    }

    /// It is about to execute a program: where its threads make calls for the supervisor is to be looked up anew.
    pub fn executes(&mut self) {
        self.instruction = None;
        self.has_executed = true;
    }

    /// It is its parent's copy, whose threads make calls there.
    pub(crate) fn is_copy(&mut self, instruction: u64) {
        self.instruction = Some(instruction);
    }

    /// It executes what it executed when it had that instruction.
    pub(crate) fn executes_again(&mut self, instruction: u64) {
        self.instruction = Some(instruction);
    }

    /// A thread was born a tracee.
    pub fn born(&mut self, thread: Pid) {
        self.traced.insert(thread);
    }

    /// A thread has ended.
    pub fn ended(&mut self, thread: Pid) {
        self.traced.remove(&thread);
    }

    /// Stops all its threads. `pending` are the calls of them that were received and not answered, at most
    /// one of each thread, which would not stop in another. They will be made again, unless
    /// [`Halted::go_on`] answers one. `at_signal` are threads that have stopped to take a signal. Each thread
    /// may take `patience` to come to a call boundary.
    ///
    /// # Errors
    /// [`CheckpointError`]: all threads go on. Those of the pending calls that were not yet answered still
    /// wait for their answers.
    pub fn halt<'a>(
        &'a mut self,
        pending: &[PendingCall],
        at_signal: Vec<Stopped>,
        patience: Duration,
        gate: &mut dyn Gate,
    ) -> Result<Halted<'a>, CheckpointError> {
        self.halt_by(pending, at_signal, (patience, &mut || Ok(())), gate)
    }

    /// As [`Self::halt`]. `give_way` is called whenever threads have been asked to stop, and has what else keeps them from that
    /// let them go: they stop before they see how their calls ended.
    ///
    /// # Errors
    /// As [`Self::halt`].
    pub fn halt_by<'a>(
        &'a mut self,
        pending: &[PendingCall],
        at_signal: Vec<Stopped>,
        by: (Duration, GiveWay<'_>),
        gate: &mut dyn Gate,
    ) -> Result<Halted<'a>, CheckpointError> {
        let was_traced = self.is_traced();
        let mut held = Vec::new();
        let taken = at_signal.into_iter().try_for_each(|stopped| {
            held.extend(Stopping::at_signal(stopped)?.finish()?);
            Ok(())
        });
        let stopped = taken.and_then(|()| self.stop_all(pending, &mut held, by, gate));
        let stopped = stopped.and_then(|instruction| {
            let restored = restore_order(&mut held, true, instruction);
            restored.map_err(taking("put signals in order"))?;
            for thread in &mut held {
                thread.find_unbegun(gate);
            }
            Ok(instruction)
        });
        match stopped {
            Ok(instruction) => Ok(Halted {
                process: self,
                threads: held,
                instruction,
            }),
            Err(error) => {
                let instruction = self.find_instruction().ok();
                if let Some(instruction) = instruction {
                    // Fails only for threads that were killed, as all that follows.
                    let _ = restore_order(&mut held, false, instruction);
                }
                for thread in held {
                    undisturbed(thread, was_traced, instruction.unwrap_or(0));
                }
                if !was_traced {
                    self.traced.clear();
                }
                let has_ended = match error.source() {
                    Some(source) => self.has_ended_by(source),
                    None => self.has_ended(),
                };
                match has_ended {
                    // Whatever failed first.
                    true => Err(CheckpointError::Ended { process: self.pid }),
                    false => Err(error),
                }
            }
        }
    }

    fn stop_all(
        &mut self,
        pending: &[PendingCall],
        held: &mut Vec<Held>,
        (patience, give_way): (Duration, GiveWay<'_>),
        gate: &mut dyn Gate,
    ) -> Result<u64, CheckpointError> {
        // A thread that is stopped bears no others, so every look finds fewer that are new.
        loop {
            let threads = match self.threads.beside(held.len()) {
                Err(error) if is_gone(&error) => {
                    return Err(CheckpointError::Ended { process: self.pid });
                }
                threads => threads.map_err(taking("list threads"))?,
            };
            let new: Vec<Pid> = threads
                .into_iter()
                .filter(|thread| !held.iter().any(|held| held.thread() == *thread))
                .collect();
            let before = held.len();
            self.stop_each(&new, pending, held, (patience, give_way), gate)?;
            let found = held.len() - before;
            // Threads that all waited for an answer since before the look have made no others.
            let none_ran = found == new.len() && held.iter().all(Held::was_notifying);
            if found == 0 || none_ran {
                break;
            }
        }
        match &mut held[..] {
            [] => return Err(CheckpointError::Ended { process: self.pid }),
            [only] if self.threads.beside(1).is_ok_and(|others| others.is_empty()) => {
                only.is_seen_alone();
            }
            _ => {}
        }
        self.find_instruction().map_err(taking("find the vDSO"))
    }

    fn find_instruction(&mut self) -> io::Result<u64> {
        match self.instruction {
            Some(instruction) => Ok(instruction),
            None => match vdso::instruction(self.pid) {
                // It executes a program that its user may not read: it is let go, and makes no call for the supervisor.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(UNKNOWN),
                found => {
                    let found = found?;
                    self.instruction = Some(found);
                    Ok(found)
                }
            },
        }
    }

    /// Stops these threads, at the same time. After an error those that were asked to stop and do so are
    /// among `held` all the same.
    fn stop_each(
        &mut self,
        threads: &[Pid],
        pending: &[PendingCall],
        held: &mut Vec<Held>,
        (patience, give_way): (Duration, GiveWay<'_>),
        gate: &mut dyn Gate,
    ) -> Result<(), CheckpointError> {
        let mut begun = Vec::new();
        let mut outcome = Ok(());
        let are_alone = held.is_empty() && threads.len() == 1;
        for &thread in threads {
            let received = pending.iter().find(|call| call.thread == thread).copied();
            let stopping = self.trace(thread).and_then(|is_tracee| match is_tracee {
                true => {
                    let stopping = Stopping::begin((thread, are_alone), received, patience, gate);
                    stopping.map(Some)
                }
                false => Ok(None),
            });
            match stopping {
                Ok(stopping) => begun.extend(stopping),
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        // Nothing else keeps a thread from its stop that waited for an answer, and that now has one.
        if begun.iter().any(Stopping::may_be_elsewhere) {
            let gave_way = give_way().map_err(taking("have calls give way"));
            outcome = outcome.and(gave_way);
        }
        for stopping in begun {
            let thread = stopping.thread();
            match stopping.finish() {
                Ok(Some(stopped)) => held.push(stopped),
                Ok(None) => {
                    self.traced.remove(&thread);
                }
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        outcome
    }

    /// Traces a thread, if it is not traced yet. False: it executes nothing any more.
    fn trace(&mut self, thread: Pid) -> Result<bool, CheckpointError> {
        if self.traced.contains(&thread) {
            return Ok(true);
        }
        match ptrace::seize(thread) {
            Ok(()) => {}
            Err(error) if is_gone(&error) => return Ok(false),
            // It was born a tracee, and nobody has said so yet.
            Err(_) if is_own_tracee(thread) => {}
            Err(_) if is_zombie(self.pid, thread) => return Ok(false),
            Err(source) => return Err(CheckpointError::Untraceable { thread, source }),
        }
        self.traced.insert(thread);
        Ok(true)
    }
}

/// Lets a thread go on as if it had not been stopped.
fn undisturbed(thread: Held, traced: bool, instruction: u64) {
    let departure = Departure {
        registers: thread.registers_undisturbed(),
        extended: None,
        mask: thread.mask(),
        traced,
    };
    // Fails only for a thread that was killed.
    let _ = thread.release(&departure, instruction);
}

/// Has threads let go that wait for something else than the supervisor.
pub type GiveWay<'a> = &'a mut dyn FnMut() -> io::Result<()>;

impl Process {
    /// Kills a vessel; it stays a zombie of the process for a while.
    pub(crate) fn retire(&mut self, vessel: Vessel) -> io::Result<()> {
        let killed = vessel.kill();
        self.killed.push(vessel);
        killed
    }

    /// The vessels that were killed and that it has not reaped: until it does, their numbers are nobody else's. None once it may have
    /// executed a program: then the kernel may have reaped them, where the process does not wait for its children.
    pub fn discarded(&self) -> impl Iterator<Item = Pid> {
        let killed = self.killed.iter().filter(|_| !self.has_executed);
        killed.map(Vessel::process)
    }

    /// Whether a signal tells the process of the end of a vessel.
    ///
    /// A vessel tells nobody of its end, unless its parent has executed a program since: the kernel lets nobody choose by which
    /// signal another program is told.
    pub fn is_of_vessel(&self, signal: &SignalInfo) -> bool {
        let child = signal.child().and_then(|child| u64::try_from(child).ok());
        self.has_executed
            && child.is_some_and(|child| self.killed.iter().any(|vessel| vessel.inner() == child))
    }

    /// Returns when no vessel has anything open or mapped any more whose image was discarded.
    ///
    /// # Errors
    /// As waiting for a tracee.
    pub fn await_discarded(&self) -> io::Result<()> {
        self.killed.iter().try_for_each(Vessel::await_end)
    }

    /// Returns when no vessel that was killed and is newer than this one maps a page any more.
    pub(crate) fn await_killed(&self, vessel: &Vessel) -> io::Result<()> {
        let newer = |killed: &&Vessel| killed.order() > vessel.order();
        self.killed
            .iter()
            .filter(newer)
            .try_for_each(Vessel::await_end)
    }
}

/// Whether a thread executes nothing any more; not so in doubt.
pub(crate) fn is_zombie(process: Pid, thread: Pid) -> bool {
    match proc::state(Task { process, thread }) {
        Ok(state) => matches!(state, Some('Z' | 'X')),
        Err(error) => is_gone(&error),
    }
}

pub(crate) fn is_own_tracee(thread: Pid) -> bool {
    let tracer = Status::of(thread).ok().and_then(|status| status.tracer());
    tracer == Some(rustix::process::getpid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_of_any_name_is_alive() {
        let own = rustix::process::getpid();
        let named = std::thread::spawn(move || {
            let thread = rustix::thread::gettid();
            [c"\xff) Z", c") X (", c""].map(|name| {
                rustix::thread::set_name(name).expect("set a name");
                is_zombie(own, thread)
            })
        });
        assert_eq!(named.join().expect("end"), [false; 3]);
    }

    #[test]
    fn what_is_not_there_executes_nothing() {
        let own = rustix::process::getpid();
        let none = Pid::from_raw(i32::MAX).expect("a number");
        assert!(is_zombie(none, none) && is_zombie(own, none));
    }
}
