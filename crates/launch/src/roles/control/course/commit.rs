//! A commit of a domain that runs: its tasks stand still, all that they did becomes real, and they go
//! on under a new consent.
//!
//! One step at a time, each done by another process, so that control waits for none of them:
//!
//! | step | who | why |
//! |---|---|---|
//! | freeze | control | nothing changes from here on |
//! | quiet | relay | what the tasks have sent is in the outbox |
//! | flush | pid 1 | pages written through shared mappings reach the view |
//! | prepare | view | calls stop; what the commit takes away outside, and a task still holds, is kept |
//! | apply | committer | check, stage, apply; on failure nothing has changed |
//! | rebase | view | what was committed is the domain's no more |
//! | forget | committer | the commit's journal goes |
//! | choose | engine, relay | what the engine releases is to go out, and nothing that is sent later |
//! | go on | view | the view answers calls again; if the tracer is killed from here on, the tasks go on |
//! | thaw | control | the tasks go on |
//! | release | relay | held output goes out meanwhile |
//!
//! This file has the order of the steps, and acts on nothing: events go in, and effects come out.
//!
//! A kill at any step ends the domain, tasks included, while its tasks still stand still. So the tasks did nothing
//! between the committed state and the end, and `surmise commit` finishes by the journal what apply had begun.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use surmise_kept::doorway::{Done, Refusal, Reply};

use super::super::stopped::StoppedRole;
use super::Effects;
use super::effect::{CommitEffect, Effect, Suspects};
use super::event::{CommitEvent, Unstarted};
use crate::message::{Delivery, Order, RelayOrder, ViewOrder};
use crate::roles::committer::Outcome;

/// How long the domain may take to come to rest after its tasks stand still: to keep what is sent, and to write
/// back what is mapped.
const REST_MAX: Duration = Duration::from_secs(60);

/// How many holds a message names. A number has 20 digits at most, so it fits.
const PART_MAX: usize = 2_000;

/// How often it is looked whether it waits for a role that is stopped. One may be for a moment.
const LOOK_EVERY: Duration = Duration::from_secs(4);

/// A commit under way.
#[derive(Debug)]
pub(super) struct Commit {
    step: Step,
    is_strict: bool,
    /// When the domain must have come to rest; `None` until its tasks stand still.
    rests_by: Option<Instant>,
    /// When it is looked whether it gets on.
    next_look: Instant,
    /// Why nothing was committed, if so.
    refused: Option<Refusal>,
    /// Why nothing is to be committed, as soon as the domain is at rest. Before that, an answer that comes
    /// late would be taken for one to the next commit.
    unwanted: Option<Refusal>,
    /// Whether the client has had its last word.
    is_told: bool,
    /// What goes out and the relay has yet to be told, in parts.
    parts: VecDeque<Vec<u64>>,
    /// What went out, where that was faster than the view.
    released: Option<Delivery>,
    done: Done,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Freeze,
    Quiet,
    Flush,
    Prepare,
    /// The committer's start.
    Start,
    Apply,
    Rebase,
    Forget,
    Choose,
    GoOn,
    Release,
}

/// How it goes on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Somebody has yet to answer.
    Wait,
    /// Everything so far is real, so the consent is affirmed: [`Commit::release`] takes what the engine releases.
    Affirm,
    /// The tasks go on.
    Affirmed {
        /// How many changes.
        changes: usize,
        /// Whether all held output has gone out as well.
        is_over: bool,
    },
    /// It is over.
    Over,
    /// The domain must end: the real tree and the view are at odds, and only the journal knows how.
    End,
}

impl Commit {
    /// One whose tasks are about to stand still.
    pub(super) fn new(is_strict: bool, now: Instant) -> Self {
        Self {
            step: Step::Freeze,
            is_strict,
            rests_by: None,
            next_look: now + LOOK_EVERY,
            refused: None,
            unwanted: None,
            is_told: false,
            parts: VecDeque::new(),
            released: None,
            done: Done::default(),
        }
    }

    /// When [`Self::pass`] has something to do.
    pub(super) fn due(&self) -> Instant {
        self.deadline()
            .map_or(self.next_look, |at| at.min(self.next_look))
    }

    /// Looks whether it gets on, when that is due. If the domain does not come to rest, its tasks go on, and
    /// nothing is committed.
    pub(super) fn pass<V>(&mut self, now: Instant, effects: &mut Effects<V>) -> Next {
        if self.deadline().is_some_and(|at| at <= now) {
            let error = "the domain did not come to rest".into();
            return self.hear(CommitEvent::Failed(error), now, effects);
        }
        if self.next_look <= now {
            self.next_look = now + LOOK_EVERY;
            let suspects = self.suspects();
            effects.push(Effect::Commit(CommitEffect::FindStopped(suspects)));
        }
        Next::Wait
    }

