//! The end of a domain: the other processes end one after the other, and what they said tells how it
//! went.

use std::io;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Signal, WaitIdStatus};
use rustix::time::Timespec;
use surmise_refusals::{Refusals, Tally};
use surmise_supervisor::Stats;
use surmise_sync::Epochs;
use surmise_sys::process::Child;

use super::start::Roles;
use super::supervisor::FREEING_MAX;
use super::{Job, drain};
use crate::error::LaunchError;
use crate::launch::{Launch, LostStream};
use crate::message::{Ended, Failure, Messages, RelayOrder, RelayReport, Report};
use crate::roles::supervisor::{Did, SupervisorReport};

/// Whose children the other processes are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Parent {
    /// This process'.
    Control,
    /// The caller's, which has ended: this process went on in its place.
    Gone,
}

impl Parent {
    /// Waits for the end of one of them.
    fn wait(self, child: &Child) -> io::Result<Option<WaitIdStatus>> {
        match self {
            Self::Control => child.wait().map(Some),
            Self::Gone => child.wait_ended().map(|()| None),
        }
    }
}

impl Roles {
    /// Returns when all have ended. `watched`: whether control has seen the end of pid 1.
    pub(super) fn finish(
        &self,
        job: &Job<'_>,
        mut heard: Heard,
        watched: Result<(), LaunchError>,
        parent: Parent,
    ) -> Result<Finished, LaunchError> {
        if watched.is_err() {
            // Fails only if it has ended.
            let _ = self.init.signal(Signal::KILL);
        }
        self.wake();
        let late = LaunchError::late_step;
        let waited = self.wait_for_init(parent);
        waited.map_err(late("wait for pid 1"))?;
        if let Some(view) = &self.view {
            // The view's report comes before its end, and its end only after this link's, if the
            // mount is held from outside.
            view.end();
        }
        let supervisor = self.supervisor.as_ref();
        let epochs = supervisor.and_then(|role| role.epochs.as_ref());
        if heard.supervisor_died {
            // What is left of output waits for a commit, which will not come.
            epochs.inspect(|epochs| epochs.stop());
        }
        let is_stopped = epochs.is_some_and(Epochs::is_stopped);
        if heard.aborted || is_stopped {
            // Nobody wants what is left, or may see it.
            let _ = self.to_relay.send(&RelayOrder::Abandon);
        }
        let (relay, asked) = (&self.relay, heard.asked_to_end);
        let syncer = self.syncer().filter(|_| !heard.supervisor_died);
        let mut hear = |report| heard.keep(report);
        let reached = (relay, &self.to_relay);
        drain::finish(reached, syncer, job.signals, asked, &mut hear)
            .map_err(late("pass on what is left"))?;
        let relay_status = parent.wait(relay);
        let relay_status = relay_status.map_err(late("wait for the relay process"))?;
        let view_status = self.end_view(&mut heard, parent);
        let view_status = view_status.map_err(late("wait for the view process"))?;
        // Its last commit comes after all output, which may have waited for others.
        let supervisor_status = self
            .end_supervisor(&mut heard, parent)
            .map_err(late("wait for the supervisor"))?;
        watched?;
        let failed = Failed {
            view: has_failed(view_status),
            relay: has_failed(relay_status),
            supervisor: has_failed(supervisor_status),
        };
        let reasons = std::mem::take(&mut heard.made_at_once);
        let mut finished = heard.verdict(job.launch, failed)?;
        finished.synchrony = epochs.map(|epochs| surmise_sync::Stats {
            reasons,
            ..epochs.stats()
        });
        Ok(finished)
    }

    /// Waits for the end of pid 1.
    fn wait_for_init(&self, parent: Parent) -> io::Result<()> {
        if let Some(supervisor) = self.supervisor.as_ref().filter(|role| role.may_trace)
            && !ends_within(&self.init, FREEING_MAX)?
        {
            supervisor.kill();
        }
        parent.wait(&self.init).map(drop)
    }

    /// Hears all that it said, and waits for its end.
    fn end_view(&self, heard: &mut Heard, parent: Parent) -> io::Result<Option<WaitIdStatus>> {
        let Some(view) = &self.view else {
            return Ok(None);
        };
        let status = parent.wait(&view.process)?;
        while let Some(report) = view.link.receive()? {
            heard.keep_of_view(report);
        }
        Ok(status)
    }

