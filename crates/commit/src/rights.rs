//! Whether the user may do, and the file systems can take, what a commit will do.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, StatVfsMountFlags, Statx, StatxAttributes};
use rustix::io::Errno;
use surmise_changes::real::{LOOK, link, statx};
use surmise_view::{Attributes, FileKind};

use crate::check::Findings;
use crate::error::{Obstacle, ObstacleKind};
use crate::locate::Site;
use crate::objects::Objects;
use crate::plan::{Content, Directory, Edit, Link, Metadata, Opened, Place, Plan, Staging};
use crate::trial::{is_refusal, try_xattrs};

/// Looks for what is in the way of a plan. Changes nothing that anybody sees.
pub(crate) fn obstacles(site: &Site<'_>, objects: &Objects, findings: &mut Findings) {
    let mut rights = Rights {
        site,
        findings,
        user: rustix::process::geteuid().as_raw(),
        groups: groups(),
    };
    for directory in written(site.plan()) {
        rights.directory(directory);
    }
    for aside in &site.plan().asides {
        rights.name(&aside.place);
    }
    for placement in &site.plan().placements {
        if placement.displaces.is_some() {
            rights.name(&placement.to);
        }
    }
    for edit in &site.plan().edits {
        rights.edit(edit);
        if let Some(place) = objects.lost_lender(site, edit) {
            rights.refuse(place, ObstacleKind::Lost);
        }
    }
    for link in &site.plan().links {
        rights.link(link);
    }
    for staging in &site.plan().stagings {
        rights.staging(staging);
    }
    for finish in &site.plan().finishes {
        rights.finish(finish.directory, &finish.metadata);
    }
    rights.space(objects);
}

struct Rights<'r, 'p> {
    site: &'r Site<'p>,
    findings: &'r mut Findings,
    user: u32,
    groups: HashSet<u32>,
}

impl Rights<'_, '_> {
    /// A directory in which names change.
    fn directory(&mut self, directory: usize) {
        let Ok(fd) = self.site.open(directory) else {
            return;
        };
        let found = statx(fd.as_fd(), "").ok();
        let access = Access::WRITE_OK | Access::EXEC_OK;
        let why = match rustix::fs::accessat(&fd, ".", access, AtFlags::EACCESS) {
            Err(error) => match found.filter(|found| self.can_open(&fd, error, found)) {
                Some(found) => {
                    self.findings.opened.push(Opened {
                        directory,
                        permissions: found.stx_mode & 0o7777,
                    });
                    None
                }
                None if found.is_some_and(|found| is_locked(found.stx_attributes)) => {
                    Some(ObstacleKind::Immutable)
                }
                None => Some(refusal(error)),
            },
            Ok(()) => found
                .filter(|found| is_locked(found.stx_attributes))
                .map(|_| ObstacleKind::Immutable),
        };
        if let Some(why) = why {
            let place = self.site.plan().directories[directory].places.last();
            let path = place.map_or_else(
                || self.site.root_path().to_owned(),
                |place| self.site.path(place),
            );
            self.findings.obstacles.push(Obstacle { path, why });
        }
    }

    /// Whether the user owns a directory and only the right to write is missing.
    fn can_open(&self, fd: &OwnedFd, error: Errno, found: &Statx) -> bool {
        let access = Access::EXEC_OK;
        error == Errno::ACCESS
            && found.stx_uid == self.user
            && rustix::fs::accessat(fd, ".", access, AtFlags::EACCESS).is_ok()
    }

