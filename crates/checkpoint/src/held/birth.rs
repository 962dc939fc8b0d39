//! A stopped thread bears a process for its supervisor, and is not told of the end of one that it never bore.

use std::io;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use surmise_sys::ptrace::{News, Queue, SignalInfo, Stop, Stopped, call};

use super::{Held, await_news};
use crate::gate::Gate;

/// After how long without news it is looked whether the call was made again.
const PAUSE: Duration = Duration::from_millis(20);

impl Held {
    /// Has it make a call that notifies and bears a process. Returns the result, and the process, which is a tracee in
    /// its first stop.
    pub(crate) fn bear(
        &mut self,
        instruction: u64,
        (number, arguments): (i64, [u64; 6]),
        gate: &mut dyn Gate,
    ) -> io::Result<(i64, Option<Pid>)> {
        self.begin(instruction, number, arguments)?;
        let call = self.await_call(gate, Stopped::step)?;
        gate.let_pass(call)?;
        let mut born = None;
        let borne = self.finish_birth(gate, &mut born);
        if borne.is_err()
            && let Some(child) = born
        {
            // Its parent was killed, and does not go on with it.
            let _ = rustix::process::kill_process(child, Signal::KILL);
        }
        borne.map(|result| (result, born))
    }

    fn finish_birth(&mut self, gate: &mut dyn Gate, born: &mut Option<Pid>) -> io::Result<i64> {
        loop {
            match await_news(self.thread, Instant::now() + PAUSE)? {
                // A signal that no mask keeps out came before the birth: the kernel makes the call again.
                None => {
                    if let Some(call) = gate.await_call(self.thread)? {
                        gate.let_pass(call)?;
                    }
                }
                Some(News::Ended(_)) => return Err(Errno::SRCH.into()),
                Some(News::Stopped(stopped, Stop::Birth(child))) => {
                    *born = Some(child);
                    stopped.step()?;
                }
                Some(News::Stopped(stopped, stop @ Stop::Signal(_)))
                    if !self.note(&stopped, stop)? =>
                {
                    let result = stopped.registers()?.result();
                    self.stopped = Some(stopped);
                    self.takes_signal = true;
                    return Ok(result);
                }
                Some(News::Stopped(stopped, stop)) => {
                    self.is_job_stopped |= matches!(stop, Stop::Group(_));
                    stopped.step()?;
                }
            }
        }
    }

    /// Takes away a signal of a kind that its process was sent, if that is one that is meant and waits. True if there was one.
    pub(crate) fn forget(
        &mut self,
        instruction: u64,
        kind: i32,
        is_meant: impl Fn(&SignalInfo) -> bool,
    ) -> io::Result<bool> {
        let before = self.signals.len();
        self.signals.retain(|signal| !is_meant(signal));
        if self.signals.len() < before {
            return Ok(true);
        }
        if !self.waiting(Queue::Process, kind)?.iter().any(&is_meant) {
            return Ok(false);
        }
        // The kernel gives a thread what is its own first.
        let mut own = Vec::new();
        let mut is_taken = false;
        while !is_taken && let Some(taken) = self.take(instruction, kind)? {
            is_taken = is_meant(&taken);
            if !is_taken {
                own.push(taken);
            }
        }
        if !own.is_empty() {
            // A signal that is given in no signal's stop waits for the thread.
            self.begin(instruction, call::GETPID, [0; 6])?;
            self.finish()?;
        }
        for signal in &own {
            self.put(instruction, signal)?;
        }
        Ok(is_taken)
    }
}
