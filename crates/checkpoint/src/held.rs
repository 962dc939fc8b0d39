//! A stopped thread of a process: what it was about to do, and calls that it makes meanwhile.

mod birth;
mod departure;
mod hand;
mod order;
mod taken;

use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use surmise_linux::proc::is_gone;
use surmise_sys::ptrace::{self, News, Queue, Registers, SignalInfo, Stop, Stopped};

pub(crate) use departure::Departure;
pub(crate) use hand::Hand;
pub(crate) use order::restore as restore_order;
use taken::{Returned, Taken};

use crate::error::{CheckpointError, taking};
use crate::gate::{Gate, PendingCall};
use crate::process::{check_known, is_zombie};

/// Every signal but SIGTRAP: nothing arrives while a thread works for the supervisor. The end of a step is
/// a SIGTRAP that the kernel forces, and where that is blocked it takes the program's handler away.
const ALL_SIGNALS: u64 = !(1 << 4);

/// A signal's place in a mask.
const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// What a step ends in: SIGTRAP.
const END_OF_STEP: i32 = Signal::TRAP.as_raw();

/// For how long no wait gives the processor up: on a busy machine it may be milliseconds until it comes back.
const AT_ONCE: Duration = Duration::from_micros(40);
/// For how long it only gives way to others: most come at once.
const EAGER: Duration = Duration::from_micros(200);
const NAP: Duration = Duration::from_micros(200);
/// How long it may take where it must come.
const SURELY: Duration = Duration::from_secs(30);

/// A thread in a stop.
#[derive(Debug)]
pub(crate) struct Held {
    thread: Pid,
    /// `None` while it makes a call, and once one has found it dead.
    stopped: Option<Stopped>,
    /// As it stopped.
    registers: Registers,
    /// Whether it was in a call that notified and has not happened.
    was_notifying: bool,
    mask: u64,
    /// Whether it has other registers and another mask than those, to make calls with all signals blocked.
    is_working: bool,
    /// That it takes when it goes on, whatever its mask, in the order in which they came.
    signals: Vec<SignalInfo>,
    /// That it was about to take, and that waits again.
    returned: Option<Returned>,
    /// Whether this stop is one that a signal may be given in.
    takes_signal: bool,
    /// Whether it was stopped as its job is.
    is_job_stopped: bool,
    /// If the call that it waited in is to be as if a signal had interrupted it: whether that call may begin again.
    interrupted: Option<bool>,
    /// Whether it was seen to be its process' only thread. It stays so while it is held: no call that it is made to make makes
    /// another thread.
    is_alone: bool,
}

impl Held {
    /// Takes over one that is in a stop which is no signal's, and that waits for nobody else; `None` for
    /// one that is to be heard of first.
    fn at_rest(stopped: Stopped) -> io::Result<Option<Self>> {
        match stopped.is_interrupted()? {
            true => Self::resting(stopped).map(Some),
            false => Ok(None),
        }
    }

    /// Takes over one that has executed nothing since its birth.
    pub(crate) fn resting(stopped: Stopped) -> io::Result<Self> {
        Self::new(stopped, false, Taken::default())
    }

    fn new(stopped: Stopped, was_notifying: bool, taken: Taken) -> io::Result<Self> {
        let registers = stopped.registers()?;
        let is_masked = taken.mask().is_some();
        let mask = match taken.mask() {
            Some(mask) => mask,
            None => stopped.signal_mask()?,
        };
        let (signals, returned) = taken.settle(&stopped)?;
        Ok(Self {
            thread: stopped.thread(),
            stopped: Some(stopped),
            registers,
            was_notifying,
            mask,
            is_working: is_masked,
            signals,
            returned,
            takes_signal: false,
            is_job_stopped: false,
            interrupted: None,
            is_alone: false,
        })
    }

    /// It is its process' only thread.
    pub(crate) fn is_seen_alone(&mut self) {
        self.is_alone = true;
    }

    pub(crate) fn thread(&self) -> Pid {
        self.thread
    }

    /// # Errors
    /// `ESRCH` when a call that it made found it dead.
    pub(crate) fn stopped(&self) -> io::Result<&Stopped> {
        self.stopped.as_ref().ok_or_else(|| Errno::SRCH.into())
    }

