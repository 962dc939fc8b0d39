//! One direction of a relayed connection.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::Shutdown;

use super::epochs::Latch;
use super::sockets::{self, Read};

/// How much one read takes.
const CHUNK: usize = 256 << 10;

/// How much one read takes when many readers are slow, so that what is kept for them stays small.
const SMALL_CHUNK: usize = 4 << 10;

/// How much may be kept for slow readers before reads become small.
const KEPT_MAX: usize = 8 << 20;

/// How often one wakeup reads the same socket: the others want their turn.
const ROUNDS: usize = 8;

/// The buffer that all connections share, and how much they keep beside it.
#[derive(Debug)]
pub(crate) struct Scratch {
    bytes: Vec<u8>,
    kept: usize,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        Self {
            bytes: vec![0; CHUNK],
            kept: 0,
        }
    }

    /// The whole buffer.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// As much of the buffer as a read for a reader that may be slow should take.
    fn chunk(&mut self) -> &mut [u8] {
        let length = if self.kept < KEPT_MAX {
            CHUNK
        } else {
            SMALL_CHUNK
        };
        &mut self.bytes[..length]
    }
}

/// What is to be expected of the next read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Supply {
    /// The last one filled the buffer.
    Plenty,
    /// The last one did not: what comes now came meanwhile.
    Short,
    /// There is nothing, or what there is has to wait for the reader.
    Nothing,
}

/// One direction: what is read at one end and written at the other.
///
/// What the other end does not take at once is kept, and nothing more is read until it has gone. So a
/// slow reader slows its own writer, as without the relay, and no more than one read is in memory.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    unsent: Vec<u8>,
    sent: usize,
    /// Bytes that the reader's kernel has taken.
    written: u64,
    /// The writer has closed its side.
    ended: bool,
    /// The reader was told so.
    passed: bool,
    /// Holds back what was read, its end too, and then nothing more is read.
    latch: Latch,
}

impl Flow {
    /// A direction that was over before.
    pub(crate) fn over() -> Self {
        Self {
            ended: true,
            passed: true,
            ..Self::default()
        }
    }

    /// What comes from now on is a program's output, which may have to wait.
    pub(crate) fn hold_back(&mut self, latch: Latch) {
        self.latch = latch;
    }

    /// What holds it back.
    pub(crate) fn latch(&mut self) -> &mut Latch {
        &mut self.latch
    }

    /// Whether what was read is held back.
    pub(crate) fn is_held_back(&self) -> bool {
        self.latch.is_closed()
    }

    /// Adds bytes that were read elsewhere.
    pub(crate) fn add(&mut self, bytes: &[u8], scratch: &mut Scratch) {
        self.unsent.extend_from_slice(bytes);
        scratch.kept += bytes.len();
    }

    /// Whether there is any sense in reading.
    pub(crate) fn wants_input(&self) -> bool {
        !self.ended && self.unsent.is_empty() && !self.is_held_back()
    }

    /// Whether something waits for the reader.
    pub(crate) fn wants_output(&self) -> bool {
        !self.unsent.is_empty() && !self.is_held_back()
    }

    /// How many bytes the reader's kernel has taken.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Whether the reader has got all, and knows it.
    pub(crate) fn is_over(&self) -> bool {
        self.passed
    }

    /// Moves what there is. With `hung_up` the writer has closed its side, so the end is read, too.
    ///
    /// # Errors
    /// As `read` and `send`: the connection is broken.
    pub(crate) fn forward(
        &mut self,
        from: &OwnedFd,
        to: &OwnedFd,
        hung_up: bool,
        scratch: &mut Scratch,
    ) -> io::Result<()> {
        for _ in 0..ROUNDS {
            match self.forward_once(from, to, scratch)? {
                Supply::Plenty => {}
                Supply::Short if hung_up => {}
                Supply::Short | Supply::Nothing => break,
            }
        }
        Ok(())
    }

    /// Reads once and writes what was read.
    ///
    /// # Errors
    /// As `read` and `send`.
    pub(crate) fn forward_once(
        &mut self,
        from: &OwnedFd,
        to: &OwnedFd,
        scratch: &mut Scratch,
    ) -> io::Result<Supply> {
        if !self.wants_input() {
            return Ok(Supply::Nothing);
        }
        let chunk = scratch.chunk();
        let size = chunk.len();
        let length = match sockets::read(from, chunk)? {
            Read::Some(length) => length,
            Read::Nothing => return Ok(Supply::Nothing),
            Read::End => {
                self.ended = true;
                self.latch.take().map_err(io::Error::other)?;
                self.pass_end(to)?;
                return Ok(Supply::Nothing);
            }
        };
        let written = match self.latch.take().map_err(io::Error::other)? {
            true => 0,
            false => sockets::write(to, &chunk[..length])?,
        };
        self.written += written as u64;
        if written < length {
            self.unsent.extend_from_slice(&chunk[written..length]);
            scratch.kept += length - written;
            return Ok(Supply::Nothing);
        }
        Ok(if length == size {
            Supply::Plenty
        } else {
            Supply::Short
        })
    }

    /// Reads what there is, for nobody.
    ///
    /// # Errors
    /// As `read`.
    pub(crate) fn discard(&mut self, from: &OwnedFd, scratch: &mut Scratch) -> io::Result<()> {
        for _ in 0..ROUNDS {
            match sockets::read(from, scratch.bytes())? {
                Read::Some(_) => {}
                Read::Nothing => break,
                Read::End => {
                    self.ended = true;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Writes what is kept.
    ///
    /// # Errors
    /// As `send`.
    pub(crate) fn flush(&mut self, to: &OwnedFd, scratch: &mut Scratch) -> io::Result<()> {
        if self.wants_output() {
            let written = sockets::write(to, &self.unsent[self.sent..])?;
            self.sent += written;
            self.written += written as u64;
            if self.sent == self.unsent.len() {
                self.forget(scratch);
            }
        }
        self.pass_end(to)
    }

    /// Gives back the memory of what is kept.
    pub(crate) fn forget(&mut self, scratch: &mut Scratch) {
        scratch.kept -= self.unsent.len();
        self.unsent = Vec::new();
        self.sent = 0;
    }

    fn pass_end(&mut self, to: &OwnedFd) -> io::Result<()> {
        if self.ended && !self.passed && self.unsent.is_empty() && !self.is_held_back() {
            self.passed = true;
            rustix::net::shutdown(to, Shutdown::Write)?;
        }
        Ok(())
    }
}
