//! What the supervisor does about the ends of processes.

use std::io;

use rustix::process::Pid;
use surmise_checkpoint::{Account, PendingCall};

use crate::call::Call;
use crate::meeting::Ending;
use crate::objects::exits::Exit;
use crate::objects::heed::Heed;
use crate::objects::wait::{ChildWait, Outlook, Tidings, Told, Whom};

/// Children of a process that are none any more as far as it is to know, or never were.
#[derive(Debug, Default)]
pub(crate) struct Kin {
    /// They hold its images.
    pub(crate) vessels: Vec<Pid>,
    /// They have held images of it, and have ended or are about to.
    pub(crate) discarded: Vec<Pid>,
    /// It was told that they have ended.
    pub(crate) collected: Vec<Pid>,
}

impl Kin {
    /// Whether a child is among them.
    pub(crate) fn has(&self, child: Pid) -> bool {
        let mut all = [&self.vessels, &self.discarded, &self.collected].into_iter();
        all.any(|some| some.contains(&child))
    }
}

/// What a process could be told of its children.
#[derive(Debug, Default)]
pub(crate) struct Expects {
    /// Those that have ended and wait to be reaped.
    pub(crate) zombies: Vec<Pid>,
    /// Whether a signal waits that tells of any.
    pub(crate) has_signal: bool,
}

/// Ends of processes, and what their parents are told of them. `P` is what it takes to stop a process, `S` a thread that
/// has stopped to take a signal.
pub(crate) trait Ends<P, S> {
    /// How a process would end by a call, if nobody but its parent can tell that it stands still instead.
    fn ending(&mut self, process: Pid, call: &Call, kin: &Kin) -> io::Result<Option<Ending>>;

    /// The children of a process that have held its images, and that it has not reaped.
    fn discarded(&self, process: &P) -> Vec<Pid>;

    /// What a process that stands still has used, and whose it is; `None` if it was killed.
    fn account(&mut self, process: &mut P) -> io::Result<Option<Account>>;

    /// Has a process close all that it has open, which stands still at its exit and will end there.
    fn close_files(&mut self, process: &mut P) -> io::Result<()>;

    /// Has a process that stands still end, and returns when it has ended.
    fn exit(&mut self, process: &mut P, ending: &Ending) -> io::Result<()>;

    /// Whether a thread of a process may sleep in the kernel until a child ends, or until a signal tells of that.
    fn may_sleep(&mut self, parent: Pid) -> bool;

    /// Has the threads of a process that is no member make their calls once more. `calls`: those of its threads that wait for
    /// their answers.
    fn rouse(&mut self, parent: Pid, calls: &[PendingCall]) -> io::Result<()>;

    /// Whether a process that depends on nothing is still traced, until it has taken the signal that tells of a child's end.
    fn are_parting(&self) -> bool;

    /// Whether a call is content with the child of an exit.
    fn is_awaited(&self, call: &Call, whom: Whom, exit: &Exit) -> io::Result<bool>;

    /// Whether the caller can be told now of the end of a child.
    fn may_be_told(&self, call: &Call, told: &Told) -> io::Result<bool>;

    /// What becomes of a call that waits for children if none of them has exited, as far as its process is to know.
    fn childless(
        &self,
        parent: Pid,
        call: &Call,
        wait: ChildWait,
        kin: &Kin,
    ) -> io::Result<Outlook>;

    /// Answers a call that waits for a child by that. False if it was not answered.
    fn tell_of_none(&mut self, process: &mut P, call: &Call, told: &Told) -> io::Result<bool>;

    /// Whether children of a process have ended and are not reaped.
    fn has_zombies(&self, parent: Pid) -> io::Result<bool>;

    /// Answers a call that waits for a child by one that has ended, which the process does not reap. Returns which, and the child's
    /// number for the process. `others`: calls of its other threads that wait.
    fn tell_of_zombie(
        &mut self,
        process: &mut P,
        call: &Call,
        waits: (ChildWait, &Kin),
        others: &[PendingCall],
    ) -> io::Result<Option<(Pid, u64)>>;

    /// Has a process that stands still reap a child that has ended, by its number for the process.
    fn reap_zombie(&mut self, process: &mut P, child: u64) -> io::Result<()>;

    /// Tells the process of a call of an exit. If the process takes the signal that tells so, it takes that before its call is
    /// answered. `others` are calls of its other threads that wait. False if it was not told.
    fn tell(
        &mut self,
        process: &mut P,
        call: &Call,
        told: (&Exit, &Tidings),
        others: &[PendingCall],
    ) -> io::Result<bool>;

    /// What a call would make of the signal that tells of the end of a child.
    fn heeds(&self, call: &Call) -> io::Result<Heed>;

    /// What a process that stands still could be told of its children now.
    fn expects(&mut self, process: &mut P) -> io::Result<Expects>;

    /// The child that a signal tells of which a thread has stopped to take, by the number that the thread knows.
    fn tells_of(&self, signal: &S) -> io::Result<Option<u64>>;

    /// Whether a signal tells of the end of a child, and the process that has stopped for it does not notice it.
    fn is_unnoticed(&self, signal: &S) -> io::Result<bool>;

    /// Lets a thread go on with the signal that it has stopped for, still traced.
    fn pass_on(&mut self, signal: S) -> io::Result<()>;

    /// A process that stands still does not take the signal that has told it of the end of a child.
    fn retract(&mut self, process: &mut P, child: u64) -> io::Result<()>;

    /// Has a process that stands still hear no more of the end of a child that it knows of, and reap the child if it has
    /// collected that. `before` is what it could be told before that end.
    fn reap(&mut self, process: &mut P, exit: &Exit, before: &Expects) -> io::Result<()>;
}