    /// Hears what it did, and waits for its end.
    fn end_supervisor(
        &self,
        heard: &mut Heard,
        parent: Parent,
    ) -> io::Result<Option<WaitIdStatus>> {
        let Some(supervisor) = &self.supervisor else {
            return Ok(None);
        };
        for report in supervisor.see_off()? {
            match report {
                SupervisorReport::Called(calls) => heard.did.called(calls),
                SupervisorReport::Did(stats) => heard.did.did(stats),
                SupervisorReport::Failed(failure) => {
                    heard.from_supervisor.get_or_insert(failure);
                }
                SupervisorReport::RefusedInside(refusals) => heard.refusals.merge(refusals),
                SupervisorReport::MadeAtOnce(reasons) => heard.made_at_once = reasons,
                // Too late for the commit that had asked.
                SupervisorReport::Settled(_) => {}
            }
        }
        parent.wait(&supervisor.process)
    }
}

fn ends_within(process: &Child, limit: Duration) -> io::Result<bool> {
    let mut events = [PollFd::new(process, PollFlags::IN)];
    let limit = Timespec::try_from(limit).expect("a short wait");
    let ready = rustix::io::retry_on_intr(|| rustix::event::poll(&mut events, Some(&limit)))?;
    Ok(ready > 0)
}

/// A domain that has ended.
pub(crate) struct Finished {
    pub(crate) ended: Ended,
    pub(crate) lost: Vec<LostStream>,
    /// By whichever process.
    pub(crate) refusals: Refusals,
    /// What the supervisor did, where there was one.
    pub(crate) supervision: Option<Stats>,
    /// To the view, where there was one.
    pub(crate) messages: Messages,
    /// Under external synchrony.
    pub(crate) synchrony: Option<surmise_sync::Stats>,
}

/// What was heard from the other roles so far.
#[derive(Default)]
pub(super) struct Heard {
    pub(super) started: bool,
    pub(super) ended: Option<Ended>,
    pub(super) failure: Option<Failure>,
    pub(super) from_view: Option<Failure>,
    pub(super) from_relay: Option<Failure>,
    pub(super) from_supervisor: Option<Failure>,
    pub(super) lost: Vec<LostStream>,
    pub(super) refusals: Tally,
    /// By the supervisor.
    pub(super) did: Did,
    /// To the view.
    pub(super) messages: Messages,
    /// Why syncs were.
    pub(super) made_at_once: Vec<surmise_sync::Counted>,
    pub(super) view_died: bool,
    pub(super) relay_died: bool,
    pub(super) supervisor_died: bool,
    /// Nobody is left to say anything, of pid 1 and the command's process.
    pub(super) silent: bool,
    /// A signal asked for the end.
    pub(super) asked_to_end: bool,
    /// Another command of the user has aborted the domain.
    pub(super) aborted: bool,
}

impl Heard {
    /// Keeps what is of interest in the end; a signal that has stopped the command is of interest now.
    pub(super) fn take(&mut self, report: Option<Report>) -> Option<Signal> {
        match report {
            None => self.silent = true,
            Some(Report::Started) => self.started = true,
            Some(Report::Stopped(signal)) => return Signal::from_named_raw(signal),
            Some(Report::Ended(ended)) => self.ended = Some(ended),
            // The first one is the cause of the others.
            Some(Report::Failed(failure)) => {
                self.failure.get_or_insert(failure);
            }
            // An answer that nobody waits for any more.
            Some(Report::Done | Report::NotDone(_) | Report::Served(_)) => {}
        }
        None
    }

    /// Keeps what is of interest in the end, of what the view says.
    pub(super) fn keep_of_view(&mut self, report: Report) {
        match report {
            Report::Failed(failure) => {
                self.from_view.get_or_insert(failure);
            }
            Report::Served(messages) => self.messages = messages,
            _ => {}
        }
    }

    /// Keeps what is of interest in the end.
    pub(super) fn keep(&mut self, report: RelayReport) {
        match report {
            RelayReport::Failed(failure) => {
                self.from_relay.get_or_insert(failure);
            }
            RelayReport::Lost(lost) => self.lost.push(lost),
            RelayReport::RefusedInside(refusals) => self.refusals.merge(refusals),
            _ => {}
        }
    }

