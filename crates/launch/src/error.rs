//! Why a command was not run in a domain, or not to its end.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use surmise_kept::StateError;
use surmise_linux::abilities::Abilities;
use surmise_linux::id_map::IdMapError;
use surmise_stdio::{KeepError, StreamError};
use surmise_sys::behaviours::Deviation;

use crate::message::Failure;

/// Why a command was not run in a domain, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The caller is in a domain itself.
    #[error("already inside a domain{}", with_name(domain))]
    Nested {
        /// Its name; empty if unknown.
        domain: String,
    },
    /// The command is an empty list.
    #[error("no command to run")]
    NoCommand,
    /// Fewer files may be open at a time than a domain needs.
    #[error("{limit} files may be open at a time; a domain needs {wanted}")]
    FewDescriptors {
        /// The hard limit.
        limit: u64,
        /// The least that does.
        wanted: u64,
    },
    /// A standard stream cannot be given to the command.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// A descriptor cannot be kept open for the command.
    #[error(transparent)]
    Descriptor(#[from] KeepError),
    /// The domain's state.
    #[error(transparent)]
    State(#[from] StateError),
    /// The numbers for the user namespace.
    #[error(transparent)]
    IdMap(#[from] IdMapError),
    /// The starting directory cannot be entered inside the domain.
    #[error("{}: {source}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// There is no such program.
    #[error("{}: command not found", command.display())]
    NotFound {
        /// The program.
        command: OsString,
    },
    /// There is such a file, but it cannot be run.
    #[error("{}: {source}", command.display())]
    NotExecutable {
        /// The program.
        command: OsString,
        /// Why not.
        source: io::Error,
    },
    /// Tasks are to speculate, and the kernel does not do what that relies on.
    #[error("speculation relies on what does not hold here, `{behaviour}`: {seen}")]
    Speculation {
        /// What it should do.
        behaviour: &'static str,
        /// What it does.
        seen: Deviation,
    },
    /// A step of the domain's start or end failed.
    #[error("{what}: {source}")]
    Step {
        /// Which step.
        what: String,
        /// Why.
        source: StepError,
        /// Whether the command had started by then.
        started: bool,
        /// What a person can do about it, where that is known.
        hint: Option<String>,
    },
    /// Surmise has done something that it must not do. What the command did is kept.
    #[error("{what}")]
    Bug {
        /// What it did, and what to report.
        what: String,
        /// The name under which the domain is kept, if it is.
        kept: Option<String>,
    },
    /// Nothing in the domain can go on before a decision, and nobody is there to be asked. It runs on.
    #[error("everything in domain `{name}` waits for replies to held output")]
    Stalled {
        /// The domain's name.
        name: String,
    },
    /// Another command aborted the domain.
    #[error("the domain was aborted from elsewhere")]
    Aborted,
    /// A process of the domain was killed while the command ran.
    #[error("{role} of the domain was killed")]
    Killed {
        /// Which one.
        role: &'static str,
        /// The name under which the domain is kept, if it is.
        kept: Option<String>,
    },
}

/// Why a step of a domain's start or end failed.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The system has refused something.
    #[error(transparent)]
    System(#[from] io::Error),
    /// A process of the domain has told this.
    #[error("{0}")]
    Told(String),
}

/// Under external synchrony, when the command did not come to its end.
const SHOWN_IS_DURABLE: &str = "whatever was shown is durable, and nothing was shown of what came after it; \
                                the command was ended";

fn kept_as(name: &str) -> String {
    format!(
        "what was done until then is kept: `surmise diff {name}` shows it, `surmise commit {name}` makes it \
         real, `surmise abort {name}` throws it away"
    )
}

fn too_many_files(error: &io::Error) -> Option<String> {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::MFILE) => {
            Some("raise the hard limit of open files (`ulimit -Hn` shows it)".into())
        }
        Some(Errno::NFILE) => {
            Some("the machine has all files open that it may: sysctl fs.file-max".into())
        }
        _ => None,
    }
}

fn no_space(error: &io::Error, state: &Path) -> Option<String> {
    let is_full = error.kind() == io::ErrorKind::StorageFull;
    is_full.then(|| {
        format!(
            "check the space left, and the inodes, at {}",
            state.display()
        )
    })
}

fn with_name(domain: &str) -> String {
    if domain.is_empty() {
        String::new()
    } else {
        format!(" (`{domain}`)")
    }
}

impl LaunchError {
    /// The status for the `surmise` command to exit with: a shell's, or 125 for a failure of ours.
    pub fn code(&self) -> u8 {
        match self {
            Self::NotFound { .. } => 127,
            Self::NotExecutable { .. } => 126,
            _ => 125,
        }
    }

