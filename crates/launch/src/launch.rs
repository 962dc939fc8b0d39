//! Running a command in a domain, from the caller's side.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use surmise_kept::{
    Boundary, Domain, Exit, Lock, Native, Record, StateError, StateRoot, clear_exit, write_exit,
};
use surmise_linux::limits;
use surmise_refusals::Refusals;
use surmise_stdio::{KeptDescriptors, Streams};
use surmise_supervisor::{Guessing, Stats};
use surmise_sys::behaviours;

use crate::command;
use crate::error::LaunchError;
use crate::message::Messages;
use crate::native::Trees;
use crate::nested;
use crate::person::Person;
use crate::roles::control::{self, Finished, Job};
use crate::signals::Signals;

/// How long the kernel may take to show that it behaves as speculation needs it. A busy machine is no other
/// kernel.
const KERNEL_PATIENCE: Duration = Duration::from_secs(30);

/// Open files that each process of a domain may need. What a program opens inside is open in the view, too.
const DESCRIPTORS_MIN: u64 = 64;

/// What to run in a domain.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// The name of a new domain; the command's with a number if there is none.
    pub name: Option<String>,
    /// Program and arguments; the program is looked up in `PATH`, inside the domain.
    pub command: Vec<OsString>,
    /// Where to start it.
    pub directory: PathBuf,
    /// What of the environment differs from the caller's: variables with their values, or without one where
    /// they are not to be there.
    pub environment: Vec<(OsString, Option<OsString>)>,
    /// What crosses the boundary.
    pub boundary: Boundary,
    /// Whether to wait for processes that outlive the command, rather than end them.
    pub wait: bool,
    /// Where guesses come from that tasks are given, if they are given any.
    pub guessing: Vec<Guessing>,
    /// A directory whose changes are made at once.
    pub through: Option<Through>,
    /// Which directories of programs and libraries are those outside, read-only, so that what is read there takes no message.
    /// What was read there is not known then. None are where there are guesses or syncs are put off; and a kept domain is
    /// as it was made.
    pub native: Native,
    /// Whether calls are heard to find out what is refused. Where they are, no task can have a listener of
    /// its own (`SECCOMP_FILTER_FLAG_NEW_LISTENER`).
    pub tells_refusals: bool,
}

impl Launch {
    /// How syncs are put off in the directory that is the real one.
    fn synchrony(&self) -> Option<&surmise_sync::Options> {
        self.through.as_ref()?.synchrony.as_ref()
    }

    /// Whether nobody has to know of what is read.
    fn may_be_native(&self) -> bool {
        self.guessing.is_empty() && self.synchrony().is_none()
    }
}

/// A directory of a domain's that is the real one: what is changed below it is changed, and is not undone.
#[derive(Clone, Debug)]
pub struct Through {
    /// The directory.
    pub directory: PathBuf,
    /// How syncs are put off there, if its file system commits in order. Their [scope](surmise_sync::Scope::View) is a view's.
    pub synchrony: Option<surmise_sync::Options>,
}

/// A command that has ended in a domain.
#[derive(Debug)]
pub struct Outcome {
    /// The domain, neither committed nor aborted.
    pub domain: Domain,
    /// How the command ended.
    pub exit: Exit,
    /// Processes that outlived the command and were ended.
    pub lingering: Vec<Lingering>,
    /// Streams of the caller that took no more of what the command put out, for another reason than that
    /// nobody reads them any more. The command met a closed pipe.
    pub lost: Vec<LostStream>,
    /// What the boundary refused: all, where the launch asked for that, else what the relay heard of.
    pub refusals: Refusals,
    /// What a supervisor of calls did, where the launch needed one.
    pub supervision: Option<Stats>,
    /// What the kernel sent to the view, where there was one.
    pub messages: Messages,
    /// What was done for external synchrony, where the launch asked for it.
    pub synchrony: Option<surmise_sync::Stats>,
    /// Why it is not written down how the command ended, if it is not: [`Domain::status`] says
    /// [`Status::Interrupted`](surmise_kept::Status::Interrupted) then. All else is kept.
    pub unrecorded: Option<StateError>,
}

