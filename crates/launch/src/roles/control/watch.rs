//! While the command runs: control hears the other roles, and what they say becomes events.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::time::Timespec;
use surmise_kept::Link;

use super::Job;
use super::course::{
    BoundaryEvent, CommitEvent, Course, CourseError, Effects, Event, Role, TerminalEvent,
};
use super::finish::Heard;
use super::hands::Hands;
use super::start::Roles;
use super::visitors::Visitors;
use crate::error::{LaunchError, StepError};
use crate::message::{RelayReport, Report};
use crate::signals::is_end;

/// Whom control listens to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// pid 1 has ended, and all of its domain.
    Ended,
    /// There is a signal to forward.
    Signal,
    /// Somebody lets control go on.
    Continued,
    /// pid 1 or the command's process has said something.
    Init,
    /// The relay process has said something.
    Relay,
    /// The view process has said something.
    View,
    /// One of them has ended first.
    Died(Role),
    /// Another command of the user wants something.
    Visitor,
    /// The committer of a running domain has said something, or has died.
    Committer,
    /// The person has answered.
    Asker,
}

/// Why control stops watching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// pid 1 has ended, and all that it said is heard.
    Ended,
    /// Nothing in the domain goes on without a person, and nobody is there: it is to go on without
    /// the caller.
    Detached,
}

/// Why it could not watch.
#[derive(Debug, thiserror::Error)]
pub(super) enum WatchError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Course(#[from] CourseError),
}

impl WatchError {
    /// Before the command has begun.
    pub(super) fn of_start(self) -> LaunchError {
        match self {
            Self::Io(error) => LaunchError::step("make the domain's socket")(error),
            other => other.into(),
        }
    }
}

impl From<WatchError> for LaunchError {
    fn from(error: WatchError) -> Self {
        match error {
            WatchError::Io(error) => Self::late_step("watch the domain")(error),
            WatchError::Course(CourseError::Bug(bug)) => Self::Bug {
                what: bug.to_string(),
                kept: None,
            },
            WatchError::Course(CourseError::Leave(error)) => Self::Step {
                what: "watch the domain".into(),
                source: StepError::Told(error),
                started: true,
                hint: None,
            },
        }
    }
}

pub(super) struct Watch<'a> {
    roles: &'a Roles,
    job: &'a Job<'a>,
    /// For the end.
    heard: &'a mut Heard,
    /// Ahead of `hands`, so that the doorway closes before the links of the watchers do. A watcher whose link has
    /// closed takes an open doorway as the sign that the domain runs on.
    visitors: Visitors,
    course: Course,
    hands: Hands<'a>,
}

impl<'a> Watch<'a> {
    pub(super) fn new(
        roles: &'a Roles,
        job: &'a Job<'a>,
        heard: &'a mut Heard,
    ) -> Result<Self, WatchError> {
        let supervisor = roles.supervisor.as_ref();
        let may_trace = supervisor.is_some_and(|role| role.may_trace);
        Ok(Self {
            roles,
            job,
            heard,
            visitors: Visitors::new(job.state)?,
            course: Course::new((job.name, !job.has_real_files), roles.terminal, may_trace)?,
            hands: Hands::new(roles, job),
        })
    }

    /// Until pid 1 has ended and all that it said is heard, or the domain is to go on alone; then it can
    /// be called again, by a copy of this process.
    pub(super) fn run(&mut self) -> Result<End, WatchError> {
        let was_detached = self.course.is_detached();
        loop {
            let now = Instant::now();
            let mut effects = Effects::new();
            self.course.pass(now, &mut effects)?;
            self.carry_out(effects)?;
            let rest = self
                .course
                .due()
                .map(|at| at.saturating_duration_since(now));
            let ready = wait(&self.sources(), rest)?;
            for source in ready {
                if source == Source::Ended {
                    while !self.heard.silent {
                        self.heard.take(self.roles.to_init.receive()?);
                    }
                    self.heard.aborted = self.course.is_aborted();
                    return Ok(End::Ended);
                }
                self.listen(source)?;
                if self.course.is_detached() && !was_detached {
                    // All else that is ready is the copy's.
                    return Ok(End::Detached);
                }
            }
        }
    }

