//! Extended attributes.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::XattrFlags;
use rustix::io::Errno;
use surmise_remote::client::{Intent, Request, Response};
use surmise_remote::object::{Extended, Name};

use super::Far;

impl Far {
    pub(super) fn set_extended(
        &self,
        node: u64,
        name: &OsStr,
        value: Option<&[u8]>,
        flags: u32,
    ) -> io::Result<()> {
        let flags = XattrFlags::from_bits_retain(flags);
        self.change(Intent::SetExtended {
            object: self.nodes.object(node),
            name: far_name(name)?,
            value: value.map(<[u8]>::to_vec),
            create: flags.contains(XattrFlags::CREATE),
            replace: flags.contains(XattrFlags::REPLACE),
        })?;
        Ok(())
    }

    pub(super) fn extended(&self, node: u64, name: &OsStr, buffer: &mut [u8]) -> io::Result<usize> {
        let name = far_name(name)?;
        let all = self.all_extended(node)?;
        let value = all.get(&name).ok_or(Errno::NODATA)?;
        let room = buffer.get_mut(..value.len()).ok_or(Errno::RANGE)?;
        room.copy_from_slice(value);
        Ok(value.len())
    }

    pub(super) fn list_extended(&self, node: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let all = self.all_extended(node)?;
        let names = all.keys().flat_map(|name| [name.as_bytes(), b"\0"]);
        let names: Vec<u8> = names.flatten().copied().collect();
        let room = buffer.get_mut(..names.len()).ok_or(Errno::RANGE)?;
        room.copy_from_slice(&names);
        Ok(names.len())
    }

    fn all_extended(&self, node: u64) -> io::Result<Extended> {
        match self.call(Request::Extended(self.nodes.object(node)))? {
            Response::Extended(all) => Ok(all),
            _ => Err(Errno::IO.into()),
        }
    }
}

/// The name of an attribute that the server keeps. All others mean something to the kernel of one machine (xattr(7)).
fn far_name(name: &OsStr) -> io::Result<Name> {
    let is_users = name.as_bytes().starts_with(b"user.");
    let name = Name::try_from(name.as_bytes()).ok();
    let name = name.filter(|_| is_users);
    name.ok_or_else(|| Errno::OPNOTSUPP.into())
}
