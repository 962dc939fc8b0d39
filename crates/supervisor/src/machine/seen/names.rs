//! What of the file system inside is the view.
//!
//! What is below `/proc`, `/dev` and `/sys` inside is no part of the view, which cannot undo what is done
//! there.

mod mounts;

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::process::Pid;

use crate::machine::task;

use mounts::Mounts;

/// What the domain's mounts are.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// `None` until they were looked at.
    mounts: Option<Mounts>,
}

impl Names {
    /// Of a domain with one mount, the view, which shows what is outside, and with a /proc.
    #[cfg(test)]
    pub(crate) fn of_view() -> Self {
        Self::of_view_at(1)
    }

    /// Likewise, with the mount of this number.
    #[cfg(test)]
    pub(crate) fn of_view_at(view: u64) -> Self {
        let mounts = Mounts {
            view,
            device: String::new(),
            others: Arc::new(
                ["/proc", "/dev", "/dev/null", "/dev/tty"]
                    .map(PathBuf::from)
                    .into(),
            ),
        };
        Self {
            mounts: Some(mounts),
        }
    }

    /// Looks at the domain's mounts.
    pub(crate) fn begin(&mut self, process: Pid) -> io::Result<()> {
        let path = format!("/proc/{}/mountinfo", process.as_raw_nonzero());
        self.mounts = Mounts::parse(&fs::read(path)?);
        Ok(())
    }

    /// Whether a descriptor leads to something that the view serves.
    pub(crate) fn is_served(&self, process: Pid, number: u64) -> io::Result<bool> {
        Ok(self.mounts.is_some()
            && task::mount_of(process, number)?.is_some_and(|mount| self.is_view(mount)))
    }

    /// Whether this is the number of the view's mount.
    pub(crate) fn is_view(&self, mount: u64) -> bool {
        self.mounts
            .as_ref()
            .is_some_and(|mounts| mounts.view == mount)
    }

    /// The view's device, as proc_pid_maps(5) names it.
    pub(crate) fn device(&self) -> Option<&str> {
        self.mounts.as_ref().map(|mounts| mounts.device.as_str())
    }

    /// Where the domain has something else than the view; `None` if that is not known.
    pub(crate) fn elsewhere(&self) -> Option<&Arc<HashSet<PathBuf>>> {
        self.mounts.as_ref().map(|mounts| &mounts.others)
    }

    /// Whether the domain has a mount at just this place, beside the view.
    pub(crate) fn has_mount_at(&self, place: &Path) -> bool {
        let mounts = self.mounts.as_ref();
        mounts.is_some_and(|mounts| mounts.others.contains(place))
    }
}
