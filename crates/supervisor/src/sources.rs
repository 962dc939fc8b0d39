//! The sources of guesses, one file each.

pub(crate) mod right;
pub(crate) mod torture;
mod wrong;

/// What a domain's guesses come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Guessing {
    /// Wrong results at random, taken back later.
    Torture(torture::Options),
    /// Right results, and perhaps some that are wrong, decided later.
    Right(right::Options),
}

impl Guessing {
    pub(crate) fn source(&self) -> Box<dyn crate::source::Source> {
        match self {
            Self::Torture(options) => Box::new(torture::Torture::new(options)),
            Self::Right(options) => Box::new(right::Right::new(options)),
        }
    }
}
