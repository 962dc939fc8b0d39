//! The kernel, as the supervisor's core sees it.

mod channels;
mod door;
mod input;
pub(crate) mod meeting;
mod output;
mod process;
mod seen;
pub(crate) mod task;

use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::CapabilitySet;
use surmise_checkpoint::{Change, Checkpoint, PendingCall, is_vessel};
use surmise_refusals::Observer;
use surmise_sys::ptrace::Stopped;
use surmise_sys::seccomp::{Answer, Listener};

use crate::call::Call;
use crate::meeting::{Meeting, Wanted};
use crate::member::Member;
use crate::objects::input::{Look, Peeked, Place};
use crate::source::Guess;
use crate::world::{Apart, Born, Imaged, Traced, World};

use channels::Channels;
pub(crate) use door::Door;
use input::calls::{self, Reach};
use input::readers::Readers;
use input::source::Source;
use meeting::Known;
pub(crate) use output::Output;
use process::Supervised;
use seen::Seen;

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
}

/// What was learnt of a domain in which tasks may be given guesses.
#[derive(Debug, Default)]
struct Learnt {
    /// Whether a program that a tracee executes gets the rights that it would get untraced.
    keeps_rights: bool,
    /// The command's streams, once its process was met.
    channels: Option<Channels>,
    seen: Seen,
    readers: Readers,
}

impl Machine {
    /// `guesses`: whether tasks may be given guesses.
    pub(crate) fn new(listener: Listener, observer: Option<Observer>, guesses: bool) -> Self {
        Self {
            door: Door::new(listener),
            observer,
            learnt: guesses.then(|| Learnt {
                keeps_rights: keeps_rights(),
                ..Learnt::default()
            }),
        }
    }

    /// What to poll for calls; nothing once no thread can call any more.
    pub(crate) fn listener(&self) -> Option<BorrowedFd<'_>> {
        self.door.source()
    }

    /// The listener, to receive calls.
    pub(crate) fn door(&mut self) -> &mut Door {
        &mut self.door
    }
}

