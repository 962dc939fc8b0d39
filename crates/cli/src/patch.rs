//! A domain's changes as a patch.

use std::io::Write;
use std::path::Path;

use surmise_diff::{Diff, LeftOut, PatchError, PatchSource, shown, write_patch};
use surmise_kept::{DecideError, Domain};
use surmise_view::Map;

/// Lines about changes that no patch holds, before the rest is only counted.
const LINES_MAX: usize = 20;

/// The contents behind a domain's changes.
pub struct Contents<'d> {
    domain: &'d Domain,
    map: Map,
}

impl<'d> Contents<'d> {
    /// Those of `domain`.
    pub fn of(domain: &'d Domain) -> Result<Self, DecideError> {
        let map = domain.contents()?;
        Ok(Self { domain, map })
    }

    /// Writes `diff` as a patch for `git apply` in the directory `base`, and returns those that a
    /// patch cannot hold.
    ///
    /// # Errors
    /// As [`write_patch`].
    pub fn write_patch(
        &self,
        diff: &Diff,
        base: &Path,
        out: &mut dyn Write,
    ) -> Result<Vec<LeftOut>, PatchError> {
        let source = PatchSource {
            map: &self.map,
            directory: self.domain.directory(),
            root: Path::new("/"),
        };
        write_patch(&source, diff, base, out)
    }
}

/// A line each for changes that are not in a patch. Paths below `base` are relative to it.
pub fn left_out(changes: &[LeftOut], base: &Path) -> Vec<String> {
    let mut lines: Vec<_> = changes
        .iter()
        .take(LINES_MAX)
        .map(|left| {
            format!(
                "not in the patch: {}: {}",
                shown(&left.path, base, false),
                left.reason
            )
        })
        .collect();
    if changes.len() > LINES_MAX {
        let rest = changes.len() - LINES_MAX;
        lines.push(format!("not in the patch: {rest} more"));
    }
    lines
}
