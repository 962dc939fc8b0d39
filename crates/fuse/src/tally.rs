//! How many requests the kernel has sent, by what they asked for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::abi::opcode;

/// Room for the operations of versions to come; what is beyond counts with the last.
const KINDS: usize = 64;

/// What nobody here knows the name of.
const UNKNOWN: &str = "UNKNOWN";

/// One counter for each operation.
#[derive(Debug)]
pub(crate) struct Tally([AtomicU64; KINDS]);

impl Default for Tally {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; KINDS])
    }
}

impl Tally {
    pub(crate) fn count(&self, opcode: u32) {
        let kind = (opcode as usize).min(KINDS - 1);
        self.0[kind].fetch_add(1, Ordering::Relaxed);
    }

    /// Those that came, by the kernel's names.
    pub(crate) fn counts(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        for (opcode, counter) in (0..).zip(&self.0) {
            let count = counter.load(Ordering::Relaxed);
            if count > 0 {
                *counts
                    .entry(opcode::name(opcode).unwrap_or(UNKNOWN))
                    .or_default() += count;
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_is_counted_by_name() {
        let tally = Tally::default();
        for opcode in [opcode::LOOKUP, opcode::LOOKUP, opcode::OPEN, 60, u32::MAX] {
            tally.count(opcode);
        }
        let expected = [("LOOKUP", 2), ("OPEN", 1), (UNKNOWN, 2)];
        assert_eq!(tally.counts(), expected.into());
    }
}
