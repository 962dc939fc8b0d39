//! How much of what is run ahead may be for nothing, for all roots that share this.

use std::sync::Arc;

use surmise_rpc::{Account, Waste};

use crate::lock::{Mutex, MutexGuard, PoisonError};

/// By default there is no limit.
#[derive(Clone, Debug, Default)]
pub struct Allowance(Option<Arc<Mutex<Account>>>);

/// What became of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Became {
    /// Sent ahead, and of use.
    pub kept: u64,
    /// Sent ahead, and thrown away.
    pub wasted: u64,
    /// Sent, and not ahead.
    pub in_turn: u64,
}

impl Allowance {
    pub fn of(waste: Option<Waste>) -> Self {
        Self(waste.map(|waste| Arc::new(Mutex::new(Account::new(waste)))))
    }

    /// Whether a call could be sent ahead.
    pub fn has_left(&self) -> bool {
        self.account().is_none_or(|account| account.has_left())
    }

    /// A call is to be sent ahead. Returns whether it may.
    pub fn take(&self) -> bool {
        self.account().is_none_or(|mut account| account.take())
    }

    pub fn settle(&self, became: Became) {
        if became != Became::default()
            && let Some(mut account) = self.account()
        {
            account.keep(became.kept);
            account.waste(became.wasted);
            account.earn(became.in_turn);
        }
    }

    fn account(&self) -> Option<MutexGuard<'_, Account>> {
        let account = self.0.as_ref()?;
        // Nothing panics with it.
        Some(account.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
