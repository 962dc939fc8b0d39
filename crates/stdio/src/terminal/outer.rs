//! The caller's terminal, and whose it is at the moment.

use std::borrow::Cow;
use std::os::fd::OwnedFd;

use rustix::process::getpgrp;
use rustix::termios::{
    LocalModes, OptionalActions, OutputModes, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp,
    tcgetwinsize, tcsetattr, tcsetwinsize,
};

/// What a terminal keeps of what is typed, in bytes.
const LINES_MAX: usize = 4096;

/// The caller's terminal. All calls on it return at once: it was opened anew, without waiting.
pub(super) struct Outer {
    /// `None` once it has hung up, or the domain is detached from it.
    terminal: Option<OwnedFd>,
    /// Its settings, to be given back; only while keys go to the domain.
    saved: Option<Termios>,
    /// Whether keys shall go to the domain when that is possible.
    wanted: bool,
    /// Whether the domain's terminal was made with the settings that this one has for the command.
    is_copied: bool,
}

impl Outer {
    pub(super) fn new(terminal: OwnedFd, wanted: bool) -> Self {
        Self {
            terminal: Some(terminal),
            saved: None,
            wanted,
            is_copied: wanted,
        }
    }

    pub(super) fn terminal(&self) -> Option<&OwnedFd> {
        self.terminal.as_ref()
    }

    pub(super) fn want(&mut self) {
        self.wanted = true;
    }

    pub(super) fn is_engaged(&self) -> bool {
        self.saved.is_some()
    }

    /// Whether it is to be looked at again: keys are wanted and are not the caller's to give.
    pub(super) fn is_waiting(&self) -> bool {
        self.wanted && self.saved.is_none() && self.terminal.is_some()
    }

    pub(super) fn is_in_foreground(&self) -> bool {
        let terminal = self.terminal.as_ref();
        terminal.is_some_and(|terminal| tcgetpgrp(terminal) == Ok(getpgrp()))
    }

    /// Makes the terminal raw if keys are wanted and the caller is in the foreground. When that was done
    /// now, tells what was typed before.
    ///
    /// For a domain that began in the background, `inner` gets the settings that this one has the first time:
    /// before, they may have been those of a shell that edits its line. Any other was made with them, and may
    /// have got others from the command by now, such as not to show a password.
    pub(super) fn engage(&mut self, inner: &OwnedFd) -> Option<Vec<u8>> {
        if !self.is_waiting() || !self.is_in_foreground() {
            return None;
        }
        let terminal = self.terminal.as_ref().expect("it is in the foreground");
        let saved = tcgetattr(terminal).ok()?;
        let typed = lines_typed(terminal, &saved);
        let mut raw = saved.clone();
        raw.make_raw();
        tcsetattr(terminal, OptionalActions::Now, &raw).ok()?;
        if !std::mem::replace(&mut self.is_copied, true) {
            // One that is gone needs none.
            let _ = tcsetattr(inner, OptionalActions::Now, &saved);
        }
        self.saved = Some(saved);
        Some(typed)
    }

    /// Gives the settings back, unless the terminal is somebody else's by now.
    pub(super) fn leave(&mut self) {
        if let Some(saved) = self.saved.take()
            && let Some(terminal) = &self.terminal
            && self.is_in_foreground()
        {
            // A terminal that is gone needs no settings.
            let _ = tcsetattr(terminal, OptionalActions::Now, &saved);
        }
    }

    /// Somebody else has it, with settings of their own.
    pub(super) fn lose(&mut self) {
        self.saved = None;
    }

    pub(super) fn close(&mut self) {
        self.saved = None;
        self.terminal = None;
    }

    /// Makes the window of `inner` as large as this one; those inside are told if that is a change.
    pub(super) fn fit(&self, inner: &OwnedFd) {
        if let Some(terminal) = &self.terminal
            && let Ok(size) = tcgetwinsize(terminal)
        {
            // One that is gone has no window.
            let _ = tcsetwinsize(inner, size);
        }
    }

    /// Text of ours, with line ends as the terminal wants them now.
    pub(super) fn lines(&self, text: &[u8]) -> Vec<u8> {
        if self.makes_line_ends() {
            return text.to_vec();
        }
        let lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
        lines.join(&b"\r\n"[..])
    }

    /// Output of the domain's terminal, which has made line ends already: where this one makes them,
    /// too, one of the two has to be left out.
    pub(super) fn as_it_is<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if !self.makes_line_ends() {
            return Cow::Borrowed(bytes);
        }
        let mut lines = Vec::with_capacity(bytes.len());
        for (index, &byte) in bytes.iter().enumerate() {
            if byte != b'\r' || bytes.get(index + 1) != Some(&b'\n') {
                lines.push(byte);
            }
        }
        Cow::Owned(lines)
    }

    fn makes_line_ends(&self) -> bool {
        let modes = OutputModes::OPOST | OutputModes::ONLCR;
        self.saved.is_none()
            && self.terminal.as_ref().is_some_and(|terminal| {
                tcgetattr(terminal).is_ok_and(|settings| settings.output_modes.contains(modes))
            })
    }
}

/// Whole lines that wait in the terminal, and ends of input among them, which a raw terminal would not
/// tell from a zero byte.
fn lines_typed(terminal: &OwnedFd, settings: &Termios) -> Vec<u8> {
    let mut typed = Vec::new();
    if !settings.local_modes.contains(LocalModes::ICANON) {
        return typed;
    }
    let mut line = [0; LINES_MAX];
    // A terminal that has hung up has ends of input without end.
    for _ in 0..LINES_MAX {
        match rustix::io::read(terminal, &mut line) {
            Ok(0) => typed.push(settings.special_codes[SpecialCodeIndex::VEOF]),
            Ok(length) => typed.extend_from_slice(&line[..length]),
            Err(_) => break,
        }
        if typed.len() >= LINES_MAX {
            break;
        }
    }
    typed
}
