//! What only a person decides while the domain runs: control's side of it.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use surmise_kept::Link;
use surmise_kept::doorway::{Refusal, Wish};
use surmise_network::Verdict;
use surmise_outbox::Sender;

use super::Job;
use super::inquiry::{Inquiry, Matter};
use super::start::Roles;
use crate::consent::{Change, Consent};
use crate::message::{Order, RelayOrder, RelayReport, ViewOrder};
use crate::person::{Answer, Notice, Question};
use crate::roles::committer::Outcome;
use crate::running::{Heard, Next, Others, RunningCommit, Subject, refuse};
use crate::stall::{Outside, Sampler};

/// How often it is looked whether all tasks wait, while some task waits for a reply to held output.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How often it is looked whether a commit under way waits for a role that is stopped. One may be for a moment.
const COMMIT_LOOK_EVERY: Duration = Duration::from_secs(4);

/// How the domain gets on without its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Detaching {
    No,
    /// The relay process lets go of the caller's streams.
    Streams,
    /// The view lets go of standard error.
    View,
    /// pid 1 is told that its parent will change.
    Parent,
    Done,
}

pub(super) struct Decisions<'a> {
    roles: &'a Roles,
    job: &'a Job<'a>,
    consent: Consent,
    commit: Option<RunningCommit>,
    commit_look: Instant,
    /// Who wants the domain to be aborted. They wait until it has ended.
    aborting: Vec<Link>,
    inquiry: Inquiry,
    /// Tasks that wait for replies to held output, by hold.
    waiting: BTreeMap<u64, Waiting>,
    sampler: Sampler,
    next_look: Option<Instant>,
    /// Whether the command wants the terminal's keys when the person is no longer asked there.
    engage: bool,
    detaching: Detaching,
    /// When pid 1 was killed.
    killed: Option<Instant>,
}

struct Waiting {
    peer: String,
    inode: u64,
}

impl<'a> Decisions<'a> {
    pub(super) fn new(roles: &'a Roles, job: &'a Job<'a>) -> io::Result<Self> {
        Ok(Self {
            roles,
            job,
            consent: Consent::new().map_err(io::Error::other)?,
            commit: None,
            commit_look: Instant::now(),
            aborting: Vec::new(),
            inquiry: Inquiry::default(),
            waiting: BTreeMap::new(),
            sampler: Sampler::new(Outside {
                streams: roles.streams.clone(),
                network: job.launch.boundary.lets_in(),
            }),
            next_look: None,
            engage: false,
            detaching: Detaching::No,
            killed: None,
        })
    }

    /// The committer at work.
    pub(super) fn committer(&self) -> Option<&Link> {
        self.commit.as_ref()?.committer()
    }

    pub(super) fn asker(&self) -> Option<&surmise_sys::process::Child> {
        self.inquiry.asker()
    }

    /// When [`Self::look`] is due.
    pub(super) fn next_look(&self) -> Option<Instant> {
        self.next_look
    }

    /// When [`Self::look_at_commit`] is due.
    pub(super) fn next_commit_look(&self) -> Option<Instant> {
        let deadline = self.commit.as_ref()?.deadline();
        Some(deadline.map_or(self.commit_look, |at| at.min(self.commit_look)))
    }

    /// Looks whether the commit under way gets on. If the domain does not come to rest, its tasks go on, and
    /// nothing is committed.
    pub(super) fn look_at_commit(&mut self) -> io::Result<()> {
        let now = Instant::now();
        let Some(commit) = &mut self.commit else {
            return Ok(());
        };
        if commit.deadline().is_some_and(|at| at <= now) {
            return self.hear(Heard::Failed("the domain did not come to rest".into()));
        }
        self.commit_look = now + COMMIT_LOOK_EVERY;
        commit.look(self.roles.stopped());
        Ok(())
    }

    /// Whether the domain is to go on without its caller, and is ready to.
    pub(super) fn is_detached(&self) -> bool {
        self.detaching == Detaching::Done
    }

    /// Whether it is about to be, and its roles are busy with that.
    fn is_detaching(&self) -> bool {
        !matches!(self.detaching, Detaching::No | Detaching::Done)
    }

    /// Another command of the user wants something.
    pub(super) fn visit(&mut self, visitor: Link, wish: Wish) -> io::Result<()> {
        match wish {
            Wish::Abort => {
                self.aborting.push(visitor);
                self.end_domain();
                Ok(())
            }
            Wish::Commit { .. } if self.commit.is_some() => {
                let hint = "wait until it has ended";
                refuse(&visitor, Refusal::new("a commit is under way", hint));
                Ok(())
            }
            // The tracer would be told to end by this process' end, in the middle of the commit.
            Wish::Commit { .. } if self.is_detaching() => {
                let hint = "nothing has changed; try again";
                refuse(&visitor, Refusal::new("the domain leaves its caller", hint));
                Ok(())
            }
            Wish::Commit { is_strict } => {
                let init = self.roles.init.pid();
                if let Some(supervisor) = &self.roles.supervisor {
                    supervisor.settle()?;
                }
                self.commit_look = Instant::now() + COMMIT_LOOK_EVERY;
                self.commit = RunningCommit::begin(visitor, is_strict, init, self.others());
                Ok(())
            }
        }
    }

