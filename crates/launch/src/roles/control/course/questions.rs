//! Questions to the person at the terminal, one after the other.
//!
//! A question takes the terminal from the command for as long as the person thinks.

use std::collections::VecDeque;

use crate::person::Question;

/// What an answer is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Matter {
    /// A question of the network relay, by its number there.
    Reach(u64),
    /// These holds, whose replies everything waits for.
    Stalled(Vec<u64>),
}

/// The questions that are open.
#[derive(Debug, Default)]
pub(super) struct Questions {
    waiting: VecDeque<(Question, Matter)>,
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    /// The terminal is being made the person's.
    Pausing,
    /// The person thinks.
    Asking,
}

impl Questions {
    /// Adds a question. True when the terminal must be paused for it, see [`Self::paused`].
    pub(super) fn add(&mut self, question: Question, matter: Matter) -> bool {
        self.waiting.push_back((question, matter));
        self.go_on()
    }

    /// Whether nobody is being asked.
    pub(super) fn is_idle(&self) -> bool {
        self.state == State::Idle
    }

    /// Whether the terminal is the person's, who thinks.
    pub(super) fn is_asking(&self) -> bool {
        self.state == State::Asking
    }

    /// The terminal is paused: what to ask, if that is what it was paused for.
    pub(super) fn paused(&mut self) -> Option<Question> {
        if self.state != State::Pausing {
            return None;
        }
        let (question, _) = self.waiting.front()?;
        self.state = State::Asking;
        Some(question.clone())
    }

    /// What has been answered; the terminal can be resumed.
    pub(super) fn answered(&mut self) -> Option<Matter> {
        if self.state != State::Asking {
            return None;
        }
        self.state = State::Idle;
        self.waiting.pop_front().map(|(_, matter)| matter)
    }

    /// Whether the terminal must be paused for the next question.
    pub(super) fn go_on(&mut self) -> bool {
        let next = self.is_idle() && !self.waiting.is_empty();
        if next {
            self.state = State::Pausing;
        }
        next
    }

    /// Everything that was asked because the domain had stalled is asked in vain now.
    pub(super) fn forget_stall(&mut self) {
        let asked = usize::from(!self.is_idle());
        let mut index = 0;
        self.waiting.retain(|(_, matter)| {
            index += 1;
            index <= asked || matches!(matter, Matter::Reach(_))
        });
    }
}
