//! Making a process what it was at a checkpoint, in place.
//!
//! The process keeps its number, parent, group, threads and terminal, so nobody outside has to be told. The
//! order matters. New threads end first, while the memory that they execute is still there. Mappings
//! come before the pages in them, and registers last.

mod files;
mod memory;
mod program;

use std::io;

use rustix::process::Pid;
use surmise_sys::ptrace::{RestartableSequences, SignalInfo, call};

use crate::attributes;
use crate::checkpoint::{Checkpoint, Image};
use crate::error::{RollbackError, restoring};
use crate::gate::Gate;
use crate::halted::{Halted, Traced};
use crate::held::Hand;
use crate::own::{self, SignalStack};
use crate::scratch::Scratch;

/// What a rollback did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Pages that were copied from the vessel.
    pub pages: u64,
}

/// From where the threads of a restored process go on.
#[derive(Debug)]
pub struct Departing {
    threads: Vec<Image>,
}

impl Halted<'_> {
    /// Makes the process what it was at the checkpoint, and lets it go on from there. Signals that a
    /// thread was about to take wait again, and are taken by the masks and handlers that there are again; but
    /// for those that it has caused itself by what has never happened.
    ///
    /// All newer checkpoints of the process must have been discarded.
    ///
    /// # Errors
    /// [`RollbackError`]: the process must not go on.
    pub fn roll_back(
        mut self,
        checkpoint: &mut Checkpoint,
        traced: Traced,
        gate: &mut dyn Gate,
    ) -> Result<Restored, RollbackError> {
        let restored = self.restore(checkpoint, gate)?;
        self.depart_from(&checkpoint.threads, traced, gate)?;
        Ok(restored)
    }

    /// Makes the process what it was at the checkpoint, and frees that. The process stays stopped: it goes on from there
    /// by [`Self::depart`], and in no other way.
    ///
    /// # Errors
    /// As [`Self::roll_back`].
    pub fn restore_for_good(
        &mut self,
        mut checkpoint: Checkpoint,
        gate: &mut dyn Gate,
    ) -> Result<(Restored, Departing), RollbackError> {
        let restored = self.restore(&mut checkpoint, gate);
        let Checkpoint {
            vessel, threads, ..
        } = checkpoint;
        let retired = self.process.retire(vessel);
        let restored = restored?;
        retired.map_err(restoring("destroy the vessel"))?;
        Ok((restored, Departing { threads }))
    }

    /// Lets a process go on from what it was restored to.
    ///
    /// # Errors
    /// As [`Self::roll_back`].
    pub fn depart(
        mut self,
        departing: &Departing,
        traced: Traced,
        gate: &mut dyn Gate,
    ) -> Result<(), RollbackError> {
        self.depart_from(&departing.threads, traced, gate)
    }

    fn restore(
        &mut self,
        checkpoint: &mut Checkpoint,
        gate: &mut dyn Gate,
    ) -> Result<Restored, RollbackError> {
        let restored = self.try_to_restore(checkpoint, gate);
        let (process, vessel) = (self.process.pid, &checkpoint.vessel);
        // Of a vessel without memory all can be read, and it is nothing. So one that is there after all was read was
        // there all the time.
        match restored {
            Err(_) if self.was_killed() => Err(RollbackError::Ended { process }),
            _ if vessel.was_killed() => Err(RollbackError::Lost {
                process,
                vessel: vessel.process(),
            }),
            restored => restored,
        }
    }

    fn try_to_restore(
        &mut self,
        checkpoint: &mut Checkpoint,
        gate: &mut dyn Gate,
    ) -> Result<Restored, RollbackError> {
        self.forget_faults();
        let signals = self.end_new_threads(&checkpoint.threads, gate)?;
        // Whose page is whose tells which were written to. What the process has got since the checkpoint no
        // older vessel can map.
        let ended = self.process.await_killed(&checkpoint.vessel);
        ended.map_err(restoring("wait for the end of a vessel"))?;
        let forgotten = self.forget_restartable(&checkpoint.threads, gate);
        forgotten.map_err(restoring("end a restartable sequence"))?;
        let mut scratch = Scratch::default();
        if checkpoint.changed.program {
            // With a small stack the execution would fail, beyond the point of no return.
            let vessel = (&mut checkpoint.vessel, checkpoint.instruction);
            let hand = &mut self.hand(gate);
            let limited = checkpoint
                .changed
                .restore_limits(hand, &mut scratch, vessel);
            limited.map_err(restoring("restore the limits of a process"))?;
            let executed = self.execute_again(checkpoint, &mut scratch, gate);
            executed.map_err(restoring("execute the former program"))?;
        }
        let pid = self.process.pid;
        let hand = &mut self.hand(gate);
        let pages = memory::restore(pid, hand, checkpoint, &mut scratch)?;
        let vessel = &checkpoint.vessel;
        checkpoint
            .descriptors
            .restore(pid, vessel, hand, &mut scratch)?;
        let vessel = (&mut checkpoint.vessel, checkpoint.instruction);
        let changed = std::mem::take(&mut checkpoint.changed);
        if changed.tid_address {
            let address = checkpoint.tid_address;
            let restored = restore_tid_address(hand, address);
            restored.map_err(restoring("restore where a thread's end is told"))?;
        }
        changed
            .restore(hand, &mut scratch, vessel)
            .map_err(restoring("restore the attributes of a process"))?;
        for signal in changed.handled() {
            let vessel = (&mut checkpoint.vessel, checkpoint.instruction);
            let restored = self.restore_handler(signal, &mut scratch, vessel, gate);
            restored.map_err(restoring("restore how a signal is taken"))?;
        }
        let restored = self.restore_own(checkpoint, changed.signal_stacks, &mut scratch, gate);
        restored.map_err(restoring("restore what threads have of their own"))?;
        let forgotten = self.forget_children(&checkpoint.vessel, &mut scratch, gate);
        forgotten.map_err(restoring("reap a child that was never born"))?;
        if !signals.is_empty() {
            let mut first = self.first_hand(gate).map_err(restoring("find a thread"))?;
            for signal in &signals {
                let sent = send_again(&mut first, signal, &mut scratch);
                sent.map_err(restoring("send a signal again"))?;
            }
        }
        scratch
            .unmap(&mut self.hand(gate))
            .map_err(restoring("unmap the scratch page"))?;
        Ok(Restored { pages })
    }

    /// Gives each thread back what it may have changed of its own.
    fn restore_own(
        &mut self,
        checkpoint: &mut Checkpoint,
        signal_stacks: bool,
        scratch: &mut Scratch,
        gate: &mut dyn Gate,
    ) -> io::Result<()> {
        let instruction = self.instruction;
        for held in &mut self.threads {
            let thread = held.thread();
            let stack = match signal_stacks {
                true => Some(checkpoint.signal_stack(thread, gate)?),
                false => None,
            };
            let mut hand = Hand {
                held,
                instruction,
                gate,
            };
            if let Some(stack) = stack {
                own::restore_signal_stack(&mut hand, scratch, stack)?;
            }
            if let Some(name) = checkpoint.names.take(thread) {
                own::restore_name(&mut hand, scratch, name)?;
            }
        }
        Ok(())
    }

    /// Unregisters areas for restartable sequences that threads have registered since. The kernel writes there whenever a
    /// thread returns from a call, and the memory may go now.
    fn forget_restartable(&mut self, images: &[Image], gate: &mut dyn Gate) -> io::Result<()> {
        let instruction = self.instruction;
        for held in &mut self.threads {
            let image = images.iter().find(|image| image.thread == held.thread());
            let image = image.expect("all others were ended");
            let mut hand = Hand {
                held,
                instruction,
                gate,
            };
            let now = hand.held.stopped()?.restartable_sequences()?;
            if now != image.restartable {
                unregister(&mut hand, now)?;
            }
        }
        Ok(())
    }

    /// Threads that were born since do not exist any more. Returns what they were about to take: it was sent
    /// to the process, which is still there.
    fn end_new_threads(
        &mut self,
        images: &[Image],
        gate: &mut dyn Gate,
    ) -> Result<Vec<SignalInfo>, RollbackError> {
        let is_known = |thread: Pid| images.iter().any(|image| image.thread == thread);
        let held = std::mem::take(&mut self.threads);
        let (kept, new): (Vec<_>, Vec<_>) =
            held.into_iter().partition(|held| is_known(held.thread()));
        self.threads = kept;
        if self.threads.len() != images.len() {
            let source = io::Error::other("a thread has ended since the checkpoint");
            return Err(restoring("find the threads")(source));
        }
        let mut signals = Vec::new();
        for thread in new {
            self.process.ended(thread.thread());
            let ended = thread.exit((call::EXIT, [0; 6]), self.instruction, gate);
            signals.extend(ended.map_err(restoring("end a thread"))?);
        }
        Ok(signals)
    }

    fn depart_from(
        &mut self,
        images: &[Image],
        traced: Traced,
        gate: &mut dyn Gate,
    ) -> Result<(), RollbackError> {
        match self.depart_each(images, traced, gate) {
            Err(error) if self.process.has_ended_by(&error) => Err(RollbackError::Ended {
                process: self.process.pid,
            }),
            departed => departed.map_err(restoring("restore a thread")),
        }
    }

    fn depart_each(
        &mut self,
        images: &[Image],
        traced: Traced,
        gate: &mut dyn Gate,
    ) -> io::Result<()> {
        let instruction = self.instruction;
        for (held, image) in self.threads.iter_mut().map(|held| {
            let image = images.iter().find(|image| image.thread == held.thread());
            (held, image.expect("all others were ended"))
        }) {
            let mut hand = Hand {
                held,
                instruction,
                gate,
            };
            restore_kernel_state(&mut hand, image)?;
        }
        self.reap(traced, gate)?;
        for held in std::mem::take(&mut self.threads) {
            let image = images.iter().find(|image| image.thread == held.thread());
            let image = image.expect("all others were ended");
            let state = (&*image.extended, image.mask);
            self.release(held, image.registers, Some(state), traced)?;
        }
        Ok(())
    }
}

