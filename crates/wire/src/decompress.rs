//! From what comes over the line to the bytes that were sent.

use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

use crate::WINDOW_LOG;
use crate::block::{COMPRESSED_BYTES_MAX, Damaged, HEADER_BYTES, Header, Opening};

/// Takes blocks apart.
#[derive(Default)]
pub(crate) struct Decompressor {
    opening: Opening,
    /// The first bytes of what stands before a block.
    header: [u8; HEADER_BYTES],
    header_bytes: usize,
    body: Body,
    /// There is one from the first compressed block on.
    decoder: Option<Decoder<'static>>,
    plain: Vec<u8>,
}

/// What is left of a block.
#[derive(Debug, Clone, Copy, Default)]
enum Body {
    #[default]
    None,
    Plain(usize),
    Compressed {
        left: usize,
        /// The decoder may have more bytes than there was room for.
        has_more: bool,
    },
}

/// What became of the next bytes of the input.
pub(crate) struct Advance {
    /// How many they are.
    pub(crate) taken: usize,
    pub(crate) made: Made,
}

pub(crate) enum Made {
    /// They are what was sent.
    AsTheyAre,
    /// What they make is in [`Decompressor::decompressed`].
    Decompressed,
    /// A block begins with them.
    Header(Header),
    /// No more can be made before more come.
    Nothing,
}

impl Made {
    fn of(self, taken: usize) -> Advance {
        Advance { taken, made: self }
    }
}

impl Decompressor {
    /// Deals with what comes next.
    ///
    /// # Errors
    /// [`Damaged`]: nothing that follows can be understood.
    pub(crate) fn advance(&mut self, input: &[u8]) -> Result<Advance, Damaged> {
        if !self.opening.is_over() {
            return Ok(as_they_are(self.opening.take(input)));
        }
        match self.body {
            Body::None => self.begin(input),
            Body::Plain(left) => {
                let length = left.min(input.len());
                self.body = match left - length {
                    0 => Body::None,
                    left => Body::Plain(left),
                };
                Ok(as_they_are(length))
            }
            Body::Compressed { left, has_more } => self.decompress(left, has_more, input),
        }
    }

    /// What was decompressed last, at most [`COMPRESSED_BYTES_MAX`].
    pub(crate) fn decompressed(&self) -> &[u8] {
        &self.plain
    }

    fn begin(&mut self, input: &[u8]) -> Result<Advance, Damaged> {
        let missing = &mut self.header[self.header_bytes..];
        let length = missing.len().min(input.len());
        missing[..length].copy_from_slice(&input[..length]);
        self.header_bytes += length;
        if self.header_bytes < HEADER_BYTES {
            return Ok(Made::Nothing.of(length));
        }
        self.header_bytes = 0;
        let header = Header::decoded(self.header)?;
        self.body = match header.is_compressed {
            true => Body::Compressed {
                left: header.length,
                has_more: false,
            },
            false => Body::Plain(header.length),
        };
        Ok(Made::Header(header).of(length))
    }

    fn decompress(
        &mut self,
        left: usize,
        has_more: bool,
        input: &[u8],
    ) -> Result<Advance, Damaged> {
        let part = &input[..left.min(input.len())];
        if part.is_empty() && !has_more {
            return Ok(Made::Nothing.of(0));
        }
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            none => none.insert(decoder().map_err(|_| Damaged)?),
        };
        self.plain.clear();
        self.plain.reserve_exact(COMPRESSED_BYTES_MAX);
        let mut from = InBuffer::around(part);
        let mut to = OutBuffer::around(&mut self.plain);
        // It returns zero at the end of a frame of zstd, which a sender never ends.
        let ends = decoder.run(&mut from, &mut to).map_err(|_| Damaged)? == 0;
        if ends {
            return Err(Damaged);
        }
        let taken = from.pos();
        let left = left - taken;
        let has_more = self.plain.len() == self.plain.capacity();
        self.body = match left > 0 || has_more {
            true => Body::Compressed { left, has_more },
            false => Body::None,
        };
        Ok(Made::Decompressed.of(taken))
    }
}

fn as_they_are(length: usize) -> Advance {
    match length {
        0 => Made::Nothing.of(0),
        length => Made::AsTheyAre.of(length),
    }
}

fn decoder() -> std::io::Result<Decoder<'static>> {
    let mut decoder = Decoder::new()?;
    // A sender that wants the receiver to remember more is refused.
    decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG))?;
    Ok(decoder)
}

#[cfg(test)]
mod tests {
    use zstd::stream::raw::{CParameter, Encoder};

    use super::*;

    /// A block with bytes that zstd has made so, behind an empty opening.
    fn block(bytes: &[u8], window_log: u32, ends: bool) -> Vec<u8> {
        let mut encoder = Encoder::new(1).expect("memory");
        let window = encoder.set_parameter(CParameter::WindowLog(window_log));
        window.expect("a window");
        let mut body = Vec::with_capacity(bytes.len() + 1024);
        let mut output = OutBuffer::around(&mut body);
        let mut input = InBuffer::around(bytes);
        while input.pos() < bytes.len() {
            encoder.run(&mut input, &mut output).expect("room");
        }
        let left = match ends {
            true => encoder.finish(&mut output, true),
            false => encoder.flush(&mut output),
        };
        assert_eq!(left.expect("room"), 0);
        let header = Header {
            length: body.len(),
            is_compressed: true,
            wants: false,
        };
        [&[0; 4][..], &header.encoded(), &body].concat()
    }

    /// How long what comes of it is in all, and at most at a time.
    fn read(mut bytes: &[u8]) -> Result<(usize, usize), Damaged> {
        let mut decompressor = Decompressor::default();
        let (mut all, mut most) = (0, 0);
        loop {
            let Advance { taken, made } = decompressor.advance(bytes)?;
            bytes = &bytes[taken..];
            match made {
                Made::Decompressed => {
                    let length = decompressor.decompressed().len();
                    all += length;
                    most = most.max(length);
                }
                Made::Nothing => return Ok((all, most)),
                Made::AsTheyAre | Made::Header(_) => {}
            }
        }
    }

    #[test]
    fn a_short_block_that_makes_much_is_made_by_and_by() {
        let zeros = vec![0; 100 << 20];
        let bomb = block(&zeros, WINDOW_LOG, false);
        assert!(bomb.len() < 100 << 10, "{}", bomb.len());
        let (all, most) = read(&bomb).expect("a block");
        assert_eq!(all, zeros.len());
        assert!(most <= COMPRESSED_BYTES_MAX, "{most}");
    }

    #[test]
    fn what_a_sender_does_not_do_is_damage() {
        let bytes = vec![1; 10 << 10];
        assert_eq!(
            read(&block(&bytes, WINDOW_LOG, false)),
            Ok((10 << 10, 10 << 10))
        );
        assert_eq!(read(&block(&bytes, WINDOW_LOG + 1, false)), Err(Damaged));
        assert_eq!(read(&block(&bytes, WINDOW_LOG, true)), Err(Damaged));
    }
}
