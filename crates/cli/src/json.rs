//! Output for programs: a line of JSON.

use std::io::{self, Write};

use serde::Serialize;

/// Where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Json {
    /// Standard output.
    Out,
    /// Standard error, where standard output is a command's.
    Err,
}

impl Json {
    /// Prints one value as a line.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn print(self, value: &impl Serialize) -> io::Result<()> {
        let line = format!("{}\n", serde_json::to_string(value)?);
        // In one piece: others may write to the same place.
        match self {
            Self::Out => {
                let mut out = anstream::stdout().lock();
                out.write_all(line.as_bytes())?;
                out.flush()
            }
            Self::Err => anstream::stderr().lock().write_all(line.as_bytes()),
        }
    }
}
