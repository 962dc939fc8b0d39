//! The kernel, as the supervisor's core sees it.

mod channels;
mod claims;
mod conduit;
mod connection;
mod connections;
mod door;
mod ends;
mod executing;
mod family;
mod fifo;
mod fifos;
mod handlers;
mod holders;
mod input;
mod kernel;
mod kinds;
mod last_closes;
mod lending;
pub(crate) mod meeting;
mod message;
mod open_ends;
mod output;
mod parting;
mod passing;
mod pipe;
mod positions;
mod process;
mod reach;
mod readiness;
mod removing;
mod seen;
mod sending;
mod signals;
mod sizes;
pub(crate) mod task;
mod zombies;

use std::cell::Cell;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::CapabilitySet;
use surmise_checkpoint::{
    Checkpoint, Gate, Had, Passed, Traced, can_undo_executions, is_vessel, pass_boundaries,
};
use surmise_refusals::Observer;
use surmise_sys::ptrace::Stopped;
use surmise_sys::seccomp::Listener;

use crate::call::Call;
use crate::member::Member;
use crate::objects::input::{Look, Place};
use crate::source::REST;

use channels::Channels;
use claims::Written;
use connections::Connections;
pub(crate) use door::Door;
use family::Sleepers;
use handlers::Handlers;
use holders::Holders;
use input::calls::{self, Reach};
use input::readers::Readers;
use kinds::Kinds;
use parting::Partings;
use seen::Seen;
use sizes::Held;
pub use sizes::Inside;
use task::Reached;

/// How long a thread may take to come past the call that it is in: another one waits for that.
const PASSING: Duration = Duration::from_millis(10);
/// Images may come to take so much of the machine's memory at most, should all pages be written to.
const MEMORY_SHARE: u64 = 4;

/// What the kernel tells, and does, by the listener, ptrace and /proc.
#[derive(Debug)]
pub(crate) struct Machine {
    door: Door,
    /// Answers calls that are refused; without it the filter does.
    observer: Option<Observer>,
    /// What is learnt for guesses; nothing in a domain without any.
    learnt: Option<Learnt>,
    /// What was heard of tracees while they were made to come past a call, and nobody was told yet.
    passed: Passed,
    /// The thread whose process was asked for last, and that process. It holds until the next call: the thread may have
    /// ended by then, and its number be another's.
    caller: Cell<Option<(Pid, Option<Pid>)>>,
    partings: Partings,
    handlers: Handlers,
    held: Held,
}

/// What was learnt of a domain in which tasks may be given guesses.
#[derive(Debug, Default)]
struct Learnt {
    /// Whether a program that a tracee executes gets the rights that it would get untraced.
    keeps_rights: bool,
    /// Whether on this machine a rollback can undo that a process executes a program.
    can_undo_executions: bool,
    /// Whether no process reaches a Unix socket of one outside, but by what the command was given.
    sockets_stay_inside: bool,
    /// The command's streams, once its process was met.
    channels: Option<Channels>,
    seen: Seen,
    readers: Readers,
    sleepers: Sleepers,
    holders: Holders,
    kinds: Kinds,
    written: Written,
    connections: Connections,
}

impl Learnt {
    /// A call is about to happen, or to be guessed.
    fn hear(&mut self, call: &Call) -> io::Result<()> {
        let (thread, name, arguments) = (call.thread(), call.name(), call.arguments());
        if self.channels.is_none() {
            self.channels = Some(Channels::of(thread)?);
            self.seen.begin(thread)?;
        }
        self.seen.look(thread, name, arguments)?;
        self.look_at_passing(thread, name, arguments)?;
        if meeting::may_reap_children(call) {
            self.seen.note_reaping();
        }
        self.sleepers.heard(call);
        self.readers.heard(thread, name, arguments);
        Ok(())
    }

    /// Where something is that a descriptor leads to. Both sockets of a connection are at one place. `None` for a file of the view
    /// that is no FIFO.
    fn place(&self, reached: &Reached) -> io::Result<Option<Place>> {
        match (&reached.stat, fifo::inode(reached, &self.seen)?) {
            (_, Some(inode)) => Ok(Some(fifo::place(inode))),
            (Some(stat), None) => self.connections.place(&reached.file, stat).map(Some),
            (None, None) => Ok(None),
        }
    }
}

/// Where something is whose attributes this program may see.
fn plain_place(reached: &Reached) -> io::Result<Option<Place>> {
    Ok(reached.stat.as_ref().map(Place::of))
}

