//! How a command ended.

use rustix::process::WaitStatus;
use serde::{Deserialize, Serialize};

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Exit {
    /// It exited with this status.
    Exited(u8),
    /// This signal killed it.
    Signaled(i32),
}

impl Exit {
    /// The status that a shell would give for it: 128 and the signal's number for a signal.
    pub fn code(self) -> u8 {
        match self {
            Self::Exited(status) => status,
            // The highest signal is 64.
            Self::Signaled(number) => {
                128_u8.saturating_add(u8::try_from(number).unwrap_or(u8::MAX))
            }
        }
    }

    /// `None` for a process that has not ended.
    pub fn of(status: WaitStatus) -> Option<Self> {
        let exited = status
            .exit_status()
            .map(|status| Self::Exited(status as u8));
        exited.or_else(|| status.terminating_signal().map(Self::Signaled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_a_shells() {
        assert_eq!(Exit::Exited(3).code(), 3);
        assert_eq!(Exit::Signaled(15).code(), 143);
    }
}
