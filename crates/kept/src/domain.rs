//! One kept domain.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::doorway::{self, Wish};
use crate::error::{DecideError, StateError};
use crate::exit::Exit;
use crate::link::Link;
use crate::lock::Lock;
use crate::notice::Answer;
use crate::record::{self, Record};
use crate::seal::{self, Depth, SealError};
use crate::state::StateRoot;
use crate::visit::{self, Watched};

/// The journal of a commit under way.
const COMMIT: &str = "commit";

/// How long a domain that hears no requests any more may take to end: it passes on its last output and
/// waits for the disk.
const ENDING_MAX: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(10);

/// A domain: what a command did, not committed and not aborted.
#[derive(Clone, Debug)]
pub struct Domain {
    directory: PathBuf,
    record: Record,
}

/// What a domain is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Its command runs.
    Running {
        /// The process that controls it, or that works on it; 0 when not known yet.
        pid: i32,
    },
    /// Its command has ended.
    Ended {
        /// How.
        exit: Exit,
    },
    /// Its command was cut short: a role of the domain was killed, or the machine failed.
    Interrupted,
    /// A commit was begun and is not finished.
    Committing,
    /// Its changes are committed. Held output is left that could not be sent.
    Unsent,
}

/// What has become of a domain that was thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aborted {
    /// Outside, nothing is as the domain would have it.
    Whole,
    /// A commit of it had been cut short, and could neither be finished nor taken back, since the domain is
    /// damaged. What it had changed outside stays so.
    CommittedInPart,
    /// Its changes had been committed, and stay. Held output that was not sent is thrown away.
    Unsent,
}

/// Whom a wish has come to.
pub(crate) enum Reached {
    /// Control, which answers by this link.
    Running(Link),
    /// Nobody runs it, or works on it, as long as this is held.
    Ended(Lock),
}

impl Domain {
    /// The one kept in `directory`, which has this record.
    pub fn new(directory: PathBuf, record: Record) -> Self {
        Self { directory, record }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.record.name
    }

    /// How it was started.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// The directory that holds its state: `domain.json`, `exit`, `lock`, the view's `log`,
    /// `reads` and `objects`, `outbox`, `seal` once it is kept, and `commit` while a commit is under way.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What it is doing now.
    pub fn status(&self) -> Status {
        self.status_given(|| self.has_unsent())
    }

    /// As [`Self::status`], where somebody else knows whether held output is left that could not be sent.
    pub(crate) fn status_given(&self, has_unsent: impl FnOnce() -> bool) -> Status {
        if self.is_committing() {
            let is_at_rest = self.is_committed() && Lock::holder(&self.directory).is_none();
            match is_at_rest && has_unsent() {
                true => Status::Unsent,
                false => Status::Committing,
            }
        } else if let Some(pid) = Lock::holder(&self.directory) {
            Status::Running { pid }
        } else if let Some(exit) = record::read_exit(&self.directory) {
            Status::Ended { exit }
        } else {
            Status::Interrupted
        }
    }

    /// Whether its command may run: also while a commit is under way, if the domain goes on after it.
    pub(crate) fn may_run(&self) -> bool {
        self.is_committing() || matches!(self.status(), Status::Running { .. })
    }

    /// Whether it is still there: neither committed nor aborted.
    pub fn exists(&self) -> bool {
        self.directory.exists()
    }

    /// Keeps every other command from working on it. Held by the process that runs, commits or aborts it.
    ///
    /// # Errors
    /// When another process holds it.
    pub fn lock(&self) -> Result<Lock, StateError> {
        Lock::take(&self.directory, self.name())
    }

