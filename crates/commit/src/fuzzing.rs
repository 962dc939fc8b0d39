//! What holds of any bytes where a commit's journal should be. Ordinary tests ask it of
//! mutated ones, and the targets in `fuzz/` of whatever libFuzzer finds.

use surmise_view::fuzzing::pieces;

use crate::journal::fuzzing as frames;

pub use crate::journal::fuzzing::seeds as journal_seeds;

/// The payloads of a journal, each behind its length in two bytes: what is decoded is encoded as the
/// same bytes. Whether each was a frame.
///
/// # Panics
/// When that does not hold.
pub fn journal(bytes: &[u8]) -> bool {
    pieces(bytes).all(frames::frame)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use surmise_testkit::mutations;

    use super::*;

    #[test]
    fn the_seeds_are_journals() {
        assert!(journal_seeds().iter().all(|bytes| journal(bytes)));
    }

    proptest! {
        #[test]
        fn any_journal_is_read_or_refused(bytes in mutations(journal_seeds())) {
            journal(&bytes);
        }
    }
}
