//! One domain: what it did, and the decisions about it.

use surmise_changes::Changes;
use surmise_commit::{OnProgress, Terms};
use surmise_diff::Diff;
use surmise_kept::{
    Aborted, Answer, Committed, DecideError, Domain as Kept, OnOutput, Record, Resend, StateError,
    Status, Watched,
};

use crate::contents::Contents;
use crate::pending::{self, Pending};
use crate::quote::command_line;
use crate::results::{DomainSummary, HeldRow, State, status_text};
use crate::text::Text;

/// A domain: what a command did, not committed and not aborted.
#[derive(Clone, Debug)]
pub struct Domain(pub(crate) Kept);

/// What can be read of a domain that is damaged.
#[derive(Clone, Debug)]
pub struct Salvaged {
    /// The changes that can be read, without notes.
    pub changes: Diff,
    /// Operations of the domain that can be read.
    pub operations: u64,
    /// Bytes of its log that cannot.
    pub unread_bytes: u64,
    /// Operations that can be read and build on what cannot; their changes are left out.
    pub unfitting: u64,
}

impl Domain {
    /// Its name.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// How it was started.
    pub fn record(&self) -> &Record {
        self.0.record()
    }

    /// What it is doing now.
    pub fn status(&self) -> Status {
        self.0.status()
    }

    /// Whether it is still there: neither committed nor aborted.
    pub fn exists(&self) -> bool {
        self.0.exists()
    }

    /// It as a line of a list. What cannot be read of it is missing there, and told by its state.
    pub fn summary(&self) -> DomainSummary {
        let record = self.record();
        let glance = self.0.glance();
        let status = glance.status;
        let held = glance.holdings.as_ref();
        let words = record.command.iter();
        DomainSummary {
            name: self.name().to_owned(),
            status: match glance.is_damaged {
                true => "damaged".to_owned(),
                false => status_text(status),
            },
            created: record.created,
            command: command_line(&record.command),
            directory: record.directory.display().to_string(),
            maker: record.maker.clone(),
            changes: glance.changes.as_ref().map(Changes::len),
            held: held.map_or_else(Vec::new, |held| pending::held_rows(held, status)),
            state: match glance.is_damaged {
                true => State::Damaged,
                false => status.into(),
            },
            exit: match status {
                Status::Ended { exit } => Some(exit.code()),
                _ => None,
            },
            arguments: words.map(|word| Text::from(word.as_os_str())).collect(),
        }
    }

    /// What it changed so far, without notes: quick to find out.
    ///
    /// # Errors
    /// When what it changed cannot be read, or is damaged.
    pub fn changes(&self) -> Result<Changes, DecideError> {
        self.0.changes()
    }

    /// What it changed so far, with notes: what each change means for who may do what.
    ///
    /// # Errors
    /// As [`Self::changes`], and when the real file system cannot be looked at.
    pub fn noted_changes(&self) -> Result<Diff, DecideError> {
        self.0.noted_changes()
    }

    /// What it holds until the commit, in the order in which that goes out.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn held(&self) -> Result<Vec<HeldRow>, DecideError> {
        pending::held(&self.0)
    }

    /// All that waits for a decision.
    ///
    /// # Errors
    /// As [`Self::noted_changes`] and [`Self::held`].
    pub fn pending(&self) -> Result<Pending, DecideError> {
        Pending::of(&self.0)
    }

    /// What its files hold, for a patch.
    ///
    /// # Errors
    /// As [`Self::changes`], also when the data of files are damaged.
    pub fn contents(&self) -> Result<Contents<'_>, DecideError> {
        Contents::of(&self.0)
    }

    /// What can be read of what it changed, damaged or not.
    ///
    /// # Errors
    /// When there is a log that cannot be read at all.
    pub fn salvage(&self) -> Result<Salvaged, DecideError> {
        let salvaged = self.0.salvage()?;
        Ok(Salvaged {
            changes: Diff::without_notes(Changes::of(&salvaged.map)),
            operations: salvaged.operations,
            unread_bytes: salvaged.unread_bytes,
            unfitting: salvaged.unfitting,
        })
    }

    /// Everything by which it shows to be damaged, a line each.
    pub fn damages(&self) -> Vec<String> {
        self.0.damages()
    }

    /// Makes everything that it did real, on somebody's terms, or finishes what a commit cut short has begun. A
    /// domain that runs goes on under a new consent; one that has ended is no more.
    ///
    /// `on_output` gets held output that was meant for the command's own terminal and streams; that of a running
    /// domain goes to where its command writes.
    ///
    /// # Errors
    /// When it is in use or the commit fails; it is kept then. [`Committed`] also tells what of a commit failed
    /// that has changed everything else.
    pub fn commit(
        self,
        terms: Terms<'_>,
        on_progress: &mut OnProgress<'_>,
        on_output: &mut OnOutput<'_>,
    ) -> Result<Committed, DecideError> {
        self.0.commit_on(terms, on_progress, on_output)
    }

    /// Takes back a commit that was cut short. It is kept.
    ///
    /// # Errors
    /// When no commit was cut short, when it is too late, or when somebody changed outside what the commit had
    /// changed: nothing has been done then. After any other failure the next undo goes on.
    pub fn undo_commit(&self, on_progress: &mut OnProgress<'_>) -> Result<(), DecideError> {
        self.0.undo_commit(on_progress)
    }

    /// Has the next commit send what an earlier one could not. Returns how many outputs that are.
    ///
    /// # Errors
    /// When it runs or is in use, or what it holds cannot be read or written.
    pub fn send_again(&self, what: Resend) -> Result<usize, DecideError> {
        self.0.send_again(what)
    }

    /// Forgets what it read, where the record of that is damaged. False where that is not.
    ///
    /// # Errors
    /// When it is in use, or something else of it is damaged.
    pub fn forget_damaged_reads(&self) -> Result<bool, DecideError> {
        self.0.forget_damaged_reads()
    }

    /// Throws it away. A command that still runs is ended first.
    ///
    /// # Errors
    /// When it is in use or was committed in part, or when something cannot be removed.
    pub fn abort(self) -> Result<Aborted, StateError> {
        self.0.abort()
    }

    /// Decides about output that is held and whose replies its tasks wait for: it goes out, with all that is sent
    /// to these hosts later ([`Answer::Allow`]); it stays held; or its connections are refused.
    ///
    /// # Errors
    /// When it does not run, nothing in it waits so, or somebody is being asked about it just now.
    pub fn decide(&self, answer: Answer) -> Result<(), DecideError> {
        self.0.decide(answer)
    }

    /// Watches it while it runs.
    ///
    /// # Errors
    /// When it does not run.
    pub fn watch(&self) -> Result<Watched, DecideError> {
        self.0.watch()
    }

    /// Returns when all that it holds would survive a power loss, and is sealed. To be called for a domain that is
    /// kept.
    ///
    /// # Errors
    /// When the disk fails or is full, or has damaged the domain already.
    pub fn make_durable(&self) -> Result<(), StateError> {
        self.0.make_durable()
    }
}
