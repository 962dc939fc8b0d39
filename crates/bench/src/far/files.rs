//! The file systems that are compared: how each is mounted and unmounted.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::mount::UnmountFlags;
use surmise_testkit::is_installed;

use super::host::Host;
use super::line::Line;
use super::timed;
use crate::place::{Place, about};

/// Where a directory of the far host comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `surmise mount`.
    Ours,
    /// sshfs, with caches as by default.
    Sshfs,
    /// The directory itself, without a network.
    Local,
}

/// Every one, in the order of the table.
pub const ALL: [Kind; 3] = [Kind::Ours, Kind::Sshfs, Kind::Local];

/// How long a mount may take, and an unmount.
const LIMIT: Duration = Duration::from_secs(120);

/// How long something that was killed may still use a mount.
const BUSY_MAX: Duration = Duration::from_secs(10);

/// What ext4 calls itself in statfs(2).
const EXT4: i64 = 0xef53;

/// What is needed to mount a directory.
pub struct Mounter<'a> {
    place: &'a Place,
    line: &'a Line,
    host: &'a Host,
}

/// A mounted directory; unmounted when it is dropped.
pub struct Mounted<'a> {
    mounter: &'a Mounter<'a>,
    kind: Kind,
    /// Taken when it is unmounted.
    at: Option<PathBuf>,
}

impl Kind {
    /// As in the results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ours => "surmise",
            Self::Sshfs => "sshfs",
            Self::Local => "local",
        }
    }

    /// Why it cannot be had.
    pub fn missing(self, place: &Place) -> Option<String> {
        match self {
            Self::Ours => {
                let help = Command::new(place.surmise())
                    .args(["mount", "--help"])
                    .stdin(Stdio::null())
                    .output();
                match help {
                    Ok(output) if output.status.success() => None,
                    _ => Some("this `surmise` has no command `mount`".to_owned()),
                }
            }
            Self::Sshfs if is_installed("sshfs") => None,
            Self::Sshfs => Some("there is no program sshfs here".to_owned()),
            Self::Local => None,
        }
    }

    /// Whether what was written is durable at the server once it is unmounted.
    pub fn is_durable_unmounted(self) -> bool {
        self == Self::Ours
    }
}

impl<'a> Mounter<'a> {
    /// For directories of that host, which is at the end of that line.
    pub fn new(place: &'a Place, line: &'a Line, host: &'a Host) -> Self {
        Self { place, line, host }
    }

    /// Mounts `export` at `at`, which is made if it is not there.
    pub fn mount(&'a self, kind: Kind, export: &Path, at: &Path) -> Result<Mounted<'a>, String> {
        let configuration = self.host.client_configuration();
        let from = self.host.name_of(export);
        let line: Vec<OsString> = match kind {
            Kind::Ours => {
                let mut ssh = OsString::from("ssh -F ");
                ssh.push(&configuration);
                let words: [&std::ffi::OsStr; 5] = [
                    self.place.surmise().as_os_str(),
                    "mount".as_ref(),
                    "--ssh".as_ref(),
                    &ssh,
                    "--server-command".as_ref(),
                ];
                let mut line: Vec<OsString> = words.map(OsString::from).to_vec();
                line.extend([self.place.surmise().into(), from, at.into()]);
                line
            }
            Kind::Sshfs => vec![
                "sshfs".into(),
                "-F".into(),
                configuration.into(),
                from,
                at.into(),
            ],
            Kind::Local => {
                return Ok(Mounted {
                    mounter: self,
                    kind,
                    at: Some(export.to_owned()),
                });
            }
        };
        fs::create_dir_all(at).map_err(|error| about("create", at, &error))?;
        self.run(&line)?;
        Ok(Mounted {
            mounter: self,
            kind,
            at: Some(at.to_owned()),
        })
    }

    /// Runs a command near the client, and returns how many milliseconds it took.
    pub fn run(&self, line: &[OsString]) -> Result<f64, String> {
        let directory = self.place.bench();
        let ended = self
            .line
            .near
            .enter(|| timed::run(line, self.place, directory, LIMIT))?;
        ended.ok_or_else(|| format!("{}: no end within {LIMIT:?}", line[0].display()))
    }
}

impl Mounted<'_> {
    /// Where it is.
    pub fn path(&self) -> &Path {
        self.at.as_deref().expect("it is mounted")
    }

    /// Unmounts it. What is on its way to the server has arrived there when this returns.
    pub fn unmount(mut self) -> Result<(), String> {
        let at = self.at.take().expect("it is mounted");
        let unmounted = self.unmount_from(&at);
        if unmounted.is_err() {
            self.detach(&at);
        }
        unmounted
    }

    fn unmount_from(&self, at: &Path) -> Result<(), String> {
        let surmise = self.mounter.place.surmise();
        let line = match self.kind {
            Kind::Ours => [surmise.as_os_str(), "umount".as_ref(), at.as_os_str()],
            Kind::Sshfs => ["fusermount3".as_ref(), "-u".as_ref(), at.as_os_str()],
            Kind::Local => return Ok(()),
        };
        let line = line.map(OsString::from);
        let end = Instant::now() + BUSY_MAX;
        loop {
            match self.mounter.run(&line) {
                Err(error) if error.contains("busy") && Instant::now() < end => {
                    thread::sleep(Duration::from_millis(100));
                }
                ended => return ended.map(drop),
            }
        }
    }

    fn detach(&self, at: &Path) {
        if self.kind != Kind::Local {
            // It fails if nothing is mounted there any more.
            let _ = rustix::mount::unmount(at, UnmountFlags::DETACH);
        }
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        if let Some(at) = self.at.take() {
            self.detach(&at);
        }
    }
}

/// Has all that was written below a directory's file system on its disk.
pub fn flush(directory: &Path) -> Result<(), String> {
    let opened = File::open(directory).map_err(|error| about("open", directory, &error))?;
    rustix::fs::syncfs(&opened).map_err(|errno| about("flush", directory, &errno))
}

/// The name of the file system that `local` is.
pub fn name_of_local(directory: &Path) -> &'static str {
    match rustix::fs::statfs(directory) {
        Ok(found) if found.f_type == EXT4 => "ext4",
        _ => "no ext4",
    }
}
