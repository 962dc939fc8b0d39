//! Signals that members send.
//!
//! The receiver takes the signal at once, or the sender waits until all is decided. At that moment both come to depend on the same,
//! each with an image of before. So no signal waits that may be undone: another one of its number would be lost in it.
//!
//! A call that only asks whether a signal could be sent finds the receiver there. So the caller depends on all that the receiver
//! depends on, its birth among that.

use std::time::Instant;

use rustix::process::Pid;
use surmise_checkpoint::Interrupted;
use surmise_engine::{ObjectId, TaskId};
use surmise_syscalls::Syscall;

use super::Core;
use super::imaging::Gained;
use crate::call::Call;
use crate::error::{SupervisorError, bug, fail};
use crate::kind::Kind;
use crate::meeting::Sending;
use crate::objects::heed::mask_of;
use crate::waits::Asked;
use crate::world::{Delivered, Receiver, World};

/// What came of a signal that was to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It was, and the sender has its answer.
    Sent,
    /// It was not. The sender's call waits, or is made again.
    Unsent,
}

impl<W: World> Core<W> {
    /// A member sends a signal, or asks whether it could.
    pub(super) fn send(
        &mut self,
        sender: Pid,
        asked: &Asked,
        sending: Sending,
    ) -> Result<(), SupervisorError> {
        match (sending.to == sender, sending.number) {
            (true, 0) => return self.pass(asked),
            (true, number) => return self.send_to_itself(sender, asked, number),
            (false, _) => {}
        }
        let to = sending.to;
        let stands = self.objects.exits.hold_back(to);
        if stands || self.is_vessel(to) || !self.can_be_stopped(sender) {
            return self.wait(sender, asked);
        }
        let object = self.objects.sent.send();
        let sent = self.send_by(sender, asked, (object, sending));
        self.objects.sent.finish();
        self.forget_idle()?;
        sent
    }

    fn send_to_itself(
        &mut self,
        process: Pid,
        asked: &Asked,
        number: u32,
    ) -> Result<(), SupervisorError> {
        self.make_stopped(process, asked, Kind::SentSignal, |world, member, others| {
            for change in world.changes_by(number) {
                member.note(world, change);
            }
            let sent = world.send_to_itself(&mut member.process, &asked.call, others, number);
            sent.map_err(fail("have a process take its own signal"))
        })
    }

    /// The sender comes to depend on what the receiver depends on, then the receiver on what the sender does.
    fn send_by(
        &mut self,
        sender: Pid,
        asked: &Asked,
        (object, sending): (ObjectId, Sending),
    ) -> Result<(), SupervisorError> {
        if let Some(receiver) = self.members.get(&sending.to) {
            let task = receiver.task;
            if receiver.has_perished() || !self.modify_signal(task, object)? {
                return self.wait(sender, asked);
            }
        }
        match self.gain(sender, &asked.call, object)? {
            Gained::Again => return Ok(()),
            Gained::Refused => return self.wait(sender, asked),
            Gained::Depends => {}
        }
        if sending.number == 0 {
            self.stats.met(Kind::SentSignal);
            return self.pass(asked);
        }
        let Some(task) = self.members.get(&sender).map(|member| member.task) else {
            return self.pass(asked);
        };
        if !self.modify_signal(task, object)? {
            return self.wait(sender, asked);
        }
        let was_member = self.members.contains_key(&sending.to);
        let outcome = self.deliver_to(sender, &asked.call, (object, sending))?;
        // It is traced as before.
        if !was_member && self.may_go(sending.to)? {
            self.dismiss(sending.to)?;
        }
        match outcome {
            Outcome::Sent => Ok(()),
            Outcome::Unsent => self.without_call(sender, asked),
        }
    }

    /// A task modifies a signal. False if it may not.
    fn modify_signal(&mut self, task: TaskId, object: ObjectId) -> Result<bool, SupervisorError> {
        let record = self.objects.record(Kind::SentSignal);
        self.objects.sent.note(object, record);
        self.access(task, object, record)
    }

