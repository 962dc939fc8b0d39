//! What can go wrong with a volume.

use std::io;
use std::path::PathBuf;

use super::create::BYTES_MIN;
use surmise_linux::proc::MountError;

use crate::driver::NoDriver;

/// Why something was not done with a volume.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// A system call failed.
    #[error("{what} {}: {source}", path.display())]
    Path {
        /// What was being done.
        what: &'static str,
        /// To what.
        path: PathBuf,
        #[source]
        /// Why it failed.
        source: io::Error,
    },
    /// No file system with a journal fits in.
    #[error("a volume of {bytes} bytes is too small")]
    Small {
        /// How large it was to be.
        bytes: u64,
    },
    /// There is something of that name.
    #[error("{} exists", path.display())]
    Exists {
        /// The name.
        path: PathBuf,
    },
    /// It was not made by [`create`](super::create()).
    #[error("{} is no volume: {reason}", path.display())]
    NotVolume {
        /// The file.
        path: PathBuf,
        /// What it lacks.
        reason: &'static str,
    },
    /// Nothing of a volume is mounted there.
    #[error("no volume is mounted on {}", directory.display())]
    NotMounted {
        /// The directory.
        directory: PathBuf,
    },
    /// It cannot be checked while it is in use.
    #[error("{} is in use as {device}", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
        /// Its loop device.
        device: String,
    },
    /// A program that does the work is not here.
    #[error("{program} is not installed")]
    NoProgram {
        /// Its name.
        program: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// A program that does the work has failed.
    #[error("{program}: {told}")]
    Program {
        /// Its name.
        program: &'static str,
        /// What it said.
        told: String,
    },
    /// Mounts of its own were not to be had.
    #[error("mount for this command alone: {0}")]
    Namespace(#[source] io::Error),
    /// The file system was mounted, did not keep the order, and was unmounted again.
    #[error(transparent)]
    Unordered(#[from] NoDriver),
    /// The mounts could not be looked at.
    #[error(transparent)]
    Mounts(#[from] MountError),
}

impl VolumeError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Small { .. } => format!("the least is {} MiB", BYTES_MIN >> 20),
            Self::Exists { .. } => "choose another name, or remove it".into(),
            Self::NotVolume { .. } => "`surmise volume create SIZE FILE` makes one".into(),
            Self::NotMounted { .. } => "`surmise volume list` shows what is mounted where".into(),
            Self::InUse { .. } => "unmount it first: `surmise volume umount DIR`".into(),
            Self::NoProgram { package, .. } => format!("apt-get install {package}"),
            Self::Program { program, told } if *program == "umount" && told.contains("busy") => {
                "`fuser -vm DIR` shows who uses it".into()
            }
            Self::Program { program, told }
                if matches!(*program, "mount" | "umount" | "losetup") && is_for_root(told) =>
            {
                "root can: sudo surmise volume …".into()
            }
            Self::Namespace(source) if source.kind() == io::ErrorKind::PermissionDenied => {
                "root can: sudo surmise sync --volume …".into()
            }
            _ => return None,
        })
    }
}

/// As the programs say it, whose words are not translated.
fn is_for_root(told: &str) -> bool {
    let words = [
        "superuser",
        "not permitted",
        "ermission denied",
        "failed to setup loop",
    ];
    words.iter().any(|words| told.contains(words))
}
