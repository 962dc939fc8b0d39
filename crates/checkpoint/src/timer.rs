//! The timer of real time that a process may have (ITIMER_REAL of setitimer(2), alarm(2)).

use std::io;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use surmise_sys::ptrace::{SignalInfo, call};

use crate::gate::Gate;
use crate::halted::Halted;
use crate::held::Hand;
use crate::scratch::Scratch;

/// ITIMER_REAL.
const REAL: u64 = 0;
/// `struct itimerval`: the interval, and the time that is left, each in seconds and microseconds.
const LENGTH: usize = 32;
/// The shortest time that a timer takes which is armed.
const AT_ONCE: Duration = Duration::from_micros(1);

/// A timer as it was at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer {
    at: Instant,
    /// The time that was left; none where it was not armed.
    left: Duration,
    /// Where it has one, it begins anew.
    interval: Duration,
}

impl Timer {
    fn told(bytes: &[u8; LENGTH], at: Instant) -> Self {
        let [interval, left] = [0, LENGTH / 2].map(|place| time(bytes, place));
        Self { at, left, interval }
    }

    /// How it is to be set for it to go on as if nobody had changed it since.
    fn bytes(&self, now: Instant) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        if self.left.is_zero() {
            return bytes;
        }
        let elapsed = now.saturating_duration_since(self.at);
        let left = self.left.saturating_sub(elapsed).max(AT_ONCE);
        for (place, time) in [(0, self.interval), (LENGTH / 2, left)] {
            let words = [time.as_secs(), u64::from(time.subsec_micros())];
            for (word, at) in words.into_iter().zip([place, place + 8]) {
                bytes[at..at + 8].copy_from_slice(&word.to_ne_bytes());
            }
        }
        bytes
    }
}

fn time(bytes: &[u8; LENGTH], place: usize) -> Duration {
    let word = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        u64::from_ne_bytes(word)
    };
    Duration::from_secs(word(place)) + Duration::from_micros(word(place + 8))
}

impl Halted<'_> {
    /// Has a thread make a call that sets the timer of its process. Returns the result, an error number where that is negative, and
    /// what the timer was before; `None` if that cannot be learnt, or a signal of that waits: then no call was made.
    ///
    /// # Errors
    /// As ptrace.
    pub fn set_timer(
        &mut self,
        thread: Pid,
        made: (i64, [u64; 6]),
        gate: &mut dyn Gate,
    ) -> io::Result<Option<(i64, Timer)>> {
        let asking = |place| (call::GETITIMER, [REAL, place, 0, 0, 0, 0]);
        let told = self.hand(gate).ask(asking)?;
        let Some(before) = told.map(|bytes| Timer::told(&bytes, Instant::now())) else {
            return Ok(None);
        };
        // It would be taken for one that the timer sends which is set now. What comes after this look the timer as it was before
        // would send once more.
        if self.is_waiting(Signal::ALARM.as_raw().cast_unsigned())? {
            return Ok(None);
        }
        let result = self.call(thread, made, gate)?;
        Ok(Some((result, before)))
    }

    /// Gives the process its timer back. What the timer has sent that it had since was never sent.
    ///
    /// # Errors
    /// As ptrace.
    pub fn restore_timer(&mut self, timer: &Timer, gate: &mut dyn Gate) -> io::Result<()> {
        let mut scratch = Scratch::default();
        arm(&mut self.hand(gate), &mut scratch, &[0; LENGTH])?;
        self.forget(Signal::ALARM, SignalInfo::is_of_timer)?;
        let time = timer.bytes(Instant::now());
        arm(&mut self.hand(gate), &mut scratch, &time)?;
        scratch.unmap(&mut self.hand(gate))
    }
}

fn arm(hand: &mut Hand<'_>, scratch: &mut Scratch, time: &[u8; LENGTH]) -> io::Result<()> {
    let place = scratch.write(hand, time)?;
    hand.call(call::SETITIMER, [REAL, place, 0, 0, 0, 0])
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn set(timer: &Timer, now: Instant) -> [Duration; 2] {
        let bytes = timer.bytes(now);
        [0, LENGTH / 2].map(|place| time(&bytes, place))
    }

    #[test]
    fn a_timer_goes_on_as_if_nobody_had_changed_it() {
        let at = Instant::now();
        let timer = Timer {
            at,
            left: 5 * SECOND,
            interval: SECOND / 4,
        };
        assert_eq!(set(&timer, at), [SECOND / 4, 5 * SECOND]);
        assert_eq!(set(&timer, at + 2 * SECOND), [SECOND / 4, 3 * SECOND]);
        // It would have come since.
        assert_eq!(set(&timer, at + 9 * SECOND), [SECOND / 4, AT_ONCE]);
        let unarmed = Timer {
            at,
            left: Duration::ZERO,
            interval: Duration::ZERO,
        };
        assert_eq!(set(&unarmed, at + SECOND), [Duration::ZERO; 2]);
        assert_eq!(Timer::told(&timer.bytes(at), at), timer);
    }
}
