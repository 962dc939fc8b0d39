//! From bytes to blocks.

use std::io;
use std::time::{Duration, Instant};

use zstd::stream::raw::{CParameter, Encoder, InBuffer, Operation, OutBuffer};

use crate::WINDOW_LOG;
use crate::block::{COMPRESSED_BYTES_MAX, Header, Opening, PLAIN_BYTES_MAX};

/// Level 3 takes a sixth more time, and saves a tenth more.
const LEVEL: i32 = 1;

/// Room for what zstd may add to a block, in bytes.
const ADDED_BYTES_MAX: usize = 1 << 10;

/// A shorter block says little of what follows. It is always tried.
const TELLING_BYTES_MIN: usize = 4 << 10;

/// Of how many parts of a block at least one has to be saved.
const PARTS: usize = 16;

/// How much goes as it is behind a block that did not become shorter, at first and at most, in bytes.
const SKIPPED_BYTES_MIN: usize = 256 << 10;
const SKIPPED_BYTES_MAX: usize = 8 << 20;

/// Makes blocks of what one side of a connection sends.
#[derive(Default)]
pub(crate) struct Compressor {
    opening: Opening,
    /// There is one from the first compressed block on.
    encoder: Option<Encoder<'static>>,
    compressed: Vec<u8>,
    /// How much more goes as it is, since what was before did not become shorter.
    skips: usize,
    /// How much went as it is the last time.
    skipped: usize,
}

/// What goes over the line at once.
pub(crate) struct Piece<'b> {
    /// What stands before the body; nothing in the opening.
    pub(crate) header: Option<Header>,
    pub(crate) body: &'b [u8],
    /// How many bytes it stands for.
    pub(crate) plain: usize,
    /// How long it took to compress.
    pub(crate) took: Option<Duration>,
}

impl Compressor {
    /// Takes the next piece from the front of `bytes`, of which there are some.
    ///
    /// # Errors
    /// When there is no memory to compress with. Then nothing more can be sent.
    pub(crate) fn next<'p, 'b: 'p>(
        &'p mut self,
        bytes: &mut &'b [u8],
        compresses: bool,
    ) -> io::Result<Piece<'p>> {
        if !self.opening.is_over() {
            let length = self.opening.take(bytes);
            return Ok(plain(None, cut(bytes, length)));
        }
        // What is short is not of the kind that was found not to become shorter.
        let is_tried = self.skips == 0 || bytes.len() < TELLING_BYTES_MIN;
        if compresses && is_tried {
            return self.compressed(cut(bytes, COMPRESSED_BYTES_MAX));
        }
        let most = match self.skips {
            0 => PLAIN_BYTES_MAX,
            skips => skips.min(PLAIN_BYTES_MAX),
        };
        let body = cut(bytes, most);
        self.skips = self.skips.saturating_sub(body.len());
        let header = Header {
            length: body.len(),
            is_compressed: false,
            wants: false,
        };
        Ok(plain(Some(header), body))
    }

    fn compressed(&mut self, bytes: &[u8]) -> io::Result<Piece<'_>> {
        let begun = Instant::now();
        let encoder = match &mut self.encoder {
            Some(encoder) => encoder,
            none => {
                let mut encoder = Encoder::new(LEVEL)?;
                encoder.set_parameter(CParameter::WindowLog(WINDOW_LOG))?;
                none.insert(encoder)
            }
        };
        self.compressed.clear();
        self.compressed.reserve(bytes.len() + ADDED_BYTES_MAX);
        let mut input = InBuffer::around(bytes);
        loop {
            let at = self.compressed.len();
            let mut output = OutBuffer::around_pos(&mut self.compressed, at);
            let left = match input.pos() < bytes.len() {
                true => {
                    encoder.run(&mut input, &mut output)?;
                    1
                }
                false => encoder.flush(&mut output)?,
            };
            if left == 0 {
                break;
            }
            self.compressed.reserve(ADDED_BYTES_MAX);
        }
        let length = self.compressed.len();
        if bytes.len() >= TELLING_BYTES_MIN {
            let is_shorter = length + bytes.len() / PARTS <= bytes.len();
            self.skipped = match is_shorter {
                true => 0,
                false => (self.skipped * 2).clamp(SKIPPED_BYTES_MIN, SKIPPED_BYTES_MAX),
            };
            self.skips = self.skipped;
        }
        let header = Header {
            length,
            is_compressed: true,
            wants: false,
        };
        Ok(Piece {
            header: Some(header),
            body: &self.compressed,
            plain: bytes.len(),
            took: Some(begun.elapsed()),
        })
    }
}

fn plain(header: Option<Header>, body: &[u8]) -> Piece<'_> {
    Piece {
        header,
        body,
        plain: body.len(),
        took: None,
    }
}

/// Takes so many bytes from the front, or all.
fn cut<'b>(bytes: &mut &'b [u8], most: usize) -> &'b [u8] {
    let (front, rest) = bytes.split_at(most.min(bytes.len()));
    *bytes = rest;
    front
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of these bytes were tried, and how long all became.
    fn sent(compressor: &mut Compressor, mut bytes: &[u8]) -> (usize, usize) {
        let (mut tried, mut length) = (0, 0);
        while !bytes.is_empty() {
            let piece = compressor.next(&mut bytes, true).expect("memory");
            length += piece.body.len();
            if piece.took.is_some() {
                tried += piece.plain;
            }
        }
        (tried, length)
    }

    fn opened() -> Compressor {
        let mut compressor = Compressor::default();
        assert_eq!(sent(&mut compressor, &[0; 4]), (0, 4));
        compressor
    }

    #[test]
    fn little_is_tried_of_what_does_not_become_shorter() {
        let mut random = fastrand::Rng::with_seed(5);
        let bytes: Vec<u8> = (0..32 << 20).map(|_| random.u8(..)).collect();
        let mut compressor = opened();
        let (tried, length) = sent(&mut compressor, &bytes);
        assert!(tried <= 1 << 20, "{tried} of {}", bytes.len());
        assert!(length <= bytes.len() + 1024, "{length}");
        // What is short is still compressed, and what is alike again soon.
        let (tried, length) = sent(&mut compressor, &[7; 2000]);
        assert!(tried == 2000 && length < 100, "{length}");
        let alike = vec![7; 32 << 20];
        let (tried, _) = sent(&mut compressor, &alike);
        assert!(tried >= alike.len() - SKIPPED_BYTES_MAX, "{tried}");
    }

    #[test]
    fn what_was_sent_before_makes_the_next_shorter() {
        let mut random = fastrand::Rng::with_seed(5);
        let bytes: Vec<u8> = (0..1000).map(|_| random.u8(..)).collect();
        let mut compressor = opened();
        let (_, first) = sent(&mut compressor, &bytes);
        let (_, again) = sent(&mut compressor, &bytes);
        assert!(first >= 1000 && again < 50, "{first}, then {again}");
    }
}
