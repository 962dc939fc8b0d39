//! What a fake machine does about the ends of processes.

use std::io;

use rustix::process::Pid;
use surmise_checkpoint::{Account, PendingCall};
use surmise_sys::seccomp::Answer;

use super::sides::Side;
use super::{End, Fake, Op, Sent, address_of, thread_at};
use crate::call::Call;
use crate::meeting::Ending;
use crate::objects::exits::Exit;
use crate::objects::heed::Heed;
use crate::objects::wait::{ChildWait, Outlook, Tidings, Told, Whom};
use crate::world::{Ends, Expects, Kin};

impl Ends<Pid, Pid> for Fake {
    fn ending(&mut self, process: Pid, call: &Call, kin: &Kin) -> io::Result<Option<Ending>> {
        let state = self.0.borrow();
        let waits_in = state.tasks[call.thread()].waits_in;
        let Op::Exit(status) = state.op_of(call) else {
            return Ok(None);
        };
        let mut children = state.families.children(process).into_iter();
        let has_children =
            children.any(|(child, end)| end.is_none() && !kin.collected.contains(&child));
        let parent = state.families.parent(process);
        let is_alone = state.threads(process).len() == 1 && !has_children;
        let can_be = is_alone && waits_in == Some(call.notification.id);
        let ending = parent.filter(|_| can_be).map(|parent| Ending {
            parent,
            number: address_of(process),
            status,
        });
        Ok(ending)
    }

    fn discarded(&self, _: &Pid) -> Vec<Pid> {
        Vec::new()
    }

    fn account(&mut self, process: &mut Pid) -> io::Result<Option<Account>> {
        let state = &mut *self.0.borrow_mut();
        let [thread] = state.threads(*process)[..] else {
            return Ok(None);
        };
        let op = state.tasks[thread].op();
        state.tell(thread, op, 0);
        let task = state.task(thread);
        assert!(task.stands && !task.at_exit, "it runs");
        task.at_exit = true;
        Ok(Some(Account {
            usage: [0; _],
            user: 0,
            times: [0; 2],
        }))
    }

    fn close_files(&mut self, process: &mut Pid) -> io::Result<()> {
        let state = &mut *self.0.borrow_mut();
        for thread in state.threads(*process) {
            let task = state.task(thread);
            assert!(task.at_exit, "it goes on");
            let sides = [Side::Reading, Side::Writing];
            let closed = sides.map(|side| (task.told.len(), side));
            task.closed.extend(closed);
        }
        Ok(())
    }

    fn exit(&mut self, process: &mut Pid, ending: &Ending) -> io::Result<()> {
        let state = &mut *self.0.borrow_mut();
        for thread in state.threads(*process) {
            let task = state.task(thread);
            assert!(task.at_exit, "it goes on");
            task.is_alive = false;
        }
        state.families.end(*process, End::Exited(ending.status));
        state.mail.end(*process);
        Ok(())
    }

    fn may_sleep(&mut self, _: Pid) -> bool {
        // Who waits for a child makes the call again and again.
        false
    }

    fn rouse(&mut self, _: Pid, _: &[PendingCall]) -> io::Result<()> {
        unreachable!("nobody sleeps")
    }

    fn are_parting(&self) -> bool {
        false
    }

    fn is_awaited(&self, call: &Call, whom: Whom, exit: &Exit) -> io::Result<bool> {
        assert_eq!(whom, Whom::Any);
        let state = self.0.borrow();
        let parent = state.families.parent(exit.child);
        Ok(parent == Some(state.tasks[call.thread()].process))
    }

    fn may_be_told(&self, _: &Call, _: &Told) -> io::Result<bool> {
        Ok(!self.0.borrow_mut().once_in(8))
    }

    fn tell(
        &mut self,
        process: &mut Pid,
        call: &Call,
        (exit, tidings): (&Exit, &Tidings),
        _: &[PendingCall],
    ) -> io::Result<bool> {
        let state = &mut *self.0.borrow_mut();
        assert!(!state.shares_memory(*process), "it cannot be stopped");
        if state.once_in(8) {
            if state.rng.bool() {
                state.task(call.thread()).waits_in = None;
            }
            return Ok(false);
        }
        let told = match tidings {
            Tidings::Collected(_) => {
                if !exit.is_announced() {
                    state.tell_by_signal(call.thread(), exit.ending.number);
                }
                End::Exited(exit.ending.status).told(exit.child)
            }
            Tidings::Interrupted => state.families.hear(exit.child),
            Tidings::Queued => unreachable!("nobody blocks a signal"),
        };
        Ok(state.answer(call, Answer::Value(told)))
    }