    /// When it is given up, unless something is heard before.
    fn deadline(&self) -> Option<Instant> {
        let may_rest = self.step <= Step::Prepare && self.refused.is_none();
        self.rests_by.filter(|_| may_rest)
    }

    /// Whose fault it may be that it does not get on.
    fn suspects(&self) -> Suspects {
        match self.step {
            // The committer works. Under external synchrony it first waits for the supervisor.
            Step::Apply | Step::Forget => Suspects::Committer,
            _ => Suspects::Roles,
        }
    }

    /// Takes in what was heard.
    pub(super) fn hear<V>(
        &mut self,
        heard: CommitEvent,
        now: Instant,
        effects: &mut Effects<V>,
    ) -> Next {
        match heard {
            CommitEvent::Frozen(true) if self.step == Step::Freeze => {
                self.rests_by = Some(now + REST_MAX);
                effects.push(Effect::Relay(RelayOrder::Quiesce));
                self.wait_for(Step::Quiet)
            }
            CommitEvent::Frozen(false) if self.step == Step::Freeze => Next::Over,
            CommitEvent::RoleStopped(role) => {
                self.tell_stopped(role, effects);
                Next::Wait
            }
            CommitEvent::Finished => self.finished(effects),
            CommitEvent::Failed(error) => self.failed(&error, effects),
            CommitEvent::Started(Ok(())) if self.step == Step::Start => self.wait_for(Step::Apply),
            CommitEvent::Started(Err(unstarted)) if self.step == Step::Start => {
                let error = match unstarted {
                    Unstarted::TooEarly => "the tasks went on too early".to_owned(),
                    Unstarted::Failed(error) => format!("start the commit: {error}"),
                };
                let hint = "nothing has changed; try again";
                self.give_up(Refusal::new(error, hint), effects)
            }
            CommitEvent::Committer(outcome) => self.hear_committer(outcome, effects),
            CommitEvent::Noted if self.step == Step::Choose && !self.parts.is_empty() => {
                self.release_part(effects);
                Next::Wait
            }
            CommitEvent::Releasing if self.step == Step::Choose => {
                effects.push(Effect::View(ViewOrder::GoOn));
                self.wait_for(Step::GoOn)
            }
            CommitEvent::Released(released) if self.step == Step::GoOn => {
                self.released = Some(released);
                Next::Wait
            }
            CommitEvent::Released(released) if self.step == Step::Release => {
                self.tell_done(released, effects);
                Next::Over
            }
            // Somebody else's answer.
            _ => Next::Wait,
        }
    }

    /// The one that works at this step has done it.
    fn finished<V>(&mut self, effects: &mut Effects<V>) -> Next {
        match self.step {
            Step::Quiet | Step::Flush | Step::Prepare if self.unwanted.is_some() => {
                let unwanted = self.unwanted.take().expect("just looked");
                self.give_up(unwanted, effects)
            }
            Step::Quiet => {
                effects.push(Effect::Init(Order::Flush));
                self.wait_for(Step::Flush)
            }
            Step::Flush => {
                effects.push(Effect::View(ViewOrder::Prepare));
                self.wait_for(Step::Prepare)
            }
            Step::Prepare => {
                let is_strict = self.is_strict;
                effects.push(Effect::Commit(CommitEffect::StartCommitter { is_strict }));
                self.wait_for(Step::Start)
            }
            Step::Rebase => {
                effects.push(Effect::Commit(CommitEffect::ForgetJournal));
                self.wait_for(Step::Forget)
            }
            Step::GoOn => self.thaw(effects),
            Step::Freeze
            | Step::Start
            | Step::Apply
            | Step::Forget
            | Step::Choose
            | Step::Release => Next::Wait,
        }
    }

    /// It could not.
    fn failed<V>(&mut self, error: &str, effects: &mut Effects<V>) -> Next {
        match self.step {
            Step::Quiet | Step::Flush | Step::Prepare => {
                let hint = "nothing has changed; the command goes on";
                self.give_up(Refusal::new(error, hint), effects)
            }
            Step::Rebase | Step::GoOn => {
                let error = format!("the domain cannot go on: {error}");
                let hint = "`surmise list` shows what has become of it";
                self.end(Refusal::new(error, hint), effects)
            }
            Step::Freeze
            | Step::Start
            | Step::Apply
            | Step::Forget
            | Step::Choose
            | Step::Release => Next::Wait,
        }
    }

    fn wait_for(&mut self, step: Step) -> Next {
        self.step = step;
        Next::Wait
    }

