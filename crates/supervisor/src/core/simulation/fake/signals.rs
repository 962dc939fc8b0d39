//! Signals that tasks take, and timers that send them.

use std::io;

use rustix::process::{Pid, Signal};
use surmise_checkpoint::{Change, PendingCall};

use super::Fake;
use super::images::Image;
use super::op::Op;
use super::state::State;
use crate::call::Call;
use crate::world::Signals;

/// What a task is told that takes a signal, beside the signal's number.
const TAKEN: i64 = 70_000;
/// Likewise, of one that tells of a child, beside the child's number.
const OF_CHILD: i64 = 80_000;

/// Likewise, of one that a task has sent.
const OF_TASK: i64 = 71_000;
/// What a task is told that has sent one, beside its number, and one that could not.
pub(in crate::core::simulation) const SENT: i64 = 74_000;
pub(in crate::core::simulation) const NOBODY: i64 = -3;

/// A signal that is taken once, unless its process ends before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core::simulation) enum Sent {
    /// By somebody outside.
    Outside(u64),
    /// By the timer that was set with this number.
    Timer(i64),
    /// By a task, whose call was told so.
    Task(u64),
    /// By the kernel, to tell of the exit of a child with this number. Its parent had been told so much before.
    Child { number: u64, at: usize },
}

impl Sent {
    /// Whether it ends the process that takes it.
    fn is_deadly(self) -> bool {
        matches!(self, Self::Outside(number) if number % 12 == 11)
    }

    pub(in crate::core::simulation) fn told(self) -> i64 {
        match self {
            Self::Outside(number) => TAKEN + number as i64,
            Self::Timer(number) => TAKEN - number,
            Self::Task(number) => OF_TASK + number as i64,
            Self::Child { number, .. } => OF_CHILD + number as i64 / 10,
        }
    }
}

/// All signals and timers.
#[derive(Debug, Default)]
pub(in crate::core::simulation) struct Mail {
    /// To which process each was sent from outside.
    pub(in crate::core::simulation) sent: Vec<(Pid, u64)>,
    /// That wait to be taken.
    waiting: Vec<(Pid, Sent)>,
    /// That were not taken before their process had ended.
    pub(in crate::core::simulation) left: Vec<(Pid, Sent)>,
    /// Those that were sent to tasks which were told of children.
    pub(in crate::core::simulation) of_children: Vec<(Pid, Sent)>,
    /// The numbers of the timers that are armed.
    pub(in crate::core::simulation) timers: Vec<(Pid, i64)>,
    count: u64,
}

impl Mail {
    pub(super) fn next(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    fn timer(&self, process: Pid) -> Option<i64> {
        let mut timers = self.timers.iter();
        let found = timers.find(|(of, _)| *of == process);
        found.map(|(_, number)| *number)
    }

    fn set(&mut self, process: Pid, timer: Option<i64>) {
        self.timers.retain(|(of, _)| *of != process);
        self.timers.extend(timer.map(|number| (process, number)));
    }

    /// Whether any waits for a process.
    pub(super) fn has(&self, process: Pid) -> bool {
        self.waiting.iter().any(|(of, _)| *of == process)
    }

    /// A signal waits again.
    pub(super) fn wait(&mut self, process: Pid, sent: Sent) {
        self.waiting.push((process, sent));
    }

    /// A process has not been told of the exit of a child: the signal that tells so does not wait.
    pub(super) fn retract(&mut self, process: Pid, child: u64) {
        let is_meant = |sent: &Sent| matches!(sent, Sent::Child { number, .. } if *number == child);
        self.waiting
            .retain(|(of, sent)| *of != process || !is_meant(sent));
    }

    /// A task was told no more than this, so it was told of fewer exits.
    pub(super) fn forget_children(&mut self, task: Pid, told: usize) {
        let is_undone = |sent: &Sent| matches!(sent, Sent::Child { at, .. } if *at >= told);
        self.of_children
            .retain(|(of, sent)| *of != task || !is_undone(sent));
    }

    /// A process has ended, or is never born.
    pub(super) fn end(&mut self, process: Pid) {
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        let (left, waiting) = waiting.partition(|(of, _)| *of == process);
        self.waiting = waiting;
        self.left.extend::<Vec<_>>(left);
    }
}

impl State {
    /// Somebody outside sends a process a signal, or a timer does.
    pub(in crate::core::simulation) fn send(&mut self, pid: Pid) {
        let process = self.tasks[pid].process;
        let is_one = self
            .tasks
            .iter()
            .filter(|(_, task)| task.process == process);
        if is_one.count() != 1 || self.tasks[pid].at_exit {
            return;
        }
        let sent = match self.mail.timer(process) {
            Some(number) => {
                self.mail.set(process, None);
                Sent::Timer(number)
            }
            None => {
                let number = self.mail.next();
                self.mail.sent.push((process, number));
                Sent::Outside(number)
            }
        };
        self.mail.wait(process, sent);
    }

    /// A task sends a process a signal. Returns what the task is told.
    pub(super) fn kick(&mut self, process: Pid) -> i64 {
        if !self.can_be_kicked(process) {
            return NOBODY;
        }
        let number = self.mail.next();
        self.mail.wait(process, Sent::Task(number));
        SENT + number as i64
    }

