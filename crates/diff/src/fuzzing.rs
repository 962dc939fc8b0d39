//! What holds of any bytes where a view's log should be. Ordinary tests ask it of mutated ones, and the
//! targets in `fuzz/` of whatever libFuzzer finds.

use std::path::Path;

use surmise_changes::Changes;
use surmise_view::fuzzing::salvaged;

use crate::diff::Diff;

pub use surmise_view::fuzzing::logs as log_seeds;

/// A view's log, as [`surmise_view::fuzzing::salvaged`] reads it: its changes are listed, a line each, whatever
/// is missing. Whether there were any.
///
/// # Panics
/// When that does not hold.
pub fn changes(bytes: &[u8]) -> bool {
    let diff = Diff::without_notes(Changes::of(&salvaged(bytes)));
    for row in &diff {
        let line = row.line(Path::new("/"));
        assert!(!line.contains(['\n', '\t']), "{line:?}");
    }
    !diff.is_empty()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use surmise_testkit::mutations;

    use super::*;

    #[test]
    fn some_seeds_have_changes() {
        assert!(log_seeds().iter().any(|bytes| changes(bytes)));
    }

    proptest! {
        #[test]
        fn any_log_has_changes_or_none(bytes in mutations(log_seeds())) {
            changes(&bytes);
        }
    }
}
