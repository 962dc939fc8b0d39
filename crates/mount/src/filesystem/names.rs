//! Names in directories.

use std::ffi::OsStr;
use std::io;

use rustix::io::Errno;
use surmise_fuse::{Lookup, RenameFlags};
use surmise_remote::client::{Intent, Request, Response};

use super::{CALLER, Far, error, name_of};

impl Far {
    pub(super) fn look_up(&self, parent: u64, name: &OsStr) -> io::Result<Lookup> {
        let (directory, name) = (self.nodes.object(parent), name_of(name)?);
        // Most names are known: programs look up thousands one after the other.
        if let Some((object, attributes)) = self.shell.look_up_known(directory, &name) {
            return Ok(Lookup::Found(self.entry(object, &attributes)));
        }
        let request = Request::Lookup(directory, name);
        let answer = self.shell.call_for_entry(request, CALLER.get());
        match answer.map_err(error)? {
            Response::Entry(Some((object, attributes))) => {
                Ok(Lookup::Found(self.entry(object, &attributes)))
            }
            Response::Entry(None) => Ok(Lookup::Absent {
                lifetime: self.lifetimes().names,
            }),
            _ => Err(Errno::IO.into()),
        }
    }

    pub(super) fn remove(&self, parent: u64, name: &OsStr, directory: bool) -> io::Result<()> {
        let place = self.place(parent, name)?;
        self.change(Intent::Remove { place, directory })?;
        Ok(())
    }

    pub(super) fn move_name(
        &self,
        (parent, name): (u64, &OsStr),
        (new_parent, new_name): (u64, &OsStr),
        flags: RenameFlags,
    ) -> io::Result<()> {
        if !(RenameFlags::NOREPLACE | RenameFlags::EXCHANGE).contains(flags) {
            return Err(Errno::INVAL.into());
        }
        self.change(Intent::Rename {
            from: self.place(parent, name)?,
            to: self.place(new_parent, new_name)?,
            no_replace: flags.contains(RenameFlags::NOREPLACE),
            exchange: flags.contains(RenameFlags::EXCHANGE),
        })?;
        Ok(())
    }
}
