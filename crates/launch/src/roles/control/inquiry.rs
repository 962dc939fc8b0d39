//! Questions to the person at the terminal, one after the other.
//!
//! A question takes the terminal from the command for as long as the person thinks. It is asked by a
//! copy of this process, so that control goes on with everything else; the copy's exit status is the
//! answer.

use std::collections::VecDeque;
use std::io;

use rustix::process::Signal;
use surmise_sys::process::{self, Child};

use crate::person::{Answer, Person, Question};

/// What an answer is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Matter {
    /// A question of the network relay, by its number there.
    Reach(u64),
    /// These holds, whose replies everything waits for.
    Stalled(Vec<u64>),
}

/// The questions that are open.
#[derive(Default)]
pub(super) struct Inquiry {
    waiting: VecDeque<(Question, Matter)>,
    state: State,
}

#[derive(Default)]
enum State {
    #[default]
    Idle,
    /// The terminal is being made the person's.
    Pausing,
    /// The person thinks.
    Asking(Child),
}

impl Inquiry {
    /// Adds a question. True when the terminal must be paused for it, see [`Self::paused`].
    pub(super) fn add(&mut self, question: Question, matter: Matter) -> bool {
        self.waiting.push_back((question, matter));
        self.go_on()
    }

    /// Whether nobody is being asked.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle)
    }

    /// The terminal is paused: asks, if that is what it was paused for.
    pub(super) fn paused(&mut self, person: &dyn Person) -> io::Result<()> {
        let (State::Pausing, Some((question, _))) = (&self.state, self.waiting.front()) else {
            return Ok(());
        };
        let asker = process::fork(&[], || code(person.ask(question)))?;
        self.state = State::Asking(asker);
        Ok(())
    }

    /// The question that was to be asked has got no for an answer.
    pub(super) fn refuse_asked(&mut self) -> Option<(Matter, Answer)> {
        self.state = State::Idle;
        let question = self.waiting.pop_front();
        question.map(|(_, matter)| (matter, Answer::Refuse))
    }

    /// Who asks: readable when there is an answer.
    pub(super) fn asker(&self) -> Option<&Child> {
        match &self.state {
            State::Asking(asker) => Some(asker),
            State::Idle | State::Pausing => None,
        }
    }

    /// The answer, and what it is for; the terminal can be resumed.
    pub(super) fn answered(&mut self) -> io::Result<Option<(Matter, Answer)>> {
        let State::Asking(asker) = std::mem::take(&mut self.state) else {
            return Ok(None);
        };
        let status = asker.wait()?.exit_status();
        let question = self.waiting.pop_front();
        Ok(question.map(|(_, matter)| (matter, answer(status))))
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

/// A person is not asked about a domain that has ended.
impl Drop for Inquiry {
    fn drop(&mut self) {
        if let State::Asking(asker) = &self.state {
            // Fails only if it has ended.
            let _ = asker.signal(Signal::KILL);
            let _ = asker.wait();
        }
    }
}

fn code(answer: Answer) -> u8 {
    match answer {
        Answer::Allow => 1,
        Answer::Hold => 2,
        Answer::Refuse => 3,
    }
}

/// Whoever was killed while they asked has heard no consent.
fn answer(status: Option<i32>) -> Answer {
    match status {
        Some(1) => Answer::Allow,
        Some(2) => Answer::Hold,
        _ => Answer::Refuse,
    }
}
