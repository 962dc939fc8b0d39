//! What comes over a connection.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use surmise_remote::frame::Decoder;

use crate::block::Damaged;
use crate::decompress::{Advance, Decompressor, Made};
use crate::line::Line;

/// What came is nothing that the other side sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("what came is no message")]
pub struct Garbled;

/// Makes messages of what comes over a new connection.
pub struct Reader {
    blocks: Blocks,
    frames: Decoder,
}

impl Reader {
    /// For what comes over this line.
    pub fn new(line: Arc<Line>) -> Self {
        Self {
            blocks: Blocks::new(line),
            frames: Decoder::default(),
        }
    }

    /// The next message; `None` when all of `input` is taken and more has to come. What is taken goes from the front of `input`.
    ///
    /// A short input may make many messages, so each one is to be dealt with before the next one is made.
    ///
    /// # Errors
    /// [`Garbled`]: nothing that follows can be understood, and the connection is to be ended.
    pub fn message<M: DeserializeOwned>(
        &mut self,
        input: &mut &[u8],
    ) -> Result<Option<M>, Garbled> {
        loop {
            let message = self.frames.message().map_err(|_| Garbled)?;
            if message.is_some() {
                return Ok(message);
            }
            match self.blocks.next(input).map_err(|_| Garbled)? {
                Some(bytes) => self.frames.feed(bytes),
                None => return Ok(None),
            }
        }
    }
}

/// Makes the bytes that the other side sent of what comes over the line.
pub(crate) struct Blocks {
    decompressor: Decompressor,
    line: Arc<Line>,
}

impl Blocks {
    pub(crate) fn new(line: Arc<Line>) -> Self {
        Self {
            decompressor: Decompressor::default(),
            line,
        }
    }

    /// Takes from the front of `input` what makes the next bytes; `None` if no more can be made before more comes.
    pub(crate) fn next<'r, 'i: 'r>(
        &'r mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<&'r [u8]>, Damaged> {
        loop {
            let Advance { taken, made } = self.decompressor.advance(input)?;
            let (front, rest) = input.split_at(taken);
            *input = rest;
            let length = match &made {
                Made::AsTheyAre => taken,
                Made::Decompressed => self.decompressor.decompressed().len(),
                Made::Header(_) | Made::Nothing => 0,
            };
            self.line.traffic().count_received(length, taken);
            match made {
                Made::AsTheyAre => return Ok(Some(front)),
                Made::Decompressed => return Ok(Some(self.decompressor.decompressed())),
                Made::Header(header) => self.line.want(header.wants),
                Made::Nothing => return Ok(None),
            }
        }
    }
}
