//! Open files and their data.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::sync::{MutexGuard, PoisonError};

use rustix::fs::OFlags;
use rustix::io::Errno;
use surmise_fuse::{Caller, Create, Entry, Open, OpenReply, Write};
use surmise_remote::client::{Intent, Request, Response};
use surmise_remote::frame::DATA_BYTES_MAX;
use surmise_remote::operation::NewKind;

use super::Far;

/// An open file.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenFile {
    /// How often changes had been lost when it was opened.
    pub(super) losses: u64,
}

impl Far {
    pub(super) fn open_file(&self, node: u64, open: Open) -> io::Result<OpenReply> {
        let object = self.nodes.object(node);
        let flags = OFlags::from_bits_retain(open.flags);
        if flags.contains(OFlags::TRUNC) {
            self.change(Intent::Resize {
                object,
                size: 0,
                strip: open.kill_privileges,
            })?;
        } else {
            // An object that is no more is looked up again (ESTALE).
            self.call(Request::Attributes(object))?;
        }
        Ok(self.opened(node, flags))
    }

    pub(super) fn create_file(
        &self,
        caller: Caller,
        parent: u64,
        name: &OsStr,
        create: Create,
    ) -> io::Result<(Entry, OpenReply)> {
        let flags = OFlags::from_bits_retain(create.flags);
        let place = self.place(parent, name)?;
        match self.make(caller, place, NewKind::Regular, create.mode) {
            Ok(entry) => Ok((entry, self.opened(entry.node, flags))),
            // Another client was first, and the kernel did not know. It is to look the name up, and to check whether the
            // caller may open what is there.
            Err(error) if is_exist(&error) && !flags.contains(OFlags::EXCL) => {
                Err(Errno::STALE.into())
            }
            Err(error) => Err(error),
        }
    }

    fn opened(&self, node: u64, flags: OFlags) -> OpenReply {
        let handle = self.handle();
        let file = OpenFile {
            losses: self.shell.losses(),
        };
        self.files().insert(handle, file);
        OpenReply {
            handle,
            keep_cache: true,
            no_flush: self.closes_unsaid(node, flags),
            ..OpenReply::default()
        }
    }

    pub(super) fn write_file(&self, node: u64, write: Write<'_>) -> io::Result<usize> {
        // The kernel's offset is of the end that it knows, which another client may have moved.
        let appends = OFlags::from_bits_retain(write.flags).contains(OFlags::APPEND);
        let appends = appends && !write.from_cache;
        let data = &write.data[..write.data.len().min(DATA_BYTES_MAX)];
        self.change(Intent::Write {
            object: self.nodes.object(node),
            offset: (!appends).then_some(write.offset),
            data: data.to_vec(),
            strip: write.kill_privileges,
        })?;
        Ok(data.len())
    }

    /// Waits until all that was changed so far is durable. A file that is not known any more was not opened before
    /// anything was lost.
    pub(super) fn sync(&self, losses: Option<u64>) -> io::Result<()> {
        let losses = losses.unwrap_or_else(|| self.shell.losses());
        match self.call(Request::Sync(losses))? {
            Response::Done => Ok(()),
            _ => Err(Errno::IO.into()),
        }
    }

    pub(super) fn files(&self) -> MutexGuard<'_, HashMap<u64, OpenFile>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_exist(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::EXIST.raw_os_error())
}
