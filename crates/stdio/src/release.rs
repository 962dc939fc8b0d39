//! What the caller sees waits for promises that were made to the domain.

use surmise_sync::{Epochs, Outlet, PutOff, Stopped};

/// How one channel waits. Its thread does nothing else meanwhile, and a commit is bounded.
pub(crate) struct Release {
    /// `None` where nothing is promised.
    outlet: Option<Outlet>,
}

impl Release {
    pub(crate) fn new(epochs: Option<&Epochs>) -> Self {
        let outlet = epochs.cloned().map(Outlet::new);
        Self { outlet }
    }

    /// To be asked before something is taken from the domain.
    pub(crate) fn before(&self) -> PutOff {
        let outlet = self.outlet.as_ref();
        outlet.map_or(PutOff::default(), Outlet::before)
    }

    /// Waits until the caller may see what was just taken from the domain, which was all that was there, or not.
    ///
    /// # Errors
    /// When that will never be.
    pub(crate) fn take(&mut self, before: PutOff, is_all: bool) -> Result<(), Stopped> {
        let outlet = self.outlet.as_mut();
        outlet.map_or(Ok(()), |outlet| outlet.release(before, is_all))
    }

    /// Waits until the caller may see what the domain does now, such as that it puts out no more.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub(crate) fn wait(&mut self) -> Result<(), Stopped> {
        self.take(self.before(), true)
    }
}
