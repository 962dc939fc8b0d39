//! `surmise umount`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use rustix::io::Errno;
use surmise_mount::device::{self, MountError};
use surmise_mount::status::{self, Described, Ended, Waiting};

use crate::failure::Failure;
use crate::size;

/// Unmount a directory of another machine
///
/// Returns when all changes are in the directory at the server. Where the server cannot be reached, that may take long; the
/// command can be ended meanwhile, and the changes go on to wait in the background.
#[derive(clap::Args)]
pub struct Arguments {
    /// Where it is mounted
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// When a person begins to wonder.
const LOOKS_EVERY: Duration = Duration::from_secs(2);

impl Arguments {
    /// Unmounts, and waits for the process that served the mount.
    pub fn execute(self) -> Result<ExitCode, Failure> {
        let place = self.directory.display();
        let mount_point = absolute(&self.directory)?;
        let failed = |error: io::Error| Failure::new(format_args!("read the mounts: {error}"));
        if device::source_of(&mount_point)
            .map_err(Failure::new)?
            .is_none()
        {
            return Err(Failure::new(format_args!("{place} is no mount of surmise"))
                .hint("`surmise mounts` lists them"));
        }
        let directory = status::directory();
        let all = status::all(&directory).map_err(failed)?;
        // The last one, if one is mounted on another. An earlier mount of the place may still be sending changes.
        let is_it = |one: &Described| one.mount_point == mount_point && !one.status.is_ending;
        let process = all.into_iter().rfind(is_it);
        let ending = process.map(|process| {
            let waiting = Waiting::begin(&directory, process.process);
            waiting.map(|waiting| (process, waiting))
        });
        let ending = ending.transpose().map_err(failed)?;
        device::unmount(&mount_point).map_err(|error| match error {
            MountError::Io(_, why) if why.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {
                Failure::new(format_args!("{place} is in use"))
                    .hint(format_args!("`fuser -vm {place}` tells by which processes"))
            }
            other => Failure::new(format_args!("cannot unmount {place}: {other}")),
        })?;
        match ending {
            Some((process, waiting)) => wait_for(&directory, &process, waiting),
            None => Err(Failure::new(format_args!(
                "{place} is unmounted, and whether all changes are at the server is not known"
            ))
            .hint("the process that served it is another user's, or was killed")),
        }
    }
}

/// The path without links, but for a mount whose process has ended: of that nothing can be asked.
fn absolute(directory: &Path) -> Result<PathBuf, Failure> {
    let named = || {
        let parent = match directory.parent() {
            Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
            Some(parent) => parent,
            None => directory,
        };
        let parent = parent.canonicalize()?;
        Ok(match directory.file_name() {
            Some(name) => parent.join(name),
            None => parent,
        })
    };
    directory
        .canonicalize()
        .or_else(|_| named())
        .map_err(|error: io::Error| Failure::new(format_args!("{}: {error}", directory.display())))
}

/// Waits until a process has told the server everything.
fn wait_for(
    directory: &Path,
    process: &Described,
    mut waiting: Waiting,
) -> Result<ExitCode, Failure> {
    let mut looks = 0_u32;
    loop {
        let ended = waiting.wait(LOOKS_EVERY).map_err(|error| {
            Failure::new(format_args!(
                "whether all changes are on {} is not known: {error}",
                process.source
            ))
            .hint("the process that served the mount was killed")
        })?;
        if let Some(Ended { lost }) = ended {
            return match lost.is_empty() {
                true => Ok(ExitCode::SUCCESS),
                false => Err(Failure::new(format_args!(
                    "changes or locks were lost on {}",
                    process.source
                ))
                .details(lost)),
            };
        }
        looks += 1;
        let all = status::all(directory).unwrap_or_default();
        let now = all.into_iter().find(|one| one.process == process.process);
        let Some(now) = now.map(|now| now.status) else {
            continue;
        };
        if now.is_connected && now.undecided_groups == 0 && !now.is_ending {
            writeln!(
                io::stderr(),
                "surmise: {} is still mounted in another mount namespace; all changes are on the server's disk",
                process.source
            )?;
            return Ok(ExitCode::SUCCESS);
        }
        if looks == 1 {
            writeln!(
                io::stderr(),
                "surmise: {} of changes wait for {}{}",
                size::shown(now.undecided_bytes as u64),
                process.source,
                if now.is_connected {
                    ""
                } else {
                    ", which is not reached"
                },
            )?;
        }
    }
}
