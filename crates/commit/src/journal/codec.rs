//! Values as bytes and back. What a value is made of is written in order, with nothing between.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use surmise_view::{FileKind, Identity, InodeKey, ObjectId, Timestamp};

/// A value that a frame can hold. `take` returns `None` for bytes that `put` does not write.
pub(super) trait Field: Sized {
    fn put(&self, bytes: &mut Vec<u8>);
    fn take(bytes: &mut &[u8]) -> Option<Self>;
}

/// A struct is its fields.
macro_rules! fields {
    ($type:ident { $($field:ident),* $(,)? }) => {
        impl Field for $type {
            fn put(&self, bytes: &mut Vec<u8>) {
                $(self.$field.put(bytes);)*
            }

            fn take(bytes: &mut &[u8]) -> Option<Self> {
                $(let $field = Field::take(bytes)?;)*
                Some(Self { $($field),* })
            }
        }
    };
}
pub(super) use fields;

macro_rules! integers {
    ($($type:ident),*) => {$(
        impl Field for $type {
            fn put(&self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }

            fn take(bytes: &mut &[u8]) -> Option<Self> {
                let (value, rest) = bytes.split_first_chunk()?;
                *bytes = rest;
                Some(Self::from_le_bytes(*value))
            }
        }
    )*};
}

integers!(u8, u16, u32, u64, i64);

fields!(Timestamp {
    seconds,
    nanoseconds
});
fields!(InodeKey { device, inode });
fields!(Identity {
    device,
    inode,
    kind,
    size,
    modified,
    changed
});

impl Field for usize {
    fn put(&self, bytes: &mut Vec<u8>) {
        (*self as u64).put(bytes);
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        u64::take(bytes)?.try_into().ok()
    }
}

impl Field for bool {
    fn put(&self, bytes: &mut Vec<u8>) {
        u8::from(*self).put(bytes);
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        match u8::take(bytes)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Field for ObjectId {
    fn put(&self, bytes: &mut Vec<u8>) {
        self.0.put(bytes);
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        u64::take(bytes).map(Self)
    }
}

impl Field for FileKind {
    fn put(&self, bytes: &mut Vec<u8>) {
        self.mode_bits().put(bytes);
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        let bits = u32::take(bytes)?;
        // Nothing but the kind was written.
        Self::of_mode(bits).filter(|kind| kind.mode_bits() == bits)
    }
}

impl Field for Vec<u8> {
    fn put(&self, bytes: &mut Vec<u8>) {
        count(self.len()).put(bytes);
        bytes.extend_from_slice(self);
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        let length = u32::take(bytes)? as usize;
        let (run, rest) = bytes.split_at_checked(length)?;
        *bytes = rest;
        Some(run.to_vec())
    }
}

impl Field for OsString {
    fn put(&self, bytes: &mut Vec<u8>) {
        count(self.len()).put(bytes);
        bytes.extend_from_slice(self.as_bytes());
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        Vec::take(bytes).map(Self::from_vec)
    }
}

impl<T: Field> Field for Option<T> {
    fn put(&self, bytes: &mut Vec<u8>) {
        self.is_some().put(bytes);
        if let Some(value) = self {
            value.put(bytes);
        }
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        match bool::take(bytes)? {
            true => T::take(bytes).map(Some),
            false => Some(None),
        }
    }
}

impl<A: Field, B: Field> Field for (A, B) {
    fn put(&self, bytes: &mut Vec<u8>) {
        self.0.put(bytes);
        self.1.put(bytes);
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        Some((A::take(bytes)?, B::take(bytes)?))
    }
}

/// A list, where `Vec<u8>` is a run of bytes instead.
pub(super) trait Element: Field {}

impl<T: Element> Field for Vec<T> {
    fn put(&self, bytes: &mut Vec<u8>) {
        count(self.len()).put(bytes);
        for value in self {
            value.put(bytes);
        }
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        (0..u32::take(bytes)?).map(|_| T::take(bytes)).collect()
    }
}

fn count(length: usize) -> u32 {
    u32::try_from(length).expect("names, values and lists of one step are short")
}