    /// Whether it was killed: nothing else has a thread leave its stop, and then the kernel knows of none.
    pub(crate) fn was_killed(&self) -> bool {
        Stopped::now(self.thread).is_none()
    }

    fn take_stopped(&mut self) -> io::Result<Stopped> {
        self.stopped.take().ok_or_else(|| Errno::SRCH.into())
    }

    /// Whether it was in a call that waited for an answer, and has not happened.
    pub(crate) fn was_notifying(&self) -> bool {
        self.was_notifying
    }

    /// Memory below its stack that it does not use, of a few hundred bytes. The first 128 are in one page: so a write to them
    /// happens as a whole or not at all.
    pub(crate) fn free_stack(&self) -> u64 {
        self.registers.stack_pointer().wrapping_sub(4096) & !127
    }

    /// Its memory is what it was when it had these registers: so is its stack.
    pub(crate) fn has_memory_of(&mut self, registers: Registers) {
        self.registers = registers;
    }

    pub(crate) fn mask(&self) -> u64 {
        self.mask
    }

    /// What waits for it alone.
    fn own_signals(&self) -> io::Result<Vec<SignalInfo>> {
        self.stopped()?.queued(Queue::Thread)
    }

    /// Has what it did that caused a signal never happened.
    pub(crate) fn forget_faults(&mut self) {
        self.signals.retain(|signal| !signal.is_fault());
    }

    /// Its registers, back from the call that it waits in with a result.
    pub(crate) fn registers_returning(&self, result: i64) -> Registers {
        self.registers.returning(result)
    }

    /// Its registers in a form that means the same at another time: what has not happened happens again.
    pub(crate) fn registers_settled(&self) -> Registers {
        match self.was_notifying {
            true => self.registers.repeating(),
            false => self.registers.settled(),
        }
    }

    /// Its registers, with which it goes on as if it had not been stopped.
    pub(crate) fn registers_undisturbed(&self) -> Registers {
        match (self.was_notifying, self.interrupted) {
            (true, Some(may_begin_again)) => self.registers.interrupted(may_begin_again),
            (true, None) => self.registers.repeating(),
            (false, _) => self.registers.undisturbed(),
        }
    }

    fn begin(&mut self, instruction: u64, number: i64, arguments: [u64; 6]) -> io::Result<()> {
        self.work(instruction, number, arguments)?;
        self.take_stopped()?.step()
    }

    /// Has it be about to make a call, in which no signal disturbs it.
    fn work(&mut self, instruction: u64, number: i64, arguments: [u64; 6]) -> io::Result<()> {
        check_known(instruction)?;
        let registers = self.registers.calling(instruction, number, arguments);
        let stopped = self.stopped()?;
        stopped.set_registers(&registers)?;
        if !self.is_working {
            stopped.set_signal_mask(ALL_SIGNALS)?;
            self.is_working = true;
        }
        Ok(())
    }

    /// Waits until it is in a call that notifies. If it stops before, by `proceed` it comes there.
    fn await_call(
        &mut self,
        gate: &mut dyn Gate,
        proceed: impl Fn(Stopped) -> io::Result<()>,
    ) -> io::Result<PendingCall> {
        loop {
            if let Some(call) = gate.await_call(self.thread)? {
                return Ok(call);
            }
            match ptrace::poll(self.thread)? {
                Some(News::Ended(_)) => return Err(Errno::SRCH.into()),
                Some(News::Stopped(stopped, stop)) => {
                    self.note(&stopped, stop)?;
                    proceed(stopped)?;
                }
                // As in `await_surely`: nobody is told of the end of a first thread before that of the others.
                None if is_zombie(self.thread, self.thread) => return Err(Errno::SRCH.into()),
                None => {}
            }
        }
    }

    fn finish(&mut self) -> io::Result<i64> {
        let is_alone = self.is_alone;
        self.finish_by(|thread| await_surely(thread, is_alone))
    }

