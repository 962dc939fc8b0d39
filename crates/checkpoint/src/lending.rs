//! A process that lends its memory to a child until the child executes a program or ends: vfork(2).
//!
//! The kernel itself makes the child, so the thread that has called stays in the kernel until the child gives the memory
//! back, and nothing but a kill stops the thread before. The other threads go on. The child is a tracee from its birth. It
//! has to end ([`Process::end`]) before its parent can be stopped for a rollback to before the birth. What the child has
//! done to the memory is then undone with all that its parent has done. The parent reaps it as any that was never born.

use std::io;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use surmise_linux::proc::{Status, is_gone};
use surmise_sys::ptrace::{self, News, Stop, Stopped};

use crate::birth::Borne;
use crate::gate::{Gate, PendingCall};
use crate::held::await_news;
use crate::process::{Process, is_own_tracee};
use crate::vessel;

/// After how long without news a thread is asked what has come of its call: of a call that fails there are none.
const PAUSE: Duration = Duration::from_millis(200);

/// What came of a call by which a process lends its memory.
#[derive(Debug)]
pub enum Lent {
    /// This process has it, a tracee, which goes on.
    Child(Process),
    /// There is no child that lives: the call has failed, or the child was killed at once.
    Childless,
    /// The call has not happened. Unless it still waits for its answer, it is made again.
    Unmade,
    /// As [`Self::Unmade`]: the thread takes a signal first, and stays stopped until somebody lets it.
    AtSignal(Stopped),
    /// The thread is no more.
    Ended(Pid),
}

impl Process {
    /// Has the call happen in which a tracee of this process waits, and by which the process lends its memory.
    ///
    /// # Errors
    /// As ptrace, and as the listener's.
    pub fn lend(&mut self, call: PendingCall, gate: &mut dyn Gate) -> io::Result<Lent> {
        let thread = call.thread;
        // The birth of its child would be heard of by nobody.
        if !self.traces(thread) && !is_own_tracee(thread) {
            return Ok(Lent::Unmade);
        }
        self.born(thread);
        if !gate.let_pass(call)? {
            return Ok(Lent::Unmade);
        }
        loop {
            let lent = match await_news(thread, Instant::now() + PAUSE)? {
                // A thread that has lent the memory does not come here: its child's birth was told before.
                None => match ptrace::interrupt(thread) {
                    Err(error) if is_gone(&error) => return Ok(Lent::Ended(thread)),
                    asked => asked.map(|()| None),
                },
                Some(News::Ended(_)) => {
                    self.ended(thread);
                    return Ok(Lent::Ended(thread));
                }
                Some(News::Stopped(stopped, Stop::Birth(child))) => {
                    self.has_lent(stopped, child).map(Some)
                }
                Some(News::Stopped(stopped, Stop::Signal(_))) => {
                    return Ok(Lent::AtSignal(stopped));
                }
                Some(News::Stopped(stopped, stop)) => has_not_lent(stopped, stop).map(Some),
            };
            match lent {
                // It was killed, which is the next news.
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
                Ok(Some(lent)) => return Ok(lent),
                Ok(None) => {}
            }
        }
    }

    /// A thread has borne a child that has the memory, and is stopped at that.
    fn has_lent(&mut self, parent: Stopped, child: Pid) -> io::Result<Lent> {
        let grown = self.grow(parent.thread(), child);
        match parent.go_on() {
            // It was killed, which is an event to come. The child is there all the same.
            Err(error) if is_gone(&error) => {}
            gone_on => gone_on?,
        }
        match grown {
            Err(error) if is_gone(&error) => Ok(Lent::Childless),
            grown => grown,
        }
    }

    fn grow(&mut self, parent: Pid, child: Pid) -> io::Result<Lent> {
        // In whatever namespace the child is, in its parent's it has this number.
        let depth = Status::of(parent)?.pid_namespaces();
        if let Some(inner) = Status::of(child)?.number_at(depth) {
            let order = self.vessels;
            let inner = inner.as_raw_nonzero().get().unsigned_abs().into();
            self.borne.push(Borne::new(child, inner, order));
        }
        let Some(stopped) = vessel::born(child)? else {
            return Ok(Lent::Childless);
        };
        let mut process = Self::new(child)?;
        process.born(child);
        stopped.go_on()?;
        Ok(Lent::Child(process))
    }
}

/// A thread has stopped before it has lent the memory, or after it could not.
fn has_not_lent(stopped: Stopped, stop: Stop) -> io::Result<Lent> {
    let registers = stopped.registers()?;
    // The kernel makes a birth again that anything has interrupted.
    let is_over = registers.call().is_some() && !registers.was_interrupted();
    // If the call has failed, its thread may be in another one by now.
    if let Some(registers) = registers.undisturbed_if_changed() {
        stopped.set_registers(&registers)?;
    }
    match stop {
        Stop::Group(_) => stopped.stay_stopped()?,
        _ => stopped.go_on()?,
    }
    Ok(match is_over {
        true => Lent::Childless,
        false => Lent::Unmade,
    })
}
