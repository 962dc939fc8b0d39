//! The end of a domain: the other processes end one after the other, and what they said tells how it
//! went.

use std::io;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Signal, WaitIdStatus};
use rustix::time::Timespec;
use surmise_kept::Link;
use surmise_refusals::{Refusals, Tally};
use surmise_speculation::Stats;
use surmise_sync::Epochs;
use surmise_sys::process::Child;

use super::speculator::FREEING_MAX;
use super::start::Roles;
use super::{Job, drain};
use crate::error::LaunchError;
use crate::launch::LostStream;
use crate::message::{Ended, Failure, RelayOrder, RelayReport, Report};
use crate::roles::speculator::SpeculatorReport;

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
        let epochs = self.files.epochs.as_ref();
        match epochs {
            // The view's report comes before its end, and its end only after this link's, if the
            // mount is held from outside.
            None => self.files.end(),
            // What is left of output waits for a commit, which will not come.
            Some(epochs) if heard.files_died || heard.from_files.is_some() => epochs.stop(),
            Some(_) => {}
        }
        let is_stopped = epochs.is_some_and(Epochs::is_stopped);
        if heard.aborted || is_stopped {
            // Nobody wants what is left, or may see it.
            let _ = self.to_relay.send(&RelayOrder::Abandon);
        }
        let (relay, link, asked) = (&self.relay, &self.to_relay, heard.asked_to_end);
        let mut hear = |report| heard.keep(report);
        drain::finish(relay, link, job.signals, asked, &mut hear)
            .map_err(late("pass on what is left"))?;
        let relay_status = parent.wait(relay);
        let relay_status = relay_status.map_err(late("wait for the relay process"))?;
        // Its last commit comes after all output, which may have waited for others.
        self.files.end();
        let files_status = parent.wait(&self.files.process);
        let files_status =
            files_status.map_err(late("wait for who serves or commits the files"))?;
        let speculator_status = self
            .end_speculator(&mut heard, parent)
            .map_err(late("wait for the speculator"))?;
        heard
            .hear_files_out(&self.files.link)
            .map_err(late("hear from who serves or commits the files"))?;
        watched?;
        let statuses = [files_status, relay_status, speculator_status];
        let reasons = std::mem::take(&mut heard.made_at_once);
        let mut finished = heard.verdict(job, self.files.name, statuses)?;
        finished.synchrony = epochs.map(|epochs| surmise_sync::Stats {
            reasons,
            ..epochs.stats()
        });
        Ok(finished)
    }

    /// Waits for the end of pid 1.
    fn wait_for_init(&self, parent: Parent) -> io::Result<()> {
        if let Some(speculator) = &self.speculator
            && !ends_within(&self.init, FREEING_MAX)?
        {
            speculator.kill();
        }
        parent.wait(&self.init).map(drop)
    }

    /// Hears what it did, and waits for its end.
    fn end_speculator(
        &self,
        heard: &mut Heard,
        parent: Parent,
    ) -> io::Result<Option<WaitIdStatus>> {
        let Some(speculator) = &self.speculator else {
            return Ok(None);
        };
        for report in speculator.see_off()? {
            match report {
                SpeculatorReport::Did(stats) => heard.speculation = Some(stats),
                SpeculatorReport::Failed(failure) => {
                    heard.from_speculator.get_or_insert(failure);
                }
                SpeculatorReport::RefusedInside(refusals) => heard.refusals.merge(refusals),
                // Too late for whoever had asked.
                SpeculatorReport::Settled(_) => {}
            }
        }
        parent.wait(&speculator.process)
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
    /// Where tasks speculate.
    pub(crate) speculation: Option<Stats>,
    /// Under external synchrony.
    pub(crate) synchrony: Option<surmise_sync::Stats>,
}

/// What was heard from the other roles so far.
#[derive(Default)]
pub(super) struct Heard {
    pub(super) started: bool,
    pub(super) ended: Option<Ended>,
    pub(super) failure: Option<Failure>,
    pub(super) from_files: Option<Failure>,
    pub(super) from_relay: Option<Failure>,
    pub(super) from_speculator: Option<Failure>,
    pub(super) lost: Vec<LostStream>,
    pub(super) refusals: Tally,
    pub(super) speculation: Option<Stats>,
    /// Why syncs were.
    pub(super) made_at_once: Vec<surmise_sync::Counted>,
    pub(super) files_died: bool,
    pub(super) relay_died: bool,
    pub(super) speculator_died: bool,
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
            Some(Report::Done | Report::NotDone(_)) => {}
            // Of the syncer.
            Some(Report::RefusedInside(_) | Report::MadeAtOnce(_)) => {}
        }
        None
    }

    /// All that the view or the syncer said, which has ended.
    fn hear_files_out(&mut self, files: &Link) -> io::Result<()> {
        while let Some(report) = files.receive()? {
            self.keep_of_files(report);
        }
        Ok(())
    }

    /// Keeps what is of interest in the end, of what the view or the syncer says.
    pub(super) fn keep_of_files(&mut self, report: Report) {
        match report {
            Report::Failed(failure) => {
                self.from_files.get_or_insert(failure);
            }
            Report::RefusedInside(refusals) => self.refusals.merge(refusals),
            Report::MadeAtOnce(reasons) => self.made_at_once = reasons,
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

    /// The view's own report comes first, or the syncer's: without it, nothing else works. A status is
    /// `None` where it cannot be known.
    fn verdict(
        self,
        job: &Job<'_>,
        files_name: &'static str,
        [files_status, relay_status, speculator_status]: [Option<WaitIdStatus>; 3],
    ) -> Result<Finished, LaunchError> {
        let launch = job.launch;
        let reported = |failure| {
            LaunchError::reported(failure, &launch.command[0], &launch.directory, self.started)
        };
        if self.aborted {
            return Err(LaunchError::Aborted);
        }
        if let Some(failure) = self.from_files {
            return Err(reported(failure));
        }
        if has_failed(files_status) {
            return Err(LaunchError::killed(files_name));
        }
        if let Some(failure) = self.from_relay {
            return Err(reported(failure));
        }
        if has_failed(relay_status) && !self.asked_to_end {
            return Err(LaunchError::killed("the relay process"));
        }
        if let Some(failure) = self.from_speculator {
            return Err(reported(failure));
        }
        if has_failed(speculator_status) {
            return Err(LaunchError::killed("the speculator"));
        }
        if let Some(failure) = self.failure {
            return Err(reported(failure));
        }
        let ended = self.ended.ok_or(LaunchError::killed("pid 1"))?;
        Ok(Finished {
            ended,
            lost: self.lost,
            refusals: self.refusals.refusals(),
            speculation: self.speculation,
            synchrony: None,
        })
    }
}

fn has_failed(status: Option<WaitIdStatus>) -> bool {
    status.is_some_and(|status| status.exit_status() != Some(0))
}
