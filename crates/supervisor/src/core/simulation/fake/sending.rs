//! Signals that tasks of a fake machine send to one another.

use std::io;

use rustix::process::Pid;
use surmise_checkpoint::{Change, Interrupted, PendingCall};
use surmise_sys::seccomp::Answer;

use super::images::{Held, Image};
use super::meeting::KICK;
use super::op::Op;
use super::signals::{SENT, Sent};
use super::state::State;
use super::{Fake, has_call};
use crate::call::Call;
use crate::meeting::Sending;
use crate::world::{Delivered, Receiver, Sender, Sends};

impl Sends<Pid, Image> for Fake {
    fn send(
        &mut self,
        (sender, call, others): Sender<'_, Pid>,
        receiver: Receiver<'_, Pid>,
        sending: Sending,
    ) -> io::Result<Delivered<Image>> {
        assert_eq!((sending.to, sending.number), (*receiver.process, KICK));
        let state = &mut *self.0.borrow_mut();
        let thread = state.threads(sending.to).first().copied();
        let was_traced = thread.is_some_and(|thread| state.tasks[thread].traced);
        let (Some(thread), Some(image)) = (thread, state.approach(&receiver)) else {
            return Ok(Delivered::Not);
        };
        if !state.ask_to_send(*sender, call, others) {
            if let Some(image) = image {
                state.images.remove(&image.number).expect("it is used up");
            }
            state.task(thread).traced = was_traced;
            return Ok(Delivered::Not);
        }
        let number = state.mail.next();
        assert!(
            state.answer(call, Answer::Value(SENT + number as i64)),
            "it waits"
        );
        let sent = Sent::Task(number);
        state.tell(thread, Op::Signal(sent), sent.told());
        Ok(Delivered::Taken(image))
    }

    fn send_to_itself(
        &mut self,
        process: &mut Pid,
        call: &Call,
        others: &[PendingCall],
        _: u32,
    ) -> io::Result<bool> {
        let state = &mut *self.0.borrow_mut();
        if !state.ask_to_send(*process, call, others) {
            return Ok(false);
        }
        let number = state.mail.next();
        assert!(
            state.answer(call, Answer::Value(SENT + number as i64)),
            "it waits"
        );
        let sent = Sent::Task(number);
        state.tell(call.thread(), Op::Signal(sent), sent.told());
        Ok(true)
    }

    fn changes_by(&self, number: u32) -> [Change; 2] {
        [Change::Handler(number), Change::SignalStack]
    }

    fn is_interrupted_by(&self, _: &Call, _: u32) -> io::Result<bool> {
        Ok(self.0.borrow_mut().rng.u8(..4) != 0)
    }
}

impl State {
    /// A receiver stands still, and an image of it is taken if one is wanted. `None` if it does not, or would not take a signal at once.
    fn approach(&mut self, receiver: &Receiver<'_, Pid>) -> Option<Option<Image>> {
        let process = *receiver.process;
        let &[thread] = &self.threads(process)[..] else {
            return None;
        };
        let pending = |thread| has_call(receiver.calls, thread);
        assert!(self.can_stop(process, pending, |_| false));
        let waits = pending(thread) && self.tasks[thread].waits_in.is_some();
        assert!(
            waits || receiver.interrupted == Interrupted::NotBegun,
            "it sleeps in no call"
        );
        if self.fails_to_stop(&[thread]) || self.mail.has(process) {
            return None;
        }
        self.interrupt(&[thread]);
        self.task(thread).waits_in = None;
        if !receiver.is_imaged {
            return Some(None);
        }
        self.images_made += 1;
        let number = self.images_made;
        let sides = self.sides(process);
        let held = Held {
            process,
            sides,
            knows_execution: false,
            is_lost: false,
        };
        self.images.insert(number, held);
        let task = self.task(thread);
        task.traced = true;
        Some(Some(Image {
            number,
            told: vec![(thread, task.told.clone())],
            program: self.program(process),
        }))
    }

    /// The threads of a sender stand still, and it may send. False if they do not, or it is no more.
    fn ask_to_send(&mut self, sender: Pid, call: &Call, others: &[PendingCall]) -> bool {
        let (threads, caller) = (self.threads(sender), call.thread());
        if self.tasks[caller].waits_in != Some(call.notification.id) {
            return false;
        }
        let pending = |thread| thread == caller || has_call(others, thread);
        assert!(self.can_stop(sender, pending, |_| false));
        if self.fails_to_stop(&threads) {
            return false;
        }
        self.interrupt(&threads);
        for thread in threads {
            let task = self.task(thread);
            task.traced = true;
            task.waits_in = task.waits_in.filter(|_| thread == caller);
        }
        true
    }
}
