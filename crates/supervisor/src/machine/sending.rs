//! Signals that speculating processes send.

use std::io;

use rustix::process::Pid;
use surmise_checkpoint::{Change, Checkpoint, Halted, Interrupted, PendingCall, Traced};
use surmise_linux::proc::{self, Ids, Status};
use surmise_sys::ptrace::SignalInfo;
use surmise_syscalls::Syscall;

use super::door::Door;
use super::process::{IMAGING, Supervised, unless_numbered};
use super::{Machine, family, unless_out_of_reach};
use crate::call::Call;
use crate::meeting::Sending;
use crate::objects::heed::Heed;
use crate::world::{Delivered, Receiver, Sender, Sends};

impl Sends<Supervised, Checkpoint> for Machine {
    fn send(
        &mut self,
        (sender, call, others): Sender<'_, Supervised>,
        receiver: Receiver<'_, Supervised>,
        sending: Sending,
    ) -> io::Result<Delivered<Checkpoint>> {
        let info = unless_out_of_reach(info_of(sender.pid(), call, sending.number), None)?;
        let (Some(info), Some(learnt)) = (info, &self.learnt) else {
            return Ok(Delivered::Not);
        };
        let (door, interrupted) = (&mut self.door, receiver.interrupted);
        let obstructs = |process| learnt.seen.obstructs(process);
        let approached = receiver.approach(sending.number, obstructs, door)?;
        let Some((mut halted, image, before)) = approached else {
            return Ok(Delivered::Not);
        };
        let is_sent = sender.ask_to_send(call, others, door);
        let is_sent = match is_sent {
            Ok(true) => halted.interrupt(info, interrupted).map(|()| true),
            is_sent => is_sent,
        };
        let has_image = image.is_some();
        let (kept, dropped) = match is_sent {
            Ok(true) => (image, None),
            _ => (None, image),
        };
        if let Some(image) = dropped {
            halted = halted.discard(image)?;
        }
        let traced = match (&is_sent, has_image) {
            (Ok(true), true) => Traced::Still,
            _ => before,
        };
        halted.go_on(None, traced, door)?;
        Ok(match is_sent? {
            true => Delivered::Taken(kept),
            false => Delivered::Not,
        })
    }

    fn send_to_itself(
        &mut self,
        process: &mut Supervised,
        call: &Call,
        others: &[PendingCall],
        number: u32,
    ) -> io::Result<bool> {
        let info = unless_out_of_reach(info_of(process.pid(), call, number), None)?;
        let Some(info) = info else {
            return Ok(false);
        };
        process.answer_by(call, others, &mut self.door, |halted, _, _| {
            // It is answered, so it does not fail. One that was killed takes none.
            let is_open = unless_numbered(halted.is_open_to(number))?.unwrap_or(false);
            if is_open {
                halted.interrupt(info, Interrupted::NotBegun)?;
            }
            Ok(is_open.then_some(0))
        })
    }

    fn changes_by(&self, number: u32) -> [Change; 2] {
        [Change::Handler(number), Change::SignalStack]
    }

    fn is_interrupted_by(&self, call: &Call, number: u32) -> io::Result<bool> {
        let heed = unless_out_of_reach(family::heeds(call, number), Heed::None)?;
        Ok(heed == Heed::Interrupted)
    }
}

/// A receiver that stands still, with its image if one was taken, and how it was traced before.
type Approached<'a> = (Halted<'a>, Option<Checkpoint>, Traced);

impl<'a> Receiver<'a, Supervised> {
    /// Stops the receiver, if it would take a signal of this number at once. `obstructs`: whether there is anything about it that a
    /// rollback could not undo. It has run since that was looked at before.
    fn approach(
        self,
        number: u32,
        obstructs: impl Fn(Pid) -> io::Result<bool>,
        door: &mut Door,
    ) -> io::Result<Option<Approached<'a>>> {
        let process = &mut self.process.process;
        let before = match process.is_traced() {
            true => Traced::Still,
            false => Traced::NoMore,
        };
        let Ok(mut halted) = process.halt(self.calls, Vec::new(), IMAGING, door) else {
            return Ok(None);
        };
        let image = match (halted.is_open_to(number), self.is_imaged) {
            (Ok(true), false) => Some(None),
            (Ok(true), true) if matches!(obstructs(halted.pid()), Ok(false)) => {
                halted.checkpoint(door).ok().map(Some)
            }
            _ => None,
        };
        match image {
            Some(image) => Ok(Some((halted, image, before))),
            None => halted.go_on(None, before, door).map(|()| None),
        }
    }
}

impl Supervised {
    /// Has the thread that waits in a call, which sends a signal, ask the kernel by the same call whether it may, and gives it the answer.
    /// True if it may.
    fn ask_to_send(
        &mut self,
        call: &Call,
        others: &[PendingCall],
        door: &mut Door,
    ) -> io::Result<bool> {
        let mut told = None;
        let is_answered = self.answer_by(call, others, door, |halted, made, door| {
            let (number, mut arguments) = made;
            arguments[place_of_signal(call.name())] = 0;
            let result = halted.call(call.thread(), (number, arguments), door);
            told = unless_numbered(result)?;
            Ok(told)
        })?;
        Ok(is_answered && told == Some(0))
    }
}

/// Which argument of a call is the number of a signal.
fn place_of_signal(name: Syscall) -> usize {
    match name {
        Syscall::Tgkill => 2,
        _ => 1,
    }
}

/// What is told of a signal that a process sends by a call; `None` where nobody knows.
fn info_of(sender: Pid, call: &Call, number: u32) -> io::Result<Option<SignalInfo>> {
    // The numbers of users may be each thread's own.
    let users = proc::ids(call.thread(), Ids::Users)?;
    let inner = Status::of(sender)?.inner();
    let (Some([real, ..]), Some(inner), Ok(number)) = (users, inner, i32::try_from(number)) else {
        return Ok(None);
    };
    let sender = (inner.as_raw_nonzero().get(), real);
    let by_thread = call.name() != Syscall::Kill;
    Ok(Some(SignalInfo::of_sender(number, sender, by_thread)))
}
