//! What holds of any bytes on a line: they are bytes of the other side or damage, and take little memory. A target in `fuzz/` asks it of
//! whatever libFuzzer finds, and an ordinary test of damaged conversations.

use std::sync::Arc;

use crate::block::COMPRESSED_BYTES_MAX;
use crate::line::Line;
use crate::reader::Blocks;
use crate::writer::Writer;

/// Takes what comes apart, cut in two ways; whether all of it was blocks.
///
/// # Panics
/// When a short input makes more at a time than a buffer holds, or when it matters how the input is cut.
pub fn blocks(bytes: &[u8]) -> bool {
    let (whole, parts) = (read(bytes, bytes.len().max(1)), read(bytes, 7));
    assert_eq!(whole.is_intact, parts.is_intact);
    if whole.is_intact {
        assert_eq!(whole, parts, "it matters how the input is cut");
    }
    whole.is_intact
}

/// What a reader made of an input. Of the bytes only their number and sum are kept: a short input may make many.
#[derive(Debug, Default, PartialEq, Eq)]
struct Read {
    length: u64,
    sum: u64,
    is_intact: bool,
}

fn read(bytes: &[u8], size: usize) -> Read {
    let mut reader = Blocks::new(Arc::default());
    let mut read = Read::default();
    for mut part in bytes.chunks(size) {
        loop {
            let before = part.len();
            match reader.next(&mut part) {
                Ok(Some(made)) => {
                    assert!(made.len() <= COMPRESSED_BYTES_MAX.max(before));
                    read.length += made.len() as u64;
                    let sums = made.iter().map(|byte| u64::from(*byte));
                    read.sum = sums.fold(read.sum, |sum, byte| {
                        sum.wrapping_mul(31).wrapping_add(byte)
                    });
                }
                Ok(None) => break,
                Err(_) => return read,
            }
        }
        assert!(part.is_empty(), "what comes is taken");
    }
    read.is_intact = true;
    read
}

/// What a writer sends: short and long, alike and random, compressed and not.
///
/// # Panics
/// Never: what it writes to takes all.
pub fn block_seeds() -> Vec<Vec<u8>> {
    let frame = [&[4, 0, 0, 0][..], b"hail"].concat();
    let alike = b"0123 a line that is much like the one before it\n".repeat(20);
    let random: Vec<u8> = (0..600u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let long = vec![b'z'; 300 << 10];
    let each = [&alike[..], &random, &long];
    [false, true]
        .into_iter()
        .map(|is_far| {
            let line = Arc::new(Line::default());
            if is_far {
                line.answered_after(std::time::Duration::from_millis(30));
            }
            let mut writer = Writer::new(line);
            let mut sent = Vec::new();
            for bytes in [&frame[..]].into_iter().chain(each) {
                // Long ones are for the compressor.
                if is_far || bytes.len() < 4096 {
                    let written = writer.write(bytes, &mut sent, |_| {});
                    written.expect("a vector takes all");
                }
            }
            sent
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_writer_sends_is_blocks() {
        for seed in block_seeds() {
            assert!(blocks(&seed));
        }
    }

    #[test]
    fn any_damage_is_damage_or_other_bytes() {
        let mut random = fastrand::Rng::with_seed(7);
        for seed in block_seeds() {
            for _ in 0..3000 {
                let mut bytes = seed.clone();
                for _ in 0..random.usize(1..4) {
                    let at = random.usize(..bytes.len());
                    bytes[at] ^= 1 << random.u8(..8);
                }
                bytes.truncate(random.usize(bytes.len() / 2..=bytes.len()));
                blocks(&bytes);
            }
        }
    }
}
