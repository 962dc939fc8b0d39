//! The course of a domain while its command runs: how control answers each event.
//!
//! A state machine without descriptors, processes and clock. Events go in with the time, effects come out, and
//! [`Hands`](super::hands::Hands) carries the effects out. So tests can try each order of events without a domain.

mod commit;
mod dialogue;
mod effect;
mod ending;
mod event;
mod leaving;
mod questions;
mod replies;
#[cfg(test)]
mod tests;

use std::time::Instant;

use surmise_engine::Bug;
use surmise_kept::doorway::{Refusal, Wish};
use surmise_kept::{Answer, Notice};

use self::commit::{Commit, Next};
use self::dialogue::Dialogue;
pub(super) use self::effect::{CommitEffect, Effect, Suspects};
use self::ending::Ending;
pub(super) use self::event::{BoundaryEvent, CommitEvent, Event, Role, TerminalEvent, Unstarted};
use self::leaving::Leaving;
use self::questions::Matter;
use self::replies::Replies;
use crate::message::{Order, RelayOrder, ViewOrder};
use crate::person::Question;
use crate::signals::is_end;

/// Why the course cannot be followed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CourseError {
    /// The engine refuses what this process told it, which is a bug.
    #[error(transparent)]
    Bug(#[from] Bug),
    /// A role could not do without the caller.
    #[error("{0}")]
    Leave(String),
}

/// What is to be done, in this order.
pub(super) type Effects<V> = Vec<Effect<V>>;

pub(super) type Result<T> = std::result::Result<T, CourseError>;

/// What is known of a domain, and of its person.
#[derive(Debug)]
pub(super) struct Course {
    /// The domain's name.
    name: String,
    /// Whether there is a view, whose changes are kept.
    is_kept: bool,
    dialogue: Dialogue,
    replies: Replies,
    leaving: Leaving,
    commit: Option<Commit>,
    /// Whether another command has aborted the domain.
    is_aborted: bool,
    ending: Ending,
}

impl Course {
    /// Of a domain whose command is about to start. `terminal`: whether it has one, and if so whether the command
    /// may read its keys. `may_trace`: whether it has a supervisor that may trace tasks.
    pub(super) fn new(
        (name, is_kept): (&str, bool),
        terminal: Option<bool>,
        may_trace: bool,
    ) -> Result<Self> {
        Ok(Self {
            name: name.into(),
            is_kept,
            dialogue: Dialogue::new(terminal),
            replies: Replies::new()?,
            leaving: Leaving::No,
            commit: None,
            is_aborted: false,
            ending: Ending::new(may_trace),
        })
    }

    /// Whether the domain was aborted from elsewhere.
    pub(super) fn is_aborted(&self) -> bool {
        self.is_aborted
    }

    /// Whether the domain is to go on without its caller, and is ready to.
    pub(super) fn is_detached(&self) -> bool {
        self.leaving == Leaving::Done
    }

    /// When [`Self::pass`] has something to do.
    pub(super) fn due(&self) -> Option<Instant> {
        let commit = self.commit.as_ref().map(Commit::due);
        let all = [self.ending.due(), self.replies.due(), commit];
        all.into_iter().flatten().min()
    }

    /// It is `now`, whatever is heard.
    pub(super) fn pass<V>(&mut self, now: Instant, effects: &mut Effects<V>) -> Result<()> {
        self.ending.pass(now, effects);
        let is_busy = self.commit.is_some() || !self.dialogue.is_idle();
        self.replies.pass(now, is_busy, effects)?;
        let Some(commit) = &mut self.commit else {
            return Ok(());
        };
        let next = commit.pass(now, effects);
        self.commit_goes_on(next, now, effects)
    }

    /// Takes in what was heard.
    pub(super) fn hear<V>(
        &mut self,
        event: Event<V>,
        now: Instant,
        effects: &mut Effects<V>,
    ) -> Result<()> {
        match event {
            Event::Signal(signal) => {
                if is_end(signal) {
                    effects.push(Effect::Wake);
                }
                effects.push(Effect::Init(Order::Signal(signal.as_raw())));
                Ok(())
            }
            Event::Started => {
                let name = self.is_kept.then(|| self.name.clone());
                self.note(Notice::Started { name }, effects);
                Ok(())
            }
            Event::Died(role) => {
                if role == Role::Supervisor {
                    effects.push(Effect::SupervisorGone);
                }
                self.ending.role_died(now);
                Ok(())
            }
            Event::Done(done) => self.done(done, now, effects),
            Event::Terminal(event) => {
                self.dialogue.hear(event, effects);
                Ok(())
            }
            Event::Boundary(event) => self.hear_boundary(event, now, effects),
            Event::Commit(event) => self.hear_commit(event, now, effects),
            Event::Visit { visitor, wish } => self.visit(visitor, wish, now, effects),
            Event::Answered(answer) => self.answered(answer, effects),
        }
    }