    fn hear_committer<V>(&mut self, outcome: Option<Outcome>, effects: &mut Effects<V>) -> Next {
        match (self.step, outcome) {
            (
                Step::Apply,
                Some(Outcome::Applied {
                    changes,
                    left,
                    read_changed,
                }),
            ) => {
                self.done.changes = changes;
                self.done.left = left;
                self.done.read_changed = read_changed;
                effects.push(Effect::View(ViewOrder::Rebase));
                self.wait_for(Step::Rebase)
            }
            (Step::Apply, Some(Outcome::Refused(refusal))) => {
                effects.push(Effect::Commit(CommitEffect::Reap));
                self.give_up(refusal, effects)
            }
            (_, Some(Outcome::Broken(refusal))) => self.end(refusal, effects),
            (Step::Forget, Some(Outcome::Forgotten)) => {
                effects.push(Effect::Commit(CommitEffect::Reap));
                self.step = Step::Choose;
                Next::Affirm
            }
            // It was killed, or could not remove the journal. How far it came, the journal knows.
            _ => {
                let hint = "`surmise list` shows what has become of the domain";
                self.end(Refusal::new("the commit was cut short", hint), effects)
            }
        }
    }

    /// These holds go out, in this order. The tasks and the view still stand still: what would be sent next is not
    /// consented to.
    pub(super) fn release<V>(&mut self, holds: &[u64], effects: &mut Effects<V>) {
        self.parts = holds.chunks(PART_MAX).map(<[_]>::to_vec).collect();
        self.release_part(effects);
    }

    /// One part at a time: control waits for nobody to make room for the next.
    fn release_part<V>(&mut self, effects: &mut Effects<V>) {
        let holds = self.parts.pop_front().unwrap_or_default();
        let is_last = self.parts.is_empty();
        effects.push(Effect::Relay(RelayOrder::Release { holds, is_last }));
    }

    /// Nothing has changed outside.
    fn give_up<V>(&mut self, refusal: Refusal, effects: &mut Effects<V>) -> Next {
        self.refused = Some(refusal);
        if self.step < Step::Prepare {
            return self.thaw(effects);
        }
        effects.push(Effect::View(ViewOrder::GoOn));
        self.wait_for(Step::GoOn)
    }

    /// Lets the tasks go on.
    fn thaw<V>(&mut self, effects: &mut Effects<V>) -> Next {
        effects.push(Effect::Commit(CommitEffect::Thaw));
        if let Some(refusal) = self.refused.take() {
            self.tell(Reply::Failed(refusal), effects);
            return Next::Over;
        }
        self.tell(Reply::Applied(self.done.clone()), effects);
        self.step = Step::Release;
        let released = self.released.take();
        let is_over = released.is_some();
        if let Some(released) = released {
            self.tell_done(released, effects);
        }
        Next::Affirmed {
            changes: self.done.changes,
            is_over,
        }
    }

    fn tell_done<V>(&mut self, released: Delivery, effects: &mut Effects<V>) {
        self.done.sent = released.sent;
        self.done.unsent = released.unsent;
        self.tell(Reply::Done(self.done.clone()), effects);
    }

    fn end<V>(&mut self, refusal: Refusal, effects: &mut Effects<V>) -> Next {
        self.tell(Reply::Failed(refusal), effects);
        Next::End
    }

    fn tell<V>(&self, reply: Reply, effects: &mut Effects<V>) {
        if !self.is_told {
            effects.push(Effect::Commit(CommitEffect::Tell(reply)));
        }
    }

    /// A role is stopped, so nobody knows when this goes on: the client need not wait for that.
    fn tell_stopped<V>(&mut self, role: StoppedRole, effects: &mut Effects<V>) {
        if self.is_told {
            return;
        }
        match self.step {
            _ if self.refused.is_some() => {
                let refused = self.refused.clone().expect("just looked");
                self.tell(Reply::Failed(refused), effects);
            }
            Step::Freeze | Step::Quiet | Step::Flush | Step::Prepare => {
                let refusal = role.refusal("nothing has changed");
                self.tell(Reply::Failed(refusal.clone()), effects);
                self.unwanted = Some(refusal);
            }
            Step::Start | Step::Apply => {
                let refusal = role.refusal("the commit has begun, and waits");
                self.tell(Reply::Failed(refusal), effects);
            }
            Step::Release => {
                self.done.is_sending = true;
                self.tell(Reply::Done(self.done.clone()), effects);
            }
            Step::Rebase | Step::Forget | Step::Choose | Step::GoOn => {
                let what = "all changes are real, and the domain stands still";
                self.tell(Reply::Failed(role.refusal(what)), effects);
            }
        }
        self.is_told = true;
    }
}
