//! What a call touches in the view.
//!
//! The view has these types, too, with the same meanings (`surmise_view::Look` and those beside it). Neither crate knows the other:
//! `launch` maps one to the other.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// One thing that a call touches.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Look {
    /// What it is.
    pub target: Target,
    /// What the call does there.
    pub manner: Manner,
}

/// What a call touches.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Target {
    /// What a path leads to.
    Path {
        /// Where a relative path begins: an absolute path without links.
        #[serde(with = "any_path")]
        base: PathBuf,
        /// The path.
        #[serde(with = "any_path")]
        path: PathBuf,
        /// Whether a link at its end is followed.
        follows: bool,
    },
    /// An inode, by the number that it shows.
    Inode(u64),
}

/// How a call touches something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Manner {
    /// It sees what changes in an order: data, rights, that it is there.
    Passes,
    /// It sees all attributes.
    Looks,
    /// It gives or takes a name of the inode, elsewhere.
    Links,
    /// It opens a file, and sees no attributes of it yet.
    Opens {
        /// Whether it makes the file where there is none.
        creates: bool,
        /// Whether it changes the file.
        changes: bool,
    },
    /// It sees all names in a directory.
    Lists,
    /// It changes attributes or data.
    Changes,
    /// It gives, takes away or replaces the name at the end of the path.
    Binds,
    /// It executes a program, with its interpreters.
    Executes,
}

/// What a call does to one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Share {
    /// It sees what does not commute.
    Passes,
    /// It changes what commutes.
    Commutes,
    /// It sees all.
    Looks,
    /// It changes what does not commute.
    Changes,
}

/// What calls touch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Touches {
    /// The undecided marks that they meet.
    pub marks: Vec<u64>,
    /// The cells, each by a number that stays the same.
    pub cells: Vec<(u64, Share)>,
    /// Whether they may touch more than that.
    pub in_doubt: bool,
    /// What each look leads to, in the order of the looks.
    pub ends: Vec<End>,
}

/// What a path leads to. A link at its end that is not followed is what it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// Nobody knows, or it is no path.
    Unknown,
    /// No name; or the kernel goes no further.
    Nothing,
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
    /// A FIFO, a socket or a device node.
    Other,
}

/// What a call may touch in the view, as far as its name and flags tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Touch {
    Nothing,
    /// It changes nothing.
    Looks,
    /// It changes no name.
    Changes,
    /// It may change where names lead.
    Binds,
}

/// What a call touches in the view, as far as its arguments tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    Nothing,
    At {
        looks: Vec<Look>,
        /// Where its caller finds something else than the view.
        elsewhere: Arc<HashSet<PathBuf>>,
        /// Whether it may reach more than that: another thread may be about to change directory.
        in_doubt: bool,
    },
    /// It may be anything.
    Everything,
}

impl Share {
    /// Whether it makes a difference which of two calls comes first.
    pub(crate) fn is_ordered_with(self, other: Self) -> bool {
        use Share::{Changes, Commutes, Looks};
        self == Changes
            || other == Changes
            || matches!((self, other), (Commutes, Looks) | (Looks, Commutes))
    }
}

/// A path is written as text if it is text, and as bytes if not.
mod any_path {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Text(String),
        Bytes(Vec<u8>),
    }

    pub(super) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        match path.to_str() {
            Some(text) => text.serialize(serializer),
            None => path.as_os_str().as_bytes().serialize(serializer),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<PathBuf, D::Error> {
        Ok(match Written::deserialize(deserializer)? {
            Written::Text(text) => text.into(),
            Written::Bytes(bytes) => OsString::from_vec(bytes).into(),
        })
    }
}
