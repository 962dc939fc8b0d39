//! What a user may do with what was found: decisions, without a look.

use std::collections::HashSet;

use rustix::fs::{Statx, StatxAttributes};
use rustix::io::Errno;
use surmise_view::{Attributes, FileKind};

use crate::error::ObstacleKind;
use crate::plan::{Content, Metadata};

/// Who commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct User {
    pub(super) uid: u32,
    /// The groups to which they belong.
    pub(super) groups: HashSet<u32>,
}

/// What of an inode says whose it is and what holds it fast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Inode {
    pub(super) uid: u32,
    pub(super) permissions: u16,
    pub(super) flags: StatxAttributes,
}

/// Whether names can change in a directory.
#[derive(Debug)]
pub(super) enum Writing {
    /// They can.
    Allowed,
    /// They can when the directory's owner, who commits, has opened it.
    OnceOpened {
        /// The permission bits that it has.
        permissions: u16,
    },
    Refused(ObstacleKind),
}

impl User {
    /// This process's.
    pub(super) fn of_process() -> Self {
        let supplementary = rustix::process::getgroups().unwrap_or_default();
        let own = rustix::process::getegid();
        let groups = supplementary.into_iter().chain([own]);
        Self {
            uid: rustix::process::geteuid().as_raw(),
            groups: groups.map(rustix::fs::Gid::as_raw).collect(),
        }
    }

    pub(super) fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Of a directory of which the kernel says `access` to writing and `passing` to going through it.
    pub(super) fn writes_in(
        &self,
        access: Result<(), Errno>,
        passing: Result<(), Errno>,
        found: Option<&Inode>,
    ) -> Writing {
        let is_locked = found.is_some_and(Inode::is_locked);
        match (access, found) {
            (Ok(()), _) if is_locked => Writing::Refused(ObstacleKind::Immutable),
            (Ok(()), _) => Writing::Allowed,
            // Its owner may open it, where only the right to write is missing.
            (Err(Errno::ACCESS), Some(found)) if found.uid == self.uid && passing.is_ok() => {
                Writing::OnceOpened {
                    permissions: found.permissions,
                }
            }
            (Err(_), _) if is_locked => Writing::Refused(ObstacleKind::Immutable),
            (Err(error), _) => Writing::Refused(refusal(error)),
        }
    }

    /// What keeps the name of `found` in the directory `holder`. A lock is told by [`Inode::is_locked`].
    pub(super) fn keeps_name(&self, holder: &Inode, found: &Inode) -> Vec<ObstacleKind> {
        const STICKY: u16 = 0o1000;
        let mut obstacles = Vec::new();
        if found.flags.contains(StatxAttributes::MOUNT_ROOT) {
            obstacles.push(ObstacleKind::MountPoint);
        }
        let is_foreign = ![found.uid, holder.uid].contains(&self.uid);
        if holder.permissions & STICKY != 0 && is_foreign && !self.is_root() {
            obstacles.push(ObstacleKind::Sticky);
        }
        obstacles
    }

    /// What keeps the user from making this, with this metadata.
    pub(super) fn makes(
        &self,
        content: &Content,
        metadata: Option<&Metadata>,
    ) -> Vec<ObstacleKind> {
        let mut obstacles = Vec::new();
        if let (Content::Special { kind, device }, false) = (content, self.is_root()) {
            // A whiteout is no device that anybody could open; everyone may make one.
            let is_whiteout = *kind == FileKind::CharacterDevice && *device == 0;
            let is_device = matches!(kind, FileKind::CharacterDevice | FileKind::BlockDevice);
            if is_device && !is_whiteout {
                obstacles.push(ObstacleKind::Device);
            }
        }
        let owner = metadata.and_then(|metadata| metadata.uid.zip(metadata.gid));
        if let Some((uid, gid)) = owner.filter(|(uid, gid)| !self.may_give(*uid, *gid)) {
            obstacles.push(ObstacleKind::NotGivable { uid, gid });
        }
        obstacles
    }

    /// What keeps the user from setting this of what was found.
    pub(super) fn sets(&self, found: &Attributes, wanted: &Metadata) -> Option<ObstacleKind> {
        if self.is_root() {
            return None;
        }
        let uid = wanted.uid.unwrap_or(found.uid);
        let gid = wanted.gid.unwrap_or(found.gid);
        let mode_changes = wanted
            .permissions
            .is_some_and(|permissions| permissions != found.permissions);
        let owner_changes = (uid, gid) != (found.uid, found.gid);
        if (mode_changes || owner_changes) && found.uid != self.uid {
            return Some(ObstacleKind::NotOwner);
        }
        (owner_changes && !self.may_give(uid, gid)).then_some(ObstacleKind::NotGivable { uid, gid })
    }

    fn may_give(&self, uid: u32, gid: u32) -> bool {
        self.is_root() || (uid == self.uid && self.groups.contains(&gid))
    }
}

impl From<&Statx> for Inode {
    fn from(found: &Statx) -> Self {
        Self {
            uid: found.stx_uid,
            permissions: found.stx_mode & 0o7777,
            flags: found.stx_attributes,
        }
    }
}

