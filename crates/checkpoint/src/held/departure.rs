//! How a stopped thread goes on or ends, and takes what came for it meanwhile.

use std::io;

use rustix::process::Signal;
use surmise_sys::ptrace::{self, News, Registers, SignalInfo, Stopped};

use super::taken::is_undone;
use super::{ALL_SIGNALS, Held, bit};
use crate::gate::Gate;

const STOP: i32 = Signal::STOP.as_raw();

/// How a thread goes on.
pub(crate) struct Departure<'a> {
    pub(crate) registers: Registers,
    pub(crate) extended: Option<&'a [u8]>,
    pub(crate) mask: u64,
    /// Whether it stays a tracee.
    pub(crate) traced: bool,
}

impl Held {
    /// A call that has not begun will be made, whatever signal comes before.
    pub(crate) fn find_unbegun(&mut self, gate: &mut dyn Gate) {
        let may_have_begun = gate.has_stopped(self.thread, &self.registers);
        self.was_notifying |= !may_have_begun && self.registers.beginning_again().is_some();
    }

    /// Has it take a signal when it goes on.
    pub(crate) fn give(&mut self, signal: SignalInfo) {
        self.signals.push(signal);
    }

    /// Whether it could take a signal of this number at once: it blocks none such, and is to take no other one before.
    pub(crate) fn is_open_to(&self, number: i32) -> bool {
        let has_none = self.signals.is_empty() && self.returned.is_none();
        has_none && !self.is_job_stopped && self.mask & bit(number) == 0
    }

    /// Has it take a signal when it goes on, in the call that it waits in. `may_begin_again`: if that call sleeps, whether it is made
    /// again where the handler was set so.
    pub(crate) fn interrupt(&mut self, signal: SignalInfo, may_begin_again: Option<bool>) {
        self.give(signal);
        self.interrupted = may_begin_again;
    }

    /// Lets it go on, with the signals that it was about to take. There is a `syscall` instruction at
    /// `instruction`.
    pub(crate) fn release(mut self, departure: &Departure<'_>, instruction: u64) -> io::Result<()> {
        let signal = self.queue_all_but_one(instruction)?;
        let stopped = self.take_stopped()?;
        if self.is_working || departure.registers != self.registers {
            stopped.set_registers(&departure.registers)?;
        }
        if let Some(extended) = departure.extended {
            stopped.set_extended_state(extended)?;
        }
        if self.is_working || departure.mask != self.mask {
            stopped.set_signal_mask(departure.mask)?;
        }
        if self.is_job_stopped && departure.traced {
            // It comes to a stop at once that says whether its job is stopped still. One that is not traced any
            // more the kernel stops by itself.
            ptrace::interrupt(self.thread)?;
        }
        match (signal, departure.traced) {
            (None, true) => stopped.go_on(),
            (None, false) => stopped.detach(),
            (Some(signal), true) => stopped.go_on_with(&signal),
            (Some(signal), false) => stopped.detach_with(&signal),
        }
    }

    /// Comes to a stop in which it can be given a signal, and returns that. The kernel queues the others
    /// again when they are given to a thread that blocks them.
    fn queue_all_but_one(&mut self, instruction: u64) -> io::Result<Option<SignalInfo>> {
        for place in (0..self.signals.len()).rev() {
            if is_undone(self.stopped()?, &self.signals[place])? {
                self.signals.remove(place);
            }
        }
        if !self.signals.is_empty() && !self.takes_signal {
            // The end of any call is such a stop; this one never notifies.
            self.begin(instruction, ptrace::call::GETPID, [0; 6])?;
            self.finish()?;
        }
        self.stop_later()?;
        loop {
            // What no mask keeps out could not be queued: it comes last.
            let is_kept_out = |held: &SignalInfo| ALL_SIGNALS & bit(held.number()) != 0;
            let found = match self.signals.len() {
                0 => return Ok(None),
                1 => return Ok(self.signals.pop()),
                _ => self.signals.iter().position(is_kept_out),
            };
            let Some(found) = found else {
                return Ok(self.signals.pop());
            };
            let queued = self.signals.remove(found);
            self.put(instruction, &queued)?;
        }
    }

    /// SIGSTOP comes after any other signal, which would wait in the kernel's queue until somebody has the process continue. No mask
    /// keeps it out, and who sent it is nobody told: so it is sent again.
    fn stop_later(&mut self) -> io::Result<()> {
        let is_stop = |held: &SignalInfo| held.number() == STOP;
        if self.signals.len() > 1 && self.signals.iter().any(is_stop) {
            rustix::process::kill_process(self.thread, Signal::STOP)?;
            self.signals.retain(|held| !is_stop(held));
        }
        Ok(())
    }

    /// Has it end by a call, of which the process notices nothing else. Returns what was sent to it, and to its process if
    /// nothing can have that wait.
    pub(crate) fn exit(
        mut self,
        (number, arguments): (i64, [u64; 6]),
        instruction: u64,
        gate: &mut dyn Gate,
    ) -> io::Result<Vec<SignalInfo>> {
        let own = self.own_signals()?;
        self.signals.extend(own);
        self.work(instruction, number, arguments)?;
        self.take_stopped()?.go_on()?;
        let call = self.await_call(gate, Stopped::go_on)?;
        gate.let_pass(call)?;
        loop {
            match ptrace::wait(self.thread)? {
                News::Ended(_) => return Ok(self.signals),
                News::Stopped(stopped, stop) => {
                    self.note(&stopped, stop)?;
                    stopped.go_on()?;
                }
            }
        }
    }
}
