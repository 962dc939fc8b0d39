//! A domain that is left for the user to go on with.

use surmise_api::{Domain, Status};

use crate::report;

/// A domain whose changes wait, after something went wrong.
#[derive(Debug)]
pub struct Kept {
    name: String,
    ways_on: WaysOn,
}

/// What can be done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaysOn {
    /// All of it.
    Any,
    /// A commit that was cut short is finished or taken back first.
    FinishFirst,
    /// Somebody has said it.
    Told,
}

impl Kept {
    /// As `domain` is now.
    pub fn of(domain: &Domain) -> Self {
        Self {
            name: domain.name().into(),
            ways_on: match domain.status() {
                Status::Committing => WaysOn::FinishFirst,
                // So says the commit.
                Status::Unsent => WaysOn::Told,
                _ => WaysOn::Any,
            },
        }
    }

    /// One of which a hint tells how to go on.
    pub fn told(name: &str) -> Self {
        Self {
            name: name.into(),
            ways_on: WaysOn::Told,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Says on standard error that it is there, and how to go on.
    pub fn tell(&self) {
        let name = &self.name;
        match self.ways_on {
            WaysOn::Any => {
                report::note(format_args!("the changes are kept in domain {name}"));
                report::follow_ups(name);
            }
            WaysOn::FinishFirst => {
                report::note(format_args!("a commit of domain {name} was cut short"));
                report::ways_on(
                    name,
                    &[
                        ("commit", "finish it"),
                        ("commit --undo", "take it back, and keep the changes"),
                    ],
                );
            }
            WaysOn::Told => {}
        }
    }
}