    /// Asks the process that runs it, or takes its lock when none does. A domain that is about to open its
    /// doorway, or to end, is waited for a while, as long as `goes_on`, asked now and then, says so.
    pub(crate) fn reach(
        &self,
        wish: Wish,
        goes_on: &mut dyn FnMut(&Self) -> bool,
    ) -> Result<Reached, StateError> {
        let deadline = Instant::now() + ENDING_MAX;
        loop {
            if self.may_run()
                && let Some(link) = doorway::knock(&self.directory, wish)
                    .map_err(StateError::at(&self.directory))?
            {
                return Ok(Reached::Running(link));
            }
            match self.lock() {
                Err(StateError::Running { .. })
                    if self.directory.exists() && Instant::now() < deadline && goes_on(self) =>
                {
                    thread::sleep(PAUSE);
                }
                locked => return Ok(Reached::Ended(self.known(locked)?)),
            }
        }
    }

    /// Waits a while for a domain that has heard its last request: until then it passes on its last output.
    pub fn wait_ended(&self) {
        // A process that holds it then works on it, and is no concern of the caller's.
        let _ = self.lock_when_ended(&mut |_| true);
    }

    /// As [`Self::lock`], and waits a while for a domain that is about to end, as [`Self::reach`] does.
    pub(crate) fn lock_when_ended(
        &self,
        goes_on: &mut dyn FnMut(&Self) -> bool,
    ) -> Result<Lock, StateError> {
        let deadline = Instant::now() + ENDING_MAX;
        loop {
            match self.lock() {
                Err(StateError::Running { .. })
                    if self.is_ending() && Instant::now() < deadline && goes_on(self) =>
                {
                    thread::sleep(PAUSE);
                }
                locked => return self.known(locked),
            }
        }
    }

    /// The holder of the lock of a domain that is no more has committed or aborted it.
    fn known(&self, locked: Result<Lock, StateError>) -> Result<Lock, StateError> {
        match locked {
            Err(StateError::Running { .. }) if !self.directory.exists() => {
                let name = self.name().into();
                Err(StateError::Unknown { name })
            }
            locked => locked,
        }
    }

    /// Whether it is in use, yet hears no requests.
    fn is_ending(&self) -> bool {
        matches!(doorway::is_open(&self.directory), Ok(false))
    }

    /// Whether the domain runs and hears requests, as it does during a commit too. A domain that ends stops hearing
    /// before it closes the links of its watchers.
    pub fn answers(&self) -> bool {
        matches!(doorway::is_open(&self.directory), Ok(true))
    }

    /// Returns when all that the domain holds would survive a power loss, and is sealed: from then on a change
    /// of it by anything but Surmise is told as damage.
    ///
    /// A caller that keeps a domain calls this; one that is committed or aborted next has no need to wait
    /// for the disk. While another command works on the domain, or after a commit that was cut short, all that
    /// the domain holds by now is made durable and not sealed.
    ///
    /// # Errors
    /// When the disk fails or is full, or has damaged the domain already.
    pub fn make_durable(&self) -> Result<(), StateError> {
        let made = match self.lock() {
            Err(StateError::Running { .. }) => seal::sync(&self.directory),
            Err(error) => return Err(error),
            Ok(_lock) => match self.is_committing() {
                true => seal::sync(&self.directory),
                false => seal::make(&self.directory),
            },
        };
        made.map_err(|source| self.seal_error(source))
    }

    /// Makes ready for another command in the domain, before anything changes in it. `_lock`: its own.
    ///
    /// # Errors
    /// When its commit is unfinished, when it is damaged, and when the disk fails. It is as it was then.
    pub fn open_up(&self, _lock: &Lock) -> Result<(), StateError> {
        self.check_not_committing()?;
        self.check_whole()?;
        // Durably, before anything changes: a seal that came back would call that damage.
        seal::remove(&self.directory).map_err(|source| self.seal_error(source))
    }

    /// The command for which it was opened up did not start, so it is at rest as before. Should this fail, it is
    /// kept without a seal. `_lock`: its own.
    pub fn close_again(&self, _lock: &Lock) {
        let _ = seal::make(&self.directory);
    }

    /// Whether all that is sealed of the domain is as it was.
    ///
    /// # Errors
    /// [`StateError::Seal`].
    pub(crate) fn check_seal(&self, depth: Depth) -> Result<(), StateError> {
        let checked = seal::check(&self.directory, depth, &|| self.is_committing());
        checked.map_err(|source| self.seal_error(source))
    }

