//! What a disk was written, cut by the flushes that it was asked for, and what of it may remain.

/// What the disk writes whole or not at all, in bytes.
const BLOCK: usize = 4096;

/// A moment at which the power fails.
///
/// All that was written before a flush is on the disk when the flush returns. Of what was written
/// since, any part may be, in any order: each block as of before or after. Two writes of one block
/// in the wrong order leave what the first alone would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerLoss {
    /// How many flushes had returned.
    pub flushes: usize,
    /// Picks the blocks that arrived of what was written since; `None` for none of them.
    pub seed: Option<u64>,
}

impl PowerLoss {
    /// So many moments, spread over a recording that is cut into so many parts by its flushes. Every third
    /// leaves exactly what a flush did.
    pub fn spread(parts: usize, moments: usize) -> impl Iterator<Item = Self> {
        (0..moments).map(move |moment| Self {
            flushes: moment * parts / moments,
            seed: (!moment.is_multiple_of(3)).then_some(moment as u64),
        })
    }
}

/// The content of a disk at one moment, and every write since.
#[derive(Debug, Default)]
pub struct Recording {
    base: Vec<u8>,
    /// The writes before each flush, block by block; the last ones are behind the last flush.
    epochs: Vec<Vec<(usize, Vec<u8>)>>,
}

impl Recording {
    /// Begins with a disk of this content.
    pub fn of(base: Vec<u8>) -> Self {
        Self {
            base,
            epochs: vec![Vec::new()],
        }
    }

    /// Notes a write.
    pub fn write(&mut self, mut at: usize, mut data: &[u8]) {
        let epoch = self.epochs.last_mut().expect("there is always one");
        while !data.is_empty() {
            let (block, rest) = data.split_at(data.len().min(BLOCK - at % BLOCK));
            epoch.push((at, block.to_owned()));
            at += block.len();
            data = rest;
        }
    }

    /// Notes a flush.
    pub fn flush(&mut self) {
        self.epochs.push(Vec::new());
    }

    /// How many blocks were written before each flush, and behind the last.
    pub fn blocks(&self) -> Vec<usize> {
        self.epochs.iter().map(Vec::len).collect()
    }

    /// The disk after a loss of power.
    pub fn image(&self, loss: PowerLoss) -> Vec<u8> {
        let mut image = self.base.clone();
        let mut put = |(at, data): &(usize, Vec<u8>)| {
            image[*at..*at + data.len()].copy_from_slice(data);
        };
        self.epochs[..loss.flushes]
            .iter()
            .flatten()
            .for_each(&mut put);
        if let Some(seed) = loss.seed {
            let mut random = Random(seed);
            // Now few arrive, now most.
            let out_of_8 = 1 + random.next() % 7;
            for write in &self.epochs[loss.flushes] {
                if random.next() % 8 < out_of_8 {
                    put(write);
                }
            }
        }
        image
    }
}

/// SplitMix64: a seed names a state for good.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded() -> Recording {
        let mut recording = Recording::of(vec![0; 4 * BLOCK]);
        recording.write(100, b"first");
        recording.flush();
        recording.write(BLOCK - 1, &[7; 2 * BLOCK]);
        recording.write(100, b"later");
        recording
    }

    #[test]
    fn writes_are_cut_into_blocks_and_by_flushes() {
        assert_eq!(recorded().blocks(), [1, 4]);
    }

    #[test]
    fn what_was_flushed_remains_and_nothing_else_must() {
        let image = |flushes| {
            recorded().image(PowerLoss {
                flushes,
                seed: None,
            })
        };
        assert_eq!(image(0), vec![0; 4 * BLOCK]);
        assert_eq!(image(1)[100..105], *b"first");
        assert!(image(1)[BLOCK - 1..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn every_part_of_what_was_not_flushed_may_remain() {
        let mut parts: Vec<_> = (0..1000)
            .map(|seed| {
                let loss = PowerLoss {
                    flushes: 1,
                    seed: Some(seed),
                };
                let image = recorded().image(loss);
                assert_eq!(image, recorded().image(loss), "a seed names one state");
                assert!([*b"first", *b"later"].contains(&image[100..105].try_into().unwrap()));
                [100, BLOCK - 1, BLOCK, 2 * BLOCK].map(|at| image[at])
            })
            .collect();
        parts.sort_unstable();
        parts.dedup();
        assert_eq!(parts.len(), 16);
    }
}