impl Finished {
    /// A full disk must not take the command's status from its caller.
    fn outcome(self, domain: Domain) -> Outcome {
        let recorded = write_exit(domain.directory(), self.ended.exit);
        Outcome {
            domain,
            exit: self.ended.exit,
            lingering: self.ended.lingering,
            lost: self.lost,
            refusals: self.refusals,
            supervision: self.supervision,
            messages: self.messages,
            synchrony: self.synchrony,
            unrecorded: recorded.err(),
        }
    }
}

/// A standard stream that could not be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostStream {
    /// Its name: `standard output` or `standard error`.
    pub stream: String,
    /// The number of the system's error.
    pub errno: i32,
}

/// A process that outlived its domain's command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lingering {
    /// Its number inside the domain.
    pub pid: i32,
    /// Its name, as `ps` shows it.
    pub name: String,
}

/// Runs a command in a new domain, and returns when the domain's processes have ended and all that they
/// put out has been passed on.
///
/// The calling process must have one thread. While the command runs it forwards `INT`, `QUIT`, `TERM`
/// and `HUP`; where it has a terminal, it stops and goes on with the command. `person` is told and
/// asked what only a person can know. The calling process' limit of open files is raised as far as it goes,
/// and stays so; the command gets the one of before.
///
/// # Errors
/// When the command was not started, in which case no domain is left; when a role of the domain was
/// killed while it ran, in which case the domain is kept; when the domain was aborted from elsewhere,
/// in which case none is left; and when nothing in it could go on without a person and nobody was
/// there, in which case it runs on ([`LaunchError::Stalled`]).
pub fn run(root: &StateRoot, launch: Launch, person: &dyn Person) -> Result<Outcome, LaunchError> {
    let ready = Ready::check(&launch)?;
    let signals = Signals::take_over().map_err(LaunchError::step("take over signals"))?;
    let program = &launch.command[0];
    let (name, state, lock) = root.create(launch.name.as_deref(), program)?;
    let native = match launch.may_be_native() {
        true => Trees::of_caller(launch.native),
        false => Trees::default(),
    };
    let record = Record {
        native: native.paths().to_vec(),
        native_kind: launch.native,
        ..Record::new(&name, &launch.command, &launch.directory, &launch.boundary)
    };
    let found = command::find(&launch);
    let job = Job {
        name: &name,
        root: root.path(),
        state: &state,
        launch: &launch,
        has_real_files: false,
        synchrony: launch.synchrony(),
        native,
        found: found.as_deref(),
        kept: &ready.kept,
        signals: &signals,
        person,
        lock: &lock,
    };
    // The record goes to disk while the other roles start.
    match control::supervise(&job, ready.streams, || record.write(&state)) {
        Ok(finished) => {
            let outcome = finished.outcome(Domain::new(state, record));
            drop(lock);
            Ok(outcome)
        }
        Err(error) => {
            if !error.command_started() {
                // The first error is the one to tell; what is left can be aborted by name.
                let _ = root.remove(&name);
            }
            Err(error.of_domain(Some(&name)))
        }
    }
}

/// A command that has ended under external synchrony.
#[derive(Debug)]
pub struct Synced {
    /// How the command ended.
    pub exit: Exit,
    /// Processes that outlived the command and were ended.
    pub lingering: Vec<Lingering>,
    /// As in [`Outcome`].
    pub lost: Vec<LostStream>,
    /// As in [`Outcome`].
    pub refusals: Refusals,
    /// What was done for it.
    pub stats: surmise_sync::Stats,
    /// What waited for it, among others.
    pub supervision: Stats,
}