    fn hear_boundary<V>(
        &mut self,
        event: BoundaryEvent,
        now: Instant,
        effects: &mut Effects<V>,
    ) -> Result<()> {
        match event {
            BoundaryEvent::Detached => self.leaving.streams_are_let_go(effects),
            BoundaryEvent::Asked {
                question,
                peer,
                sender,
                is_person_there,
            } => {
                if is_person_there && self.leaving.has_caller() {
                    let matter = Matter::Reach(question);
                    let question = Question::Reach { peer, sender };
                    self.dialogue.ask(question, matter, effects);
                } else {
                    // What the relay refuses then is told at the end.
                    answer_reach(question, Answer::Refuse, effects);
                }
            }
            BoundaryEvent::Held { hold } => self.replies.held(hold)?,
            BoundaryEvent::Gone { hold } => self.replies.gone(hold),
            BoundaryEvent::Waiting {
                hold,
                peer,
                sender,
                bytes,
                inode,
            } => {
                if self.replies.waits(hold, &peer, inode, now) {
                    let notice = Notice::Waiting {
                        bytes,
                        peer,
                        sender,
                    };
                    self.note(notice, effects);
                }
            }
            BoundaryEvent::Settled { hold } => self.replies.settled(hold),
            BoundaryEvent::NotKept { peer, error } => {
                self.note(Notice::NotKept { peer, error }, effects);
            }
            BoundaryEvent::Tasks {
                waits,
                is_person_there,
            } => {
                if self.replies.have_stalled(&waits)? {
                    self.stalled(is_person_there, effects);
                }
            }
        }
        Ok(())
    }

    /// Nothing in the domain goes on without a person.
    fn stalled<V>(&mut self, is_person_there: bool, effects: &mut Effects<V>) {
        let (peers, holds) = self.replies.wanted();
        // The person is asked, or hears of it when the domain has left its caller.
        let notice = Notice::Stalled {
            peers: peers.clone(),
        };
        effects.push(Effect::TellWatchers(notice));
        if !self.leaving.has_caller() {
            return;
        }
        if is_person_there {
            let matter = Matter::Stalled(holds);
            self.dialogue
                .ask(Question::Stalled { peers }, matter, effects);
        } else {
            self.leaving.begin(effects);
        }
    }

    /// The person has answered.
    fn answered<V>(&mut self, answer: Answer, effects: &mut Effects<V>) -> Result<()> {
        match self.dialogue.answered() {
            Some(Matter::Reach(question)) => answer_reach(question, answer, effects),
            Some(Matter::Stalled(holds)) => self.decide(&holds, answer, effects)?,
            None => {}
        }
        self.dialogue.go_on(effects);
        Ok(())
    }

    /// What becomes of these holds, whose replies tasks wait for.
    fn decide<V>(&mut self, holds: &[u64], answer: Answer, effects: &mut Effects<V>) -> Result<()> {
        if answer == Answer::Hold {
            let name = self.name.clone();
            self.note(Notice::WaitsForCommit { name }, effects);
            return Ok(());
        }
        let verdict = answer.into();
        let orders = holds
            .iter()
            .map(|&hold| RelayOrder::Decide { hold, verdict });
        effects.extend(orders.map(Effect::Relay));
        self.replies.look_afresh(effects)
    }

    fn note<V>(&self, notice: Notice, effects: &mut Effects<V>) {
        effects.push(Effect::TellWatchers(notice.clone()));
        if self.leaving.has_caller() {
            effects.push(Effect::Note(notice));
        }
    }

