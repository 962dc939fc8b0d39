//! Which bytes of a file are there.

use std::collections::BTreeMap;

/// Sets of byte positions, as runs that neither touch nor overlap: the start of each, and its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Adds the bytes from `start` to before `end`.
    pub fn add(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let (mut start, mut end) = (start, end);
        // Runs from the last one that begins at or before `end` downwards, while they reach `start`.
        while let Some((&from, &to)) = self.0.range(..=end).next_back()
            && to >= start
        {
            start = start.min(from);
            end = end.max(to);
            self.0.remove(&from);
        }
        self.0.insert(start, end);
    }

    /// Takes away all bytes from `size` on.
    pub fn cut(&mut self, size: u64) {
        self.0.split_off(&size);
        if let Some((_, end)) = self.0.range_mut(..size).next_back() {
            *end = size.min(*end);
        }
    }

    /// The first byte from `start` to before `end` that is not there; `None` if all are.
    pub fn first_missing(&self, start: u64, end: u64) -> Option<u64> {
        if start >= end {
            return None;
        }
        let missing = match self.0.range(..=start).next_back() {
            Some((_, &to)) if to > start => to,
            _ => start,
        };
        (missing < end).then_some(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn runs_are_the_sets_that_they_stand_for() {
        for seed in 0..500 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut ranges = Ranges::default();
            let mut set = BTreeSet::new();
            for _ in 0..40 {
                let (start, end) = (random.u64(0..40), random.u64(0..40));
                if random.u8(0..4) == 0 {
                    ranges.cut(start);
                    set.retain(|byte| *byte < start);
                } else {
                    ranges.add(start, end);
                    set.extend(start..end);
                }
                let (start, end) = (random.u64(0..45), random.u64(0..45));
                let missing = (start..end).find(|byte| !set.contains(byte));
                assert_eq!(ranges.first_missing(start, end), missing, "seed {seed}");
            }
        }
    }
}
