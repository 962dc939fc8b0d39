//! What goes over a connection.

use std::io::{self, ErrorKind, IoSlice, Write};
use std::sync::Arc;
use std::time::Instant;

use crate::block::{HEADER_BYTES, Header};
use crate::compress::Compressor;
use crate::line::Line;
use crate::pace::Pace;

/// Writes the bytes of one side to the line.
pub struct Writer {
    compressor: Compressor,
    pace: Pace,
    line: Arc<Line>,
}

impl Writer {
    /// For a new connection.
    pub fn new(line: Arc<Line>) -> Self {
        Self {
            compressor: Compressor::default(),
            pace: Pace::default(),
            line,
        }
    }

    /// Writes all these bytes. With each write that succeeds, `wrote` is told how many more of them the line has; none while the rest
    /// of a compressed block is to be written.
    ///
    /// # Errors
    /// As of `to`. Then nothing more can be written.
    pub fn write(
        &mut self,
        mut bytes: &[u8],
        to: &mut impl Write,
        mut wrote: impl FnMut(usize),
    ) -> io::Result<()> {
        while !bytes.is_empty() {
            let wants = self.line.is_far();
            let compresses = wants || self.line.is_wanted() || self.pace.pays();
            let piece = self.compressor.next(&mut bytes, compresses)?;
            let header = piece.header.map(|header| Header { wants, ..header });
            let header = header.map(Header::encoded);
            let header = header.as_ref().map_or(&[][..], |header| &header[..]);
            let line_bytes = header.len() + piece.body.len();
            let begun = Instant::now();
            write_all(header, piece.body, to, || wrote(0))?;
            self.pace.wrote(line_bytes, begun.elapsed());
            if let Some(took) = piece.took {
                self.pace.compressed(piece.plain, piece.body.len(), took);
            }
            self.line.traffic().count_sent(piece.plain, line_bytes);
            wrote(piece.plain);
        }
        Ok(())
    }
}

/// Writes both with as few calls as may be: a call for the header alone would wake the reader for nothing.
fn write_all(
    mut header: &[u8],
    mut body: &[u8],
    to: &mut impl Write,
    mut goes_on: impl FnMut(),
) -> io::Result<()> {
    debug_assert!(header.len() <= HEADER_BYTES);
    while !(header.is_empty() && body.is_empty()) {
        match to.write_vectored(&[IoSlice::new(header), IoSlice::new(body)]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => {
                let of_header = written.min(header.len());
                header = &header[of_header..];
                body = &body[written - of_header..];
                goes_on();
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
