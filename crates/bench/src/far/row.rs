//! What is compared over which link, as data.

use std::time::Duration;

use super::figure::Target;
use super::held::Link;
use super::trial::Value;
use super::work::Work;

/// One work over one link, measured on each file system.
pub struct Row {
    /// Names it, together with the link.
    pub test: &'static str,
    /// Between the client and the server.
    pub at: At,
    /// What is done.
    pub work: Work,
    /// What is told of it.
    pub told: &'static [Told],
}

/// A value that is told, and what it is to be.
pub struct Told {
    /// Follows the row's name.
    pub suffix: &'static str,
    /// Which one.
    pub value: Value,
    /// For ours.
    pub targets: &'static [Target],
}

/// How far the server is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum At {
    /// In the same building: a round trip of 0.2 ms.
    Near,
    /// On the same continent: one of 30 ms.
    Far,
    /// The same, with 20 Mbit/s.
    FarAndSlow,
}

impl At {
    /// The last part of a row's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Near => "0.2ms",
            Self::Far => "30ms",
            Self::FarAndSlow => "30ms-20mbit",
        }
    }

    /// What the delay line does.
    pub fn link(self) -> Link {
        let (us, bits_per_s) = match self {
            Self::Near => (200, None),
            Self::Far => (30_000, None),
            Self::FarAndSlow => (30_000, Some(20_000_000)),
        };
        Link {
            round_trip: Duration::from_micros(us),
            bits_per_s,
        }
    }
}

impl Row {
    /// As in the table; of one value, if its suffix is given.
    pub fn name(&self, suffix: &str) -> String {
        format!("{}{suffix}-{}", self.test, self.at.name())
    }
}