    /// What was heard, for the end.
    pub(super) fn into_heard(self) -> (&'a Roles, Heard) {
        (self.roles, std::mem::take(self.heard))
    }

    fn hear(&mut self, event: Event<Link>) -> Result<(), WatchError> {
        let mut effects = Effects::new();
        self.course.hear(event, Instant::now(), &mut effects)?;
        self.carry_out(effects)
    }

    /// What comes of an effect at once is heard before the next one is carried out.
    fn carry_out(&mut self, effects: Effects<Link>) -> Result<(), WatchError> {
        for effect in effects {
            if let Some(event) = self.hands.carry_out(effect)? {
                self.hear(event)?;
            }
        }
        Ok(())
    }

    /// What has been heard to its end would be ready for ever, so it is left out. The end of pid 1 comes
    /// last, after all else that is ready.
    fn sources(&self) -> Vec<(Source, BorrowedFd<'_>)> {
        let Roles {
            init,
            to_init,
            view,
            relay,
            to_relay,
            supervisor,
            ..
        } = self.roles;
        let mut sources = vec![
            (Source::Signal, self.job.signals.as_fd()),
            (Source::Continued, self.job.signals.continued().as_fd()),
        ];
        if !self.heard.silent {
            sources.push((Source::Init, to_init.as_fd()));
        }
        if !self.heard.relay_died {
            sources.push((Source::Died(Role::Relay), relay.as_fd()));
            sources.push((Source::Relay, to_relay.as_fd()));
        }
        if let Some(view) = view
            && !self.heard.view_died
        {
            sources.push((Source::View, view.link.as_fd()));
            sources.push((Source::Died(Role::View), view.process.as_fd()));
        }
        if let Some(supervisor) = supervisor
            && !self.heard.supervisor_died
        {
            sources.push((Source::Died(Role::Supervisor), supervisor.process.as_fd()));
        }
        let committer = self.hands.committer().map(AsFd::as_fd);
        sources.extend(committer.map(|fd| (Source::Committer, fd)));
        sources.extend(self.hands.asker().map(|fd| (Source::Asker, fd)));
        sources.extend(self.visitors.sources().map(|fd| (Source::Visitor, fd)));
        sources.push((Source::Ended, init.as_fd()));
        sources
    }

    fn listen(&mut self, source: Source) -> Result<(), WatchError> {
        match source {
            Source::Ended => Ok(()),
            Source::Signal => match self.job.signals.next()? {
                Some(signal) => {
                    self.heard.asked_to_end |= is_end(signal);
                    self.hear(Event::Signal(signal))
                }
                None => Ok(()),
            },
            Source::Continued => {
                self.job.signals.continued().next()?;
                self.hear(Event::Terminal(TerminalEvent::Continued))
            }
            Source::Init => self.listen_to_init(),
            Source::Relay => self.listen_to_relay(),
            Source::View => self.listen_to_view(),
            Source::Died(role) => self.died(role),
            Source::Visitor => {
                while let Some((visitor, wish)) = self.visitors.hear()? {
                    self.hear(Event::Visit { visitor, wish })?;
                }
                Ok(())
            }
            Source::Committer => {
                let said = self.hands.committer_said();
                said.map_or(Ok(()), |event| self.hear(event))
            }
            Source::Asker => {
                let answered = self.hands.answered()?;
                answered.map_or(Ok(()), |event| self.hear(event))
            }
        }
    }

    /// It has died, or is about to.
    fn died(&mut self, role: Role) -> Result<(), WatchError> {
        match role {
            Role::View => self.heard.view_died = true,
            Role::Relay => self.heard.relay_died = true,
            Role::Supervisor => self.heard.supervisor_died = true,
        }
        self.hear(Event::Died(role))
    }

    fn listen_to_init(&mut self) -> Result<(), WatchError> {
        match self.roles.to_init.receive()? {
            Some(Report::Done) => self.hear(Event::Done(Ok(()))),
            Some(Report::NotDone(error)) => self.hear(Event::Done(Err(error))),
            Some(report @ Report::Started) => {
                self.heard.take(Some(report));
                self.hear(Event::Started)
            }
            report => match self.heard.take(report) {
                Some(signal) => {
                    let stopped = TerminalEvent::CommandStopped(signal);
                    self.hear(Event::Terminal(stopped))
                }
                None => Ok(()),
            },
        }
    }

