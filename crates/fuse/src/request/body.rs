//! The bytes after a request's header, taken front to back.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use zerocopy::FromBytes;

/// The bytes ended before a field, name or data did.
#[derive(Debug)]
pub(super) struct End;

/// What of a request is not decoded yet.
pub(super) struct Body<'a>(pub(super) &'a [u8]);

impl<'a> Body<'a> {
    pub(super) fn fixed<T: FromBytes>(&mut self) -> Result<T, End> {
        let (value, rest) = T::read_from_prefix(self.0).map_err(|_| End)?;
        self.0 = rest;
        Ok(value)
    }

    pub(super) fn name(&mut self) -> Result<&'a OsStr, End> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(End)?;
        let (name, rest) = self.0.split_at(end);
        self.0 = &rest[1..];
        Ok(OsStr::from_bytes(name))
    }

    pub(super) fn data(&mut self, length: usize) -> Result<&'a [u8], End> {
        let (data, rest) = self.0.split_at_checked(length).ok_or(End)?;
        self.0 = rest;
        Ok(data)
    }
}
