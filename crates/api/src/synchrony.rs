//! External synchrony, as it is asked for and as far as this machine can do it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use surmise_launch::{LaunchError, check_outside};
use surmise_sync::volume::{VolumeError, mount_privately};
use surmise_sync::{Driver, Guarantee, NoDriver, Options, Promise, Scope, driver_of};

use crate::error::Explained;

/// How syncs are to be put off.
#[derive(Clone, Debug)]
pub struct Synchrony {
    /// A directory on the file system whose syncs are put off; that of the volume without one, else the current
    /// one.
    pub on: Option<PathBuf>,
    /// A volume that is mounted for the command alone. Takes root.
    pub volume: Option<PrivateVolume>,
    /// With a volume: what becomes of changes that are not on it.
    pub elsewhere: Elsewhere,
    /// What output may rely on.
    pub promise: Promise,
    /// How long a change may stay in memory when nobody waits for it.
    pub interval: Duration,
    /// Whether each promise is kept at once, though nobody waits for it.
    pub eager: bool,
}

/// A volume, and where it is to be mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrivateVolume {
    /// The file that it is in.
    pub file: PathBuf,
    /// Where to mount it.
    pub directory: PathBuf,
}

/// What becomes of changes that are not on the volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Elsewhere {
    /// They are made, after what was promised is durable.
    #[default]
    Watched,
    /// They fail.
    ReadOnly,
}

/// What puts syncs off here, found and mounted.
#[derive(Clone, Debug)]
pub struct Synchronous(pub(crate) Options);

/// Why syncs cannot be put off.
#[derive(Debug, thiserror::Error)]
pub enum SynchronyError {
    /// The caller may not start anything.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// Nothing can be kept from changing elsewhere.
    #[error(
        "this kernel can't keep everything elsewhere read-only: it has no Landlock of version 3"
    )]
    NoLandlock,
    /// The volume cannot be mounted.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// The file system keeps no order of changes.
    #[error("{source}")]
    NoDriver {
        /// Why not.
        source: NoDriver,
        /// Whether the caller named the file system.
        is_named: bool,
    },
}

impl Synchrony {
    /// Mounts the volume, for the calling process alone, and finds out how the file system is committed.
    /// `directory`: the current one.
    ///
    /// # Errors
    /// When this machine or this file system does not have what it takes.
    pub fn prepare(&self, directory: &Path) -> Result<Synchronous, SynchronyError> {
        check_outside()?;
        let is_confined = self.elsewhere == Elsewhere::ReadOnly;
        if is_confined && !surmise_sys::landlock::is_supported() {
            return Err(SynchronyError::NoLandlock);
        }
        if let Some(PrivateVolume { file, directory }) = &self.volume {
            mount_privately(file, directory)?;
        }
        let volume = self.volume.as_ref().map(|volume| &volume.directory);
        let on = self.on.as_ref().or(volume);
        let is_named = on.is_some();
        let driver = driver_of(on.map_or(directory, PathBuf::as_path))
            .map_err(|source| SynchronyError::NoDriver { source, is_named })?;
        Ok(Synchronous(Options {
            driver: Arc::from(driver),
            promise: self.promise,
            interval: self.interval,
            eager: self.eager,
            scope: match volume {
                Some(directory) if is_confined => Scope::Below(directory.clone()),
                _ => Scope::Anything,
            },
        }))
    }
}

impl Synchronous {
    /// What the file system is called.
    pub fn name(&self) -> &str {
        self.driver().name()
    }

    /// How surely it keeps the order of changes.
    pub fn guarantee(&self) -> Guarantee {
        self.driver().guarantee()
    }

    fn driver(&self) -> &dyn Driver {
        self.0.driver.as_ref()
    }
}

impl Explained for SynchronyError {
    fn code(&self) -> &'static str {
        match self {
            Self::Launch(error) => Explained::code(error),
            Self::NoLandlock => "no_landlock",
            Self::Volume(error) => error.code(),
            Self::NoDriver { .. } => "no_order",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Launch(error) => Explained::hint(error),
            Self::NoLandlock => Some(NO_LANDLOCK.into()),
            Self::Volume(error) => Explained::hint(error),
            Self::NoDriver { .. } => Some(NO_DRIVER.into()),
        }
    }

    fn status(&self) -> Option<u8> {
        match self {
            Self::Launch(error) => Explained::status(error),
            _ => Some(125),
        }
    }
}

const NO_LANDLOCK: &str = "Linux has it since 6.2, if `landlock` is in /sys/kernel/security/lsm; without \
                           --elsewhere, changes elsewhere are watched";
const NO_DRIVER: &str = "`surmise volume create` makes a file system that does, in a file; without --on, \
                         every fsync is a real one";
