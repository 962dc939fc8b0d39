//! A command that runs in a process of its own: that process' side.

use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use surmise_commit::Progress;
use surmise_kept::{Answer, Notice, Target};
use surmise_launch::{Person, Question};

use crate::child::Channel;
use crate::domain::Domain;
use crate::event::{Event, Stream};
use crate::interrupt::Interrupts;
use crate::launch::Launch;
use crate::results::{CommitResult, Failed, Fate, Pace, ProgressRow, RunResult};
use crate::running::PIECE_MAX;
use crate::settle::{Settled, Then, keep};
use crate::surmise::{Outcome, Surmise};
use crate::text::Text;

/// Exit status of what fails before the command or after it.
const FAILED: u8 = 125;

/// How often it is told how far a commit is.
const REFRESH: Duration = Duration::from_millis(100);

/// A process that does something for another one, which hears of it.
#[derive(Clone, Copy)]
pub(crate) struct Supervised<'c> {
    pub(crate) channel: &'c Channel,
    /// Whether somebody answers questions.
    pub(crate) asks: bool,
}

impl Person for Supervised<'_> {
    fn is_there(&self) -> bool {
        self.asks && self.channel.is_heard()
    }

    fn ask(&self, question: &Question) -> Answer {
        self.channel.ask(question)
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.channel.as_fd()]
    }

    fn tell(&self, notice: &Notice) -> Option<String> {
        self.channel.note(&Event::of(notice.clone()));
        None
    }
}

impl Supervised<'_> {
    /// Runs a command, and does with its changes what `then` says.
    pub(crate) fn run(
        self,
        surmise: &Surmise,
        launch: &Launch,
        then: Then,
    ) -> Result<RunResult, Box<Failed>> {
        let outcome = surmise.run(launch, &self);
        let outcome = outcome.map_err(|error| Failed::of(&error, FAILED))?;
        self.settle(&outcome, launch, then)
    }

    /// Runs a command in a kept domain.
    pub(crate) fn shell(self, domain: &Domain, launch: &Launch) -> Result<RunResult, Box<Failed>> {
        let outcome = Surmise::shell(domain, launch, &self);
        // From here on a signal is for this process alone. It must not keep the domain from being settled.
        let interrupts = Interrupts::hold();
        let outcome = outcome.map_err(|error| Failed::of(&error, FAILED))?;
        let _interrupts = interrupts.map_err(|error| kept(no_signals(&error), domain))?;
        let missing = keep(domain);
        let pending = outcome.pending();
        let pending = pending.map_err(|error| kept(Failed::of(&error, FAILED), domain))?;
        let missing = [lost(&outcome), missing].concat();
        Ok(outcome.result(domain.name(), pending.as_ref(), Fate::Kept, missing, true))
    }

    fn settle(
        self,
        outcome: &Outcome,
        launch: &Launch,
        then: Then,
    ) -> Result<RunResult, Box<Failed>> {
        // From here on a signal is for this process alone. It must not keep the domain from being settled.
        let interrupts = Interrupts::hold();
        let guesses =
            !launch.guessing.is_empty() || launch.through.is_some() || launch.sync.is_some();
        let Some(domain) = outcome.domain.clone() else {
            return Ok(outcome.result("", None, Fate::Real, lost(outcome), guesses));
        };
        let interrupts = interrupts.map_err(|error| kept(no_signals(&error), &domain))?;
        let name = domain.name().to_owned();
        let pending = domain.pending();
        let pending = pending.map_err(|error| kept(Failed::of(&error, FAILED), &domain))?;
        let mut progress = Progressing::new(self.channel, &interrupts);
        let settled = then.settle(
            domain,
            outcome.exit,
            pending.is_empty(),
            &mut |at| progress.tell(at),
            &mut |target, bytes| show(self.channel, target, bytes),
        );
        let Settled {
            fate,
            missing,
            committed,
        } = settled.map_err(|error| Failed::of(&error, FAILED))?;
        let mut missing = [lost(outcome), missing].concat();
        if let (Fate::Kept, Some(error)) = (fate, &outcome.unrecorded) {
            missing.push(format!(
                "how the command ended is not written down: {error}"
            ));
        }
        Ok(RunResult {
            commit: committed.map(|committed| CommitResult::of(&name, &committed)),
            ..outcome.result(&name, Some(&pending), fate, missing, guesses)
        })
    }
}

/// Tells how far a commit is, and stops it at a signal that asks for that.
pub(crate) struct Progressing<'a> {
    channel: &'a Channel,
    interrupts: &'a Interrupts,
    pace: Pace,
    next: Instant,
}

impl<'a> Progressing<'a> {
    pub(crate) fn new(channel: &'a Channel, interrupts: &'a Interrupts) -> Self {
        let now = Instant::now();
        Self {
            channel,
            interrupts,
            pace: Pace::new(now),
            next: now,
        }
    }

    pub(crate) fn tell(&mut self, progress: Progress) -> ControlFlow<()> {
        let now = Instant::now();
        let is_first = self.pace.note(progress, now);
        if is_first || now >= self.next {
            self.next = now + REFRESH;
            let left = self.pace.left(progress, now);
            self.channel
                .note(&Event::Progress(ProgressRow::of(progress, left)));
        }
        match self.interrupts.arrived() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// Shows what was held for the command's streams.
pub(crate) fn show(channel: &Channel, target: &Target, bytes: &[u8]) -> io::Result<()> {
    let stream = match target {
        Target::Error => Stream::Stderr,
        Target::Terminal => Stream::Terminal,
        _ => Stream::Stdout,
    };
    for piece in bytes.chunks(PIECE_MAX) {
        let data = Text(piece.to_vec());
        channel.tell(&Event::Output { stream, data })?;
    }
    Ok(())
}

/// A failure after which the domain is kept.
pub(crate) fn kept(mut failed: Box<Failed>, domain: &Domain) -> Box<Failed> {
    failed.domain = Some(domain.name().to_owned());
    failed
}

pub(crate) fn no_signals(error: &io::Error) -> Box<Failed> {
    Failed::plain("signals", format!("take over signals: {error}"), FAILED)
}

/// Output that nobody has, a line each.
fn lost(outcome: &Outcome) -> Vec<String> {
    let line = |lost: &surmise_launch::LostStream| {
        let error = io::Error::from_raw_os_error(lost.errno);
        format!("not all was written to {}: {error}", lost.stream)
    };
    outcome.lost.iter().map(line).collect()
}
