//! Signals that wait again come before those that came after them.
//!
//! The kernel puts a signal that a thread refuses behind all others. Of most kinds only one waits at a time; those
//! of real-time kinds are taken in the order in which they were sent (signal(7)). So a thread takes all of a kind
//! from their queue, one after the other, and refuses each in place of another.

use std::io;

use surmise_sys::ptrace::{self, News, Queue, SignalInfo, Stop};

use super::taken::Returned;
use super::{ALL_SIGNALS, Held, await_surely, bit};

/// How often it is tried: somebody who sends one meanwhile has it wait before some of the others.
const TRIES: usize = 100;
/// The first of the kinds of which any number waits.
const REAL_TIME: i32 = 32;

/// Puts what was returned to its queue before what came later; those held first have taken theirs first. What
/// waits for the process is left as it is unless `are_all` of its threads are held: another would take some of
/// it meanwhile.
pub(crate) fn restore(threads: &mut [Held], are_all: bool, instruction: u64) -> io::Result<()> {
    let mut shared = Vec::new();
    for held in &mut *threads {
        match held.returned.take() {
            Some(Returned {
                signal,
                queue: Queue::Thread,
            }) => held.reorder(instruction, vec![signal], Vec::new())?,
            Some(Returned { signal, .. }) if are_all => shared.push(signal),
            _ => {}
        }
    }
    while let Some(first) = shared.first().map(SignalInfo::number) {
        let (these, others) = shared.into_iter().partition(|one| one.number() == first);
        threads[0].reorder(instruction, Vec::new(), these)?;
        shared = others;
    }
    Ok(())
}

impl Held {
    /// Has these, all of one kind, be the first of it that wait for the thread and for its process.
    fn reorder(
        &mut self,
        instruction: u64,
        mut own: Vec<SignalInfo>,
        mut shared: Vec<SignalInfo>,
    ) -> io::Result<()> {
        let Some(kind) = own.first().or(shared.first()).map(SignalInfo::number) else {
            return Ok(());
        };
        for _ in 0..TRIES {
            let own_now = self.waiting(Queue::Thread, kind)?;
            let shared_now = self.waiting(Queue::Process, kind)?;
            own = merged(kind, own, &own_now);
            shared = merged(kind, shared, &shared_now);
            if own == own_now && shared == shared_now {
                break;
            }
            // The kernel gives a thread what is its own first.
            for _ in &own_now {
                self.take(instruction, kind)?;
            }
            if shared != shared_now {
                for (next, there) in shared.iter().zip(&shared_now) {
                    // Its own that came since are taken, too.
                    while let Some(taken) = self.take(instruction, kind)? {
                        if taken == *there {
                            self.put(instruction, next)?;
                            break;
                        }
                        own.push(taken);
                    }
                }
            }
            for next in &own {
                self.put(instruction, next)?;
            }
        }
        Ok(())
    }

    pub(super) fn waiting(&self, queue: Queue, kind: i32) -> io::Result<Vec<SignalInfo>> {
        let mut waiting = self.stopped()?.queued(queue)?;
        waiting.retain(|signal| signal.number() == kind);
        Ok(waiting)
    }

    /// Comes to a stop to take the next signal of a kind, if there is one.
    pub(super) fn take(&mut self, instruction: u64, kind: i32) -> io::Result<Option<SignalInfo>> {
        self.work(instruction, ptrace::call::GETPID, [0; 6])?;
        self.stopped()?.set_signal_mask(ALL_SIGNALS & !bit(kind))?;
        self.take_stopped()?.step()?;
        let is_taken = loop {
            match await_surely(self.thread, self.is_alone)? {
                News::Ended(_) => return Err(rustix::io::Errno::SRCH.into()),
                News::Stopped(stopped, Stop::Signal(number)) if number == kind => {
                    break Some(self.stopped.insert(stopped).signal()?);
                }
                News::Stopped(stopped, stop @ Stop::Signal(_)) if !self.note(&stopped, stop)? => {
                    self.stopped = Some(stopped);
                    break None;
                }
                News::Stopped(stopped, stop) => {
                    self.is_job_stopped |= matches!(stop, Stop::Group(_));
                    stopped.step()?;
                }
            }
        };
        self.takes_signal = true;
        self.stopped()?.set_signal_mask(ALL_SIGNALS)?;
        Ok(is_taken)
    }

    /// Refuses a signal: it waits last, where that came from which the thread has stopped to take, and for the
    /// thread if that is none.
    pub(super) fn put(&mut self, instruction: u64, signal: &SignalInfo) -> io::Result<()> {
        self.work(instruction, ptrace::call::GETPID, [0; 6])?;
        self.take_stopped()?.step_with(signal)?;
        self.finish().map(drop)
    }
}

/// What shall wait of a kind where these wait, some of which are to be the first. Those that do not wait there
/// were taken by another thread. Of most kinds one is told of, the one that came first.
fn merged<T: Copy + PartialEq>(kind: i32, firsts: Vec<T>, waiting: &[T]) -> Vec<T> {
    if kind < REAL_TIME {
        let all = firsts.iter().chain(waiting);
        return all.copied().take(waiting.len()).collect();
    }
    let mut later = waiting.to_vec();
    let mut merged = Vec::new();
    for first in firsts {
        // It has come back behind the others.
        if let Some(place) = later.iter().rposition(|one| *one == first) {
            merged.push(later.remove(place));
        }
    }
    merged.extend(later);
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_returned_comes_first_and_nothing_is_lost_or_there_twice() {
        let merged = |firsts: &[_], waiting: &[_]| merged(REAL_TIME, firsts.to_vec(), waiting);
        assert_eq!(merged(&[1], &[2, 3, 1]), [1, 2, 3]);
        assert_eq!(merged(&[1, 2], &[3, 2, 1]), [1, 2, 3]);
        // Another thread has taken it.
        assert_eq!(merged(&[1, 2], &[3, 2]), [2, 3]);
        assert_eq!(merged(&[1], &[]), [0; 0]);
        // Of which the same is told.
        assert_eq!(merged(&[1], &[1, 2, 1]), [1, 1, 2]);
        assert_eq!(merged(&[1, 1], &[2, 1]), [1, 2]);
    }

    #[test]
    fn of_most_kinds_the_first_is_told_of() {
        let merged = |firsts: &[_], waiting: &[_]| merged(REAL_TIME - 1, firsts.to_vec(), waiting);
        assert_eq!(merged(&[1], &[2]), [1]);
        assert_eq!(merged(&[1], &[1]), [1]);
        assert_eq!(merged(&[], &[2]), [2]);
        assert_eq!(merged(&[1], &[]), [0; 0]);
    }
}
