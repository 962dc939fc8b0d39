//! `surmise umount`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use rustix::io::Errno;
use surmise_mount::device::{self, MountError};
use surmise_mount::status::{self, Described, Ended, GivenUp, Kept, Status, Waiting};

use crate::failure::Failure;
use crate::report;
use crate::size;
use crate::summary::count;

/// Unmount a directory of another machine
///
/// Returns when all changes are in the directory at the server. Where the server cannot be reached, that may take long; the
/// command can be ended meanwhile, and the changes go on to wait in the background.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Do not wait for the server: keep the changes that it has not taken in a file, for `surmise mounts --replay`
    ///
    /// The file is on disk before the mount ends; if it cannot be written, the mount goes on. Calls that wait for the server fail with
    /// EIO. It also ends a mount that is unmounted and waits for its server in the background. The server may have taken some of the
    /// changes in the file already: a replay on a mount of the same directory leaves those out.
    #[arg(long)]
    give_up: bool,

    /// Where it is mounted
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

const AFTER_HELP: &str = "\
Examples:
  surmise umount ~/src
  surmise umount --give-up ~/src     when the server does not come back

Exit status:
  0  unmounted, and everything is in the directory at the server; with --give-up: or in the file that is named
  1  still mounted, or changes were lost, or what became of them is not known";

/// When a person begins to wonder.
const LOOKS_EVERY: Duration = Duration::from_secs(2);

impl Arguments {
    /// Unmounts, and waits for the process that served the mount.
    pub fn execute(self) -> Result<ExitCode, Failure> {
        let place = self.directory.display();
        let mount_point = absolute(&self.directory)?;
        let failed = |error: io::Error| Failure::new(format_args!("read the mounts: {error}"));
        let is_mounted = device::source_of(&mount_point)
            .map_err(Failure::new)?
            .is_some();
        let directory = status::directory();
        let all = status::all(&directory).map_err(failed)?;
        // The last one, if one is mounted on another. An earlier mount of the place may still be sending changes.
        let is_it = |one: &Described| {
            one.mount_point == mount_point
                && (!one.status.is_ending || self.ends_ending(is_mounted))
        };
        let process = all.into_iter().rfind(is_it);
        if !is_mounted && (!self.give_up || process.is_none()) {
            return Err(Failure::new(format_args!("{place} is no mount of surmise"))
                .hint("`surmise mounts` lists them"));
        }
        let ending = process.map(|process| {
            let waiting = Waiting::begin(&directory, process.process);
            waiting.map(|waiting| (process, waiting))
        });
        let ending = match ending.transpose().map_err(failed)? {
            Some((process, waiting)) if self.give_up => {
                return give_up(&directory, &process, waiting);
            }
            ending => ending,
        };
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

    /// Whether a mount is meant that is unmounted already, and waits for its server.
    fn ends_ending(&self, is_mounted: bool) -> bool {
        self.give_up && !is_mounted
    }
}

/// Has a process end without the server.
fn give_up(
    directory: &Path,
    process: &Described,
    mut waiting: Waiting,
) -> Result<ExitCode, Failure> {
    let source = &process.source;
    let place = process.mount_point.display();
    let (kept, unanswered) = match status::give_up(directory, process.process) {
        Ok(GivenUp::Ends(kept)) => (kept, None),
        // The process may have ended just now, and then has told what became of the changes.
        Err(error) => (None, Some(error)),
        Ok(GivenUp::GoesOn(why)) => {
            return Err(Failure::new(format_args!(
                "{place} is still mounted: the changes can't be kept in a file: {why}"
            ))
            .hint("with XDG_STATE_HOME another directory is used, which has to be set for `surmise mount`"));
        }
    };
    if let Some(kept) = &kept {
        tell_kept(source, kept);
    }
    let ended = loop {
        let ended = waiting.wait(LOOKS_EVERY);
        if let Some(ended) = ended.map_err(|error| unknown(source, &error))? {
            break ended;
        }
        if let Some(error) = unanswered {
            return Err(Failure::new(format_args!(
                "the process that serves {place} goes on, and does not answer: {error}"
            ))
            .hint("one of an earlier version of surmise cannot give a mount up"));
        }
    };
    let is_other = |line: &String| kept.as_ref().is_none_or(|kept| kept.line != *line);
    let lost: Vec<_> = ended.lost.into_iter().filter(is_other).collect();
    match lost.is_empty() {
        true => Ok(ExitCode::SUCCESS),
        false => Err(lost_changes(source, lost)),
    }
}

fn tell_kept(source: &str, kept: &Kept) {
    let file = kept.file.display();
    report::note(format_args!(
        "{} that {source} has not confirmed {} in {file}; when it is mounted again: surmise mounts --replay {file}",
        count(kept.changes, "change"),
        if kept.changes == 1 { "is" } else { "are" },
    ));
}

fn unknown(source: &str, error: &io::Error) -> Failure {
    Failure::new(format_args!(
        "whether all changes are on {source} is not known: {error}"
    ))
    .hint("the process that served the mount was killed")
}

fn lost_changes(source: &str, lost: Vec<String>) -> Failure {
    Failure::new(format_args!("changes or locks were lost on {source}")).details(lost)
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
        let ended = waiting.wait(LOOKS_EVERY);
        if let Some(Ended { lost }) = ended.map_err(|error| unknown(&process.source, &error))? {
            return match lost.is_empty() {
                true => Ok(ExitCode::SUCCESS),
                false => Err(lost_changes(&process.source, lost)),
            };
        }
        looks += 1;
        let all = status::all(directory).unwrap_or_default();
        let now = all.into_iter().find(|one| one.process == process.process);
        let Some(now) = now.map(|now| now.status) else {
            continue;
        };
        if now.is_connected && now.undecided_groups == 0 && !now.is_ending {
            if !now.lost.is_empty() {
                return Err(lost_changes(&process.source, now.lost));
            }
            writeln!(
                io::stderr(),
                "surmise: {} is still mounted in another mount namespace; all changes are on the server's disk",
                process.source
            )?;
            return Ok(ExitCode::SUCCESS);
        }
        if looks == 1 {
            tell_waiting(process, &now)?;
        }
    }
}

fn tell_waiting(process: &Described, now: &Status) -> io::Result<()> {
    let source = &process.source;
    let bytes = size::shown(now.undecided_bytes as u64);
    let place = process.mount_point.display();
    match (now.is_connected, now.undecided_groups) {
        (true, 0) => writeln!(
            io::stderr(),
            "surmise: all changes are on the disk of {source}; the process that served it has not ended yet"
        ),
        (true, _) => writeln!(
            io::stderr(),
            "surmise: {bytes} of changes wait for {source}"
        ),
        (false, _) => writeln!(
            io::stderr(),
            "surmise: {bytes} of changes wait for {source}, which is not reached; `surmise umount --give-up {place}` keeps them in a file instead"
        ),
    }
}
