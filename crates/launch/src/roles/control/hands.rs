//! What carries out what the course of a domain asks for.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::process::Signal;
use surmise_kept::doorway::{Done, Reply};
use surmise_kept::{Answer, Link};

use super::Job;
use super::asker::Asker;
use super::course::{
    BoundaryEvent, CommitEffect, CommitEvent, Effect, Event, Suspects, TerminalEvent,
};
use super::standstill::{Standstill, refuse};
use super::start::Roles;
use super::watchers::Watchers;
use crate::message::{RelayOrder, ViewOrder};
use crate::person::Question;
use crate::roles::committer::Outcome;
use crate::stall::{Outside, Sampler};
use crate::stops;

pub(super) struct Hands<'a> {
    roles: &'a Roles,
    job: &'a Job<'a>,
    sampler: Sampler,
    asker: Option<Asker>,
    standstill: Option<Standstill>,
    /// Clients that want the domain to be aborted. They wait until it has ended, which closes their links.
    aborting: Vec<Link>,
    watchers: Watchers,
}

impl<'a> Hands<'a> {
    pub(super) fn new(roles: &'a Roles, job: &'a Job<'a>) -> Self {
        Self {
            roles,
            job,
            sampler: Sampler::new(Outside {
                streams: roles.streams.clone(),
                network: job.launch.boundary.lets_in(),
            }),
            asker: None,
            standstill: None,
            aborting: Vec::new(),
            watchers: Watchers::default(),
        }
    }

    /// Readable when [`Self::committer_said`] has something.
    pub(super) fn committer(&self) -> Option<&Link> {
        self.standstill.as_ref()?.committer()
    }

    /// What the committer has said, or that it has ended.
    pub(super) fn committer_said(&self) -> Option<Event<Link>> {
        let outcome = self.committer()?.receive::<Outcome>();
        Some(Event::Commit(CommitEvent::Committer(
            outcome.unwrap_or_default(),
        )))
    }

    /// Readable when [`Self::answered`] has something.
    pub(super) fn asker(&self) -> Option<BorrowedFd<'_>> {
        self.asker.as_ref()?.as_fd()
    }

    /// What the person has answered.
    pub(super) fn answered(&mut self) -> io::Result<Option<Event<Link>>> {
        let answer = self.asker.take().map(Asker::answer).transpose()?;
        Ok(answer.map(Event::Answered))
    }

    /// Does it. Returns what comes of it at once. What is sent to a role that has died is lost, and its end is
    /// another event.
    pub(super) fn carry_out(&mut self, effect: Effect<Link>) -> io::Result<Option<Event<Link>>> {
        match effect {
            Effect::Init(order) => drop(self.roles.to_init.send(&order)),
            Effect::View(order) => match &self.roles.view {
                Some(view) => view.order(&order),
                // Nobody answers that.
                None if order == ViewOrder::End => {}
                None => return Ok(Some(Event::Done(Ok(())))),
            },
            Effect::Relay(order) => drop(self.roles.to_relay.send(&order)),
            // Fails only if it has ended.
            Effect::KillInit => drop(self.roles.init.signal(Signal::KILL)),
            Effect::Wake => self.roles.wake(),
            Effect::Free => self.roles.supervisor.iter().for_each(|role| role.kill()),
            Effect::SupervisorGone => self.roles.supervisor.iter().for_each(|role| role.gone()),
            Effect::TellWatchers(notice) => self.watchers.tell(&notice),
            Effect::Note(notice) => {
                if let Some(line) = self.job.person.tell(&notice) {
                    let note = RelayOrder::Note(format!("{line}\n"));
                    let _ = self.roles.to_relay.send(&note);
                }
            }
            Effect::Ask(question) => return Ok(self.ask(&question)),
            Effect::Stop(signal) => {
                let truly = stops::stop(self.job.signals, signal)?;
                let went_on = TerminalEvent::WentOn { signal, truly };
                return Ok(Some(Event::Terminal(went_on)));
            }
            Effect::Sample(held) => {
                // Where it fails, most probably pid 1 has ended, which is the next event.
                let waits = self.sampler.look(self.roles.init.pid(), &held).ok();
                let is_person_there = self.job.person.is_there();
                return Ok(waits.map(|waits| {
                    Event::Boundary(BoundaryEvent::Tasks {
                        waits,
                        is_person_there,
                    })
                }));
            }
            Effect::ForgetSample => self.sampler.forget(),
            Effect::AwaitEnd(visitor) => self.aborting.push(visitor),
            Effect::Watch(visitor) => self.watchers.add(visitor),
            // A visitor that has gone needs no answer.
            Effect::Grant(visitor) => drop(visitor.try_send(&Reply::Done(Done::default()))),
            Effect::Refuse(visitor, refusal) => refuse(&visitor, refusal),
            Effect::SettleGuesses => {
                if let Some(supervisor) = &self.roles.supervisor {
                    supervisor.settle()?;
                }
            }
            Effect::Freeze(client) => {
                self.standstill = Standstill::begin(client, self.roles.init.pid());
                let frozen = CommitEvent::Frozen(self.standstill.is_some());
                if self.standstill.is_none() {
                    self.let_guess();
                }
                return Ok(Some(Event::Commit(frozen)));
            }
            Effect::Commit(effect) => return Ok(self.commit(effect).map(Event::Commit)),
        }
        Ok(None)
    }

    fn ask(&mut self, question: &Question) -> Option<Event<Link>> {
        match Asker::ask(self.job.person, question) {
            Ok(asker) => {
                self.asker = Some(asker);
                None
            }
            // No process can be had to ask. Then nobody is asked, and nothing is agreed to.
            Err(_) => Some(Event::Answered(Answer::Refuse)),
        }
    }

    fn commit(&mut self, effect: CommitEffect) -> Option<CommitEvent> {
        let standstill = self.standstill.as_mut()?;
        match effect {
            CommitEffect::StartCommitter { is_strict } => {
                let supervisor = self.roles.supervisor.as_ref();
                let epochs = supervisor.and_then(|role| role.epochs.as_ref());
                let started = standstill.start_committer(self.job, is_strict, epochs);
                return Some(CommitEvent::Started(started));
            }
            CommitEffect::FindStopped(suspects) => {
                let stopped = match suspects {
                    Suspects::Committer => standstill
                        .stopped_committer()
                        .or_else(|| self.roles.stopped_syncer()),
                    Suspects::Roles => self.roles.stopped(),
                };
                return stopped.map(CommitEvent::RoleStopped);
            }
            CommitEffect::ForgetJournal => standstill.forget_journal(),
            CommitEffect::Reap => standstill.reap(),
            CommitEffect::Thaw => {
                standstill.thaw();
                self.let_guess();
            }
            CommitEffect::Tell(reply) => standstill.tell(&reply),
            CommitEffect::Over => {
                self.standstill = None;
                self.let_guess();
            }
        }
        None
    }

    /// Nobody stops the tasks any more that the supervisor may trace.
    fn let_guess(&self) {
        if let Some(supervisor) = &self.roles.supervisor {
            supervisor.go_on();
        }
    }
}
