//! Whether a thread that waits in a call is about to end.

use rustix::process::{Pid, Signal};
use surmise_linux::proc::Status;

/// Signals whose default is not to end the process (signal(7)).
const HARMLESS: [Signal; 8] = [
    Signal::CHILD,
    Signal::CONT,
    Signal::STOP,
    Signal::TSTP,
    Signal::TTIN,
    Signal::TTOU,
    Signal::URG,
    Signal::WINCH,
];

/// How many signals there are.
const SIGNALS: u32 = 64;

/// Whether a signal waits for this thread that ends its process. So no call fails for a signal that the program handles.
pub fn will_end(thread: u32) -> bool {
    let thread = i32::try_from(thread).ok().and_then(Pid::from_raw);
    let status = thread.and_then(|thread| Status::of(thread).ok());
    status.is_some_and(|status| {
        let survives = |signal| {
            status.blocks_number(signal)
                || status.ignores_number(signal)
                || status.catches_number(signal)
        };
        ends(|signal| status.has_waiting(signal), survives)
    })
}

fn ends(waits: impl Fn(u32) -> bool, survives: impl Fn(u32) -> bool) -> bool {
    let is_harmless = |number: u32| {
        let mut harmless = HARMLESS.iter();
        harmless.any(|signal| signal.as_raw().unsigned_abs() == number)
    };
    (1..=SIGNALS).any(|signal| waits(signal) && !survives(signal) && !is_harmless(signal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_signal_that_ends_the_program_counts() {
        let (interrupt, child, none) = (2, 17, 0);
        let after =
            |waiting, survived| ends(|signal| signal == waiting, |signal| signal == survived);
        assert!(after(interrupt, none));
        assert!(!after(interrupt, interrupt));
        assert!(!after(child, none));
        assert!(!after(none, none));
    }

    #[test]
    fn a_thread_that_runs_does_not_end() {
        assert!(!will_end(std::process::id()));
        assert!(!will_end(0));
    }
}
