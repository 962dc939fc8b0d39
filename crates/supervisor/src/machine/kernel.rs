//! What the core asks of the kernel, done.

use std::io;
use std::time::Instant;

use rustix::process::{Pid, Signal};
use surmise_checkpoint::{Change, Checkpoint, GiveWay, PendingCall, Timer};
use surmise_sys::ptrace::{SignalInfo, Stopped};
use surmise_sys::seccomp::Answer;

use super::conduit::Conduit;
use super::family;
use super::input::calls::{self};
use super::input::source::Source;
use super::meeting::{self, Known};
use super::message;
use super::output::{self, Output};
use super::positions::Description;
use super::process::Supervised;
use super::seen::is_past;
use super::{
    Learnt, Machine, fit, parting, pass, plain_place, seen, spare_call, task, unless_gone,
    unless_out_of_reach,
};
use crate::call::Call;
use crate::meeting::{Meeting, Wanted};
use crate::objects::input::{Look, Peeked, Place};
use crate::source::Guess;
use crate::world::{Around, Born, Ends, Imaged, Traced, World};

impl World for Machine {
    type Process = Supervised;
    type Image = Checkpoint;
    type Signal = Stopped;
    type SignalInfo = SignalInfo;
    type Timer = Timer;
    type Input = Source;
    type Pipe = Conduit;
    type Description = Description;
    type Output = Output;

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn heard(&mut self, call: &Call) -> io::Result<()> {
        self.caller.set(None);
        unless_out_of_reach(self.handlers.go_on_if_due(), ())?;
        match &mut self.learnt {
            // The call of a thread that was killed does not happen, and teaches nothing.
            Some(learnt) => unless_gone(learnt.hear(call)),
            None => Ok(()),
        }
    }

