//! What the caller sees waits for promises that were made to the domain.

use surmise_sync::{Epochs, Stopped};

/// How one channel waits. Its thread does nothing else meanwhile, and a commit is bounded.
pub(crate) struct Release {
    /// `None` where nothing is promised.
    epochs: Option<Epochs>,
}

impl Release {
    pub(crate) fn new(epochs: Option<&Epochs>) -> Self {
        let epochs = epochs.cloned();
        Self { epochs }
    }

    /// Waits until the caller may see what was taken from the domain before.
    ///
    /// # Errors
    /// When that will never be.
    pub(crate) fn wait(&self) -> Result<(), Stopped> {
        self.epochs.as_ref().map_or(Ok(()), Epochs::release)
    }
}
