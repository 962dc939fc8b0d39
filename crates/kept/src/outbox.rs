//! What a domain holds at its boundary, as its directory has it.

use surmise_outbox::{Held, HeldChannel, HeldState, Outbox, Resend};

use crate::domain::Domain;
use crate::error::DecideError;
use crate::seal::{self, Depth};

/// Held output of a domain, in causal order.
#[derive(Clone, Debug, Default)]
pub struct Holdings {
    /// What waits for a decision.
    pub pending: Vec<HeldChannel>,
    /// What a commit could not send, or not as a whole. While the domain runs, also what is being sent. After a
    /// commit also what is pending: no other commit decides that.
    pub unsent: Vec<HeldChannel>,
}

impl Holdings {
    fn of(held: &Held, is_committed: bool) -> Self {
        let unsent = held.channels.iter().filter(|channel| match channel.state {
            HeldState::Sending | HeldState::Failed { .. } => true,
            HeldState::Open | HeldState::Finished(_) => is_committed,
            HeldState::Sent | HeldState::Dropped => false,
        });
        Self {
            pending: held.pending().cloned().collect(),
            unsent: unsent.cloned().collect(),
        }
    }

    /// Whether nothing is left to be sent.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.unsent.is_empty()
    }
}

impl Domain {
    /// What the domain holds at its boundary. It may be running.
    ///
    /// # Errors
    /// When the outbox cannot be read.
    pub fn holdings(&self) -> Result<Holdings, DecideError> {
        self.check_seal(Depth::Records)?;
        self.read_holdings()
    }

    /// As [`Self::holdings`], where the seal has been looked at.
    pub(crate) fn read_holdings(&self) -> Result<Holdings, DecideError> {
        let held = surmise_outbox::load(self.directory()).map_err(|error| self.told(error))?;
        Ok(Holdings::of(&held, self.is_committed()))
    }

    /// What of it waits for a decision.
    ///
    /// # Errors
    /// As [`Self::holdings`].
    pub fn held(&self) -> Result<Vec<HeldChannel>, DecideError> {
        Ok(self.holdings()?.pending)
    }

    /// What of it a commit could not send.
    ///
    /// # Errors
    /// As [`Self::holdings`].
    pub fn unsent(&self) -> Result<Vec<HeldChannel>, DecideError> {
        Ok(self.holdings()?.unsent)
    }

    /// Has the next commit send what an earlier one could not. Returns how many outputs it will send, after a
    /// commit also those that had waited when that was killed.
    ///
    /// # Errors
    /// When the domain runs or is in use, or its outbox cannot be read or written.
    pub fn send_again(&self, what: Resend) -> Result<usize, DecideError> {
        let _lock = self.lock()?;
        self.check_seal(Depth::Records)?;
        let outbox = Outbox::open(self.directory()).map_err(|error| self.told(error))?;
        let again = outbox.send_again(what).map_err(|error| self.told(error))?;
        match self.is_committed() {
            true => Ok(self.read_holdings()?.unsent.len()),
            false => Ok(again),
        }
    }

    /// Keeps what could not be sent, and nothing else: the changes are real. It is no loss if that fails: what
    /// is left takes space, and goes with the rest.
    pub(crate) fn keep_unsent(&self) {
        let _ = seal::remove(self.directory()).and_then(|()| {
            seal::forget_changes(self.directory())?;
            seal::make(self.directory())
        });
    }
}