    /// Whether the domain was aborted from elsewhere.
    pub(super) fn is_aborted(&self) -> bool {
        !self.aborting.is_empty()
    }

    /// What the relay process says that is not of the terminal.
    pub(super) fn hear_relay(&mut self, report: RelayReport) -> io::Result<()> {
        match report {
            RelayReport::Asked {
                question,
                peer,
                sender,
            } => self.asked(question, peer, sender.map(Into::into)),
            RelayReport::Held { hold } => self.consent.held(hold).map_err(io::Error::other),
            RelayReport::Waiting {
                hold,
                peer,
                sender,
                bytes,
                inode,
            } => {
                let known = Waiting {
                    peer: peer.clone(),
                    inode,
                };
                if self.waiting.insert(hold, known).is_none() {
                    self.note(&Notice::Waiting {
                        bytes,
                        peer,
                        sender: sender.map(Into::into),
                    });
                }
                self.next_look.get_or_insert(Instant::now() + LOOK_EVERY);
                Ok(())
            }
            RelayReport::Settled { hold } => {
                self.waiting.remove(&hold);
                Ok(())
            }
            RelayReport::NotKept { peer, error } => {
                self.note(&Notice::NotKept { peer, error });
                Ok(())
            }
            RelayReport::Quiet { failed: None } => self.hear(Heard::Finished),
            RelayReport::Quiet {
                failed: Some(error),
            } => self.hear(Heard::Failed(error)),
            RelayReport::Releasing => self.hear(Heard::Releasing),
            RelayReport::Released(delivery) => self.hear(Heard::Released(delivery)),
            RelayReport::Detached if self.detaching == Detaching::Streams => {
                self.detaching = Detaching::View;
                match &self.roles.view {
                    Some(view) => {
                        view.order(&ViewOrder::LetGo);
                        Ok(())
                    }
                    None => self.done(Ok(())),
                }
            }
            // Of the terminal, or of nobody's concern.
            _ => Ok(()),
        }
    }

    /// pid 1 or the view has carried out an order, or not.
    pub(super) fn done(&mut self, done: Result<(), String>) -> io::Result<()> {
        match self.detaching {
            Detaching::View => {
                done.map_err(io::Error::other)?;
                self.detaching = Detaching::Parent;
                let _ = self.roles.to_init.send(&Order::Adopt);
                return Ok(());
            }
            Detaching::Parent => {
                done.map_err(io::Error::other)?;
                self.detaching = Detaching::Done;
                return Ok(());
            }
            Detaching::No | Detaching::Streams | Detaching::Done => {}
        }
        self.hear(match done {
            Ok(()) => Heard::Finished,
            Err(error) => Heard::Failed(error),
        })
    }

    /// The committer has said something, or has ended.
    pub(super) fn hear_committer(&mut self) -> io::Result<()> {
        let Some(committer) = self.committer() else {
            return Ok(());
        };
        let outcome = committer.receive::<Outcome>().unwrap_or_default();
        self.hear(Heard::Committer(outcome))
    }

    fn hear(&mut self, heard: Heard) -> io::Result<()> {
        let Some(mut commit) = self.commit.take() else {
            return Ok(());
        };
        let subject = Subject {
            lock: std::os::fd::AsFd::as_fd(self.job.lock),
            name: self.job.name,
            root: self.job.root,
            state: self.job.state,
        };
        match commit.hear(heard, subject, self.others()) {
            Next::Wait => self.commit = Some(commit),
            Next::Affirmed { changes, is_over } => {
                self.consent.affirm().map_err(io::Error::other)?;
                self.note(&Notice::Committed { changes });
                self.inquiry.forget_stall();
                self.commit = (!is_over).then_some(commit);
            }
            Next::Over => {}
            Next::End => {
                self.commit = Some(commit);
                self.end_domain();
                self.commit = None;
            }
        }
        Ok(())
    }

    fn asked(&mut self, question: u64, peer: String, sender: Option<Sender>) -> io::Result<()> {
        if !self.person_is_there() {
            // What the relay refuses then is told at the end.
            self.answer_reach(question, Answer::Refuse);
            return Ok(());
        }
        self.ask(Question::Reach { peer, sender }, Matter::Reach(question));
        Ok(())
    }

    fn ask(&mut self, question: Question, matter: Matter) {
        if self.inquiry.add(question, matter) {
            let _ = self.roles.to_relay.send(&RelayOrder::PauseTerminal);
        }
    }

    /// Has the terminal made the caller's. True if it is already, because the person is asked there:
    /// nobody answers then.
    pub(super) fn pause_terminal(&self) -> bool {
        let is_paused = self.inquiry.asker().is_some();
        if !is_paused {
            let _ = self.roles.to_relay.send(&RelayOrder::PauseTerminal);
        }
        is_paused
    }

