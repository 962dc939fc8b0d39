//! Other programs that keep changes from the machine, for rows to be compared with besides.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::place::{Place, about, remove};

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Rival {
    /// The kernel's overlayfs in a mount namespace of its own: over the whole root, and for an
    /// ordinary user over the directory where the command starts.
    Overlayfs,
    /// binpash/try.
    Try,
    /// multikernel/sandlock, from crates.io.
    Sandlock,
}

/// Every one.
pub const ALL: &[Rival] = &[Rival::Overlayfs, Rival::Try, Rival::Sandlock];

/// A rival that can run, and in which directory it keeps changes.
enum Found {
    Overlayfs { ordinary: bool },
    Sandlock(PathBuf),
}

/// The rivals of a run: which of them can be had, and why the others cannot.
pub struct Rivals {
    found: Vec<(Rival, Result<Found, String>)>,
}

/// Mounts an overlay whose lower layer is `/`, with the devices and the processes of the machine, and
/// goes on in it as the command given behind its directory and where to start.
const OVERLAY: &str = r#"at=$1 start=$2; shift 2
mount -t overlay -o "lowerdir=/,upperdir=$at/upper,workdir=$at/work" overlay "$at/root" &&
mount --rbind /dev "$at/root/dev" && mount --rbind /proc "$at/root/proc" &&
exec chroot "$at/root" env --chdir "$start" "$@""#;

/// The same over the directory to start in alone: the kernel gives a user namespace no layer of a
/// directory with other file systems mounted below it.
const OVERLAY_OF_DIRECTORY: &str = r#"at=$1 start=$2; shift 2
mount -t overlay -o "lowerdir=$start,upperdir=$at/upper,workdir=$at/work,userxattr" overlay "$start" &&
exec env --chdir "$start" "$@""#;

impl Rival {
    /// As in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Overlayfs => "overlayfs",
            Self::Try => "try",
            Self::Sandlock => "sandlock",
        }
    }

    fn find(self, place: &Place) -> Result<Found, String> {
        match self {
            Self::Overlayfs => {
                let device = |path: &Path| fs::metadata(path).map(|found| found.dev());
                if device(Path::new("/")).ok() != device(place.bench()).ok() {
                    return Err("the target directory is not on the file system of /".to_owned());
                }
                let ordinary = !rustix::process::geteuid().is_root();
                Ok(Found::Overlayfs { ordinary })
            }
            // The name belongs to something else on npm and PyPI.
            Self::Try => Err("it is in no package registry".to_owned()),
            Self::Sandlock => {
                let program = place.peer("sandlock")?.join("bin/sandlock");
                Ok(Found::Sandlock(program))
            }
        }
    }
}

impl Rivals {
    /// Looks for all of them; installs what our own script can install.
    pub fn find(place: &Place) -> Self {
        let found = ALL.iter().map(|rival| (*rival, rival.find(place)));
        Self {
            found: found.collect(),
        }
    }

    /// None at all.
    pub fn none() -> Self {
        Self { found: Vec::new() }
    }

    /// Those that can run.
    pub fn runnable(&self) -> impl Iterator<Item = Rival> + '_ {
        let runs = |(rival, found): &(Rival, Result<_, _>)| found.is_ok().then_some(*rival);
        self.found.iter().filter_map(runs)
    }

    /// Those that cannot, and why.
    pub fn missing(&self) -> impl Iterator<Item = (Rival, &str)> + '_ {
        self.found
            .iter()
            .filter_map(|(rival, found)| Some((*rival, found.as_ref().err()?.as_str())))
    }

    /// The words that run `command` in `directory` under a rival, which starts without changes.
    pub fn around(
        &self,
        rival: Rival,
        place: &Place,
        directory: &Path,
        command: Vec<OsString>,
    ) -> Result<Vec<OsString>, String> {
        let found = self.found.iter().find(|(one, _)| *one == rival);
        let mut line = match found.map(|(_, found)| found) {
            Some(Ok(Found::Overlayfs { ordinary })) => overlay(*ordinary, place, directory)?,
            Some(Ok(Found::Sandlock(program))) => sandlock(program, directory),
            Some(Err(reason)) => return Err(reason.clone()),
            None => return Err(format!("{} was not looked for", rival.name())),
        };
        line.extend(command);
        Ok(line)
    }
}

fn overlay(ordinary: bool, place: &Place, directory: &Path) -> Result<Vec<OsString>, String> {
    let at = place.bench().join("overlay");
    let private = at.join("work/work");
    // The kernel leaves it closed to everybody, which keeps an ordinary user from removing it.
    if private.exists() {
        fs::set_permissions(&private, Permissions::from_mode(0o700))
            .map_err(|error| about("open", &private, &error))?;
    }
    remove(&at)?;
    for part in ["upper", "work", "root"] {
        let part = at.join(part);
        fs::create_dir_all(&part).map_err(|error| about("create", &part, &error))?;
    }
    let mut line: Vec<OsString> = vec!["unshare".into()];
    let script = if ordinary {
        line.push("--map-root-user".into());
        OVERLAY_OF_DIRECTORY
    } else {
        OVERLAY
    };
    line.extend(
        [
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            script,
            "sh",
        ]
        .map(Into::into),
    );
    line.extend([at.into(), directory.into()]);
    Ok(line)
}

/// It copies what is changed below the work directory, and throws the copies away.
fn sandlock(program: &Path, directory: &Path) -> Vec<OsString> {
    let mut line: Vec<OsString> = vec![program.into(), "run".into()];
    line.extend(["--on-exit", "abort", "--on-error", "abort", "-r", "/"].map(Into::into));
    // What commands expect to be able to write, besides.
    line.extend(["-w", "/tmp", "-w", "/dev"].map(Into::into));
    line.extend([
        "--workdir".into(),
        directory.into(),
        "-w".into(),
        directory.into(),
    ]);
    line.push("--".into());
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rival_that_cannot_be_had_says_why() {
        let scratch = tempfile::tempdir().expect("a directory");
        let place = Place::at(scratch.path());
        let rivals = Rivals {
            found: vec![(Rival::Try, Rival::Try.find(&place))],
        };
        assert_eq!(rivals.runnable().count(), 0);
        let missing: Vec<_> = rivals.missing().collect();
        assert_eq!(missing, [(Rival::Try, "it is in no package registry")]);
        let line = rivals.around(Rival::Try, &place, scratch.path(), vec!["true".into()]);
        assert_eq!(line, Err("it is in no package registry".to_owned()));
    }

    #[test]
    fn an_overlay_starts_without_changes() {
        let scratch = tempfile::tempdir().expect("a directory");
        let place = Place::at(scratch.path());
        let changed = scratch.path().join("overlay/upper/changed");
        fs::create_dir_all(changed.parent().expect("a parent")).expect("create it");
        fs::write(&changed, "").expect("a change");
        overlay(false, &place, scratch.path()).expect("an overlay");
        assert!(!changed.exists());
    }
}
