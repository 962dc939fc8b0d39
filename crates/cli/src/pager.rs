//! Long text on the terminal, a screen at a time.

use std::env;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use surmise_api::Interrupts;
use surmise_diff::forms::FormError;

/// Shows what `write` writes through `$PAGER`, `less` if that is not set, on the terminal at standard
/// error; without a pager directly.
///
/// # Errors
/// As `write`, but for a pager that is quit early: its user has seen enough.
pub fn page(write: impl Fn(&mut dyn Write) -> Result<(), FormError>) -> Result<(), FormError> {
    let pager = env::var_os("PAGER").filter(|pager| !pager.is_empty());
    let screen = io::stderr().as_fd().try_clone_to_owned()?;
    // An interrupt is the pager's, which would else be left alone on a terminal that it has changed.
    // A child starts with an empty mask.
    let _interrupts = Interrupts::hold()?;
    let started = Command::new("/bin/sh")
        .arg("-c")
        .arg(pager.unwrap_or_else(|| "less".into()))
        // Quit if it fits on the screen, keep colours, leave the text there: as git and jj have it.
        .env("LESS", env::var_os("LESS").unwrap_or_else(|| "FRX".into()))
        .stdin(Stdio::piped())
        .stdout(screen)
        .spawn();
    let Ok(mut pager) = started else {
        return write(&mut io::stderr().lock());
    };
    let mut input = pager.stdin.take().expect("its standard input is a pipe");
    let written = write(&mut input);
    drop(input);
    pager.wait()?;
    match written {
        Err(error) if error.is_broken_pipe() => Ok(()),
        written => written,
    }
}