    /// A name that goes.
    fn name(&mut self, place: &Place) {
        let Ok(directory) = self.site.open(place.directory) else {
            return;
        };
        let (Ok(holder), Ok(found)) = (
            statx(directory.as_fd(), ""),
            statx(directory.as_fd(), &*place.name),
        ) else {
            return;
        };
        if found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
            self.refuse(place, ObstacleKind::MountPoint);
        }
        let is_sticky = holder.stx_mode & 0o1000 != 0;
        let is_foreign = ![found.stx_uid, holder.stx_uid].contains(&self.user);
        if is_sticky && is_foreign && !self.is_root() {
            self.refuse(place, ObstacleKind::Sticky);
        }
        if is_locked(found.stx_attributes) {
            self.refuse_flagged(place);
        }
    }

    /// A file that keeps its inode and changes.
    fn edit(&mut self, edit: &Edit) {
        for place in &edit.places {
            let Ok(Some(inode)) = self.site.inode(place, edit.key) else {
                continue;
            };
            let Ok(found) = statx(inode.as_fd(), "") else {
                return;
            };
            if is_locked(found.stx_attributes) {
                self.refuse_flagged(place);
            }
            let Some(attributes) = Attributes::of_statx(&found) else {
                return;
            };
            self.metadata(place, &attributes, &edit.metadata);
            if let Ok(directory) = self.site.open(place.directory) {
                self.xattrs(place, &directory, inode.as_fd(), &edit.metadata);
            }
            if edit.object.is_some() {
                if attributes.uid != self.user {
                    // Its owner can make it writable while the commit writes it.
                    self.writable(place);
                }
                if refused_writing(inode.as_fd()) == Some(Errno::TXTBSY) {
                    self.refuse(place, ObstacleKind::Busy);
                }
            }
            return;
        }
    }

    /// Only who may write a file may give it a name more, where links are protected.
    fn link(&mut self, link: &Link) {
        let found = link.sources.iter().find_map(|place| {
            let inode = self.site.inode(place, link.key).ok()??;
            Some((place, statx(inode.as_fd(), "").ok()?))
        });
        if let Some((place, found)) = found
            && found.stx_uid != self.user
        {
            self.writable(place);
        }
    }

    fn writable(&mut self, place: &Place) {
        let Ok(directory) = self.site.open(place.directory) else {
            return;
        };
        let flags = AtFlags::EACCESS | AtFlags::SYMLINK_NOFOLLOW;
        let access = rustix::fs::accessat(&directory, &place.name, Access::WRITE_OK, flags);
        if let Err(error) = access {
            self.refuse(place, refusal(error));
        }
    }

    fn staging(&mut self, staging: &Staging) {
        if let (Content::Special { kind, device }, false) = (&staging.content, self.is_root()) {
            // A whiteout is no device that anybody could open; everyone may make one.
            let is_whiteout = *kind == FileKind::CharacterDevice && *device == 0;
            let is_device = matches!(kind, FileKind::CharacterDevice | FileKind::BlockDevice);
            if is_device && !is_whiteout {
                self.refuse(&staging.place, ObstacleKind::Device);
            }
        }
        if let Some(Metadata {
            uid: Some(uid),
            gid: Some(gid),
            ..
        }) = staging.metadata
            && !self.may_give(uid, gid)
        {
            self.refuse(&staging.place, ObstacleKind::NotGivable { uid, gid });
        }
    }

    fn finish(&mut self, directory: usize, metadata: &Metadata) {
        let Some(place) = self.site.plan().directories[directory].places.last() else {
            return;
        };
        let Ok(fd) = self.site.open(directory) else {
            return;
        };
        let found = statx(fd.as_fd(), "").ok();
        if let Some(found) = found.as_ref().and_then(Attributes::of_statx) {
            self.metadata(place, &found, metadata);
        }
        self.xattrs(place, &fd, fd.as_fd(), metadata);
    }

    fn xattrs(
        &mut self,
        place: &Place,
        directory: &OwnedFd,
        inode: BorrowedFd<'_>,
        wanted: &Metadata,
    ) {
        match try_xattrs(directory, inode, wanted) {
            Err(error) if is_refusal(&error) => self.refuse(place, ObstacleKind::Xattrs(error)),
            _ => {}
        }
    }

    fn metadata(&mut self, place: &Place, found: &Attributes, wanted: &Metadata) {
        if self.is_root() {
            return;
        }
        let uid = wanted.uid.unwrap_or(found.uid);
        let gid = wanted.gid.unwrap_or(found.gid);
        let mode_changes = wanted
            .permissions
            .is_some_and(|permissions| permissions != found.permissions);
        let owner_changes = (uid, gid) != (found.uid, found.gid);
        if (mode_changes || owner_changes) && found.uid != self.user {
            self.refuse(place, ObstacleKind::NotOwner);
        } else if owner_changes && !self.may_give(uid, gid) {
            self.refuse(place, ObstacleKind::NotGivable { uid, gid });
        }
    }

    /// What must be copied, against what is free, one file system at a time.
    fn space(&mut self, objects: &Objects) {
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
        let available = match self.is_root() {
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

    fn may_give(&self, uid: u32, gid: u32) -> bool {
        self.is_root() || (uid == self.user && self.groups.contains(&gid))
    }

    fn is_root(&self) -> bool {
        self.user == 0
    }

    fn refuse_flagged(&mut self, place: &Place) {
        self.refuse(place, ObstacleKind::Immutable);
        self.findings.flagged.push(place.clone());
    }

    fn refuse(&mut self, place: &Place, why: ObstacleKind) {
        let path = self.site.target_path(place);
        self.findings.obstacles.push(Obstacle { path, why });
    }
}

/// Directories that exist and in which names change.
fn written(plan: &Plan) -> BTreeSet<usize> {
    let stagings = plan.stagings.iter().map(|staging| &staging.place);
    let links = plan.links.iter().map(|link| &link.place);
    let asides = plan.asides.iter().map(|aside| &aside.place);
    let placements = plan.placements.iter();
    let placements = placements.flat_map(|placement| [&placement.from, &placement.to]);
    let removals = plan.removals.iter().map(|removal| &removal.place);
    let places = stagings
        .chain(links)
        .chain(asides)
        .chain(placements)
        .chain(removals);
    // A directory that gets another parent is written too: its `..` changes.
    let moved = plan.directories.iter().enumerate();
    let moved = moved.filter(|(_, directory)| has_moved(directory));
    places
        .map(|place| place.directory)
        .chain(moved.map(|(index, _)| index))
        .filter(|index| plan.directories[*index].staging.is_none())
        .collect()
}

fn has_moved(directory: &Directory) -> bool {
    let (first, last) = (directory.places.first(), directory.places.last());
    first.map(|place| place.directory) != last.map(|place| place.directory)
}

/// The file system on which a directory is, or will be.
fn device_of(plan: &Plan, directory: usize) -> Option<u64> {
    let mut at = directory;
    while let Some(staging) = plan.directories[at].staging {
        at = plan.stagings[staging].place.directory;
    }
    plan.directories[at].key.map(|key| key.device)
}

fn groups() -> HashSet<u32> {
    let supplementary = rustix::process::getgroups().unwrap_or_default();
    let own = rustix::process::getegid();
    supplementary
        .into_iter()
        .chain([own])
        .map(rustix::fs::Gid::as_raw)
        .collect()
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

/// Why a file cannot be opened for writing. Only an attempt tells whether a program runs from it.
fn refused_writing(inode: BorrowedFd<'_>) -> Option<Errno> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, link(inode), flags, Mode::empty()).err()
}

fn is_locked(attributes: StatxAttributes) -> bool {
    attributes.intersects(StatxAttributes::IMMUTABLE | StatxAttributes::APPEND)
}

fn refusal(error: Errno) -> ObstacleKind {
    match error {
        Errno::ROFS => ObstacleKind::ReadOnly,
        Errno::ACCESS | Errno::PERM => ObstacleKind::NotWritable,
        error => ObstacleKind::Unreadable(io::Error::from(error)),
    }
}
