//! Running a command in a domain, from the caller's side.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use serde::{Deserialize, Serialize};

use crate::command;
use crate::domain::Domain;
use crate::error::LaunchError;
use crate::exit::Exit;
use crate::nested;
use crate::record::{self, Record};
use crate::roles::control::{self, Job};
use crate::signals::Signals;
use crate::state::StateRoot;

/// What a domain may do on the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetPolicy {
    /// An empty network of its own, with a loopback interface.
    #[default]
    Deny,
    /// The host's network. What is sent there cannot be undone.
    Allow,
}

/// What to run in a new domain. The environment is the caller's.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The domain's name; the command's with a number if there is none.
    pub name: Option<String>,
    /// Program and arguments; the program is looked up in `PATH`, inside the domain.
    pub command: Vec<OsString>,
    /// Where to start it.
    pub directory: PathBuf,
    /// What it may do on the network.
    pub net: NetPolicy,
    /// Whether to wait for processes that outlive the command, rather than end them.
    pub wait: bool,
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
}

/// A process that outlived its domain's command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lingering {
    /// Its number inside the domain.
    pub pid: i32,
    /// Its name, as `ps` shows it.
    pub name: String,
}

/// Runs a command in a new domain, and returns when the domain's processes have ended.
///
/// The calling process must have one thread. While the command runs it ignores `INT` and `QUIT`,
/// as a shell does, and forwards `TERM` and `HUP`.
///
/// # Errors
/// When the command was not started, in which case no domain is left; or when a role of the
/// domain was killed while it ran, in which case the domain is kept.
pub fn run(root: &StateRoot, launch: Launch) -> Result<Outcome, LaunchError> {
    let program = check(&launch.command)?;
    let signals = Signals::take_over().map_err(LaunchError::step("take over signals"))?;
    let (name, state, lock) = root.create(launch.name.as_deref(), program)?;
    let record = Record::new(&name, &launch.command, &launch.directory, launch.net);
    let found = command::find(program);
    let job = Job {
        name: &name,
        root: root.path(),
        state: &state,
        command: &launch.command,
        found: found.as_deref(),
        directory: &launch.directory,
        net: launch.net,
        wait: launch.wait,
        signals: &signals,
    };
    // The record goes to disk while the other roles start.
    match control::supervise(&job, || record.write(&state)) {
        Ok(ended) => {
            record::write_exit(&state, ended.exit)?;
            drop(lock);
            Ok(Outcome {
                domain: Domain::new(state, record),
                exit: ended.exit,
                lingering: ended.lingering,
            })
        }
        Err(error) => {
            if !error.command_started() {
                // The first error is the one to tell; what is left can be aborted by name.
                let _ = root.remove(&name);
            }
            Err(error)
        }
    }
}

impl Domain {
    /// Runs another command inside this domain, which sees all that was done before. Otherwise as
    /// [`run`].
    ///
    /// # Errors
    /// As [`run`], and when the domain is in use or its commit unfinished. The domain is kept in any case.
    pub fn shell(
        &self,
        command: &[OsString],
        directory: &Path,
        net: NetPolicy,
        wait: bool,
    ) -> Result<Outcome, LaunchError> {
        check(command)?;
        let signals = Signals::take_over().map_err(LaunchError::step("take over signals"))?;
        let _lock = self.lock()?;
        self.check_not_committing()?;
        let root = self.root();
        let job = Job {
            name: self.name(),
            root: root.path(),
            state: self.directory(),
            command,
            // The domain's changes may have put another program first.
            found: None,
            directory,
            net,
            wait,
            signals: &signals,
        };
        let ended = control::supervise(&job, || record::clear_exit(self.directory()))?;
        record::write_exit(self.directory(), ended.exit)?;
        Ok(Outcome {
            domain: self.clone(),
            exit: ended.exit,
            lingering: ended.lingering,
        })
    }
}

/// What can be refused before anything is made.
fn check(command: &[OsString]) -> Result<&OsStr, LaunchError> {
    if let Some(domain) = nested::domain()? {
        return Err(LaunchError::Nested { domain });
    }
    check_streams().map_err(|(stream, source)| LaunchError::Stream { stream, source })?;
    let program = command.first().ok_or(LaunchError::NoCommand)?;
    Ok(program)
}

/// A directory that the command inherits would be a way around the view.
fn check_streams() -> Result<(), (&'static str, io::Error)> {
    use std::os::fd::AsFd;

    let (input, output, error) = (io::stdin(), io::stdout(), io::stderr());
    let streams: [(&str, BorrowedFd<'_>); 3] = [
        ("standard input", input.as_fd()),
        ("standard output", output.as_fd()),
        ("standard error", error.as_fd()),
    ];
    for (stream, fd) in streams {
        let stat = rustix::fs::fstat(fd).map_err(|errno| (stream, errno.into()))?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            return Err((stream, io::ErrorKind::IsADirectory.into()));
        }
    }
    Ok(())
}
