//! A command that stops, and goes on: control stands for it, as a job of the caller's shell.
//!
//! The shell sees only control. So when the command is stopped, control stops, too, with the
//! terminal as the shell expects it, and when control goes on, so does the command.

use std::io;

use rustix::process::Signal;
use surmise_sys::signals;

use crate::signals::Signals;

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Nothing,
    /// Order the relay process to pause the terminal.
    Pause,
    /// Order it to let the terminal go on, and give the keys to the domain if `engage`.
    Resume {
        engage: bool,
    },
    /// Stop this process, by [`stop`], and tell [`Stops::went_on`].
    Stop(Signal),
    /// Order pid 1 to let the command go on.
    Continue {
        foreground: bool,
    },
}

/// Where the command and the terminal are between a stop and its end.
#[derive(Debug)]
pub(crate) struct Stops {
    /// Whether the domain has a terminal.
    terminal: bool,
    /// Whether the command may read its keys.
    foreground: bool,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The command runs.
    Running,
    /// It was stopped, and the terminal is being made the caller's.
    Pausing(Signal),
    /// It wants the keys of the terminal: whether it can have them is being asked.
    Engaging(Signal),
    /// Control goes on, and so will the terminal.
    Resuming,
    /// The command waits for the keys, and nobody stopped control.
    Waiting,
}

impl Stops {
    pub(crate) fn new(terminal: bool, foreground: bool) -> Self {
        Self {
            terminal,
            foreground,
            state: State::Running,
        }
    }

    /// The command was stopped by `signal`.
    pub(crate) fn stopped(&mut self, signal: Signal) -> Step {
        if !self.terminal {
            return Step::Stop(signal);
        }
        // From the domain's background: it reads keys or makes settings. In the foreground it is
        // allowed to, if control is in the foreground itself.
        if wants_terminal(signal) {
            self.state = State::Engaging(signal);
            Step::Resume { engage: true }
        } else {
            self.state = State::Pausing(signal);
            Step::Pause
        }
    }

    /// The terminal is paused.
    pub(crate) fn paused(&mut self) -> Step {
        match self.state {
            State::Pausing(signal) => Step::Stop(signal),
            _ => Step::Nothing,
        }
    }

    /// Control was to stop by `signal`. `truly`: whether it did and now goes on; a signal of the
    /// terminal stops no process that has no shell to let it go on.
    pub(crate) fn went_on(&mut self, signal: Signal, truly: bool) -> Step {
        if !self.terminal {
            return Step::Continue { foreground: false };
        }
        if !wants_terminal(signal) {
            self.state = State::Resuming;
            return Step::Resume { engage: false };
        }
        if truly {
            self.state = State::Engaging(signal);
            Step::Resume { engage: true }
        } else {
            self.state = State::Waiting;
            Step::Nothing
        }
    }

    /// The terminal goes on. `engaged`: whether its keys go to the domain.
    pub(crate) fn resumed(&mut self, engaged: bool) -> Step {
        match self.state {
            State::Engaging(signal) if !engaged => Step::Stop(signal),
            State::Engaging(_) | State::Resuming => self.goes_on(engaged),
            _ => Step::Nothing,
        }
    }

    /// The keys go to the domain from now on.
    pub(crate) fn engaged(&mut self) -> Step {
        match self.state {
            // A command in the foreground may have put another group there: that is its own business.
            State::Running if self.foreground => Step::Nothing,
            State::Running | State::Waiting => self.goes_on(true),
            // The answer to come says the same.
            _ => Step::Nothing,
        }
    }

    /// Somebody lets control go on, which may not have been stopped.
    pub(crate) fn continued(&mut self) -> Step {
        match self.state {
            State::Waiting => {
                self.state = State::Engaging(Signal::TTIN);
                Step::Resume { engage: true }
            }
            _ => Step::Nothing,
        }
    }

    fn goes_on(&mut self, foreground: bool) -> Step {
        self.state = State::Running;
        self.foreground = foreground;
        Step::Continue { foreground }
    }
}

fn wants_terminal(signal: Signal) -> bool {
    [Signal::TTIN, Signal::TTOU].contains(&signal)
}

/// Stops this process as `signal` does, and with it, for a signal of the terminal, its process group.
/// Returns when it goes on; false when it was not stopped.
pub(crate) fn stop(signals: &Signals, signal: Signal) -> io::Result<bool> {
    let continued = signals.continued();
    while continued.next()?.is_some() {}
    if wants_terminal(signal) || signal == Signal::TSTP {
        let mask = signals::unblock(&[signal])?;
        let sent = rustix::process::kill_current_process_group(signal);
        mask.restore()?;
        sent?;
    } else {
        let own = rustix::process::getpid();
        rustix::process::kill_process(own, Signal::STOP)?;
    }
    Ok(continued.next()?.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_is_stopped_takes_control_with_it() {
        let mut stops = Stops::new(true, true);
        assert_eq!(stops.engaged(), Step::Nothing);
        assert_eq!(stops.stopped(Signal::TSTP), Step::Pause);
        assert_eq!(stops.paused(), Step::Stop(Signal::TSTP));
        assert_eq!(
            stops.went_on(Signal::TSTP, true),
            Step::Resume { engage: false }
        );
        assert_eq!(stops.resumed(true), Step::Continue { foreground: true });
        assert_eq!(stops.continued(), Step::Nothing);
    }

    #[test]
    fn let_go_on_in_the_background_it_gets_the_keys_when_they_are_its_callers() {
        let mut stops = Stops::new(true, true);
        stops.stopped(Signal::TSTP);
        stops.paused();
        stops.went_on(Signal::TSTP, true);
        assert_eq!(stops.resumed(false), Step::Continue { foreground: false });
        assert_eq!(stops.engaged(), Step::Continue { foreground: true });
        assert_eq!(stops.engaged(), Step::Nothing);
    }

    #[test]
    fn without_a_terminal_it_just_stops_and_goes_on() {
        let mut stops = Stops::new(false, false);
        assert_eq!(stops.stopped(Signal::STOP), Step::Stop(Signal::STOP));
        let step = stops.went_on(Signal::STOP, true);
        assert_eq!(step, Step::Continue { foreground: false });
    }

    #[test]
    fn in_the_background_a_reader_waits_for_the_foreground() {
        let mut stops = Stops::new(true, false);
        let ask = Step::Resume { engage: true };
        assert_eq!(stops.stopped(Signal::TTIN), ask);
        assert_eq!(stops.resumed(false), Step::Stop(Signal::TTIN));
        // Let go on in the background, it stops again.
        assert_eq!(stops.went_on(Signal::TTIN, true), ask);
        assert_eq!(stops.resumed(false), Step::Stop(Signal::TTIN));
        assert_eq!(stops.went_on(Signal::TTIN, true), ask);
        assert_eq!(stops.resumed(true), Step::Continue { foreground: true });
        // Where nothing stops it, it waits instead of asking for ever.
        assert_eq!(stops.stopped(Signal::TTIN), ask);
        assert_eq!(stops.resumed(false), Step::Stop(Signal::TTIN));
        assert_eq!(stops.went_on(Signal::TTIN, false), Step::Nothing);
        assert_eq!(stops.engaged(), Step::Continue { foreground: true });
    }
}
