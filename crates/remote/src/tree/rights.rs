//! What a server may not change that runs as an ordinary user.
//!
//! The kernel of a client has checked the rights of its program. The server's kernel checks those of the server. What it would
//! refuse is refused before the verdict; afterwards it would be a broken promise (credentials(7), path_resolution(7)).

use surmise_lower::FileKind;

use super::{Refusal, Tree, User};
use crate::errno::Errno;
use crate::object::{Attributes, ObjectId};
use crate::operation::{Change, NewKind, NewObject, Place, SetAttributes};

const WRITE: u16 = 0o2;
const SEARCH: u16 = 0o1;
const STICKY: u16 = 0o1000;

impl Tree {
    /// Whether the server has the right to make this change.
    pub(super) fn may(&self, change: &Change) -> Result<(), Refusal> {
        let Some(user) = &self.limits.user else {
            return Ok(());
        };
        match change {
            Change::Create { place, new, .. } => self.may_create(user, place, new),
            Change::Link { object, place } => {
                self.may_name(user, place.parent)?;
                // What another user owns may be linked where fs.protected_hardlinks is off; it seldom is.
                must(
                    self.known(*object)?.attributes.owner == user.id,
                    Errno::PERM,
                )
            }
            Change::Remove { place, object, .. } => self.may_unname(user, place, *object),
            Change::Rename {
                from,
                object,
                to,
                replaced,
                exchange,
            } => {
                self.may_unname(user, from, *object)?;
                self.may_name(user, to.parent)?;
                let moves = from.parent != to.parent;
                self.may_be_moved(user, *object, moves)?;
                let Some(replaced) = *replaced else {
                    return Ok(());
                };
                self.may_unname(user, to, replaced)?;
                self.may_be_moved(user, replaced, moves && *exchange)
            }
            Change::SetAttributes { object, set } => self.may_set(user, *object, set),
            Change::Resize { object, .. }
            | Change::Write { object, .. }
            | Change::SetExtended { object, .. } => {
                let attributes = self.known(*object)?.attributes;
                // An owner writes through a file that was opened before the bits went, too.
                let may = attributes.owner == user.id || user.has(WRITE, &attributes);
                must(may, Errno::ACCES)
            }
        }
    }

    fn may_create(&self, user: &User, place: &Place, new: &NewObject) -> Result<(), Refusal> {
        self.may_name(user, place.parent)?;
        let is_device = matches!(
            new.kind,
            NewKind::CharacterDevice(_) | NewKind::BlockDevice(_)
        );
        let is_own = new.owner == user.id && user.groups.contains(&new.group);
        must(is_own && !is_device, Errno::PERM)
    }

    /// Whether names may come into a directory.
    fn may_name(&self, user: &User, directory: ObjectId) -> Result<(), Refusal> {
        let attributes = self.known(directory)?.attributes;
        must(user.has(WRITE | SEARCH, &attributes), Errno::ACCES)
    }

    fn may_unname(&self, user: &User, place: &Place, object: ObjectId) -> Result<(), Refusal> {
        self.may_name(user, place.parent)?;
        let parent = self.known(place.parent)?.attributes;
        let owners = [parent.owner, self.known(object)?.attributes.owner];
        let is_protected = parent.permissions & STICKY != 0 && !owners.contains(&user.id);
        must(!is_protected, Errno::PERM)
    }

    /// A directory that comes to another one gets another `..`.
    fn may_be_moved(&self, user: &User, object: ObjectId, moves: bool) -> Result<(), Refusal> {
        let attributes = self.known(object)?.attributes;
        let is_written = moves && attributes.kind == FileKind::Directory;
        must(!is_written || user.has(WRITE, &attributes), Errno::ACCES)
    }

    fn may_set(&self, user: &User, object: ObjectId, set: &SetAttributes) -> Result<(), Refusal> {
        let attributes = self.known(object)?.attributes;
        let keeps_owner = set.owner.is_none_or(|owner| owner == attributes.owner);
        let group_is_own = set
            .group
            .is_none_or(|group| group == attributes.group || user.groups.contains(&group));
        let may = attributes.owner == user.id && keeps_owner && group_is_own;
        must(may, Errno::PERM)
    }
}

impl User {
    /// Whether this user has all of these rights, by the bits of its class alone.
    fn has(&self, rights: u16, attributes: &Attributes) -> bool {
        let class = if attributes.owner == self.id {
            6
        } else if self.groups.contains(&attributes.group) {
            3
        } else {
            0
        };
        attributes.permissions >> class & rights == rights
    }
}

fn must(holds: bool, errno: Errno) -> Result<(), Refusal> {
    if holds { Ok(()) } else { Err(errno.into()) }
}

#[cfg(test)]
mod tests {
    use surmise_lower::Timestamp;

    use super::*;
    use crate::object::{Body, Name, Names, Object, Versions};
    use crate::operation::Operation;
    use crate::tree::Limits;

