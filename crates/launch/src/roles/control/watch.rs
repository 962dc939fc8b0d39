//! While the command runs: what control hears, and what it does then.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::Signal;
use rustix::time::Timespec;

use super::Job;
use super::decisions::Decisions;
use super::finish::Heard;
use super::start::Roles;
use super::supervisor::FREEING_MAX;
use super::visitors::Visitors;
use crate::message::{Order, RelayReport, Report};
use crate::signals::is_end;
use crate::stops::{self, Step, Stops};

/// How long pid 1 may take to notice that another role has died.
const NOTICE: Duration = Duration::from_secs(1);

/// What control waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Event {
    /// pid 1 has ended, and all of its domain.
    Ended,
    /// There is a signal to forward.
    Signal,
    /// Somebody lets control go on.
    Continued,
    /// pid 1 or the command's process has said something.
    Said,
    /// The relay process has said something.
    RelaySaid,
    /// The view process has said something.
    ViewSaid,
    /// The view process has ended first.
    ViewDied,
    /// The relay process has ended first.
    RelayDied,
    /// The supervisor has ended first.
    SupervisorDied,
    /// Another command of the user wants something.
    Visitor,
    /// The committer of a running domain has said something, or has died.
    CommitterSaid,
    /// The person has answered.
    Answered,
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

pub(super) struct Watch<'a> {
    roles: &'a Roles,
    job: &'a Job<'a>,
    heard: &'a mut Heard,
    stops: Stops,
    visitors: Visitors,
    decisions: Decisions<'a>,
    kill_at: Option<Instant>,
    /// When pid 1 was killed because another role has died.
    killed: Option<Instant>,
    /// Whether the supervisor was killed, which did not let go of tasks that were.
    is_freed: bool,
}

impl<'a> Watch<'a> {
    pub(super) fn new(
        roles: &'a Roles,
        job: &'a Job<'a>,
        heard: &'a mut Heard,
    ) -> io::Result<Self> {
        Ok(Self {
            roles,
            job,
            heard,
            stops: Stops::new(roles.terminal.is_some(), roles.terminal == Some(true)),
            visitors: Visitors::new(job.state)?,
            decisions: Decisions::new(roles, job)?,
            kill_at: None,
            killed: None,
            is_freed: false,
        })
    }

    /// Until pid 1 has ended and all that it said is heard, or the domain is to go on alone; then it can
    /// be called again, by a copy of this process.
    pub(super) fn run(&mut self) -> io::Result<End> {
        let was_detached = self.decisions.is_detached();
        loop {
            let now = Instant::now();
            self.kill_whoever_is_late(now);
            if self.decisions.next_look().is_some_and(|at| at <= now) {
                self.decisions.look()?;
            }
            if self
                .decisions
                .next_commit_look()
                .is_some_and(|at| at <= now)
            {
                self.decisions.look_at_commit()?;
            }
            let next = [
                self.kill_at,
                self.free_at(),
                self.decisions.next_look(),
                self.decisions.next_commit_look(),
            ];
            let next = next.into_iter().flatten().min();
            let rest = next.map(|at| at.saturating_duration_since(now));
            let ready = wait(&self.sources(), rest)?;
            for event in ready {
                if event == Event::Ended {
                    while !self.heard.silent {
                        self.heard.take(self.roles.to_init.receive()?);
                    }
                    self.heard.aborted = self.decisions.is_aborted();
                    return Ok(End::Ended);
                }
                self.handle(event)?;
                if self.decisions.is_detached() && !was_detached {
                    // All else that is ready is the copy's.
                    return Ok(End::Detached);
                }
            }
        }
    }

    fn kill_whoever_is_late(&mut self, now: Instant) {
        if self.kill_at.is_some_and(|at| at <= now) {
            // Fails only if it has ended.
            let _ = self.roles.init.signal(Signal::KILL);
            self.roles.wake();
            self.kill_at = None;
            self.killed.get_or_insert(now);
        }
        if self.free_at().is_some_and(|at| at <= now)
            && let Some(supervisor) = &self.roles.supervisor
        {
            supervisor.kill();
            self.is_freed = true;
        }
    }

    /// When the supervisor is to be killed, should pid 1 not have ended by then.
    fn free_at(&self) -> Option<Instant> {
        let supervisor = self.roles.supervisor.as_ref();
        let may_hold = supervisor.is_some_and(|role| role.may_trace) && !self.is_freed;
        let killed = [self.killed, self.decisions.killed()];
        let first = killed.into_iter().flatten().min().filter(|_| may_hold)?;
        Some(first + FREEING_MAX)
    }

    /// What was heard, for the end.
    pub(super) fn into_heard(self) -> (&'a Roles, Heard) {
        (self.roles, std::mem::take(self.heard))
    }