    fn childless(&self, parent: Pid, _: &Call, wait: ChildWait, kin: &Kin) -> io::Result<Outlook> {
        let mut children = self.0.borrow().families.children(parent);
        children.retain(|(child, _)| !kin.collected.contains(child));
        Ok(match children[..] {
            [] => Outlook::Told(wait.told_none()),
            _ if children.iter().all(|(_, end)| end.is_none()) => Outlook::Sleeps,
            _ => Outlook::Unknown,
        })
    }

    fn has_zombies(&self, _: Pid) -> io::Result<bool> {
        // Any number of signals waits.
        Ok(false)
    }

    fn tell_of_zombie(
        &mut self,
        _: &mut Pid,
        call: &Call,
        (_, kin): (ChildWait, &Kin),
        _: &[PendingCall],
    ) -> io::Result<Option<(Pid, u64)>> {
        let state = &mut *self.0.borrow_mut();
        let parent = state.tasks[call.thread()].process;
        let mut children = state.families.children(parent).into_iter();
        let found = children.find_map(|(child, end)| {
            let is_new = !kin.collected.contains(&child);
            end.filter(|_| is_new).map(|end| (child, end))
        });
        let (Some((child, end)), false) = (found, state.once_in(8)) else {
            if state.rng.bool() {
                state.task(call.thread()).waits_in = None;
            }
            return Ok(None);
        };
        if end == End::Killed {
            state.leave_killed(child);
        }
        let is_told = state.answer(call, Answer::Value(end.told(child)));
        Ok(is_told.then(|| (child, address_of(child))))
    }

    fn reap_zombie(&mut self, process: &mut Pid, child: u64) -> io::Result<()> {
        let state = &mut *self.0.borrow_mut();
        let mut threads = state.threads(*process).into_iter();
        assert!(threads.all(|thread| state.tasks[thread].stands), "it runs");
        state.families.reap(thread_at(child));
        Ok(())
    }

    fn tell_of_none(&mut self, _: &mut Pid, call: &Call, told: &Told) -> io::Result<bool> {
        let told = Answer::Value(told.result);
        Ok(self.0.borrow_mut().answer(call, told))
    }

    fn heeds(&self, call: &Call) -> io::Result<Heed> {
        let state = &mut *self.0.borrow_mut();
        let heeds = state.op_of(call) == Op::Doze && state.rng.u8(..8) != 0;
        Ok(match heeds {
            true => Heed::Interrupted,
            false => Heed::None,
        })
    }

    fn expects(&mut self, _: &mut Pid) -> io::Result<Expects> {
        Ok(Expects::default())
    }

    fn tells_of(&self, thread: &Pid) -> io::Result<Option<u64>> {
        Ok(match self.0.borrow().tasks[*thread].signal {
            Some(Sent::Child { number, .. }) => Some(number),
            _ => None,
        })
    }

    fn is_unnoticed(&self, _: &Pid) -> io::Result<bool> {
        Ok(false)
    }

    fn pass_on(&mut self, thread: Pid) -> io::Result<()> {
        self.0.borrow_mut().take_signal(thread);
        Ok(())
    }

    fn retract(&mut self, process: &mut Pid, child: u64) -> io::Result<()> {
        let state = &mut *self.0.borrow_mut();
        state.families.unhear(thread_at(child));
        state.mail.retract(*process, child);
        Ok(())
    }

    fn reap(&mut self, process: &mut Pid, exit: &Exit, _: &Expects) -> io::Result<()> {
        let state = &mut *self.0.borrow_mut();
        let mut threads = state.threads(*process).into_iter();
        assert!(threads.all(|thread| state.tasks[thread].stands), "it runs");
        if exit.is_collected() {
            state.families.reap(exit.child);
        }
        Ok(())
    }
}
