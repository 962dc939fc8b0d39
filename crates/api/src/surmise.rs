//! A state root: its domains, and commands in new ones.

use surmise_kept::{DecideError, Exit, Native, StateError, StateRoot};
use surmise_launch::{Lingering, LostStream, Messages, Person, Refusals};
use surmise_supervisor::Stats;

use crate::domain::Domain;
use crate::launch::{Launch, RunError};
use crate::pending::Pending;
use crate::results::{
    CommitResult, Fate, ProcessRow, RefusedRow, RunResult, SpeculationResult, SyncResult,
};

/// A state root.
#[derive(Clone, Debug)]
pub struct Surmise {
    root: StateRoot,
}

/// A command that has ended.
#[derive(Debug)]
pub struct Outcome {
    /// The domain, neither committed nor aborted; none of a command that had the real files.
    pub domain: Option<Domain>,
    /// How the command ended.
    pub exit: Exit,
    /// Processes that outlived the command and were ended.
    pub lingering: Vec<Lingering>,
    /// Streams of the caller that took no more of what the command put out.
    pub lost: Vec<LostStream>,
    /// What the boundary refused.
    pub refusals: Refusals,
    /// What a supervisor of calls did, where one was needed.
    pub supervision: Option<Stats>,
    /// What the kernel sent to the view, where there was one.
    pub messages: Messages,
    /// What was done for external synchrony, where that was asked for.
    pub sync: Option<surmise_sync::Stats>,
    /// Why it is not written down how the command ended, if it is not.
    pub unrecorded: Option<StateError>,
}

impl Surmise {
    /// The caller's: `$XDG_STATE_HOME/surmise`, else `$HOME/.local/state/surmise`. It need not exist yet.
    ///
    /// # Errors
    /// When neither variable holds an absolute path, and when there is such a directory and it is somebody
    /// else's.
    pub fn locate() -> Result<Self, StateError> {
        let root = StateRoot::locate()?;
        Ok(Self { root })
    }