    fn visit<V>(
        &mut self,
        visitor: V,
        wish: Wish,
        now: Instant,
        effects: &mut Effects<V>,
    ) -> Result<()> {
        match wish {
            Wish::Watch => effects.push(Effect::Watch(visitor)),
            Wish::Decide(answer) => return self.decide_from_elsewhere(visitor, answer, effects),
            Wish::Abort => {
                self.is_aborted = true;
                effects.push(Effect::AwaitEnd(visitor));
                self.end_domain(now, effects);
            }
            Wish::Commit { .. } if self.commit.is_some() => {
                let hint = "wait until it has ended";
                let refusal = Refusal::new("a commit is under way", hint);
                effects.push(Effect::Refuse(visitor, refusal));
            }
            // The tracer would be told to end by this process' end, in the middle of the commit.
            Wish::Commit { .. } if self.leaving.is_under_way() => {
                let hint = "nothing has changed; try again";
                let refusal = Refusal::new("the domain leaves its caller", hint);
                effects.push(Effect::Refuse(visitor, refusal));
            }
            Wish::Commit { is_strict } => {
                self.commit = Some(Commit::new(is_strict, now));
                effects.extend([Effect::SettleGuesses, Effect::Freeze(visitor)]);
            }
        }
        Ok(())
    }

    /// Another command decides what a person could be asked: what becomes of output whose replies tasks wait for.
    fn decide_from_elsewhere<V>(
        &mut self,
        visitor: V,
        answer: Answer,
        effects: &mut Effects<V>,
    ) -> Result<()> {
        let (_, holds) = self.replies.wanted();
        let refusal = if holds.is_empty() {
            let hint = "`surmise diff` shows what the domain holds until the commit";
            Refusal::new(
                "nothing in the domain waits for a reply to held output",
                hint,
            )
        } else if !self.dialogue.is_idle() {
            let hint = "answer there, or wait for the answer";
            Refusal::new("somebody is being asked just now", hint)
        } else {
            self.decide(&holds, answer, effects)?;
            effects.push(Effect::Grant(visitor));
            return Ok(());
        };
        effects.push(Effect::Refuse(visitor, refusal));
        Ok(())
    }

    /// pid 1 or the view has carried out an order, or not.
    fn done<V>(
        &mut self,
        done: std::result::Result<(), String>,
        now: Instant,
        effects: &mut Effects<V>,
    ) -> Result<()> {
        if self.leaving.waits_for_answer() {
            done.map_err(CourseError::Leave)?;
            self.leaving.goes_on(effects);
            return Ok(());
        }
        let event = match done {
            Ok(()) => CommitEvent::Finished,
            Err(error) => CommitEvent::Failed(error),
        };
        self.hear_commit(event, now, effects)
    }

    fn hear_commit<V>(
        &mut self,
        event: CommitEvent,
        now: Instant,
        effects: &mut Effects<V>,
    ) -> Result<()> {
        let Some(commit) = &mut self.commit else {
            return Ok(());
        };
        let next = commit.hear(event, now, effects);
        self.commit_goes_on(next, now, effects)
    }

    fn commit_goes_on<V>(
        &mut self,
        next: Next,
        now: Instant,
        effects: &mut Effects<V>,
    ) -> Result<()> {
        let is_over = match next {
            Next::Wait => false,
            Next::Affirm => {
                let releases = self.replies.affirm()?;
                if let Some(commit) = &mut self.commit {
                    commit.release(&releases, effects);
                }
                false
            }
            Next::Affirmed { changes, is_over } => {
                self.note(Notice::Committed { changes }, effects);
                self.dialogue.forget_stall();
                is_over
            }
            Next::Over => true,
            Next::End => {
                self.end_domain(now, effects);
                true
            }
        };
        if is_over {
            self.commit = None;
            effects.push(Effect::Commit(CommitEffect::Over));
        }
        Ok(())
    }

    fn end_domain<V>(&mut self, now: Instant, effects: &mut Effects<V>) {
        self.ending.kill(now, effects);
        // A view that stands still for a commit answers nobody, and a task that waits for an answer cannot even
        // be killed. A task whose tracer is gone may make such a request. Nothing changes in the view any more.
        if self.commit.is_some() {
            effects.push(Effect::View(ViewOrder::End));
        }
    }
}

fn answer_reach<V>(question: u64, answer: Answer, effects: &mut Effects<V>) {
    let verdict = answer.into();
    effects.push(Effect::Relay(RelayOrder::Answer { question, verdict }));
}