impl Checkpoint {
    /// Where a thread handled signals.
    fn signal_stack(&mut self, thread: Pid, gate: &mut dyn Gate) -> io::Result<SignalStack> {
        let mut images = self.threads.iter();
        let image = images.find(|image| image.thread == thread);
        match image.and_then(|image| image.signal_stack) {
            Some(stack) => Ok(stack),
            None if self.threads.len() == 1 => {
                attributes::told(&mut self.vessel, self.instruction, gate, own::asking)
            }
            None => Err(io::Error::other("nobody knows where it was")),
        }
    }
}

/// The image is of one thread, which alone is left.
fn restore_tid_address(hand: &mut Hand<'_>, address: Option<u64>) -> io::Result<()> {
    let address = address.ok_or_else(|| io::Error::other("nobody knows where it was"))?;
    hand.call(call::SET_TID_ADDRESS, [address, 0, 0, 0, 0, 0])?;
    Ok(())
}

/// Any thread that does not block it takes it then.
pub(crate) fn send_again(
    hand: &mut Hand<'_>,
    signal: &SignalInfo,
    scratch: &mut Scratch,
) -> io::Result<()> {
    let place = scratch.write(hand, &signal.bytes())?;
    let own = hand.call(call::GETPID, [0; 6])?;
    let number = u64::from(signal.number().cast_unsigned());
    hand.call(call::RT_SIGQUEUEINFO, [own, number, place, 0, 0, 0])?;
    Ok(())
}

/// What the kernel remembers of a thread beside its registers.
fn restore_kernel_state(hand: &mut Hand<'_>, image: &Image) -> io::Result<()> {
    let (head, size) = image.robust_list;
    if surmise_sys::memory::robust_list(image.thread)?.0 != head {
        hand.call(call::SET_ROBUST_LIST, [head, size, 0, 0, 0, 0])?;
    }
    let now = hand.held.stopped()?.restartable_sequences()?;
    let then = image.restartable;
    if now != then {
        unregister(hand, now)?;
        if then.address != 0 {
            let area = [
                then.address,
                then.size.into(),
                0,
                then.signature.into(),
                0,
                0,
            ];
            hand.call(call::RSEQ, area)?;
        }
    }
    Ok(())
}

/// Takes an area for restartable sequences away, if there is one.
fn unregister(hand: &mut Hand<'_>, area: RestartableSequences) -> io::Result<()> {
    const UNREGISTER: u64 = 1;
    if area.address != 0 {
        let (size, signature) = (area.size.into(), area.signature.into());
        let arguments = [area.address, size, UNREGISTER, signature, 0, 0];
        hand.call(call::RSEQ, arguments)?;
    }
    Ok(())
}
