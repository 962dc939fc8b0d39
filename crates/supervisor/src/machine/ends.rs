//! What the kernel tells, and does, about the ends of processes.

use std::io;

use rustix::process::{Pid, Signal};
use surmise_checkpoint::{Account, PendingCall};
use surmise_sys::ptrace::Stopped;

use super::family::{self, Way};
use super::process::{self, Supervised};
use super::{Door, Learnt, Machine, signals, spare_call, task, unless_out_of_reach};
use crate::call::Call;
use crate::meeting::Ending;
use crate::objects::exits::Exit;
use crate::objects::heed::Heed;
use crate::objects::wait::{ChildWait, Outlook, Tidings, Told, Whom};
use crate::world::{Ends, Expects, Kin};

/// The signal that tells of the end of a child.
const END: u32 = Signal::CHILD.as_raw().cast_unsigned();

impl Ends<Supervised, Stopped> for Machine {
    fn ending(&mut self, process: Pid, call: &Call, kin: &Kin) -> io::Result<Option<Ending>> {
        let Some(Learnt {
            channels: Some(channels),
            seen,
            ..
        }) = &self.learnt
        else {
            return Ok(None);
        };
        unless_out_of_reach(family::ending(process, call, kin, (seen, channels)), None)
    }

    fn discarded(&self, process: &Supervised) -> Vec<Pid> {
        process.process.discarded().collect()
    }

    fn account(&mut self, process: &mut Supervised) -> io::Result<Option<Account>> {
        process.account(&mut self.door)
    }

    fn close_files(&mut self, process: &mut Supervised) -> io::Result<()> {
        process.close_files(&mut self.door)
    }

    fn exit(&mut self, process: &mut Supervised, ending: &Ending) -> io::Result<()> {
        self.part(process.pid())?;
        process.exit(ending.status, &mut self.door)
    }

    fn may_sleep(&mut self, parent: Pid) -> bool {
        let learnt = self.learnt.as_mut();
        learnt.is_some_and(|learnt| learnt.sleepers.are_in(parent))
    }

    fn rouse(&mut self, parent: Pid, calls: &[PendingCall]) -> io::Result<()> {
        let traced = self.stays(parent);
        process::rouse(parent, calls, traced, &mut self.door)
    }

    fn are_parting(&self) -> bool {
        self.partings.have_any()
    }

    fn is_awaited(&self, call: &Call, whom: Whom, exit: &Exit) -> io::Result<bool> {
        unless_out_of_reach(family::is_content(call, whom, exit.child), false)
    }

    fn may_be_told(&self, call: &Call, told: &Told) -> io::Result<bool> {
        match &self.learnt {
            Some(learnt) => {
                unless_out_of_reach(family::may_be_told(call, told, &learnt.seen), false)
            }
            None => Ok(false),
        }
    }

    fn has_zombies(&self, parent: Pid) -> io::Result<bool> {
        let zombies = unless_out_of_reach(family::zombies(parent), Vec::new())?;
        Ok(!zombies.is_empty())
    }

    fn tell_of_zombie(
        &mut self,
        process: &mut Supervised,
        call: &Call,
        (wait, kin): (ChildWait, &Kin),
        others: &[PendingCall],
    ) -> io::Result<Option<(Pid, u64)>> {
        let found = match &self.learnt {
            Some(learnt) if !learnt.seen.may_notice_ends() && !learnt.seen.reaps_by_itself() => {
                unless_out_of_reach(family::ended(call, wait.whom, kin), None)?
            }
            _ => None,
        };
        let Some((child, number)) = found else {
            return Ok(None);
        };
        let is_told = process.tell_of_zombie((call, wait), number, others, &mut self.door)?;
        Ok(is_told.then_some((child, number)))
    }

    fn reap_zombie(&mut self, process: &mut Supervised, child: u64) -> io::Result<()> {
        process.reap_zombie(child, &mut self.door)
    }

    fn tell(
        &mut self,
        process: &mut Supervised,
        call: &Call,
        (exit, tidings): (&Exit, &Tidings),
        others: &[PendingCall],
    ) -> io::Result<bool> {
        let way = match tidings {
            Tidings::Collected(_) if exit.is_announced() => Way::Nowhere,
            Tidings::Collected(_) => {
                unless_out_of_reach(family::way_of_signal(call.thread()), Way::Nowhere)?
            }
            Tidings::Interrupted => Way::Taken,
            Tidings::Queued => Way::Waits,
        };
        let interrupted = Told::interrupted();
        let told = match tidings {
            Tidings::Collected(told) => Some(told),
            Tidings::Interrupted => Some(&interrupted),
            Tidings::Queued => None,
        };
        process.tell(call, (exit, told), (way, others), &mut self.door)
    }

    fn heeds(&self, call: &Call) -> io::Result<Heed> {
        match &self.learnt {
            Some(learnt) if !learnt.seen.may_notice_ends() && !learnt.seen.reaps_by_itself() => {
                unless_out_of_reach(family::heeds(call, END), Heed::None)
            }
            _ => Ok(Heed::None),
        }
    }

    fn childless(
        &self,
        parent: Pid,
        call: &Call,
        wait: ChildWait,
        kin: &Kin,
    ) -> io::Result<Outlook> {
        match &self.learnt {
            Some(learnt) if !learnt.seen.reaps_by_itself() => {
                let outlook = family::childless(parent, call, wait, kin);
                unless_out_of_reach(outlook, Outlook::Unknown)
            }
            _ => Ok(Outlook::Unknown),
        }
    }

    fn tell_of_none(
        &mut self,
        process: &mut Supervised,
        call: &Call,
        told: &Told,
    ) -> io::Result<bool> {
        process.fill_and_answer(call, told, &mut self.door)
    }

    fn expects(&mut self, process: &mut Supervised) -> io::Result<Expects> {
        process.expects()
    }

    fn tells_of(&self, stopped: &Stopped) -> io::Result<Option<u64>> {
        let child = signals::info(stopped)?.and_then(|signal| signal.child());
        Ok(child.and_then(|child| child.try_into().ok()))
    }

    fn is_unnoticed(&self, stopped: &Stopped) -> io::Result<bool> {
        let tells = self.tells_of(stopped)?.is_some();
        Ok(tells && unless_out_of_reach(family::ignores_ends(stopped.thread()), false)?)
    }

    fn pass_on(&mut self, stopped: Stopped) -> io::Result<()> {
        let passed = pass_on(stopped, &mut self.door);
        match passed {
            Err(error) if task::is_gone(&error) => Ok(()),
            passed => passed,
        }
    }

    fn retract(&mut self, process: &mut Supervised, child: u64) -> io::Result<()> {
        retract(process, child)
    }

    fn reap(&mut self, process: &mut Supervised, exit: &Exit, before: &Expects) -> io::Result<()> {
        process.reap(exit, before, &mut self.door)
    }
}

/// A process, which stands still, does not take the signal that has told it of the end of a child.
fn retract(process: &mut Supervised, child: u64) -> io::Result<()> {
    // It would be lost for those that have ended since.
    let others = family::zombies(process.pid()).unwrap_or_default();
    if !others.is_empty() {
        return Ok(());
    }
    let retracted = process.with_halted(|halted| halted.forget_end(child as i32));
    retracted.map(drop)
}

/// A call that reports any interruption begins again unless a handler runs: without a tracer, the kernel would not have
/// interrupted it for a signal that the process does not notice.
fn pass_on(stopped: Stopped, door: &mut Door) -> io::Result<()> {
    spare_call(&stopped, door)?;
    let signal = stopped.signal()?;
    stopped.go_on_with(&signal)
}
