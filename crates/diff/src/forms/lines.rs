//! A line for each change, and for each destination of held output.

use std::io::{self, Write};

use super::{Form, Shown, Writer};

/// What `surmise diff` prints.
pub const FORM: Form = Form {
    asked: None,
    writer: Writer::Names(write),
};

/// Writes all lines.
///
/// # Errors
/// As `out`.
pub fn write(shown: &Shown<'_>, out: &mut dyn Write) -> io::Result<()> {
    for row in shown.diff {
        writeln!(out, "{}", row.line(shown.base))?;
    }
    for held in shown.held {
        writeln!(out, "{}", held.line())?;
    }
    Ok(())
}