    /// What has been heard to its end would be ready for ever, so it is left out. The end of pid 1 comes
    /// last, after all else that is ready.
    fn sources(&self) -> Vec<(Event, BorrowedFd<'_>)> {
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
            (Event::Signal, self.job.signals.as_fd()),
            (Event::Continued, self.job.signals.continued().as_fd()),
        ];
        if !self.heard.silent {
            sources.push((Event::Said, to_init.as_fd()));
        }
        if !self.heard.relay_died {
            sources.push((Event::RelayDied, relay.as_fd()));
            sources.push((Event::RelaySaid, to_relay.as_fd()));
        }
        if let Some(view) = view
            && !self.heard.view_died
        {
            sources.push((Event::ViewSaid, view.link.as_fd()));
            sources.push((Event::ViewDied, view.process.as_fd()));
        }
        if let Some(supervisor) = supervisor
            && !self.heard.supervisor_died
        {
            sources.push((Event::SupervisorDied, supervisor.process.as_fd()));
        }
        let committer = self.decisions.committer().map(AsFd::as_fd);
        sources.extend(committer.map(|fd| (Event::CommitterSaid, fd)));
        let asker = self.decisions.asker().map(AsFd::as_fd);
        sources.extend(asker.map(|fd| (Event::Answered, fd)));
        sources.extend(self.visitors.sources().map(|fd| (Event::Visitor, fd)));
        sources.push((Event::Ended, init.as_fd()));
        sources
    }

    fn handle(&mut self, event: Event) -> io::Result<()> {
        match event {
            Event::Ended => Ok(()),
            Event::Signal => {
                if let Some(signal) = self.job.signals.next()? {
                    if is_end(signal) {
                        self.heard.asked_to_end = true;
                        self.roles.wake();
                    }
                    // If it has died, its end is the next event.
                    let _ = self.roles.to_init.send(&Order::Signal(signal.as_raw()));
                }
                Ok(())
            }
            Event::Continued => {
                self.job.signals.continued().next()?;
                let step = self.stops.continued();
                self.take(step)
            }
            Event::Said => self.hear_init(),
            Event::RelaySaid => self.hear_relay(),
            Event::ViewSaid => self.hear_view(),
            Event::ViewDied | Event::RelayDied | Event::SupervisorDied => {
                self.heard.view_died |= event == Event::ViewDied;
                self.heard.relay_died |= event == Event::RelayDied;
                self.heard.supervisor_died |= event == Event::SupervisorDied;
                if event == Event::SupervisorDied
                    && let Some(supervisor) = &self.roles.supervisor
                {
                    supervisor.gone();
                }
                self.kill_at.get_or_insert(Instant::now() + NOTICE);
                Ok(())
            }
            Event::Visitor => {
                while let Some((visitor, wish)) = self.visitors.hear()? {
                    self.decisions.visit(visitor, wish)?;
                }
                Ok(())
            }
            Event::CommitterSaid => self.decisions.hear_committer(),
            Event::Answered => self.decisions.answered(),
        }
    }

    fn hear_init(&mut self) -> io::Result<()> {
        match self.roles.to_init.receive()? {
            Some(Report::Done) => self.decisions.done(Ok(())),
            Some(Report::NotDone(error)) => self.decisions.done(Err(error)),
            report => match self.heard.take(report) {
                Some(signal) => {
                    let step = self.stops.stopped(signal);
                    self.take(step)
                }
                None => Ok(()),
            },
        }
    }

    fn hear_view(&mut self) -> io::Result<()> {
        let Some(view) = &self.roles.view else {
            return Ok(());
        };
        match view.link.receive()? {
            Some(Report::Done) => self.decisions.done(Ok(())),
            Some(Report::NotDone(error)) => self.decisions.done(Err(error)),
            Some(report) => {
                self.heard.keep_of_view(report);
                Ok(())
            }
            // It has died, or is about to.
            None => {
                self.heard.view_died = true;
                self.kill_at.get_or_insert(Instant::now() + NOTICE);
                Ok(())
            }
        }
    }

    fn hear_relay(&mut self) -> io::Result<()> {
        let step = match self.roles.to_relay.receive()? {
            // It has died, or is about to.
            None => {
                self.heard.relay_died = true;
                self.kill_at.get_or_insert(Instant::now() + NOTICE);
                Step::Nothing
            }
            Some(
                report @ (RelayReport::Failed(_)
                | RelayReport::Lost(_)
                | RelayReport::RefusedInside(_)),
            ) => {
                self.heard.keep(report);
                Step::Nothing
            }
            Some(RelayReport::Paused) => {
                self.decisions.paused()?;
                self.stops.paused()
            }
            Some(RelayReport::Resumed { engaged }) => self.stops.resumed(engaged),
            Some(RelayReport::Engaged) => self.stops.engaged(),
            Some(report) => {
                self.decisions.hear_relay(report)?;
                Step::Nothing
            }
        };
        self.take(step)
    }

    /// Takes the step, and those that follow from it at once.
    fn take(&mut self, mut step: Step) -> io::Result<()> {
        loop {
            // Who gets an order and has died, its end is the next event.
            match step {
                Step::Nothing => return Ok(()),
                Step::Pause => {
                    if !self.decisions.pause_terminal() {
                        return Ok(());
                    }
                    step = self.stops.paused();
                }
                Step::Resume { engage } => {
                    self.decisions.resume_terminal(engage);
                    return Ok(());
                }
                Step::Continue { foreground } => {
                    let _ = self.roles.to_init.send(&Order::Continue { foreground });
                    return Ok(());
                }
                Step::Stop(signal) => {
                    let truly = stops::stop(self.job.signals, signal)?;
                    step = self.stops.went_on(signal, truly);
                }
            }
        }
    }
}

fn wait(sources: &[(Event, BorrowedFd<'_>)], limit: Option<Duration>) -> io::Result<Vec<Event>> {
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
    let mut ready: Vec<_> = ready.map(|((event, _), _)| *event).collect();
    // Several visitors are heard at once.
    ready.dedup();
    Ok(ready)
}