    const ROOT: ObjectId = ObjectId::found(1).expect("a number");
    const FILE: ObjectId = ObjectId::found(2).expect("a number");
    const OURS: u32 = 7;
    const OTHERS: u32 = 8;

    /// A directory with one file, of these owners and permissions, on a server that runs as `OURS`.
    fn tree(root: (u32, u16), file: (u32, u16)) -> Tree {
        let limits = Limits {
            user: Some(User {
                id: OURS,
                groups: vec![70, 71],
            }),
            ..Limits::default()
        };
        let mut tree = Tree::whole(limits);
        let attributes = |kind, (owner, permissions): (u32, u16)| Attributes {
            kind,
            permissions,
            links: 2,
            owner,
            group: 80,
            size: 0,
            device: 0,
            accessed: Timestamp::default(),
            modified: Timestamp::default(),
            changed: Timestamp::default(),
        };
        let root = attributes(FileKind::Directory, root);
        let mut root = Object::new(root, Versions::default());
        root.body = Body::Names(Some(Names::from([(name("f"), FILE)])));
        tree.learn(ROOT, root);
        let file = attributes(FileKind::Regular, file);
        tree.learn(FILE, Object::new(file, Versions::default()));
        tree
    }

    fn name(name: &str) -> Name {
        name.as_bytes().try_into().expect("a name")
    }

    fn place(of: &str) -> Place {
        Place {
            parent: ROOT,
            name: name(of),
        }
    }

    fn outcome(mut tree: Tree, change: Change) -> Result<(), Errno> {
        let at = Timestamp::default();
        match tree.apply(&Operation { at, change }) {
            Ok(()) => Ok(()),
            Err(Refusal::Errno(errno)) => Err(errno),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn names_change_where_the_directory_lets_the_servers_user() {
        let remove = || Change::Remove {
            place: place("f"),
            object: FILE,
            directory: false,
        };
        for (root, file, expected) in [
            ((OURS, 0o700), (OTHERS, 0o600), Ok(())),
            ((OURS, 0o500), (OURS, 0o600), Err(Errno::ACCES)),
            ((OTHERS, 0o775), (OURS, 0o600), Err(Errno::ACCES)),
            ((OTHERS, 0o777), (OTHERS, 0o600), Ok(())),
            ((OTHERS, 0o1777), (OTHERS, 0o600), Err(Errno::PERM)),
            ((OTHERS, 0o1777), (OURS, 0o600), Ok(())),
        ] {
            let made = outcome(tree(root, file), remove());
            assert_eq!(made, expected, "{root:?} {file:?}");
        }
    }

    #[test]
    fn a_new_object_belongs_to_the_servers_user() {
        let create = |kind, owner, group| Change::Create {
            place: place("new"),
            object: ObjectId::found(3).expect("a number"),
            new: NewObject {
                kind,
                permissions: 0o600,
                owner,
                group,
            },
        };
        let of = |change| outcome(tree((OURS, 0o700), (OURS, 0o600)), change);
        assert_eq!(of(create(NewKind::Regular, OURS, 71)), Ok(()));
        assert_eq!(of(create(NewKind::Fifo, OTHERS, 71)), Err(Errno::PERM));
        assert_eq!(of(create(NewKind::Fifo, OURS, 80)), Err(Errno::PERM));
        let device = create(NewKind::BlockDevice(1), OURS, 70);
        assert_eq!(of(device), Err(Errno::PERM));
    }

    #[test]
    fn only_an_owner_sets_attributes_and_writes_without_the_bits() {
        let write = || Change::Resize {
            object: FILE,
            size: 1,
            strip: false,
        };
        let set = |set| Change::SetAttributes { object: FILE, set };
        let of = |file, change| outcome(tree((OURS, 0o700), file), change);
        assert_eq!(of((OURS, 0o400), write()), Ok(()));
        assert_eq!(of((OTHERS, 0o664), write()), Err(Errno::ACCES));
        assert_eq!(of((OTHERS, 0o666), write()), Ok(()));
        let bits = SetAttributes {
            permissions: Some(0o644),
            ..SetAttributes::default()
        };
        assert_eq!(of((OURS, 0o600), set(bits)), Ok(()));
        assert_eq!(of((OTHERS, 0o666), set(bits)), Err(Errno::PERM));
        let away = SetAttributes {
            owner: Some(OTHERS),
            ..SetAttributes::default()
        };
        assert_eq!(of((OURS, 0o600), set(away)), Err(Errno::PERM));
        let group = |group| SetAttributes {
            group: Some(group),
            ..SetAttributes::default()
        };
        assert_eq!(of((OURS, 0o600), set(group(71))), Ok(()));
        assert_eq!(of((OURS, 0o600), set(group(72))), Err(Errno::PERM));
    }
}
