//! Changes as programs ask for them: by names. The client finds out what the names lead to.

use crate::object::{Name, ObjectId};
use crate::operation::{NewObject, Place, SetAttributes};

/// A change that a program asks for. The kernel has checked the caller's rights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Intent {
    /// Make an object.
    Create {
        /// Its name.
        place: Place,
        /// What it is to be.
        new: NewObject,
    },
    /// Give an object one more name.
    Link {
        /// Which.
        object: ObjectId,
        /// The name.
        place: Place,
    },
    /// Take a name away.
    Remove {
        /// Which.
        place: Place,
        /// By rmdir(2), not unlink(2).
        directory: bool,
    },
    /// Move a name.
    Rename {
        /// From here.
        from: Place,
        /// To there.
        to: Place,
        /// Only if nothing has the new name (`RENAME_NOREPLACE`).
        no_replace: bool,
        /// Let both names change places (`RENAME_EXCHANGE`).
        exchange: bool,
    },
    /// Set attributes.
    SetAttributes {
        /// Whose.
        object: ObjectId,
        /// Which.
        set: SetAttributes,
    },
    /// Give a file another size.
    Resize {
        /// Which file.
        object: ObjectId,
        /// In bytes.
        size: u64,
        /// Whether set-id bits go.
        strip: bool,
    },
    /// Write bytes.
    Write {
        /// Which file.
        object: ObjectId,
        /// Where the first byte goes; `None` for the end of the file.
        offset: Option<u64>,
        /// At most [`DATA_BYTES_MAX`](crate::frame::DATA_BYTES_MAX).
        data: Vec<u8>,
        /// Whether set-id bits go.
        strip: bool,
    },
    /// Set an extended attribute, or remove it where there is no value.
    SetExtended {
        /// Whose.
        object: ObjectId,
        /// Its name.
        name: Name,
        /// Its value.
        value: Option<Vec<u8>>,
        /// Fail if it is there (`XATTR_CREATE`).
        create: bool,
        /// Fail if it is not there (`XATTR_REPLACE`).
        replace: bool,
    },
}

impl Intent {
    /// Whether the caller itself names this object.
    pub(super) fn names(&self, object: ObjectId) -> bool {
        match self {
            Self::Create { place, .. } | Self::Remove { place, .. } => place.parent == object,
            Self::Link { object: one, place } => *one == object || place.parent == object,
            Self::Rename { from, to, .. } => from.parent == object || to.parent == object,
            Self::SetAttributes { object: one, .. }
            | Self::Resize { object: one, .. }
            | Self::Write { object: one, .. }
            | Self::SetExtended { object: one, .. } => *one == object,
        }
    }
}
