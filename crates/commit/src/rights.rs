//! Whether the user may do, and the file systems can take, what a commit will do.

mod space;
mod user;

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use surmise_changes::real::{link, statx};
use surmise_view::Attributes;

use crate::check::Findings;
use crate::error::{Obstacle, ObstacleKind};
use crate::locate::Site;
use crate::objects::Objects;
use crate::plan::{Directory, Edit, Link, Metadata, Opened, Place, Plan, Staging};
use crate::trial::{is_refusal, try_xattrs};
use user::{Inode, User, Writing, refusal};

/// Looks for what is in the way of a plan. Changes nothing that anybody sees.
pub(crate) fn obstacles(site: &Site<'_>, objects: &Objects, findings: &mut Findings) {
    let mut rights = Rights {
        site,
        findings,
        user: User::of_process(),
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
    user: User,
}

impl Rights<'_, '_> {
    /// A directory in which names change.
    fn directory(&mut self, directory: usize) {
        let Ok(fd) = self.site.open(directory) else {
            return;
        };
        let access = |wanted| rustix::fs::accessat(&fd, ".", wanted, AtFlags::EACCESS);
        let writing = access(Access::WRITE_OK | Access::EXEC_OK);
        let passing = writing.or_else(|_| access(Access::EXEC_OK));
        let found = inode_of(fd.as_fd(), "");
        let writing = self.user.writes_in(writing, passing, found.as_ref());
        match writing {
            Writing::Allowed => {}
            Writing::OnceOpened { permissions } => self.findings.opened.push(Opened {
                directory,
                permissions,
            }),
            Writing::Refused(why) => {
                let place = self.site.plan().directories[directory].places.last();
                let path = place.map_or_else(
                    || self.site.root_path().to_owned(),
                    |place| self.site.path(place),
                );
                self.findings.obstacles.push(Obstacle { path, why });
            }
        }
    }

    /// A name that goes.
    fn name(&mut self, place: &Place) {
        let Ok(directory) = self.site.open(place.directory) else {
            return;
        };
        let holder = inode_of(directory.as_fd(), "");
        let found = inode_of(directory.as_fd(), &*place.name);
        let (Some(holder), Some(found)) = (holder, found) else {
            return;
        };
        for why in self.user.keeps_name(&holder, &found) {
            self.refuse(place, why);
        }
        if found.is_locked() {
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
            if Inode::from(&found).is_locked() {
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
                if attributes.uid != self.user.uid {
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
            && found.stx_uid != self.user.uid
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
        let metadata = staging.metadata.as_ref();
        for why in self.user.makes(&staging.content, metadata) {
            self.refuse(&staging.place, why);
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
        if let Some(why) = self.user.sets(found, wanted) {
            self.refuse(place, why);
        }
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

/// Why a file cannot be opened for writing. Only an attempt tells whether a program runs from it.
fn refused_writing(inode: BorrowedFd<'_>) -> Option<Errno> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, link(inode), flags, Mode::empty()).err()
}

fn inode_of(directory: BorrowedFd<'_>, name: impl rustix::path::Arg) -> Option<Inode> {
    Some(Inode::from(&statx(directory, name).ok()?))
}
