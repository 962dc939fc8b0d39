//! Which calls are heard: a filter from the parts that a domain's supervisor is made of, and the table.

use surmise_sys::seccomp::{Changes, Listening, Program, Telling};

/// The parts of a supervisor for whose sake calls are heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interests {
    /// Whether there are sources of guesses.
    pub guesses: bool,
    /// Whether durability is ordered, and which changes by name are not.
    pub durability: Option<Reach>,
    /// Which refusals are counted.
    pub refusals: Telling,
}

/// What tasks whose durability is ordered can change by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Anything that their user may change.
    Anything,
    /// Nothing but what is ordered, or is nobody else's to see.
    Ordered,
}

impl Interests {
    /// The filter by which the supervisor hears what it has to, and no other call.
    pub fn filter(self) -> Program {
        Program::new(self.listening())
    }

    /// Whether a supervisor is needed that changes what calls do, rather than one that only counts.
    pub fn change_calls(self) -> bool {
        self.guesses || self.durability.is_some()
    }

    /// Whether anything is heard.
    pub fn hear_anything(self) -> bool {
        self.listening().is_anything()
    }

    fn listening(self) -> Listening {
        Listening {
            predictions: self.guesses,
            epochs: self.durability.map(|reach| match reach {
                Reach::Anything => Changes::Heard,
                Reach::Ordered => Changes::Silent,
            }),
            refusals: self.refusals,
        }
    }
}
