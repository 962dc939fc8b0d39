//! What holds of any bytes where a commit's journal or a view's log should be. Ordinary tests ask it of
//! mutated ones, and the targets in `fuzz/` of whatever libFuzzer finds.

use std::path::Path;

use surmise_view::fuzzing::{pieces, salvaged};

use crate::changes::Changes;
use crate::journal::fuzzing as frames;

pub use crate::journal::fuzzing::seeds as journal_seeds;
pub use surmise_view::fuzzing::logs as log_seeds;

/// The payloads of a journal, each behind its length in two bytes: what is decoded is encoded as the
/// same bytes. Whether each was a frame.
///
/// # Panics
/// When that does not hold.
pub fn journal(bytes: &[u8]) -> bool {
    pieces(bytes).all(frames::frame)
}

/// A view's log, as [`surmise_view::fuzzing::salvaged`] reads it: its changes are listed, a line each, whatever
/// is missing. Whether there were any.
///
/// # Panics
/// When that does not hold.
pub fn changes(bytes: &[u8]) -> bool {
    let changes = Changes::of(&salvaged(bytes));
    for change in &changes {
        let line = change.line(Path::new("/"));
        assert!(!line.contains(['\n', '\t']), "{line:?}");
    }
    !changes.is_empty()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use surmise_testkit::mutations;

    use super::*;

    #[test]
    fn the_seeds_are_journals_and_logs() {
        assert!(journal_seeds().iter().all(|bytes| journal(bytes)));
        assert!(log_seeds().iter().any(|bytes| changes(bytes)));
    }

    proptest! {
        #[test]
        fn any_journal_is_read_or_refused(bytes in mutations(journal_seeds())) {
            journal(&bytes);
        }

        #[test]
        fn any_log_has_changes_or_none(bytes in mutations(log_seeds())) {
            changes(&bytes);
        }
    }
}