impl Machine {
    /// `guesses`: whether tasks may be given guesses.
    pub(crate) fn new(
        listener: Listener,
        (observer, diagnostics): (Option<Observer>, Option<OwnedFd>),
        guesses: bool,
    ) -> Self {
        Self {
            door: Door::new(listener),
            observer,
            learnt: guesses.then(|| Learnt {
                keeps_rights: keeps_rights(),
                can_undo_executions: can_undo_executions(),
                connections: Connections::new(diagnostics),
                ..Learnt::default()
            }),
            passed: Passed::default(),
            caller: Cell::new(None),
            partings: Partings::default(),
            handlers: Handlers::default(),
            held: Held::default(),
        }
    }

    /// Has a process inside the domain look at files.
    pub(crate) fn looking_by(mut self, inside: Option<Box<dyn Inside>>) -> Self {
        self.held.inside = inside;
        self
    }

    /// Unless `sockets_stay_inside`, processes may reach Unix sockets of others outside.
    pub(crate) fn meeting_outside_unless(mut self, sockets_stay_inside: bool) -> Self {
        if let Some(learnt) = &mut self.learnt {
            learnt.sockets_stay_inside = sockets_stay_inside;
        }
        self
    }

    /// What to poll for calls; nothing once no thread can call any more.
    pub(crate) fn listener(&self) -> Option<BorrowedFd<'_>> {
        self.door.source()
    }

    /// The listener, to receive calls.
    pub(crate) fn door(&mut self) -> &mut Door {
        &mut self.door
    }

    /// Lets a tracee go that is no member's: it was stopped for one that has been decided since. Or it is the vessel
    /// of a process that was killed while it made it. One that has to take a signal first stays traced.
    pub(crate) fn let_go(&mut self, stopped: Stopped) -> io::Result<()> {
        if is_vessel(&stopped)? {
            return Ok(kill_process(stopped.thread(), Signal::KILL)?);
        }
        if let Some(registers) = stopped.registers()?.undisturbed_if_changed() {
            stopped.set_registers(&registers)?;
        }
        match self.stays_tracee(stopped.thread()) {
            true => stopped.go_on(),
            false => stopped.detach(),
        }
    }

    /// Whether a tracee that is no member's has to stay traced.
    fn stays_tracee(&mut self, thread: Pid) -> bool {
        self.partings.await_others(thread) || self.handlers.keep_tracee(thread)
    }

    /// How a process goes on that would be let go.
    fn stays(&mut self, process: Pid) -> Traced {
        match self.partings.await_others(process) || self.handlers.keep(process) {
            true => Traced::ForSignal,
            false => Traced::NoMore,
        }
    }

    /// A tracee that is no member's is stopped as its job is: it stays so.
    pub(crate) fn leave_stopped(&mut self, stopped: Stopped) -> io::Result<()> {
        match self.stays_tracee(stopped.thread()) {
            true => stopped.stay_stopped(),
            false => stopped.detach(),
        }
    }

    /// A tracee has executed a program, so that it has no handlers any more.
    pub(crate) fn executed(&mut self, thread: Pid) {
        self.handlers.forget(thread);
    }

    /// A thread is no more.
    pub(crate) fn forget(&mut self, thread: Pid) {
        self.handlers.forget(thread);
    }

    /// Lets go who is traced though it depends on nothing undecided, until it is to go on, or for a while. True when that is done.
    pub(crate) fn rest(&mut self) -> io::Result<bool> {
        self.handlers.rest(REST)
    }

    /// Traces again who was let go.
    pub(crate) fn go_on(&mut self) -> io::Result<()> {
        self.handlers.go_on()
    }

    /// A process is about to end.
    fn part(&mut self, process: Pid) -> io::Result<()> {
        match &self.learnt {
            // A tracee that executes a program might lose rights.
            Some(Learnt {
                seen,
                keeps_rights: true,
                ..
            }) => {
                let begun = self
                    .partings
                    .begin(process, |parent| seen.is_parent(parent));
                unless_out_of_reach(begun, ())
            }
            _ => Ok(()),
        }
    }

    /// What of the caller's a call reaches. `place`: where something is that a descriptor leads to.
    fn reached(
        process: Option<Pid>,
        call: &Call,
        reach: Reach,
        place: impl Fn(&Reached) -> io::Result<Option<Place>>,
    ) -> Look {
        let is_read = calls::may_be_given(call.name());
        let place = match (reach, process) {
            (Reach::Nothing, _) => return Look::Nothing,
            (Reach::Descriptor(number), Some(process)) => {
                let reached = task::reached(process, number);
                match reached.and_then(|reached| reached.map_or(Ok(None), |found| place(&found))) {
                    Ok(None) => return Look::Nothing,
                    Ok(place) => place,
                    // It may be anything where that is not known.
                    Err(_) => None,
                }
            }
            (Reach::Descriptor(_) | Reach::Anything, _) => None,
        };
        match place {
            Some(place) => Look::At { place, is_read },
            None => Look::Anywhere { is_read },
        }
    }
}

