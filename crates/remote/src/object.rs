//! What an export holds: objects, with their attributes and what is in them.

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Display, Formatter};

use serde::{Deserialize, Serialize};
use surmise_lower::{FileKind, Timestamp};

/// The longest name of a directory entry or an extended attribute, in bytes (limits.h, `NAME_MAX`).
pub const NAME_BYTES_MAX: usize = 255;

/// Names an object for ever; no other object of the export ever has the same id.
///
/// A client chooses the ids of the objects that it makes. So it can go on with an object before the server
/// has heard of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectId(u64);

/// What the ids of one client's objects begin with. The server gives each out once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Prefix(pub u32);

impl ObjectId {
    const MADE: u64 = 1 << 63;

    /// An object that no client made, by its inode number; `None` for a number above 2^63, which no file
    /// system of Linux gives out.
    pub const fn found(inode: u64) -> Option<Self> {
        if inode < Self::MADE {
            Some(Self(inode))
        } else {
            None
        }
    }

    /// The object of this number that a client makes; `None` for a prefix above 2^31.
    pub fn made(prefix: Prefix, number: u32) -> Option<Self> {
        let prefix = u64::from(prefix.0);
        (prefix < 1 << 31).then_some(Self(Self::MADE | prefix << 32 | u64::from(number)))
    }

    /// The prefix of the client that made it; `None` if it was found.
    pub fn maker(self) -> Option<Prefix> {
        let prefix = u32::try_from((self.0 & !Self::MADE) >> 32).expect("31 bits");
        (self.0 & Self::MADE != 0).then_some(Prefix(prefix))
    }

    /// The object whose [`ObjectId::number`] this is.
    pub const fn numbered(number: u64) -> Self {
        Self(number)
    }

    /// What programs see as `st_ino`.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl Debug for ObjectId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.maker() {
            None => write!(f, "inode {}", self.0),
            Some(prefix) => write!(f, "object {}.{}", prefix.0, self.0 & u64::from(u32::MAX)),
        }
    }
}

impl Display for ObjectId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Debug::fmt(self, f)
    }
}

/// The name of a directory entry: 1 to [`NAME_BYTES_MAX`] bytes, no slash, no zero byte, not `.` or `..`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub struct Name(Box<[u8]>);

/// Bytes that cannot be the name of a directory entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} cannot be a name in a directory", .0.escape_ascii())]
pub struct BadName(Vec<u8>);

impl Name {
    /// Another name: these bytes, as far as there is room, and the ending.
    ///
    /// # Errors
    /// [`BadName`].
    pub fn with_ending(name: &[u8], ending: &str) -> Result<Self, BadName> {
        let length = name.len().min(NAME_BYTES_MAX.saturating_sub(ending.len()));
        [&name[..length], ending.as_bytes()].concat().try_into()
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl TryFrom<Vec<u8>> for Name {
    type Error = BadName;

    fn try_from(bytes: Vec<u8>) -> Result<Self, BadName> {
        let fits = (1..=NAME_BYTES_MAX).contains(&bytes.len());
        let is_plain = !bytes.iter().any(|byte| matches!(byte, b'/' | 0));
        if fits && is_plain && !matches!(&bytes[..], b"." | b"..") {
            Ok(Self(bytes.into()))
        } else {
            Err(BadName(bytes))
        }
    }
}

impl TryFrom<&[u8]> for Name {
    type Error = BadName;

    fn try_from(bytes: &[u8]) -> Result<Self, BadName> {
        bytes.to_vec().try_into()
    }
}

impl From<Name> for Vec<u8> {
    fn from(name: Name) -> Self {
        name.0.into()
    }
}

impl Debug for Name {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

/// What stat(2) tells of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// It never changes.
    pub kind: FileKind,
    /// Permission, set-id and sticky bits: `st_mode & 07777`.
    pub permissions: u16,
    /// Number of names, as the server's file system counts them; 0 once the last one is gone.
    pub links: u32,
    /// Owner.
    pub owner: u32,
    /// Group.
    pub group: u32,
    /// Size in bytes. Of a directory, what it was when the server last looked.
    pub size: u64,
    /// Device number of a device node, in the encoding of makedev(3).
    pub device: u64,
    /// Last access; reading does not change it.
    pub accessed: Timestamp,
    /// Last change of its content.
    pub modified: Timestamp,
    /// Last change of anything about it.
    pub changed: Timestamp,
}

/// How often each part of an object was changed. What a client has kept of a part is right while its version
/// is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Versions {
    /// Of a file's data, or of a directory's names.
    pub content: u64,
    /// Of owner, group, permissions and extended attributes.
    pub permissions: u64,
    /// Of the times and the number of names.
    pub times: u64,
}

/// The names in a directory.
pub type Names = BTreeMap<Name, ObjectId>;

/// Extended attributes, by name.
pub type Extended = BTreeMap<Name, Vec<u8>>;

/// What an object holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// A regular file's data, which the shells keep.
    Data,
    /// A directory's names; `None` while they are not known.
    Names(Option<Names>),
    /// Where a symbolic link leads.
    Target(Vec<u8>),
    /// A pipe, a socket or a device node has nothing in it.
    Nothing,
}

/// An object as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// What stat(2) tells.
    pub attributes: Attributes,
    /// In which state each part is.
    pub versions: Versions,
    /// Extended attributes, all of them.
    pub extended: Extended,
    /// What it holds.
    pub body: Body,
}

impl Object {
    /// One without names or data that are known.
    pub fn new(attributes: Attributes, versions: Versions) -> Self {
        let body = match attributes.kind {
            FileKind::Regular => Body::Data,
            FileKind::Directory => Body::Names(None),
            FileKind::Symlink => Body::Target(Vec::new()),
            _ => Body::Nothing,
        };
        Self {
            attributes,
            versions,
            extended: Extended::new(),
            body,
        }
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.attributes.kind == FileKind::Directory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_found_and_made_objects_never_meet() {
        let found = ObjectId::found(42).expect("an inode number");
        let made = ObjectId::made(Prefix(7), 42).expect("a small prefix");
        assert_ne!(found, made);
        assert_eq!((found.maker(), made.maker()), (None, Some(Prefix(7))));
        assert_eq!(format!("{found} {made}"), "inode 42 object 7.42");
        assert_eq!(ObjectId::found(1 << 63), None);
        assert_eq!(ObjectId::made(Prefix(1 << 31), 0), None);
        let last = ObjectId::made(Prefix((1 << 31) - 1), u32::MAX).expect("the last one");
        assert_eq!(last.maker(), Some(Prefix((1 << 31) - 1)));
    }

    #[test]
    fn only_single_components_are_names() {
        let is_name = |bytes: &[u8]| Name::try_from(bytes).is_ok();
        assert!(is_name(b"a") && is_name(b"...") && is_name(b"\xff \n") && is_name(&[b'a'; 255]));
        for bad in [&b""[..], b".", b"..", b"a/b", b"a\0", &[b'a'; 256]] {
            assert!(!is_name(bad), "{}", bad.escape_ascii());
        }
    }
}
