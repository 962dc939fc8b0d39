//! While the command runs: what control hears, and what it does then.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::Signal;
use rustix::time::Timespec;

use crate::message::{Order, RelayOrder, RelayReport};
use crate::roles::control::{Heard, Roles};
use crate::signals::{Signals, is_end};
use crate::stops::{self, Step, Stops};

/// How long pid 1 may take to notice that the view or the relay process has died.
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
    /// The view process has ended first.
    ViewDied,
    /// The relay process has ended first.
    RelayDied,
}

pub(super) struct Watch<'a> {
    roles: &'a Roles,
    signals: &'a Signals,
    heard: &'a mut Heard,
    stops: Stops,
    kill_at: Option<Instant>,
}

impl<'a> Watch<'a> {
    pub(super) fn new(roles: &'a Roles, signals: &'a Signals, heard: &'a mut Heard) -> Self {
        Self {
            roles,
            signals,
            heard,
            stops: Stops::new(roles.terminal.is_some(), roles.terminal == Some(true)),
            kill_at: None,
        }
    }

    /// Until pid 1 has ended and all that it said is heard.
    pub(super) fn run(mut self) -> io::Result<()> {
        loop {
            let rest = self
                .kill_at
                .map(|at| at.saturating_duration_since(Instant::now()));
            if rest.is_some_and(|rest| rest.is_zero()) {
                // Fails only if it has ended.
                let _ = self.roles.init.signal(Signal::KILL);
            }
            let ready = wait(&self.sources(), rest.filter(|rest| !rest.is_zero()))?;
            for event in ready {
                if event == Event::Ended {
                    while !self.heard.silent {
                        self.heard.take(self.roles.to_init.receive()?);
                    }
                    return Ok(());
                }
                self.handle(event)?;
            }
        }
    }

    /// What has been heard to its end would be ready for ever, so it is left out. The end of pid 1 comes
    /// last, after all else that is ready.
    fn sources(&self) -> Vec<(Event, BorrowedFd<'a>)> {
        let Roles {
            init,
            to_init,
            view,
            relay,
            to_relay,
            ..
        } = self.roles;
        let mut sources = vec![
            (Event::Signal, self.signals.as_fd()),
            (Event::Continued, self.signals.continued().as_fd()),
        ];
        if !self.heard.silent {
            sources.push((Event::Said, to_init.as_fd()));
        }
        if !self.heard.relay_died {
            sources.push((Event::RelayDied, relay.as_fd()));
            sources.push((Event::RelaySaid, to_relay.as_fd()));
        }
        if !self.heard.view_died {
            sources.push((Event::ViewDied, view.as_fd()));
        }
        sources.push((Event::Ended, init.as_fd()));
        sources
    }

    fn handle(&mut self, event: Event) -> io::Result<()> {
        match event {
            Event::Ended => Ok(()),
            Event::Signal => {
                if let Some(signal) = self.signals.next()? {
                    self.heard.asked_to_end |= is_end(signal);
                    // If it has died, its end is the next event.
                    let _ = self.roles.to_init.send(&Order::Signal(signal.as_raw()));
                }
                Ok(())
            }
            Event::Continued => {
                self.signals.continued().next()?;
                let step = self.stops.continued();
                self.take(step)
            }
            Event::Said => match self.heard.take(self.roles.to_init.receive()?) {
                Some(signal) => {
                    let step = self.stops.stopped(signal);
                    self.take(step)
                }
                None => Ok(()),
            },
            Event::RelaySaid => self.hear_relay(),
            Event::ViewDied | Event::RelayDied => {
                self.heard.view_died |= event == Event::ViewDied;
                self.heard.relay_died |= event == Event::RelayDied;
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
            Some(RelayReport::Paused) => self.stops.paused(),
            Some(RelayReport::Resumed { engaged }) => self.stops.resumed(engaged),
            Some(RelayReport::Engaged) => self.stops.engaged(),
            Some(other) => {
                self.heard.keep(other);
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
                    let _ = self.roles.to_relay.send(&RelayOrder::PauseTerminal);
                    return Ok(());
                }
                Step::Resume { engage } => {
                    let order = RelayOrder::ResumeTerminal { engage };
                    let _ = self.roles.to_relay.send(&order);
                    return Ok(());
                }
                Step::Continue { foreground } => {
                    let _ = self.roles.to_init.send(&Order::Continue { foreground });
                    return Ok(());
                }
                Step::Stop(signal) => {
                    let truly = stops::stop(self.signals, signal)?;
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
    Ok(ready.map(|((event, _), _)| *event).collect())
}