    fn listen_to_view(&mut self) -> Result<(), WatchError> {
        let Some(view) = &self.roles.view else {
            return Ok(());
        };
        match view.link.receive()? {
            Some(Report::Done) => self.hear(Event::Done(Ok(()))),
            Some(Report::NotDone(error)) => self.hear(Event::Done(Err(error))),
            Some(report) => {
                self.heard.keep_of_view(report);
                Ok(())
            }
            None => self.died(Role::View),
        }
    }

    fn listen_to_relay(&mut self) -> Result<(), WatchError> {
        let Some(report) = self.roles.to_relay.receive()? else {
            return self.died(Role::Relay);
        };
        match event(report, || self.job.person.is_there()) {
            Ok(event) => self.hear(event),
            Err(report) => {
                self.heard.keep(report);
                Ok(())
            }
        }
    }
}

/// What control does something about, of what the relay process says; the rest is for the end.
fn event(
    report: RelayReport,
    is_person_there: impl FnOnce() -> bool,
) -> Result<Event<Link>, RelayReport> {
    Ok(match report {
        RelayReport::Failed(_) | RelayReport::Lost(_) | RelayReport::RefusedInside(_) => {
            return Err(report);
        }
        RelayReport::Paused => Event::Terminal(TerminalEvent::Paused),
        RelayReport::Resumed { engaged } => Event::Terminal(TerminalEvent::Resumed { engaged }),
        RelayReport::Engaged => Event::Terminal(TerminalEvent::Engaged),
        RelayReport::Detached => Event::Boundary(BoundaryEvent::Detached),
        RelayReport::Asked {
            question,
            peer,
            sender,
        } => Event::Boundary(BoundaryEvent::Asked {
            question,
            peer,
            sender: sender.map(Into::into),
            is_person_there: is_person_there(),
        }),
        RelayReport::Held { hold } => Event::Boundary(BoundaryEvent::Held { hold }),
        RelayReport::Gone { hold } => Event::Boundary(BoundaryEvent::Gone { hold }),
        RelayReport::Waiting {
            hold,
            peer,
            sender,
            bytes,
            inode,
        } => Event::Boundary(BoundaryEvent::Waiting {
            hold,
            peer,
            sender: sender.map(Into::into),
            bytes,
            inode,
        }),
        RelayReport::Settled { hold } => Event::Boundary(BoundaryEvent::Settled { hold }),
        RelayReport::NotKept { peer, error } => {
            Event::Boundary(BoundaryEvent::NotKept { peer, error })
        }
        RelayReport::Quiet { failed: None } => Event::Commit(CommitEvent::Finished),
        RelayReport::Quiet {
            failed: Some(error),
        } => Event::Commit(CommitEvent::Failed(error)),
        RelayReport::Noted => Event::Commit(CommitEvent::Noted),
        RelayReport::Releasing => Event::Commit(CommitEvent::Releasing),
        RelayReport::Released(delivery) => Event::Commit(CommitEvent::Released(delivery)),
    })
}

fn wait(sources: &[(Source, BorrowedFd<'_>)], limit: Option<Duration>) -> io::Result<Vec<Source>> {
    let limit = limit.map(|limit| Timespec::try_from(limit).expect("a short wait"));
    let mut polled: Vec<_> = sources
        .iter()
        .map(|(_, source)| PollFd::new(source, PollFlags::IN))
        .collect();
    match rustix::event::poll(&mut polled, limit.as_ref()) {
        Ok(_) => {}
        Err(Errno::INTR) => return Ok(Vec::new()),
        Err(errno) => return Err(errno.into()),
    }
    let ready = sources
        .iter()
        .zip(&polled)
        .filter(|(_, poll)| !poll.revents().is_empty());
    let mut ready: Vec<_> = ready.map(|((source, _), _)| *source).collect();
    // Several visitors are heard at once.
    ready.dedup();
    Ok(ready)
}
