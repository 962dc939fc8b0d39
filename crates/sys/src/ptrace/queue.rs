//! Signals that wait to be taken.

use std::io;
use std::mem::MaybeUninit;

use super::{SignalInfo, Stopped, outcome};

/// How many are asked for at a time.
const BATCH: usize = 32;

/// Where signals wait that nobody has taken yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// For this thread (tgkill(2)).
    Thread,
    /// For any thread of its process that does not block them (kill(2)).
    Process,
}

impl Stopped {
    /// The signals that wait in a queue, in the order in which they came. One of which the kernel had no room to
    /// keep more than its number is not among them.
    ///
    /// # Errors
    /// `ESRCH`.
    pub fn queued(&self, queue: Queue) -> io::Result<Vec<SignalInfo>> {
        let mut queued = Vec::new();
        loop {
            let batch = self.queued_from(queue, queued.len())?;
            let is_last = batch.len() < BATCH;
            queued.extend(batch);
            if is_last {
                return Ok(queued);
            }
        }
    }

    /// At most [`BATCH`] of them, after as many others.
    fn queued_from(&self, queue: Queue, others: usize) -> io::Result<Vec<SignalInfo>> {
        let wanted = libc::ptrace_peeksiginfo_args {
            off: others as u64,
            flags: match queue {
                Queue::Thread => 0,
                Queue::Process => libc::PTRACE_PEEKSIGINFO_SHARED,
            },
            nr: BATCH as i32,
        };
        let mut batch = [const { MaybeUninit::<libc::siginfo_t>::uninit() }; BATCH];
        // SAFETY: reads the arguments and writes at most so many siginfo_t's as they say, for which there is
        // room.
        let result = unsafe {
            libc::ptrace(
                libc::PTRACE_PEEKSIGINFO,
                self.thread.as_raw_nonzero(),
                &raw const wanted,
                batch.as_mut_ptr(),
            )
        };
        let count = usize::try_from(outcome(result)?).unwrap_or(0);
        // SAFETY: the kernel has filled so many, each to its last byte.
        let filled = batch
            .iter()
            .take(count)
            .map(|info| unsafe { info.assume_init() });
        Ok(filled.map(SignalInfo::new).collect())
    }
}