    /// The view's own report comes first, and then that of a supervisor that commits: without them, nothing else
    /// works.
    fn verdict(self, launch: &Launch, failed: Failed) -> Result<Finished, LaunchError> {
        let reported = |failure| {
            LaunchError::reported(failure, &launch.command[0], &launch.directory, self.started)
        };
        if self.aborted {
            return Err(LaunchError::Aborted);
        }
        if let Some(failure) = self.from_view {
            return Err(reported(failure));
        }
        if failed.view {
            return Err(LaunchError::killed("the view process"));
        }
        if let Some(failure) = self.from_supervisor {
            return Err(reported(failure));
        }
        if failed.supervisor {
            return Err(LaunchError::killed("the supervisor"));
        }
        if let Some(failure) = self.from_relay {
            return Err(reported(failure));
        }
        if failed.relay && !self.asked_to_end {
            return Err(LaunchError::killed("the relay process"));
        }
        if let Some(failure) = self.failure {
            return Err(reported(failure));
        }
        let ended = self.ended.ok_or(LaunchError::killed("pid 1"))?;
        Ok(Finished {
            ended,
            lost: self.lost,
            refusals: self.refusals.refusals(),
            supervision: self.did.whole(),
            messages: self.messages,
            synchrony: None,
        })
    }
}

/// Which of the processes have not ended well. Of a process whose status cannot be known that is not said.
#[derive(Clone, Copy, Default)]
struct Failed {
    view: bool,
    relay: bool,
    supervisor: bool,
}

fn has_failed(status: Option<WaitIdStatus>) -> bool {
    status.is_some_and(|status| status.exit_status() != Some(0))
}

#[cfg(test)]
mod tests {
    use surmise_kept::Exit;

    use super::*;

    fn failure(what: &str) -> Option<Failure> {
        Some(Failure::Step {
            what: what.into(),
            errno: None,
            text: "no".into(),
        })
    }

    fn verdict(change: impl FnOnce(&mut Heard, &mut Failed)) -> Result<Exit, String> {
        let mut heard = Heard {
            started: true,
            ended: Some(Ended {
                exit: Exit::Exited(3),
                lingering: Vec::new(),
            }),
            ..Heard::default()
        };
        let mut failed = Failed::default();
        change(&mut heard, &mut failed);
        let launch = Launch {
            command: vec!["true".into()],
            ..Launch::default()
        };
        let finished = heard.verdict(&launch, failed);
        finished
            .map(|finished| finished.ended.exit)
            .map_err(|error| error.to_string())
    }

    /// Each of them makes those behind it fail.
    #[test]
    fn of_several_failures_the_one_that_is_the_cause_is_told() {
        type Change = fn(&mut Heard, &mut Failed);
        let causes: [(Change, &str); 8] = [
            (|heard, _| heard.aborted = true, "the domain was aborted"),
            (|heard, _| heard.from_view = failure("serve"), "serve: no"),
            (|_, failed| failed.view = true, "the view process of the"),
            (
                |heard, _| heard.from_supervisor = failure("supervise"),
                "supervise: no",
            ),
            (
                |_, failed| failed.supervisor = true,
                "the supervisor of the",
            ),
            (|heard, _| heard.from_relay = failure("relay"), "relay: no"),
            (|_, failed| failed.relay = true, "the relay process of the"),
            (|heard, _| heard.failure = failure("mount"), "mount: no"),
        ];
        for (first, (_, expected)) in causes.iter().enumerate() {
            let told = verdict(|heard, failed| {
                for (change, _) in &causes[first..] {
                    change(heard, failed);
                }
            });
            let told = told.expect_err("it has failed");
            assert!(told.starts_with(expected), "{told}");
        }
    }

    #[test]
    fn an_end_that_was_asked_for_may_end_the_relay_process_too() {
        let ended = verdict(|heard, failed| {
            heard.asked_to_end = true;
            failed.relay = true;
        });
        assert_eq!(ended, Ok(Exit::Exited(3)));
    }

    #[test]
    fn a_domain_whose_pid_1_says_nothing_was_killed() {
        let killed = verdict(|heard, _| heard.ended = None);
        assert_eq!(killed, Err("pid 1 of the domain was killed".into()));
    }
}