    /// The one at `path`.
    pub fn at(path: impl Into<std::path::PathBuf>) -> Self {
        Self {
            root: StateRoot::at(path),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &std::path::Path {
        self.root.path()
    }

    /// All domains, oldest first.
    ///
    /// # Errors
    /// When a directory or a record cannot be read.
    pub fn domains(&self) -> Result<Vec<Domain>, StateError> {
        let mut domains = self.domains_by_name()?;
        domains.sort_by_key(|domain| domain.record().created);
        Ok(domains)
    }

    /// All domains, by name.
    ///
    /// # Errors
    /// As [`Self::domains`].
    pub fn domains_by_name(&self) -> Result<Vec<Domain>, StateError> {
        let domains = self.root.list()?;
        Ok(domains.into_iter().map(Domain).collect())
    }

    /// The domain called `name`.
    ///
    /// # Errors
    /// When there is none, or its record cannot be read.
    pub fn domain(&self, name: &str) -> Result<Domain, StateError> {
        self.root.open(name).map(Domain)
    }

    /// Runs a command, and returns when it and all that it left have ended. Its streams and its terminal are the
    /// caller's; while it runs the caller's signals are forwarded to it. `person` is told and asked what only a
    /// person can know.
    ///
    /// # Errors
    /// When the command was not started, and when it did not come to its end:
    /// [`LaunchError`](surmise_launch::LaunchError) tells what is left
    /// then.
    pub fn run(&self, launch: &Launch, person: &dyn Person) -> Result<Outcome, RunError> {
        if launch.sync.is_some() {
            return Self::sync(launch, person);
        }
        launch.check()?;
        check_threads()?;
        let outcome = surmise_launch::run(&self.root, launch.of_domain(), person)?;
        Ok(outcome.into())
    }

    /// Runs a command on the real files under external synchrony ([`Launch::sync`]): nothing is kept, so it takes no
    /// state root. Otherwise as [`Self::run`].
    ///
    /// # Errors
    /// As [`Self::run`], and when a commit failed. Then nothing was shown of what was done after the last one that did
    /// not.
    pub fn sync(launch: &Launch, person: &dyn Person) -> Result<Outcome, RunError> {
        launch.check()?;
        check_threads()?;
        let synchronous = launch.sync.as_ref().ok_or(RunError::Combination {
            one: "files that are undone",
            other: "no state root",
        })?;
        let synced = surmise_launch::sync(&launch.of_domain(), &synchronous.0, person)?;
        Ok(Outcome {
            domain: None,
            exit: synced.exit,
            lingering: synced.lingering,
            lost: synced.lost,
            refusals: synced.refusals,
            supervision: Some(synced.supervision),
            messages: Messages::default(),
            sync: Some(synced.stats),
            unrecorded: None,
        })
    }

    /// Runs a command inside a kept domain, which sees all that was done before. Otherwise as [`Self::run`]; the
    /// name in `launch` is not used.
    ///
    /// # Errors
    /// As [`Self::run`], and when the domain is in use or its commit unfinished. The domain is kept in any case.
    pub fn shell(
        domain: &Domain,
        launch: &Launch,
        person: &dyn Person,
    ) -> Result<Outcome, RunError> {
        launch.check()?;
        if !launch.guessing.is_empty() && domain.record().native_kind == Native::All {
            return Err(RunError::Combination {
                one: "a domain with read-only directories of the system",
                other: "calls that are predicted",
            });
        }
        if launch.sync.is_some() {
            return Err(RunError::Combination {
                one: "a kept domain",
                other: "syncs that are put off",
            });
        }
        if launch.through.is_some() {
            return Err(RunError::Combination {
                one: "a kept domain",
                other: "a directory that is passed through",
            });
        }
        check_threads()?;
        let outcome = surmise_launch::shell(&domain.0, &launch.of_domain(), person)?;
        Ok(outcome.into())
    }
}

/// # Errors
/// When the caller could not be copied.
pub(crate) fn check_threads() -> Result<(), RunError> {
    match surmise_sys::process::has_one_thread() {
        true => Ok(()),
        false => Err(RunError::Threads),
    }
}

impl From<surmise_launch::Outcome> for Outcome {
    fn from(outcome: surmise_launch::Outcome) -> Self {
        Self {
            domain: Some(Domain(outcome.domain)),
            exit: outcome.exit,
            lingering: outcome.lingering,
            lost: outcome.lost,
            refusals: outcome.refusals,
            supervision: outcome.supervision,
            messages: outcome.messages,
            sync: outcome.synchrony,
            unrecorded: outcome.unrecorded,
        }
    }
}

impl Outcome {
    /// What waits for a decision; nothing of a command that had the real files.
    ///
    /// # Errors
    /// As [`Domain::pending`].
    pub fn pending(&self) -> Result<Option<Pending>, DecideError> {
        self.domain.as_ref().map(Domain::pending).transpose()
    }

    /// It as plain data. `pending`: as it was before the decision whose result is `fate`. `missing`: what could
    /// not be kept. `stats`: whether what a supervisor of calls did is wanted.
    pub fn result(
        &self,
        name: &str,
        pending: Option<&Pending>,
        fate: Fate,
        missing: Vec<String>,
        stats: bool,
    ) -> RunResult {
        let speculation = self.supervision.as_ref().filter(|_| stats);
        let sync = self.sync.as_ref().filter(|_| stats);
        RunResult {
            name: name.to_owned(),
            exit: self.exit.code(),
            state: fate,
            changes: pending.map(Pending::rows).unwrap_or_default(),
            held: pending
                .map(|pending| pending.held.clone())
                .unwrap_or_default(),
            lingering: self.lingering.iter().map(ProcessRow::from).collect(),
            missing,
            refused: RefusedRow::all(&self.refusals),
            refused_more: self.refusals.more,
            messages: self.messages.by_kind.clone(),
            messages_beside: self.messages.beside,
            speculation: speculation.map(SpeculationResult::from),
            synchrony: sync.map(SyncResult::from),
            commit: None::<CommitResult>,
        }
    }
}