impl Inode {
    /// Whether it is marked immutable or append-only.
    pub(super) fn is_locked(&self) -> bool {
        let locks = StatxAttributes::IMMUTABLE | StatxAttributes::APPEND;
        self.flags.intersects(locks)
    }
}

/// What an error of access(2) says.
pub(super) fn refusal(error: Errno) -> ObstacleKind {
    match error {
        Errno::ROFS => ObstacleKind::ReadOnly,
        Errno::ACCESS | Errno::PERM => ObstacleKind::NotWritable,
        error => ObstacleKind::Unreadable(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use surmise_view::{Identity, Timestamp};

    use super::*;

    fn user(uid: u32) -> User {
        User {
            uid,
            groups: HashSet::from([uid, 50]),
        }
    }

    fn inode(uid: u32, permissions: u16) -> Inode {
        Inode {
            uid,
            permissions,
            flags: StatxAttributes::empty(),
        }
    }

    fn told(obstacles: &[ObstacleKind]) -> Vec<String> {
        obstacles.iter().map(ToString::to_string).collect()
    }

    fn owned_by(uid: u32, gid: u32) -> Attributes {
        Attributes {
            identity: Identity {
                device: 1,
                inode: 2,
                kind: FileKind::Regular,
                size: 0,
                modified: Timestamp::default(),
                changed: Timestamp::default(),
            },
            permissions: 0o644,
            links: 1,
            uid,
            gid,
            special: 0,
            blocks: 0,
            block_size: 4096,
            accessed: Timestamp::default(),
            created: None,
            is_mount_point: false,
        }
    }

    #[test]
    fn an_owner_opens_a_directory_and_nobody_else_does() {
        let writes = |uid, error| {
            let found = inode(1000, 0o555);
            user(uid).writes_in(Err(error), Ok(()), Some(&found))
        };
        assert!(matches!(
            writes(1000, Errno::ACCESS),
            Writing::OnceOpened { permissions: 0o555 }
        ));
        for (uid, error) in [(1000, Errno::ROFS), (1001, Errno::ACCESS)] {
            assert!(matches!(writes(uid, error), Writing::Refused(_)));
        }
        let found = inode(1000, 0o444);
        let passing = Err(Errno::ACCESS);
        let writing = user(1000).writes_in(Err(Errno::ACCESS), passing, Some(&found));
        assert!(matches!(
            writing,
            Writing::Refused(ObstacleKind::NotWritable)
        ));
    }

    #[test]
    fn a_directory_that_is_locked_is_told_as_such_whoever_owns_it() {
        for access in [Ok(()), Err(Errno::PERM)] {
            let found = Inode {
                flags: StatxAttributes::IMMUTABLE,
                ..inode(0, 0o755)
            };
            let writing = user(0).writes_in(access, Ok(()), Some(&found));
            assert!(matches!(writing, Writing::Refused(ObstacleKind::Immutable)));
        }
    }

    #[test]
    fn in_a_sticky_directory_only_ones_own_goes() {
        let sticky = inode(0, 0o1777);
        let keeps = |uid, found| told(&user(uid).keeps_name(&sticky, &inode(found, 0o644)));
        let wanted = ["it belongs to someone else in a sticky directory"];
        assert_eq!(keeps(1000, 1001), wanted);
        assert_eq!(keeps(1000, 1000), [""; 0]);
        assert_eq!(keeps(0, 1001), [""; 0]);
        let open = inode(0, 0o777);
        let keeps = user(1000).keeps_name(&open, &inode(1001, 0o644));
        assert_eq!(told(&keeps), [""; 0]);
    }

    #[test]
    fn only_root_makes_devices_and_everybody_whiteouts() {
        let makes = |uid, device| {
            let content = Content::Special {
                kind: FileKind::CharacterDevice,
                device,
            };
            told(&user(uid).makes(&content, None))
        };
        assert_eq!(makes(1000, 5), ["only root may make device nodes"]);
        assert_eq!(makes(1000, 0), [""; 0]);
        assert_eq!(makes(0, 5), [""; 0]);
    }

    #[test]
    fn a_user_gives_to_their_own_groups_only() {
        let metadata = |uid, gid| Metadata {
            uid: Some(uid),
            gid: Some(gid),
            ..Metadata::default()
        };
        let sets = |wanted: &Metadata, found: &Attributes| {
            user(1000).sets(found, wanted).map(|why| why.to_string())
        };
        let own = owned_by(1000, 1000);
        assert_eq!(sets(&metadata(1000, 50), &own), None);
        let given = Some("only root may give it to user 1000 and group 7".to_owned());
        assert_eq!(sets(&metadata(1000, 7), &own), given);
        let foreign = owned_by(1001, 1000);
        assert_eq!(sets(&metadata(1001, 1000), &foreign), None);
        let mode = Metadata {
            permissions: Some(0o600),
            ..Metadata::default()
        };
        let refused = Some("only its owner or root may change its mode, owner or times".to_owned());
        assert_eq!(sets(&mode, &foreign), refused);
        assert_eq!(sets(&mode, &own), None);
        let foreign = user(0).sets(&foreign, &metadata(5, 5));
        assert!(foreign.is_none());
    }
}