    /// As [`Self::finish`]. `wait` waits for the next news of the thread.
    fn finish_by(&mut self, mut wait: impl FnMut(Pid) -> io::Result<News>) -> io::Result<i64> {
        // After an error there is nothing here to hold: the caller ends the process.
        loop {
            match wait(self.thread)? {
                News::Ended(_) => return Err(Errno::SRCH.into()),
                News::Stopped(stopped, stop @ Stop::Signal(_)) if !self.note(&stopped, stop)? => {
                    let result = stopped.registers()?.result();
                    self.stopped = Some(stopped);
                    self.takes_signal = true;
                    return Ok(result);
                }
                // The instruction itself: it would fault for ever.
                News::Stopped(stopped, Stop::Signal(_)) if stopped.signal()?.is_fault() => {
                    return Err(Errno::FAULT.into());
                }
                News::Stopped(stopped, stop) => {
                    self.is_job_stopped |= matches!(stop, Stop::Group(_));
                    stopped.step()?;
                }
            }
        }
    }

    /// Notes a signal that comes while it works: SIGSTOP, which no mask keeps out, or a SIGTRAP that somebody
    /// has sent. It takes it when it goes on. False: the stop is no such signal's.
    fn note(&mut self, stopped: &Stopped, stop: Stop) -> io::Result<bool> {
        let Stop::Signal(number) = stop else {
            return Ok(false);
        };
        let signal = stopped.signal()?;
        let is_sent = number != END_OF_STEP || !signal.is_fault();
        // One that already waits to be taken is not sent a second time.
        if is_sent && !self.signals.iter().any(|held| held.number() == number) {
            self.signals.push(signal);
        }
        Ok(is_sent)
    }
}

/// A tracee that was asked to stop.
#[must_use = "it stops, and nobody will let it go on"]
pub(crate) struct Stopping {
    thread: Pid,
    state: State,
}

enum State {
    Ended,
    AtRest(Box<Held>),
    /// On its way.
    Coming {
        /// Until when it may be.
        deadline: Option<Instant>,
        /// Whether it waited in a call that was answered.
        was_notifying: bool,
        /// What it has stopped to take before.
        taken: Taken,
        /// Whether it is its process' only thread until it has stopped.
        is_alone: bool,
    },
}

impl Stopping {
    /// Asks a tracee to stop. If it waits in a call that notified and was received, that is answered with
    /// a dummy: it will make that call again. `was_alone`: whether the process was just seen to have no other thread.
    pub(crate) fn begin(
        (thread, was_alone): (Pid, bool),
        received: Option<PendingCall>,
        patience: Duration,
        gate: &mut dyn Gate,
    ) -> Result<Self, CheckpointError> {
        let state = |state| Ok(Self { thread, state });
        // One that is born a tracee stops by itself; to be asked again would stop it once more later.
        if received.is_none()
            && let Some(stopped) = Stopped::now(thread)
            && let Some(resting) = Held::at_rest(stopped).map_err(failed)?
        {
            return state(State::AtRest(Box::new(resting)));
        }
        match ptrace::interrupt(thread) {
            Err(error) if is_gone(&error) => return state(State::Ended),
            asked => asked.map_err(failed)?,
        }
        // A received call does not stop until it is answered; the stop comes before the thread sees
        // the answer.
        let mut was_notifying = false;
        if let Some(call) = received {
            was_notifying = gate.answer(call, 0).map_err(failed)?;
        }
        // Once it is answered it is on its way to that stop, and must be met there, or it would take the
        // dummy for the truth. Nothing but other threads can be in its way.
        let deadline = (!was_notifying).then(|| Instant::now() + patience);
        state(State::Coming {
            deadline,
            was_notifying,
            taken: Taken::default(),
            // It has made no other meanwhile, since it has waited.
            is_alone: was_alone && was_notifying,
        })
    }

    /// Has one stop that has stopped to take a signal.
    pub(crate) fn at_signal(stopped: Stopped) -> Result<Self, CheckpointError> {
        let thread = stopped.thread();
        let mut taken = Taken::default();
        let asked = ptrace::interrupt(thread).and_then(|()| taken.refuse(stopped));
        let state = match asked {
            Err(error) if is_gone(&error) => State::Ended,
            asked => {
                asked.map_err(failed)?;
                State::Coming {
                    deadline: None,
                    was_notifying: false,
                    taken,
                    is_alone: false,
                }
            }
        };
        Ok(Self { thread, state })
    }

