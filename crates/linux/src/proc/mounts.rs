//! Which mount a path lies on, and with which settings (proc_pid_mountinfo(5)).

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags, major, makedev, minor, statx};

use super::Entry;

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Its number, as statx(2) gives it.
    id: u64,
    /// The file system's device number.
    pub device: u64,
    /// Where it is.
    pub directory: PathBuf,
    /// The type of the file system.
    pub kind: String,
    /// What is mounted: a device, for most types.
    pub source: PathBuf,
    /// The options of the file system, not those of this mount.
    options: Vec<String>,
}

/// Why nothing is known of a mount.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// statx(2) failed.
    #[error("{}: {source}", path.display())]
    Path {
        /// Of what.
        path: PathBuf,
        #[source]
        /// Why.
        source: io::Error,
    },
    /// The list of mounts could not be read.
    #[error("read /proc/thread-self/mountinfo: {0}")]
    List(#[source] io::Error),
    /// The path's mount is not in the list: it was unmounted this moment, or the kernel is older than
    /// Linux 5.8 and does not number mounts.
    #[error("{}: its mount is not listed", path.display())]
    Missing {
        /// Of what.
        path: PathBuf,
    },
}

impl Mount {
    /// The mount that `path` lies on.
    ///
    /// # Errors
    /// When `path` cannot be reached or its mount not be found.
    pub fn of(path: &Path) -> Result<Self, MountError> {
        let found = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID);
        let found = found.map_err(|errno| MountError::Path {
            path: path.to_owned(),
            source: errno.into(),
        })?;
        let is_numbered = found.stx_mask & StatxFlags::MNT_ID.bits() != 0;
        let mount = Self::list()?
            .into_iter()
            .find(|mount| is_numbered && mount.id == found.stx_mnt_id);
        mount.ok_or_else(|| MountError::Missing {
            path: path.to_owned(),
        })
    }

    /// All mounts that the caller sees, oldest first.
    ///
    /// # Errors
    /// [`MountError::List`].
    pub fn list() -> Result<Vec<Self>, MountError> {
        Self::of_task(Entry::own()).map_err(MountError::List)
    }

    /// All mounts that a process or thread sees, oldest first.
    ///
    /// # Errors
    /// As for reading /proc.
    pub fn of_task(task: impl Into<Entry>) -> io::Result<Vec<Self>> {
        Ok(Self::parse_all(&task.into().read_long("mountinfo")?))
    }

    /// Those that a kernel has told in this text.
    pub fn parse_all(told: &[u8]) -> Vec<Self> {
        let lines = told.split(|byte| *byte == b'\n');
        lines.filter_map(Self::parse).collect()
    }

    /// Whether the file system has an option, as it tells it itself.
    pub fn has(&self, option: &str) -> bool {
        self.options.iter().any(|found| found == option)
    }

    /// The name that the kernel has for its block device: `sda1`, `loop0`.
    ///
    /// # Errors
    /// As `readlink`: `NotFound` where it is on none.
    pub fn block_device(&self) -> io::Result<OsString> {
        let (major, minor) = (major(self.device), minor(self.device));
        let link = fs::read_link(format!("/sys/dev/block/{major}:{minor}"))?;
        let name = link.file_name().ok_or(io::ErrorKind::InvalidData)?;
        Ok(name.to_owned())
    }

    fn parse(line: &[u8]) -> Option<Self> {
        let words: Vec<_> = line.split(|byte| *byte == b' ').collect();
        let separator = words.iter().position(|word| *word == b"-")?;
        let text = |at: usize| Some(String::from_utf8_lossy(words.get(at)?).into_owned());
        let device = text(2)?;
        let (major, minor) = device.split_once(':')?;
        Some(Self {
            id: text(0)?.parse().ok()?,
            device: makedev(major.parse().ok()?, minor.parse().ok()?),
            directory: unescape(words.get(4)?),
            kind: text(separator + 1)?,
            source: unescape(words.get(separator + 2)?),
            options: text(separator + 3)?.split(',').map(str::to_owned).collect(),
        })
    }
}

/// Spaces, tabs, newlines and backslashes are written as a backslash and three octal digits.
fn unescape(mut word: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(word.len());
    while let [first, rest @ ..] = word {
        word = rest;
        let byte = match (first, rest) {
            (
                b'\\',
                [
                    a @ b'0'..=b'3',
                    b @ b'0'..=b'7',
                    c @ b'0'..=b'7',
                    behind @ ..,
                ],
            ) => {
                word = behind;
                (a - b'0') << 6 | (b - b'0') << 3 | (c - b'0')
            }
            _ => *first,
        };
        bytes.push(byte);
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_the_manual_says() {
        let line = br"43 27 7:0 /below /mnt/a\040b\134 rw,relatime shared:1 - ext4 /dev/loop0 rw,data=journal";
        let mount = Mount::parse(line).expect("a mount");
        assert_eq!(mount.directory, Path::new(r"/mnt/a b\"));
        assert_eq!((mount.id, mount.device), (43, makedev(7, 0)));
        assert_eq!(mount.kind, "ext4");
        assert_eq!(mount.source, Path::new("/dev/loop0"));
        assert!(mount.has("data=journal") && !mount.has("data"));
    }

    #[test]
    fn what_is_no_line_is_no_mount() {
        for line in [
            "",
            "-",
            "1 2 3:4 / /",
            "x 27 7:0 / / rw - ext4 d rw",
            "1 2 7 / / rw - ext4 d rw",
        ] {
            assert_eq!(Mount::parse(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn the_root_lies_on_a_mount() {
        assert!(
            Mount::of(Path::new("/"))
                .expect("a mount")
                .directory
                .is_absolute()
        );
    }
}
