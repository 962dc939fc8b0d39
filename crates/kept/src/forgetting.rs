//! Doing without the record of what a domain read, where that alone is damaged.

use crate::domain::Domain;
use crate::error::DecideError;
use crate::seal::{self, Depth};

impl Domain {
    /// Removes the record of what the domain read, if it is damaged, so that a commit can do without: it then
    /// tells nothing of what was read and has changed outside. Returns whether it was damaged.
    ///
    /// # Errors
    /// When the domain runs or is in use, when a commit of it was cut short, or when anything else of it is
    /// damaged. Nothing has changed then.
    pub fn forget_damaged_reads(&self) -> Result<bool, DecideError> {
        let _lock = self.lock()?;
        self.check_not_committing()?;
        if self.check_whole().is_ok() {
            return Ok(false);
        }
        // The new seal is to cover nothing that is not as it was.
        self.check_seal(Depth::DataWithoutReads)?;
        surmise_view::load(self.directory()).map_err(|error| self.told(error))?;
        surmise_outbox::load(self.directory()).map_err(|error| self.told(error))?;
        seal::forget_reads(self.directory())
            .and_then(|()| seal::make(self.directory()))
            .map_err(|source| self.seal_error(source))?;
        Ok(true)
    }
}
