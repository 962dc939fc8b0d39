//! The fields that records are made of.

use std::ffi::{OsStr, OsString};

use crate::codec::{Malformed, Reader, Writer};
use crate::types::{FileKind, Identity, MarkId, Timestamp};

impl Writer {
    pub(super) fn name(&mut self, name: &OsStr) -> &mut Self {
        self.run(name.as_encoded_bytes())
    }

    pub(super) fn marks(&mut self, marks: &[MarkId]) {
        self.u32(u32::try_from(marks.len()).expect("marks of one decision are few"));
        for mark in marks {
            self.u64(mark.0);
        }
    }

    pub(super) fn lower(&mut self, lower: Option<&Identity>) {
        self.optional(lower, |writer, identity| {
            writer.identity(identity);
        });
    }

    pub(super) fn time(&mut self, time: Timestamp) -> &mut Self {
        self.u64(time.seconds.cast_unsigned()).u32(time.nanoseconds)
    }

    pub(crate) fn identity(&mut self, identity: &Identity) -> &mut Self {
        self.u64(identity.device).u64(identity.inode);
        self.u8(identity.kind as u8).u64(identity.size);
        self.time(identity.modified).time(identity.changed)
    }
}

impl Reader<'_> {
    pub(super) fn marks(&mut self) -> Result<Vec<MarkId>, Malformed> {
        // One by one, since a damaged count may be anything.
        (0..self.u32()?).map(|_| self.u64().map(MarkId)).collect()
    }

    pub(super) fn name(&mut self) -> Result<OsString, Malformed> {
        use std::os::unix::ffi::OsStringExt;
        self.run().map(OsString::from_vec)
    }

    pub(super) fn time(&mut self) -> Result<Timestamp, Malformed> {
        Ok(Timestamp {
            seconds: self.u64()?.cast_signed(),
            nanoseconds: self.u32()?,
        })
    }

    pub(super) fn kind(&mut self) -> Result<FileKind, Malformed> {
        FileKind::from_code(self.u8()?).ok_or(Malformed)
    }

    pub(crate) fn identity(&mut self) -> Result<Identity, Malformed> {
        Ok(Identity {
            device: self.u64()?,
            inode: self.u64()?,
            kind: self.kind()?,
            size: self.u64()?,
            modified: self.time()?,
            changed: self.time()?,
        })
    }
}
