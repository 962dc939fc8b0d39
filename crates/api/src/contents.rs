//! What a domain's files hold.

use std::path::Path;

use surmise_diff::forms;
use surmise_kept::{DecideError, Domain as Kept};
use surmise_view::Map;

/// The contents behind a domain's changes.
pub struct Contents<'d> {
    domain: &'d Kept,
    map: Map,
}

impl<'d> Contents<'d> {
    pub(crate) fn of(domain: &'d Kept) -> Result<Self, DecideError> {
        let map = domain.contents()?;
        Ok(Self { domain, map })
    }

    /// They, for a form of diff that tells them.
    pub fn of_form(&self) -> forms::Contents<'_> {
        forms::Contents {
            map: &self.map,
            directory: self.domain.directory(),
            root: Path::new("/"),
        }
    }
}