    /// Lets the terminal go on: now, or when the person has answered everything. With `engage`, its keys
    /// go to the domain.
    pub(super) fn resume_terminal(&mut self, engage: bool) {
        self.engage |= engage;
        if self.inquiry.is_idle() {
            let engage = std::mem::take(&mut self.engage);
            let order = RelayOrder::ResumeTerminal { engage };
            let _ = self.roles.to_relay.send(&order);
        }
    }

    /// The terminal is paused.
    pub(super) fn paused(&mut self) -> io::Result<()> {
        if self.inquiry.paused(self.job.person).is_ok() {
            return Ok(());
        }
        // No process can be had to ask. Then nobody is asked, and nothing is agreed to.
        let answer = self.inquiry.refuse_asked();
        self.settle(answer)
    }

    /// The person has answered.
    pub(super) fn answered(&mut self) -> io::Result<()> {
        let answer = self.inquiry.answered()?;
        self.settle(answer)
    }

    fn settle(&mut self, answer: Option<(Matter, Answer)>) -> io::Result<()> {
        match answer {
            Some((Matter::Reach(question), answer)) => self.answer_reach(question, answer),
            Some((Matter::Stalled(holds), answer)) => self.answer_stall(&holds, answer)?,
            None => {}
        }
        if self.inquiry.go_on() {
            // The terminal is still the person's.
            return self.paused();
        }
        self.resume_terminal(false);
        Ok(())
    }

    fn answer_reach(&self, question: u64, answer: Answer) {
        let verdict = verdict(answer);
        let order = RelayOrder::Answer { question, verdict };
        let _ = self.roles.to_relay.send(&order);
    }

    fn answer_stall(&mut self, holds: &[u64], answer: Answer) -> io::Result<()> {
        if answer == Answer::Hold {
            let name = self.job.name.to_owned();
            self.note(&Notice::WaitsForCommit { name });
            return Ok(());
        }
        let verdict = verdict(answer);
        for &hold in holds {
            let order = RelayOrder::Decide { hold, verdict };
            let _ = self.roles.to_relay.send(&order);
        }
        self.look_afresh()
    }

    /// What was seen of the tasks counts no more: if all wait again, that is another stall.
    fn look_afresh(&mut self) -> io::Result<()> {
        self.sampler.forget();
        self.consent.look_afresh().map_err(io::Error::other)
    }

    /// Looks whether anything in the domain can go on without a person.
    pub(super) fn look(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            self.next_look = None;
            return self.look_afresh();
        }
        self.next_look = Some(Instant::now() + LOOK_EVERY);
        if self.commit.is_some() || !self.inquiry.is_idle() {
            return Ok(());
        }
        let held = self.waiting.values().map(|waiting| waiting.inode).collect();
        // Most probably pid 1 has ended, which is the next event.
        let Ok(tasks) = self.sampler.look(self.roles.init.pid(), &held) else {
            return Ok(());
        };
        match self.consent.look(&tasks).map_err(io::Error::other)? {
            Some(Change::Stalled) => self.stalled(),
            Some(Change::Unstalled) | None => {}
        }
        Ok(())
    }

    fn stalled(&mut self) {
        if self.person_is_there() {
            let mut peers: Vec<_> = self.waiting.values().map(|w| w.peer.clone()).collect();
            peers.sort();
            peers.dedup();
            let holds = self.waiting.keys().copied().collect();
            self.ask(Question::Stalled { peers }, Matter::Stalled(holds));
        } else if self.detaching == Detaching::No {
            self.detaching = Detaching::Streams;
            let _ = self.roles.to_relay.send(&RelayOrder::Detach);
        }
    }

    fn person_is_there(&self) -> bool {
        self.detaching == Detaching::No && self.job.person.is_there()
    }

    fn note(&self, notice: &Notice) {
        if self.detaching == Detaching::No {
            let line = format!("{}\n", self.job.person.phrase(notice));
            let _ = self.roles.to_relay.send(&RelayOrder::Note(line));
        }
    }

    /// When the domain was told to end.
    pub(super) fn killed(&self) -> Option<Instant> {
        self.killed
    }

    fn end_domain(&mut self) {
        self.killed.get_or_insert_with(Instant::now);
        // Fails only if it has ended.
        let _ = self.roles.init.signal(Signal::KILL);
        self.roles.wake();
        // A view that stands still for a commit answers nobody, and whoever waits for it cannot even
        // be killed: a task whose tracer is gone may. Nothing changes in the view any more.
        if self.commit.is_some()
            && let Some(view) = &self.roles.view
        {
            view.order(&ViewOrder::End);
        }
    }

    fn others(&self) -> Others<'a> {
        Others {
            init: &self.roles.to_init,
            view: self.roles.view.as_ref().map(|view| &view.link),
            relay: &self.roles.to_relay,
        }
    }
}

fn verdict(answer: Answer) -> Verdict {
    match answer {
        Answer::Allow => Verdict::Allow,
        Answer::Hold => Verdict::Hold,
        Answer::Refuse => Verdict::Deny,
    }
}
