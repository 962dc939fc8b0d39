//! The role that is asked to have everything decided.

use std::fmt;
use std::sync::OnceLock;

use super::View;

/// Nobody, until the role is known.
#[derive(Default)]
pub(super) struct Decider(OnceLock<Box<dyn Fn() + Send + Sync>>);

impl fmt::Debug for Decider {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Decider")
    }
}

impl Decider {
    pub(super) fn ask(&self) {
        if let Some(ask) = self.0.get() {
            ask();
        }
    }
}

impl View {
    /// `ask` is called, from any thread, when a call waits until nothing is undecided.
    pub fn ask_for_decision_by(&self, ask: impl Fn() + Send + Sync + 'static) {
        // There is one who decides.
        let _ = self.decider.0.set(Box::new(ask));
    }
}