    /// What a person can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Nested { .. } => {
                Some("run the command itself: what it does is undone with this domain".into())
            }
            Self::NoCommand => Some("surmise run -- COMMAND".into()),
            Self::FewDescriptors { .. } => Some(
                "raise the hard limit where this shell got it (`ulimit -Hn` shows it; limits.conf(5), \
                 LimitNOFILE= of systemd, docker --ulimit nofile=1024); root can: `ulimit -n 1024`"
                    .into(),
            ),
            Self::Stream(_) => Some("redirect it to a file, a pipe or /dev/null".into()),
            Self::Descriptor(_) => Some(
                "what can be kept: pipes, sockets and the like, and files open for reading".into(),
            ),
            Self::State(error) => Some(error.hint()),
            Self::IdMap(error) => Some(error.hint().into()),
            Self::Step { hint, .. } => hint.clone(),
            Self::Speculation { .. } => {
                Some("`surmise doctor` tells all of it; without speculation commands run".into())
            }
            Self::Stalled { name } => Some(format!(
                "the domain runs on: `surmise diff {name}` shows what it did, `surmise commit {name}` \
                 makes that real, sends what is held and lets it go on, `surmise abort {name}` ends it"
            )),
            Self::Aborted => Some("what it did since its last commit is thrown away".into()),
            Self::Killed { kept, .. } | Self::Bug { kept, .. } => Some(
                kept.as_deref()
                    .map_or_else(|| SHOWN_IS_DURABLE.into(), kept_as),
            ),
            Self::Directory { .. } | Self::NotFound { .. } | Self::NotExecutable { .. } => None,
        }
    }

    /// The domain that is left, to go on with, where its name is known.
    pub fn domain(&self) -> Option<&str> {
        match self {
            Self::Stalled { name } => Some(name),
            Self::Killed { kept, .. } | Self::Bug { kept, .. } => kept.as_deref(),
            _ => None,
        }
    }

    /// Whether the domain may hold anything that the command did.
    pub(crate) fn command_started(&self) -> bool {
        matches!(
            self,
            Self::Killed { .. }
                | Self::Bug { .. }
                | Self::Stalled { .. }
                | Self::Aborted
                | Self::Step { started: true, .. }
        )
    }

    /// For `map_err`: the step `what` of the start failed.
    pub(crate) fn step<E: Into<io::Error>>(what: &str) -> impl FnOnce(E) -> Self {
        move |source| Self::Step {
            what: what.into(),
            source: StepError::System(source.into()),
            started: false,
            hint: None,
        }
    }

    /// As [`step`](Self::step), when the command may have started: then the domain is kept.
    pub(crate) fn late_step<E: Into<io::Error>>(what: &str) -> impl FnOnce(E) -> Self {
        move |source| Self::Step {
            what: what.into(),
            source: StepError::System(source.into()),
            started: true,
            hint: None,
        }
    }

    /// The same of a command whose domain is kept under this name, or that had none.
    pub(crate) fn of_domain(self, name: Option<&str>) -> Self {
        match self {
            Self::Killed { role, .. } => Self::Killed {
                role,
                kept: name.map(Into::into),
            },
            Self::Bug { what, .. } => Self::Bug {
                what,
                kept: name.map(Into::into),
            },
            Self::Step {
                what,
                source,
                started: true,
                hint: None,
            } => Self::Step {
                what,
                source,
                started: true,
                hint: Some(name.map_or_else(|| SHOWN_IS_DURABLE.into(), kept_as)),
            },
            other => other,
        }
    }

    /// For the end of a domain: one of its processes was killed.
    pub(crate) fn killed(role: &'static str) -> Self {
        Self::Killed { role, kept: None }
    }

    /// What another role reported. `started`: whether that was after the command's start.
    pub(crate) fn reported(
        failure: Failure,
        command: &OsString,
        directory: &Path,
        started: bool,
    ) -> Self {
        match failure {
            Failure::Command { errno } => {
                let source = io::Error::from_raw_os_error(errno);
                let command = command.clone();
                if source.kind() == io::ErrorKind::NotFound {
                    Self::NotFound { command }
                } else {
                    Self::NotExecutable { command, source }
                }
            }
            Failure::Directory { errno } => Self::Directory {
                path: directory.into(),
                source: io::Error::from_raw_os_error(errno),
            },
            Failure::Step { what, errno, text } => Self::Step {
                what,
                source: match errno {
                    Some(errno) => StepError::System(io::Error::from_raw_os_error(errno)),
                    None => StepError::Told(text),
                },
                started,
                hint: None,
            },
        }
    }

    /// The same, with what this machine or user lacks where that explains it. Looking for it takes
    /// a while, so only failed launches do.
    pub(crate) fn explained(self, state: &Path) -> Self {
        match self {
            Self::Step {
                what,
                source,
                started: false,
                hint: None,
            } => {
                let system = match &source {
                    StepError::System(error) => Some(error),
                    StepError::Told(_) => None,
                };
                // Whatever is tried without descriptors fails, too, and explains nothing.
                let hint = system.and_then(too_many_files).or_else(|| {
                    let abilities = Abilities::probe(state);
                    let missing = abilities.missing().map(|ability| {
                        format!("{}: {}; {}", ability.name, ability.value, ability.hint)
                    });
                    missing.or_else(|| no_space(system?, state))
                });
                Self::Step {
                    what,
                    source,
                    started: false,
                    hint,
                }
            }
            other => other,
        }
    }
}