    pub(crate) fn seal_error(&self, source: SealError) -> StateError {
        StateError::Seal {
            name: self.name().into(),
            is_committing: self.is_committing(),
            source,
        }
    }

    fn has_unsent(&self) -> bool {
        self.unsent().is_ok_and(|unsent| !unsent.is_empty())
    }

    fn is_committing(&self) -> bool {
        self.directory.join(COMMIT).exists()
    }

    /// Decides about output of a running domain that is held and whose replies tasks wait for: it goes out, with all
    /// that is sent to these hosts later; it stays held; or its connections are refused.
    ///
    /// # Errors
    /// When the domain does not run, nothing in it waits so, or somebody is being asked about it just now.
    pub fn decide(&self, answer: Answer) -> Result<(), DecideError> {
        match self.reach(Wish::Decide(answer), &mut |_| true)? {
            Reached::Running(link) => visit::decide(self, &link),
            Reached::Ended(_) => Err(DecideError::NotRunning {
                name: self.name().into(),
            }),
        }
    }

    /// Watches a running domain.
    ///
    /// # Errors
    /// When it does not run.
    pub fn watch(&self) -> Result<Watched, DecideError> {
        match self.reach(Wish::Watch, &mut |_| true)? {
            Reached::Running(link) => Ok(Watched::new(link)),
            Reached::Ended(_) => Err(DecideError::NotRunning {
                name: self.name().into(),
            }),
        }
    }

    /// Throws it away, and the state root with it when it was the last one. A domain that runs is ended
    /// first.
    ///
    /// A commit that was cut short before its first visible change is taken back; so is any that cannot be
    /// finished, since the domain is damaged.
    ///
    /// # Errors
    /// When it is in use or was committed in part, when that commit could not be taken back and perhaps can be
    /// later, or when something cannot be removed; what is left in the last case is no domain any more and goes
    /// with the next abort.
    pub fn abort(self) -> Result<Aborted, StateError> {
        // The role is to end, so the person who stopped it has lost nothing by that.
        let mut wake = |domain: &Self| {
            visit::wake(domain);
            true
        };
        let _lock = match self.reach(Wish::Abort, &mut wake)? {
            Reached::Ended(lock) => lock,
            Reached::Running(link) => {
                visit::end(&self, &link).map_err(StateError::at(&self.directory))?;
                self.lock_when_ended(&mut wake)?
            }
        };
        let undone = self.undo_staging();
        let is_damaged = self.is_committing()
            && (undone.is_err_and(|error| error.is_damage()) || self.check_whole().is_err());
        let aborted = if self.is_committed() && (is_damaged || self.has_unsent()) {
            Aborted::Unsent
        } else if is_damaged {
            self.take_back_unfinishable()?
        } else {
            self.check_not_committing()?;
            Aborted::Whole
        };
        self.root().remove(self.name())?;
        Ok(aborted)
    }

    /// Takes back the commit of a domain that is damaged, which nobody can finish any more.
    ///
    /// # Errors
    /// When a later attempt may succeed. What the commit replaced is kept for it.
    fn take_back_unfinishable(&self) -> Result<Aborted, StateError> {
        match self.undo_commit_quietly() {
            Ok(()) => Ok(Aborted::Whole),
            Err(error) if error.is_for_good() => Ok(Aborted::CommittedInPart),
            Err(error) => Err(StateError::NotTakenBack {
                name: self.name().into(),
                source: Box::new(error),
            }),
        }
    }

    /// What is done to a domain while its commit is unfinished would be lost with it.
    pub(crate) fn check_not_committing(&self) -> Result<(), StateError> {
        if !self.is_committing() {
            return Ok(());
        }
        let name = self.name().into();
        Err(match self.is_committed() && self.has_unsent() {
            true => StateError::Unsent { name },
            false => StateError::Committing { name },
        })
    }

    /// The state root that it is kept in.
    pub fn root(&self) -> StateRoot {
        let root = self.directory.parent();
        StateRoot::at(root.expect("a domain is an entry of a state root"))
    }
}