    fn happens(&mut self, call: &Call) -> io::Result<()> {
        if let Some(process) = unless_out_of_reach(parting::ending(call), None)? {
            self.part(process)?;
        }
        match &mut self.learnt {
            Some(learnt) => {
                if learnt.keeps_rights {
                    unless_out_of_reach(self.handlers.happens(call), ())?;
                }
                learnt.sleepers.happens(call);
                let (thread, name) = (call.thread(), call.name());
                let noted = learnt.seen.note(thread, name, call.arguments());
                unless_gone(noted)
            }
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

    fn take_signals(&mut self) -> Vec<(Pid, Stopped)> {
        let taken = self.passed.at_signal.drain(..);
        taken.map(|stopped| (stopped.thread(), stopped)).collect()
    }

    fn take_ended(&mut self) -> Vec<Pid> {
        let ended = std::mem::take(&mut self.passed.ended);
        ended
            .iter()
            .for_each(|thread| self.handlers.forget(*thread));
        ended
    }

    fn has_executed(&self, process: Pid) -> io::Result<bool> {
        unless_out_of_reach(family::has_executed(process), true)
    }

    fn process_of(&self, thread: Pid) -> io::Result<Option<Pid>> {
        match self.caller.get() {
            Some((caller, process)) if caller == thread => Ok(process),
            _ => {
                let process = task::process_of(thread)?;
                self.caller.set(Some((thread, process)));
                Ok(process)
            }
        }
    }

    fn meet(&mut self, process: Pid, call: &Call, around: Around<'_, Self>) -> io::Result<Meeting> {
        let Some(Learnt {
            channels: Some(channels),
            seen,
            kinds,
            keeps_rights,
            can_undo_executions,
            ..
        }) = &self.learnt
        else {
            return Ok(Meeting::Wait);
        };
        let known = Known {
            channels,
            seen,
            kinds,
            member: around.member,
            ends: around.ends,
            files: around.files,
            keeps_rights: *keeps_rights,
            can_undo_executions: *can_undo_executions,
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
        let supervised = Supervised::new(process).map(|mut supervised| {
            if self.partings.await_others(process) || self.handlers.keep(process) {
                supervised.born(process);
            }
            Some(supervised)
        });
        unless_out_of_reach(supervised, None)
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
        let born = process.bear(call, others, &mut self.door)?;
        if let Born::Child(child, _) = &born {
            self.handlers.born(process.pid(), *child);
        }
        Ok(born)
    }

    fn depute(
        &mut self,
        process: &mut Supervised,
        call: &Call,
        others: &[PendingCall],
    ) -> io::Result<bool> {
        process.depute(call, others, &mut self.door)
    }

    fn stop(
        &mut self,
        process: &mut Supervised,
        calls: &[PendingCall],
        signals: Vec<Stopped>,
        give_way: GiveWay<'_>,
    ) -> io::Result<bool> {
        process.stop(calls, signals, give_way, &mut self.door)
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
        let traced = match traced {
            Traced::NoMore => self.stays(process.pid()),
            traced => traced,
        };
        process.resume(traced, &mut self.door)
    }

    fn destroy(&mut self, process: &mut Supervised) -> io::Result<()> {
        process.destroy()
    }

    fn deliver(&mut self, stopped: Stopped) -> io::Result<()> {
        if self.stays_tracee(stopped.thread()) {
            return self.pass_on(stopped);
        }
        let signal = spare_call(&stopped, &mut self.door).and_then(|()| stopped.signal());
        let delivered = signal.and_then(|signal| stopped.detach_with(&signal));
        match delivered {
            Err(error) if task::is_gone(&error) => Ok(()),
            delivered => delivered,
        }
    }

    fn note(&self, process: &Supervised, image: &mut Checkpoint, change: Change) -> bool {
        let passes = |learnt: &Learnt| learnt.seen.passes_descriptors();
        // Both are done, whatever comes of the first.
        image.note(process.pid(), change) || self.learnt.as_ref().is_none_or(passes)
    }

    fn might_notice_ends(&self, image: &Checkpoint) -> bool {
        image.blocks(Signal::CHILD) || image.has_handler_changed(Signal::CHILD)
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

    fn await_discarded(&self, process: &Supervised) -> io::Result<()> {
        process.await_discarded()
    }

    fn is_alone(&mut self, process: Pid, vessels: &[Pid]) -> io::Result<bool> {
        let Some(Learnt { seen, .. }) = &self.learnt else {
            return Ok(false);
        };
        if seen.has_watches() {
            return Ok(false);
        }
        if !seen.has_shared_memory() {
            return Ok(true);
        }
        let Some(device) = seen.names().device() else {
            return Ok(false);
        };
        // It maps nothing so itself, or it would depend on nothing.
        let is_harmless = |other: Pid| other == process || vessels.contains(&other);
        // A task that is being born or ends is not seen rightly.
        unless_out_of_reach(seen.bystanders().map_nothing(device, is_harmless), false)
    }

    fn come_past(&mut self, threads: &[Pid], waiting: &[Pid]) -> io::Result<bool> {
        // A thread that waits for an answer touches nothing.
        self.door.gather()?;
        let mut touching = Vec::new();
        for &thread in threads {
            let waits = waiting.contains(&thread) || self.door.has_waiting(thread);
            if !waits && !unless_out_of_reach(is_past(thread), false)? {
                touching.push(thread);
            }
        }
        let passed = pass(&mut self.door, &mut self.passed, &touching, |thread| {
            waiting.contains(&thread)
        });
        unless_out_of_reach(passed, false)
    }

    fn has_borne(&self, process: Pid) -> bool {
        let learnt = self.learnt.as_ref();
        learnt.is_none_or(|learnt| learnt.seen.has_borne(process))
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
        if channels.is_none_or(|channels| channels.is_kept(place))
            || learnt.seen.has_odd_sockets()
            || learnt.seen.shares_outside()
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

    fn fill(&mut self, process: Pid, wanted: &Wanted, bytes: &[u8]) -> bool {
        // If the call happens after all, it finds its header as it was.
        let told = task::fill(process, &wanted.room, bytes).and_then(|()| match wanted.header {
            Some(header) => message::tell(process, header),
            None => Ok(()),
        });
        told.is_ok()
    }

    fn takes_nothing(&mut self, thread: Pid) {
        if let Some(learnt) = &mut self.learnt {
            learnt.readers.answered(thread);
        }
    }

    fn looks_at(&self, process: Option<Pid>, call: &Call) -> Look {
        if self.passes_outside(call) {
            return Look::Anywhere { is_read: false };
        }
        let looked_at = calls::looking(call.name(), call.arguments());
        Self::reached(process, call, looked_at, plain_place)
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