/// What images tell of an open file of their process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owned {
    /// Others may have it.
    Unknown,
    /// Nobody else has it. Images may have to know before its position moves.
    ToNote,
    /// Nobody else has it, and no image has to know any more when its position moves.
    AsNoted,
}

impl Member<Machine> {
    /// What is known of the open file that the process has by this number. `passes`: whether descriptors may have been passed from one
    /// process to another.
    pub(crate) fn owns(&self, number: RawFd, passes: bool) -> Owned {
        if !self.shares_only_what_it_had() {
            return Owned::Unknown;
        }
        let had = |image: &Checkpoint| image.had(self.pid(), number).ok();
        if passes {
            return match self.images().all(|image| had(image) == Some(Had::No)) {
                true => Owned::ToNote,
                false => Owned::Unknown,
            };
        }
        let mut images = self.whole_images();
        let is_own = |had: Had| match had {
            // It has opened the file since, and had it at no older image.
            Had::No => true,
            // When a move was noted, only this process had the file. It has borne nobody since, and so others have the file only if a
            // rollback has given it back to one that had closed it.
            Had::Moved => !self.has_met_rollback(),
            Had::Unmoved => false,
        };
        match images.next_back().and_then(had) {
            Some(had) if is_own(had) => Owned::AsNoted,
            Some(_) if images.next().and_then(had).is_some_and(is_own) => Owned::ToNote,
            _ => Owned::Unknown,
        }
    }

    /// Whether this is one of its vessels.
    pub(crate) fn has_vessel(&self, process: Pid) -> bool {
        self.images().any(|image| image.vessel() == process)
    }
}

/// Whether the kernel gives a tracee of this process the rights of a set-user-id program: its tracer needs a capability for
/// that. A tracer without any is an ordinary user's, in whose domains programs get no rights, traced or not.
fn keeps_rights() -> bool {
    let own = rustix::thread::capabilities(None).map(|sets| sets.effective);
    own.is_ok_and(|own| own.is_empty() || own.contains(CapabilitySet::SYS_PTRACE))
}

/// Has threads come past the calls that they are in. What is heard of tracees meanwhile is kept in `passed`. `waits`: whether a
/// thread is known to wait for the answer to a call.
fn pass(
    door: &mut Door,
    passed: &mut Passed,
    threads: &[Pid],
    waits: impl Fn(Pid) -> bool,
) -> io::Result<bool> {
    let told = pass_boundaries(threads, PASSING, |thread| {
        door.gather()?;
        Ok(waits(thread) || door.has_waiting(thread))
    })?;
    passed.at_signal.extend(told.at_signal);
    passed.ended.extend(told.ended);
    Ok(told.all)
}

/// A thread that is about to take a signal may have waited for its call to be received. Such a call would fail with `EINTR` though
/// no program expects that: it begins again after the signal's handler.
fn spare_call(stopped: &Stopped, door: &mut Door) -> io::Result<()> {
    let registers = stopped.registers()?;
    let again = match door.has_stopped(stopped.thread(), &registers) {
        true => registers.undisturbed_if_changed(),
        false => registers.beginning_again(),
    };
    match again {
        Some(registers) => stopped.set_registers(&registers),
        None => Ok(()),
    }
}

/// What has ended does nothing.
fn unless_gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if task::is_gone(&error) => Ok(()),
        result => result,
    }
}

/// What is not known may be anything.
fn unless_out_of_reach<T>(result: io::Result<T>, otherwise: T) -> io::Result<T> {
    match result {
        Err(error) if task::is_out_of_reach(&error) => Ok(otherwise),
        result => result,
    }
}

/// Whether images take no more of a memory than they may: of each process how many, and how large it is.
fn fit(images: impl Iterator<Item = (u64, u64)>, memory: u64) -> bool {
    let sizes = images.map(|(images, resident)| images.saturating_mul(resident));
    sizes.fold(0, u64::saturating_add) <= memory / MEMORY_SHARE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_take_a_quarter_of_the_memory_at_most() {
        let fits = |images: &[(u64, u64)]| fit(images.iter().copied(), 400);
        assert!(fits(&[]));
        assert!(fits(&[(8, 10), (1, 20)]));
        assert!(!fits(&[(8, 10), (1, 21)]));
        assert!(!fits(&[(1, 101)]));
        assert!(!fits(&[(2, u64::MAX), (1, 1)]));
        assert!(fits(&[(0, u64::MAX), (1, 1)]), "it has no image");
    }
}