    pub(crate) fn thread(&self) -> Pid {
        self.thread
    }

    /// Whether it may be anywhere in the kernel, not only where it has waited for an answer or stands already.
    pub(crate) fn may_be_elsewhere(&self) -> bool {
        matches!(&self.state, State::Coming { was_notifying, .. } if !was_notifying)
    }

    /// Waits until it has stopped. `None`: it has ended.
    pub(crate) fn finish(self) -> Result<Option<Held>, CheckpointError> {
        let thread = self.thread;
        let (deadline, was_notifying, mut taken, is_alone) = match self.state {
            State::Ended => return Ok(None),
            State::AtRest(held) => return Ok(Some(*held)),
            State::Coming {
                deadline,
                was_notifying,
                taken,
                is_alone,
            } => (deadline, was_notifying, taken, is_alone),
        };
        loop {
            // One that has refused a signal blocks others until it is in its stop.
            let news = match deadline.filter(|_| taken.mask().is_none()) {
                Some(deadline) => await_news(thread, deadline),
                None => await_surely(thread, is_alone).map(Some),
            };
            match news.map_err(failed)? {
                None => return Err(CheckpointError::Busy { thread }),
                Some(News::Ended(_)) => return Ok(None),
                // The stop that was asked for; in a job that is stopped it says so.
                Some(News::Stopped(stopped, stop @ (Stop::Interrupt | Stop::Group(_)))) => {
                    let mut held = Held::new(stopped, was_notifying, taken).map_err(failed)?;
                    held.is_job_stopped = matches!(stop, Stop::Group(_));
                    return Ok(Some(held));
                }
                Some(News::Stopped(stopped, Stop::Signal(_))) => {
                    taken.refuse(stopped).map_err(failed)?;
                }
                Some(News::Stopped(stopped, Stop::Birth(_) | Stop::Exec)) => {
                    // Any stop takes away one that was asked for before.
                    let asked = ptrace::interrupt(thread).and_then(|()| stopped.go_on());
                    asked.map_err(failed)?;
                }
            }
        }
    }
}

fn failed(source: io::Error) -> CheckpointError {
    taking("stop a thread")(source)
}

/// The next news of a thread that can only stop or end. Nothing but other threads can be in its way.
///
/// Of the end of a process' first thread the kernel tells when all others were reaped, which nobody does
/// who waits here. So where there are several, this looks by itself. `is_alone`: whether it is known that there are not.
fn await_surely(thread: Pid, is_alone: bool) -> io::Result<News> {
    if is_alone || self::is_alone(thread) {
        return ptrace::wait(thread);
    }
    let news = await_news(thread, Instant::now() + SURELY)?;
    news.ok_or_else(|| io::ErrorKind::TimedOut.into())
}

/// Whether a thread is its process' only one.
fn is_alone(thread: Pid) -> bool {
    /// A directory has two names more than directories in it.
    const LINKS: u64 = 3;
    let tasks = std::fs::metadata(format!("/proc/{}/task", thread.as_raw_nonzero()));
    tasks.is_ok_and(|tasks| tasks.nlink() == LINKS)
}

/// The next news of a thread, or `None` at the deadline.
pub(crate) fn await_news(thread: Pid, deadline: Instant) -> io::Result<Option<News>> {
    let begun = Instant::now();
    loop {
        match ptrace::poll(thread) {
            Err(error) if is_gone(&error) => return Ok(Some(News::Ended(thread))),
            Err(error) => return Err(error),
            Ok(Some(news)) => return Ok(Some(news)),
            Ok(None) => {}
        }
        let now = Instant::now();
        if now >= deadline {
            return Ok(None);
        }
        match now - begun {
            waited if waited < AT_ONCE => std::hint::spin_loop(),
            waited if waited < EAGER => std::thread::yield_now(),
            // Nobody may have been told of its end.
            _ if is_zombie(thread, thread) => return Ok(Some(News::Ended(thread))),
            _ => std::thread::sleep(NAP),
        }
    }
}