    /// Whether a process takes signals: it has one thread, which has not exited.
    pub(super) fn can_be_kicked(&self, process: Pid) -> bool {
        match self.threads(process)[..] {
            [thread] => !self.tasks[thread].at_exit,
            _ => false,
        }
    }

    /// A task collects a child. The signal that tells so may wait until it is taken.
    pub(super) fn tell_by_signal(&mut self, pid: Pid, number: u64) {
        let process = self.tasks[pid].process;
        if self.threads(process).len() != 1 {
            return;
        }
        let at = self.tasks[pid].told.len();
        let sent = Sent::Child { number, at };
        self.mail.wait(process, sent);
        self.mail.of_children.push((pid, sent));
    }

    /// Whether a signal of a task's timer waits to be taken.
    pub(super) fn has_alarm(&self, pid: Pid) -> bool {
        let process = self.tasks[pid].process;
        let mut waiting = self.mail.waiting.iter();
        waiting.any(|(of, sent)| *of == process && matches!(sent, Sent::Timer(_)))
    }

    /// A task takes a signal, or stops to take it. True if it stops, and somebody hears of that.
    pub(in crate::core::simulation) fn receive(&mut self, pid: Pid) -> Option<bool> {
        let task = &self.tasks[pid];
        let (process, is_free) = (task.process, task.runs() && task.loan.is_none());
        let told = task.told.len();
        // A task blocks the signal that tells of a child until it has made some more calls.
        let is_blocked = |sent: &Sent| match sent {
            Sent::Child { number, at } => told < at + *number as usize / 100 % 8,
            _ => false,
        };
        let mut waiting = self.mail.waiting.iter();
        let place =
            waiting.position(|(of, sent)| *of == process && is_free && !is_blocked(sent))?;
        let (_, sent) = self.mail.waiting.remove(place);
        if self.signal(pid) {
            self.task(pid).signal = Some(sent);
            return Some(true);
        }
        self.take(pid, sent);
        Some(false)
    }

    /// A task goes on with the signal that it has stopped for.
    pub(super) fn take_signal(&mut self, pid: Pid) {
        let task = self.task(pid);
        task.at_signal = false;
        if let Some(sent) = task.signal.take() {
            self.take(pid, sent);
        }
    }

    fn take(&mut self, pid: Pid, sent: Sent) {
        if !sent.is_deadly() {
            return self.tell(pid, Op::Signal(sent), sent.told());
        }
        let process = self.tasks[pid].process;
        self.happened.ends += u64::from(self.tasks[pid].traced);
        self.mail.wait(process, sent);
        self.kill(process);
        self.heard_ends.push(process);
    }

    /// A task sets its timer. Returns what it is told.
    pub(super) fn arm(&mut self, process: Pid) -> i64 {
        let number = self.mail.next() as i64;
        self.mail.set(process, Some(number));
        number
    }
}

impl Signals<Pid, Image, Pid, Sent, Option<i64>> for Fake {
    fn taken(&self, thread: &Pid) -> io::Result<Option<Sent>> {
        let state = &mut *self.0.borrow_mut();
        let may_be = state.rng.u8(..8) != 0;
        let sent = state.tasks[*thread].signal.filter(|_| may_be);
        Ok(sent.filter(|sent| !sent.is_deadly()))
    }

    fn deadly(&self, thread: &Pid) -> io::Result<Option<Signal>> {
        let state = self.0.borrow();
        let sent = state.tasks[*thread].signal;
        Ok(sent.filter(|sent| sent.is_deadly()).map(|_| Signal::TERM))
    }

    fn might_survive(&self, _: &Image, _: Signal) -> bool {
        self.0.borrow_mut().once_in(8)
    }

    fn interrupt(&mut self, call: &Call, _: bool) -> io::Result<bool> {
        let state = &mut *self.0.borrow_mut();
        let task = &state.tasks[call.thread()];
        let waits = task.waits_in == Some(call.notification.id);
        let is_interrupted = waits && state.mail.has(task.process);
        if is_interrupted {
            state.happened.interruptions += 1;
            state.task(call.thread()).waits_in = None;
        }
        Ok(is_interrupted)
    }

    fn is_of_timer(&self, signal: &Sent) -> bool {
        matches!(signal, Sent::Timer(_))
    }

    fn changes(&self, _: &Sent) -> [Change; 2] {
        [Change::Handler(14), Change::SignalStack]
    }

    fn send_again(&mut self, process: &mut Pid, signals: &[Sent]) -> io::Result<()> {
        let mail = &mut self.0.borrow_mut().mail;
        for sent in signals {
            mail.wait(*process, *sent);
        }
        Ok(())
    }

    fn set_timer(
        &mut self,
        process: &mut Pid,
        call: &Call,
        others: &[PendingCall],
    ) -> io::Result<Option<Option<i64>>> {
        let state = &mut *self.0.borrow_mut();
        let before = state.mail.timer(*process);
        let is_set = state.depute(*process, call, others);
        Ok(is_set.then_some(before))
    }

    fn restore_timer(&mut self, process: &mut Pid, before: &Option<i64>) -> io::Result<()> {
        let mail = &mut self.0.borrow_mut().mail;
        mail.set(*process, *before);
        let is_of_timer = |sent: &Sent| matches!(sent, Sent::Timer(_));
        mail.waiting
            .retain(|(of, sent)| of != process || !is_of_timer(sent));
        Ok(())
    }
}
