//! The terminal that a person sits at.

use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Signal, getpgrp, kill_current_process_group};
use rustix::stdio::stdin;
use rustix::termios::{
    OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcgetpgrp, tcsetattr,
};
use surmise_sys::signals::{self, SavedMask, SignalFd};

use surmise_api::Interrupts;

/// Whether there is somebody to ask: questions go to standard error, answers come from standard
/// input.
pub fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// The settings of the terminal at standard input, if it is one.
///
/// A command that was ended in the middle may leave the terminal without echo or lines; a shell gives
/// its own settings back too.
pub struct Settings(Option<Termios>);

impl Settings {
    /// The settings as they are.
    pub fn save() -> Self {
        Self(tcgetattr(stdin()).ok())
    }

    /// Sets them again. Not from the background: there they are somebody else's, and the kernel
    /// stops who changes them.
    pub fn restore(&self) {
        if let Some(settings) = &self.0
            && tcgetpgrp(stdin()) == Ok(getpgrp())
        {
            // A terminal that is gone needs no settings.
            let _ = tcsetattr(stdin(), OptionalActions::Drain, settings);
        }
    }
}

/// Tells that this process was stopped and goes on.
struct Continued {
    before: SavedMask,
    signals: SignalFd,
}

impl Continued {
    fn watch() -> io::Result<Self> {
        // Blocked, it lets a stopped process go on all the same.
        let before = signals::block(&[Signal::CONT])?;
        match SignalFd::new(&[Signal::CONT]) {
            Ok(signals) => {
                let continued = Self { before, signals };
                // Of before the question.
                continued.arrived()?;
                Ok(continued)
            }
            Err(error) => {
                before.restore()?;
                Err(error)
            }
        }
    }

    /// Whether it has, since this was asked last.
    fn arrived(&self) -> io::Result<bool> {
        Ok(self.signals.next()?.is_some())
    }
}

/// Readable when it has.
impl AsFd for Continued {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.signals.as_fd()
    }
}

impl Drop for Continued {
    fn drop(&mut self) {
        // It fails for no mask that was in force before.
        let _ = self.before.restore();
    }
}

/// Whether the terminal's keys are another job's.
fn is_in_background() -> bool {
    tcgetpgrp(stdin()).is_ok_and(|group| group != getpgrp())
}

/// Asks `question` and returns the line typed as an answer; none at the end of input, or if a signal
/// ends the asking. Asks again when this process was stopped, as a job of a shell, and goes on.
///
/// # Errors
/// As reading standard input and writing standard error.
pub fn ask(question: &str) -> io::Result<Option<String>> {
    let interrupts = Interrupts::hold()?;
    // What was typed for the command, and that it did not read, is no answer.
    tcflush(stdin(), QueueSelector::IFlush)?;
    let continued = Continued::watch()?;
    let show = || {
        let mut stderr = anstream::stderr().lock();
        write!(stderr, "{question}").and_then(|()| stderr.flush())
    };
    show()?;
    let line = read_line(&interrupts, &continued, &show)?;
    if line.is_none() {
        writeln!(anstream::stderr())?;
    }
    Ok(line)
}

/// `show_again`: for when this process was stopped, and the shell has used the terminal meanwhile.
fn read_line(
    interrupts: &Interrupts,
    continued: &Continued,
    show_again: &dyn Fn() -> io::Result<()>,
) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    loop {
        let stdin = stdin();
        let mut wanted = [
            PollFd::new(&stdin, PollFlags::IN),
            PollFd::new(interrupts, PollFlags::IN),
            PollFd::new(continued, PollFlags::IN),
        ];
        retry_on_intr(|| poll(&mut wanted, None))?;
        if interrupts.arrived() {
            return Ok(None);
        }
        // A read in the background would stop this process within the call, which then waits for a line
        // before anything else is seen.
        if !wanted[0].revents().is_empty() && is_in_background() {
            kill_current_process_group(Signal::TTIN)?;
        }
        if continued.arrived()? {
            // The terminal has dropped what was typed before.
            line.clear();
            show_again()?;
            continue;
        }
        let mut piece = [0; 256];
        match rustix::io::read(stdin, &mut piece) {
            // A hung-up terminal answers EIO.
            Ok(0) | Err(Errno::IO) => return Ok(None),
            Ok(length) => line.extend_from_slice(&piece[..length]),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(errno) => return Err(errno.into()),
        }
        if line.ends_with(b"\n") {
            return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
        }
    }
}
