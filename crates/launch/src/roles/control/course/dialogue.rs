//! Whose the terminal is: the command's, the caller's shell's while the command is stopped, or the person's who is
//! asked something.

use super::Effects;
use super::effect::Effect;
use super::event::TerminalEvent;
use super::questions::{Matter, Questions};
use crate::message::{Order, RelayOrder};
use crate::person::Question;
use crate::stops::{Step, Stops};

#[derive(Debug)]
pub(super) struct Dialogue {
    stops: Stops,
    questions: Questions,
    /// Whether the command wants the terminal's keys when the person is no longer asked there.
    engage: bool,
}

impl Dialogue {
    /// `terminal`: whether there is one, and if so whether the command may read its keys.
    pub(super) fn new(terminal: Option<bool>) -> Self {
        Self {
            stops: Stops::new(terminal.is_some(), terminal == Some(true)),
            questions: Questions::default(),
            engage: false,
        }
    }

    /// Whether the person is not asked anything.
    pub(super) fn is_idle(&self) -> bool {
        self.questions.is_idle()
    }

    pub(super) fn hear<V>(&mut self, event: TerminalEvent, effects: &mut Effects<V>) {
        let step = match event {
            TerminalEvent::CommandStopped(signal) => self.stops.stopped(signal),
            TerminalEvent::WentOn { signal, truly } => self.stops.went_on(signal, truly),
            TerminalEvent::Continued => self.stops.continued(),
            TerminalEvent::Paused => {
                self.ask_next(effects);
                self.stops.paused()
            }
            TerminalEvent::Resumed { engaged } => self.stops.resumed(engaged),
            TerminalEvent::Engaged => self.stops.engaged(),
        };
        self.take(step, effects);
    }

    /// Takes the step, and the one that follows from it at once.
    fn take<V>(&mut self, step: Step, effects: &mut Effects<V>) {
        match step {
            Step::Nothing => {}
            // It is the caller's already, because the person is asked there: nobody answers then.
            Step::Pause if self.questions.is_asking() => {
                let step = self.stops.paused();
                self.take(step, effects);
            }
            Step::Pause => effects.push(Effect::Relay(RelayOrder::PauseTerminal)),
            Step::Resume { engage } => {
                self.engage |= engage;
                self.resume(effects);
            }
            Step::Continue { foreground } => {
                effects.push(Effect::Init(Order::Continue { foreground }));
            }
            Step::Stop(signal) => effects.push(Effect::Stop(signal)),
        }
    }

    /// Lets the terminal go on: now, or when the person has answered everything.
    fn resume<V>(&mut self, effects: &mut Effects<V>) {
        if self.questions.is_idle() {
            let engage = std::mem::take(&mut self.engage);
            effects.push(Effect::Relay(RelayOrder::ResumeTerminal { engage }));
        }
    }

    pub(super) fn ask<V>(&mut self, question: Question, matter: Matter, effects: &mut Effects<V>) {
        if self.questions.add(question, matter) {
            effects.push(Effect::Relay(RelayOrder::PauseTerminal));
        }
    }

    fn ask_next<V>(&mut self, effects: &mut Effects<V>) {
        effects.extend(self.questions.paused().map(Effect::Ask));
    }

    /// What the person has answered. [`Self::go_on`] is to follow.
    pub(super) fn answered(&mut self) -> Option<Matter> {
        self.questions.answered()
    }

    /// Asks what else is to be asked, while the terminal is still the person's, or lets it go on.
    pub(super) fn go_on<V>(&mut self, effects: &mut Effects<V>) {
        match self.questions.go_on() {
            true => self.ask_next(effects),
            false => self.resume(effects),
        }
    }

    /// What is asked because the domain had stalled is asked in vain now.
    pub(super) fn forget_stall(&mut self) {
        self.questions.forget_stall();
    }
}
