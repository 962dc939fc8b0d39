//! What the server has to say while it goes on.

use std::fmt::Display;
use std::io::Write;

/// Says a line on the standard error.
pub(crate) fn notice(what: impl Display) {
    // There is nobody else to tell.
    let _ = writeln!(std::io::stderr(), "surmise: {what}");
}