/// Runs a command on the real files under external synchrony: its syncs return at once, and what it puts out
/// is passed on when all is durable that was promised to it before. Returns when all is durable, the
/// domain's processes have ended and all that they put out has been passed on. The name in `launch` is not
/// used, and nothing is kept. Otherwise as [`run`].
///
/// # Errors
/// As [`run`], and when a commit failed. Then nothing was shown of what was done after the last one that did
/// not.
pub fn sync(
    launch: &Launch,
    options: &surmise_sync::Options,
    person: &dyn Person,
) -> Result<Synced, LaunchError> {
    let ready = Ready::check(launch)?;
    let signals = Signals::take_over().map_err(LaunchError::step("take over signals"))?;
    let scratch = tempfile::Builder::new().prefix("surmise-").tempdir();
    let scratch = scratch.map_err(LaunchError::step("make a directory"))?;
    let (name, state) = ("sync", scratch.path());
    let lock = Lock::take(state, name)?;
    let found = command::find(launch);
    let job = Job {
        name,
        root: state,
        state,
        launch,
        has_real_files: true,
        synchrony: Some(options),
        native: Trees::default(),
        found: found.as_deref(),
        kept: &ready.kept,
        signals: &signals,
        person,
        lock: &lock,
    };
    let finished = control::supervise(&job, ready.streams, || Ok(()));
    let finished = finished.map_err(|error| error.of_domain(None))?;
    Ok(Synced {
        exit: finished.ended.exit,
        lingering: finished.ended.lingering,
        lost: finished.lost,
        refusals: finished.refusals,
        stats: finished.synchrony.unwrap_or_default(),
        supervision: finished.supervision.unwrap_or_default(),
    })
}

/// Runs another command inside `domain`, which sees all that was done before. Otherwise as [`run`]; the name in
/// `launch` is not used.
///
/// # Errors
/// As [`run`], and when the domain is in use, damaged, or its commit unfinished. The domain is kept in any case.
pub fn shell(
    domain: &Domain,
    launch: &Launch,
    person: &dyn Person,
) -> Result<Outcome, LaunchError> {
    let ready = Ready::check(launch)?;
    let signals = Signals::take_over().map_err(LaunchError::step("take over signals"))?;
    let lock = domain.lock()?;
    domain.open_up(&lock)?;
    let root = domain.root();
    let job = Job {
        name: domain.name(),
        root: root.path(),
        state: domain.directory(),
        launch,
        has_real_files: false,
        synchrony: None,
        native: match launch.may_be_native() {
            true => Trees::of_kept(domain.record()),
            false => Trees::default(),
        },
        // The domain's changes may have put another program first.
        found: None,
        kept: &ready.kept,
        signals: &signals,
        person,
        lock: &lock,
    };
    let begin = || clear_exit(domain.directory());
    let finished = control::supervise(&job, ready.streams, begin).map_err(|error| {
        if !error.command_started() {
            domain.close_again(&lock);
        }
        error.of_domain(Some(domain.name()))
    })?;
    Ok(finished.outcome(domain.clone()))
}

/// Whether the caller may start a domain: who is in one may not.
///
/// # Errors
/// [`LaunchError::Nested`].
pub fn check_outside() -> Result<(), LaunchError> {
    match nested::domain()? {
        Some(domain) => Err(LaunchError::Nested { domain }),
        None => Ok(()),
    }
}

/// What was looked at before anything is made.
struct Ready {
    streams: Streams,
    kept: KeptDescriptors,
}

impl Ready {
    /// Refuses what can be refused. On a kernel that behaves otherwise tasks would be rolled back to what
    /// they never were.
    fn check(launch: &Launch) -> Result<Self, LaunchError> {
        check_outside()?;
        if launch.command.is_empty() {
            return Err(LaunchError::NoCommand);
        }
        let limit = limits::raise_descriptors();
        if limit < DESCRIPTORS_MIN {
            let wanted = DESCRIPTORS_MIN;
            return Err(LaunchError::FewDescriptors { limit, wanted });
        }
        if !launch.guessing.is_empty()
            && let Some((behaviour, seen)) = behaviours::missing(KERNEL_PATIENCE)
        {
            let behaviour = behaviour.name;
            return Err(LaunchError::Speculation { behaviour, seen });
        }
        Ok(Self {
            kept: KeptDescriptors::look_up(&launch.boundary.keep_descriptors)?,
            streams: Streams::of_caller()?,
        })
    }
}