    /// Has the receiver take a signal, of which its sender's part is noted.
    fn deliver_to(
        &mut self,
        sender: Pid,
        call: &Call,
        (object, sending): (ObjectId, Sending),
    ) -> Result<Outcome, SupervisorError> {
        let to = sending.to;
        self.gather()?;
        if self.waits.have_signal(to) || !self.admit(to)? {
            return Ok(Outcome::Unsent);
        }
        let Some(interrupted) = self.interruption(to, sending.number)? else {
            return Ok(Outcome::Unsent);
        };
        let Some(task) = self.members.get(&to).map(|member| member.task) else {
            return Ok(Outcome::Unsent);
        };
        let is_imaged = !self.modify_signal(task, object)?;
        let Some(member) = self.members.get(&to) else {
            return Ok(Outcome::Unsent);
        };
        if is_imaged && !self.has_room_for(member) {
            return Ok(Outcome::Unsent);
        }
        let begun = self.world.now();
        let delivered = self.deliver_now((sender, call), sending, (interrupted, is_imaged))?;
        let Some(Delivered::Taken(image)) = delivered else {
            return Ok(Outcome::Unsent);
        };
        if let Some(image) = image {
            self.keep_receiver(to, (image, begun), sending.number)?;
            if !self.modify_signal(task, object)? {
                let error = bug("the engine wants another checkpoint right after one");
                return Err(fail("send a signal")(error));
            }
        }
        self.stats.met(Kind::SentSignal);
        Ok(Outcome::Sent)
    }

    fn deliver_now(
        &mut self,
        (sender, call): (Pid, &Call),
        sending: Sending,
        (interrupted, is_imaged): (Interrupted, bool),
    ) -> Result<Option<Delivered<W::Image>>, SupervisorError> {
        let others = self.pending_calls(sender);
        let calls = self.pending_calls(sending.to);
        let both = self.members.get_disjoint_mut([&sender, &sending.to]);
        let [Some(from), Some(to)] = both else {
            return Ok(None);
        };
        for change in self.world.changes_by(sending.number) {
            to.note(&self.world, change);
        }
        // Its handler may do anything before the call that is made again.
        to.take_foreseen();
        let receiver = Receiver {
            process: &mut to.process,
            calls: &calls,
            interrupted,
            is_imaged,
        };
        let sender = (&mut from.process, call, &others[..]);
        let delivered = self.world.send(sender, receiver, sending);
        let delivered = delivered.map_err(fail("send a signal"))?;
        self.forget_answered()?;
        Ok(Some(delivered))
    }

    fn keep_receiver(
        &mut self,
        process: Pid,
        (image, begun): (W::Image, Instant),
        number: u32,
    ) -> Result<(), SupervisorError> {
        self.keep_image(process, image, begun)?;
        if let Some(member) = self.members.get_mut(&process) {
            for change in self.world.changes_by(number) {
                member.note(&self.world, change);
            }
        }
        Ok(())
    }

    /// What becomes of a call in which a receiver waits; `None` where it is not known what the kernel would make of that.
    fn interruption(
        &mut self,
        process: Pid,
        number: u32,
    ) -> Result<Option<Interrupted>, SupervisorError> {
        let calls = self.calls_of(process);
        let call = match calls[..] {
            [] => return Ok(Some(Interrupted::NotBegun)),
            [call] => call,
            _ => return Ok(None),
        };
        let sleeps = self.waits.have_sleeper(process) || self.sleeps_for_child(process, &call)?;
        // The kernel has them fail only if nothing is ready, which is known of those that sleep.
        let never_ready = matches!(call.name(), Syscall::Pause | Syscall::RtSigsuspend);
        Ok(match mask_of(&call) {
            Some(_) if sleeps || never_ready => {
                let is_meant = self.world.is_interrupted_by(&call, number);
                let is_meant = is_meant.map_err(fail("look at a call"))?;
                is_meant.then_some(Interrupted::Fails)
            }
            None if sleeps => Some(Interrupted::MayBeginAgain),
            // As if the signal had come a moment before the call.
            _ => {
                let is_new = self.waits.have_just_heard(call.thread());
                is_new.then_some(Interrupted::NotBegun)
            }
        })
    }

    fn calls_of(&self, process: Pid) -> Vec<Call> {
        let Some(member) = self.members.get(&process) else {
            return Vec::new();
        };
        let calls = self.waits.calls();
        let calls = calls.filter(|call| self.world.has(&member.process, call.thread()));
        calls.copied().collect()
    }
}
