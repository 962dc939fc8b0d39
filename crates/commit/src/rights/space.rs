//! Whether there is room for what a commit copies.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use rustix::fs::{CWD, Mode, StatVfsMountFlags, StatxAttributes};
use surmise_changes::real::{LOOK, link, statx};

use super::Rights;
use crate::error::ObstacleKind;
use crate::objects::Objects;
use crate::plan::{Content, Place, Plan};

impl Rights<'_, '_> {
    /// What must be copied, against what is free, one file system at a time.
    pub(super) fn space(&mut self, objects: &Objects) {
        let mut needs: BTreeMap<u64, (u64, &Place)> = BTreeMap::new();
        let plan = self.site.plan();
        let mut need = |device: u64, bytes: u64, place| {
            needs.entry(device).or_insert((0, place)).0 += bytes;
        };
        for staging in &plan.stagings {
            let Content::Regular {
                object: Some(object),
            } = staging.content
            else {
                continue;
            };
            let (Some(device), Ok(found)) = (
                device_of(plan, staging.place.directory),
                objects.stat(object),
            ) else {
                continue;
            };
            let own = rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor);
            if own != device {
                need(device, found.stx_blocks * 512, &staging.place);
            }
        }
        for edit in &plan.edits {
            let Some(Ok(found)) = edit.object.map(|object| objects.stat(object)) else {
                continue;
            };
            let now = edit.places.iter().find_map(|place| {
                let inode = self.site.inode(place, edit.key).ok()??;
                let found = statx(inode.as_fd(), "").ok()?;
                Some((found.stx_blocks, place))
            });
            if let Some((blocks, place)) = now {
                // An object that lacks something replaces no more than it has.
                let replaced = edit
                    .object
                    .and_then(|object| objects.borrowed(object))
                    .map_or(blocks, |borrowed| blocks.min(borrowed.own_bytes() / 512));
                let growth = found.stx_blocks.saturating_sub(replaced) * 512;
                need(edit.key.device, growth, place);
            }
        }
        for (_, (needed, place)) in needs {
            self.room(place, needed);
        }
    }

    fn room(&mut self, place: &Place, needed: u64) {
        let mut at = place.directory;
        while let Some(staging) = self.site.plan().directories[at].staging {
            at = self.site.plan().stagings[staging].place.directory;
        }
        let Ok(directory) = self.site.open(at) else {
            return;
        };
        let Ok(free) = rustix::fs::fstatvfs(&directory) else {
            return;
        };
        let available = match self.user.is_root() {
            true => free.f_bfree * free.f_frsize,
            false => free.f_bavail * free.f_frsize,
        };
        if free.f_flag.contains(StatVfsMountFlags::RDONLY) {
            self.refuse(place, ObstacleKind::ReadOnly);
        } else if needed > available {
            let file_system = mount_point(&directory);
            self.refuse(
                place,
                ObstacleKind::NoSpace {
                    file_system,
                    needed,
                    available,
                },
            );
        }
    }
}

/// The file system on which a directory is, or will be.
fn device_of(plan: &Plan, directory: usize) -> Option<u64> {
    let mut at = directory;
    while let Some(staging) = plan.directories[at].staging {
        at = plan.stagings[staging].place.directory;
    }
    plan.directories[at].key.map(|key| key.device)
}

/// Where the file system of a directory is mounted, as far up as this process sees.
fn mount_point(directory: &OwnedFd) -> PathBuf {
    let path = |directory: &OwnedFd| {
        let link = rustix::fs::readlinkat(CWD, link(directory.as_fd()), Vec::new());
        link.map_or_else(
            |_| PathBuf::from("/"),
            |path| OsString::from_vec(path.into_bytes()).into(),
        )
    };
    let up = |directory: &OwnedFd| rustix::fs::openat(directory, "..", LOOK, Mode::empty());
    let is_root = |directory: &OwnedFd| {
        statx(directory.as_fd(), "")
            .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
    };
    let Ok(mut at) = rustix::fs::openat(directory, ".", LOOK, Mode::empty()) else {
        return path(directory);
    };
    while !is_root(&at) {
        match up(&at) {
            Ok(parent) => at = parent,
            Err(_) => break,
        }
    }
    path(&at)
}