impl Member<Machine> {
    /// Whether the process had an open file at its oldest image that it has by this number now.
    pub(crate) fn had(&self, number: RawFd) -> bool {
        self.images().any(|image| image.has(self.pid(), number))
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

/// Lets a tracee go that is no member's: it was stopped for one that has been decided since. Or it is the vessel
/// of a process that was killed while it made it.
pub(crate) fn let_go(stopped: Stopped) -> io::Result<()> {
    if is_vessel(&stopped)? {
        return Ok(kill_process(stopped.thread(), Signal::KILL)?);
    }
    stopped.detach()
}

/// What is not known may be anything.
fn unless_out_of_reach<T>(result: io::Result<T>, otherwise: T) -> io::Result<T> {
    match result {
        Err(error) if task::is_out_of_reach(&error) => Ok(otherwise),
        result => result,
    }
}

impl World for Machine {
    type Process = Supervised;
    type Image = Checkpoint;
    type Signal = Stopped;
    type Input = Source;
    type Output = Output;

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn heard(&mut self, call: &Call) -> io::Result<()> {
        let Some(learnt) = &mut self.learnt else {
            return Ok(());
        };
        if learnt.channels.is_none() {
            learnt.channels = Some(Channels::of(call.thread())?);
            learnt.seen.begin(call.thread())?;
        }
        learnt.seen.look(call.name(), call.arguments());
        learnt
            .readers
            .heard(call.thread(), call.name(), call.arguments());
        Ok(())
    }

    fn happens(&mut self, call: &Call) -> io::Result<()> {
        match &mut self.learnt {
            Some(learnt) => learnt
                .seen
                .note(call.thread(), call.name(), call.arguments()),
            None => Ok(()),
        }
    }

    fn refuses(&self, call: &Call) -> Option<Answer> {
        self.observer.as_ref()?.refuse(&call.notification)
    }

    fn answer(&mut self, call: &Call, answer: Answer) -> io::Result<bool> {
        let answer = match (answer, &self.observer) {
            // What is told is counted when it happens.
            (Answer::Continue, Some(observer)) => observer.answer(&call.notification),
            (answer, _) => answer,
        };
        self.door.respond(call.pending(), answer)
    }

    fn still_waits(&self, call: &Call) -> io::Result<bool> {
        self.door.still_waits(call.notification.id)
    }

    fn take_backlog(&mut self) -> Vec<Call> {
        self.door.take_backlog()
    }

    fn process_of(&self, thread: Pid) -> io::Result<Option<Pid>> {
        task::process_of(thread)
    }

    fn meet(
        &mut self,
        process: Pid,
        call: &Call,
        member: Option<&Member<Self>>,
        has_changed: bool,
    ) -> io::Result<Meeting> {
        let Some(Learnt {
            channels: Some(channels),
            seen,
            keeps_rights,
            ..
        }) = &self.learnt
        else {
            return Ok(Meeting::Wait);
        };
        let known = Known {
            channels,
            seen,
            member,
            has_changed,
            keeps_rights: *keeps_rights,
        };
        unless_out_of_reach(meeting::meet(process, call, known), Meeting::Wait)
    }

    fn admit(&mut self, process: Pid) -> io::Result<Option<Supervised>> {
        let Some(learnt) = &self.learnt else {
            return Ok(None);
        };
        // A process that is not known may be anything.
        if unless_out_of_reach(learnt.seen.obstructs(process), true)? {
            return Ok(None);
        }
        unless_out_of_reach(Supervised::new(process).map(Some), None)
    }

    fn has_memory_for(&self, process: Pid, images: &[(Pid, usize)]) -> bool {
        let sizes = images.iter().map(|&(process, images)| {
            let resident = task::resident(process).unwrap_or(0);
            (images as u64, resident)
        });
        let one_more = (1, task::resident(process).unwrap_or(0));
        fit(sizes.chain([one_more]), task::memory())
    }

    fn has(&self, process: &Supervised, thread: Pid) -> bool {
        process.has(thread)
    }

    fn traces(&self, process: &Supervised, thread: Pid) -> bool {
        process.traces(thread)
    }

    fn is_traced(&self, process: &Supervised) -> bool {
        process.is_traced()
    }

    fn born(&self, process: &mut Supervised, thread: Pid) {
        process.born(thread);
    }

    fn ended(&self, process: &mut Supervised, thread: Pid) {
        process.ended(thread);
    }

    fn take_image(
        &mut self,
        process: &mut Supervised,
        call: &Call,
        guess: (&Guess, Option<Change>),
        others: &[PendingCall],
    ) -> io::Result<Imaged<Checkpoint>> {
        process.take_image(call, guess, others, &mut self.door)
    }

    fn bear(
        &mut self,
        process: &mut Supervised,
        call: &Call,
        others: &[PendingCall],
    ) -> io::Result<Born<Supervised>> {
        process.bear(call, others, &mut self.door)
    }

    fn executes(&self, process: &mut Supervised) {
        process.executes();
    }

    fn stop(
        &mut self,
        process: &mut Supervised,
        calls: &[PendingCall],
        signals: Vec<Stopped>,
    ) -> io::Result<bool> {
        process.stop(calls, signals, &mut self.door)
    }

    fn restore(
        &mut self,
        process: &mut Supervised,
        image: Checkpoint,
        has_undone: bool,
    ) -> io::Result<Option<u64>> {
        process.restore(image, has_undone, &mut self.door)
    }

    fn resume(&mut self, process: &mut Supervised, traced: Traced) -> io::Result<()> {
        process.resume(traced, &mut self.door)
    }

    fn destroy(&mut self, process: &mut Supervised) -> io::Result<()> {
        process.destroy()
    }

    fn deliver(&mut self, stopped: Stopped) -> io::Result<()> {
        let signal = stopped.signal();
        let delivered = signal.and_then(|signal| stopped.detach_with(&signal));
        match delivered {
            Err(error) if task::is_gone(&error) => Ok(()),
            delivered => delivered,
        }
    }

    fn note(&self, process: &Supervised, image: &mut Checkpoint, change: Change) {
        image.note(process.pid(), change);
    }

    fn vessel(&self, image: &Checkpoint) -> Option<Pid> {
        Some(image.vessel())
    }

    fn discard(&mut self, image: Checkpoint, process: Option<&mut Supervised>) -> io::Result<()> {
        match process {
            Some(process) => process.discard(image),
            None => image.destroy(),
        }
    }

    fn is_alone(&mut self, process: Pid, apart: &Apart) -> io::Result<bool> {
        // A thread that waits for an answer touches nothing.
        self.door.gather()?;
        let Some(Learnt { seen, .. }) = &self.learnt else {
            return Ok(false);
        };
        if seen.has_watches() {
            return Ok(false);
        }
        let is_harmless = |other: Pid| other == process || apart.vessels.contains(&other);
        let waits = |thread| apart.waiting.contains(&thread) || self.door.has_waiting(thread);
        // It maps nothing so itself, or it would depend on nothing.
        let mapped = match seen.has_shared_memory() {
            true => seen.names().device(),
            false => None,
        };
        let found = seen.bystanders().are_apart(is_harmless, waits, mapped);
        // A task that is being born or ends is not seen rightly.
        unless_out_of_reach(found, false)
    }

    fn has_borne(&self, process: Pid) -> bool {
        let learnt = self.learnt.as_ref();
        learnt.is_none_or(|learnt| learnt.seen.has_borne(process))
    }

    fn is_apart(&self, process: Pid, call: &Call) -> bool {
        meeting::is_apart(process, call.name(), call.arguments()[0])
    }

    fn adopts(&self, call: &Call) -> bool {
        seen::makes_reaper(call.name(), call.arguments())
    }

    fn input(&mut self, process: Pid, wanted: &Wanted) -> io::Result<Option<(Place, Source)>> {
        let Some(learnt) = &self.learnt else {
            return Ok(None);
        };
        let Some((file, stat)) = task::file(process, wanted.descriptor)? else {
            return Ok(None);
        };
        let place = Place::of(&stat);
        let channels = learnt.channels.as_ref();
        if channels.is_none_or(|channels| channels.is_kept(place)) || learnt.seen.has_odd_sockets()
        {
            return Ok(None);
        }
        Ok(Source::of(file, &stat)?.map(|source| (place, source)))
    }

    fn may_take(&mut self, place: Place, but: Pid) -> bool {
        match &mut self.learnt {
            Some(learnt) => learnt.readers.may_take(place, but),
            None => true,
        }
    }

    fn peek(&self, source: &Source, skipped: usize, length: usize) -> io::Result<Peeked> {
        source.peek(skipped, length)
    }

    fn take(&self, source: &Source, length: usize) -> io::Result<()> {
        source.take(length)
    }

    fn fill(&mut self, process: Pid, room: &[(u64, u64)], bytes: &[u8]) -> bool {
        task::fill(process, room, bytes).is_ok()
    }

    fn takes_nothing(&mut self, thread: Pid) {
        if let Some(learnt) = &mut self.learnt {
            learnt.readers.answered(thread);
        }
    }

    fn looks_at(&self, process: Option<Pid>, call: &Call) -> Look {
        let is_read = calls::may_be_given(call.name());
        let place = match (calls::looking(call.name(), call.arguments()), process) {
            (Reach::Nothing, _) => return Look::Nothing,
            (Reach::Descriptor(number), Some(process)) => match task::file(process, number) {
                Ok(Some((_, stat))) => Some(Place::of(&stat)),
                Ok(None) => return Look::Nothing,
                // It may be anything.
                Err(_) => None,
            },
            (Reach::Descriptor(_) | Reach::Anything, _) => None,
        };
        match place {
            Some(place) => Look::At { place, is_read },
            None => Look::Anywhere { is_read },
        }
    }

    fn output(
        &mut self,
        process: Pid,
        descriptor: u64,
        bytes: (u64, u64),
    ) -> io::Result<Option<Output>> {
        let learnt = self.learnt.as_ref();
        match learnt.and_then(|learnt| learnt.channels.as_ref()) {
            Some(channels) => Output::read(process, descriptor, bytes, channels),
            None => Ok(None),
        }
    }

    fn put(&mut self, output: &mut Output) -> io::Result<bool> {
        output.put()
    }

    fn may_put(&self, process: Option<Pid>, call: &Call) -> bool {
        let learnt = self.learnt.as_ref();
        let channels = learnt.and_then(|learnt| learnt.channels.as_ref());
        channels.is_none_or(|channels| output::may_put(channels, process, call))
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
