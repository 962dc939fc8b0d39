//! The terminal that a person sits at.

use std::io::{self, IsTerminal, Write};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::getpgrp;
use rustix::stdio::stdin;
use rustix::termios::{
    OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcgetpgrp, tcsetattr,
};

use crate::interrupt::Interrupts;

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

/// Asks `question` and returns the line typed as an answer; none at the end of input, or if a signal
/// ends the asking.
///
/// # Errors
/// As reading standard input and writing standard error.
pub fn ask(question: &str) -> io::Result<Option<String>> {
    let interrupts = Interrupts::hold()?;
    // What was typed for the command, and that it did not read, is no answer.
    tcflush(stdin(), QueueSelector::IFlush)?;
    let mut stderr = anstream::stderr().lock();
    write!(stderr, "{question}")?;
    stderr.flush()?;
    let line = read_line(&interrupts)?;
    if line.is_none() {
        writeln!(stderr)?;
    }
    Ok(line)
}

fn read_line(interrupts: &Interrupts) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    loop {
        let stdin = stdin();
        let mut wanted = [
            PollFd::new(&stdin, PollFlags::IN),
            PollFd::new(interrupts, PollFlags::IN),
        ];
        poll(&mut wanted, None)?;
        if interrupts.arrived() {
            return Ok(None);
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
