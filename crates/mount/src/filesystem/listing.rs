//! Directories, as they were when they were opened.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use surmise_fuse::{DirectoryEntry, DirectoryPlusSink, DirectorySink, Entry, OpenReply};
use surmise_lower::FileKind;
use surmise_remote::client::{Request, Response};
use surmise_remote::object::ObjectId;

use super::Far;
use super::kept_listings::List;

/// The names of an open directory. All were asked for when it was opened: to list them then waits for nothing while the
/// kernel holds a lock of the directory.
pub(super) struct Listing {
    directory: ObjectId,
    names: List,
    /// The kernel may keep what it reads.
    is_kept: bool,
    pub(super) losses: u64,
}

/// The two names before those of the directory.
const DOTS: [&str; 2] = [".", ".."];

impl Far {
    pub(super) fn open_directory(&self, node: u64) -> io::Result<OpenReply> {
        let directory = self.nodes.object(node);
        let Response::Names(names) = self.call(Request::Names(directory))? else {
            return Err(Errno::IO.into());
        };
        let losses = self.shell.losses();
        let opening = self.kept_listings.open(directory, names);
        let listing = Listing {
            directory,
            names: opening.names,
            is_kept: opening.is_kept,
            losses,
        };
        let handle = self.handle();
        self.listings().insert(handle, Arc::new(listing));
        Ok(OpenReply {
            handle,
            cache_directory: opening.is_kept,
            keep_cache: opening.goes_on,
            ..OpenReply::default()
        })
    }

    pub(super) fn close_directory(&self, handle: u64) {
        let listing = self.listings().remove(&handle);
        if let Some(listing) = listing.filter(|listing| listing.is_kept) {
            self.kept_listings.close(listing.directory);
        }
    }

    /// What is read of an open directory.
    pub(super) fn read_listing(&self, handle: u64) -> io::Result<Arc<Listing>> {
        let listing = self.listing(handle)?;
        if listing.is_kept {
            self.kept_listings.settle(listing.directory);
        }
        Ok(listing)
    }

    /// Lists with attributes what they are known of, without asking the server.
    pub(super) fn list_with_attributes(
        &self,
        handle: u64,
        offset: u64,
        sink: &mut DirectoryPlusSink<'_>,
    ) -> io::Result<()> {
        let listing = self.read_listing(handle)?;
        for entry in listing.from(offset) {
            if !sink.has_room(entry.name) {
                break;
            }
            let of = entry.next_offset.checked_sub(1 + DOTS.len() as u64);
            let named = of.and_then(|at| listing.names.get(at as usize));
            let known = named.and_then(|(name, object)| {
                let (led, attributes, is_new) = self.shell.glance(listing.directory, name)?;
                if led == *object {
                    return Some((self.entry(led, &attributes), is_new));
                }
                // Another object has the name by now.
                if is_new {
                    self.shell.forget(led, 1);
                }
                None
            });
            // What the kernel knows, it knows by looking up; that lasts. It takes the moment at which it reads a listing for
            // that at which names were looked up, and would not notice what was recalled in between.
            let found = known.filter(|(_, is_new)| *is_new).map(|(entry, _)| Entry {
                entry_lifetime: Duration::ZERO,
                ..entry
            });
            let shown = DirectoryEntry {
                mode: known.map_or(entry.mode, |(known, _)| known.attributes.mode),
                ..entry
            };
            if !sink.add(shown, found) {
                if let Some(found) = found {
                    self.shell.forget(self.nodes.object(found.node), 1);
                }
                break;
            }
        }
        Ok(())
    }

    pub(super) fn listing(&self, handle: u64) -> io::Result<Arc<Listing>> {
        let listing = self.listings().get(&handle).map(Arc::clone);
        listing.ok_or_else(|| Errno::BADF.into())
    }

    pub(super) fn listings(&self) -> MutexGuard<'_, HashMap<u64, Arc<Listing>>> {
        self.listings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listing {
    pub(super) fn list(&self, offset: u64, sink: &mut DirectorySink<'_>) {
        for entry in self.from(offset) {
            if !sink.add(entry) {
                break;
            }
        }
    }

    fn from(&self, offset: u64) -> impl Iterator<Item = DirectoryEntry<'_>> {
        let dots = DOTS.iter().map(|name| (OsStr::new(name), self.directory));
        let names = self.names.iter();
        let names = names.map(|(name, object)| (OsStr::from_bytes(name.as_bytes()), *object));
        let skip = usize::try_from(offset).unwrap_or(usize::MAX);
        let all = (1..).zip(dots.chain(names)).skip(skip);
        all.map(|(next_offset, (name, object))| DirectoryEntry {
            ino: object.number(),
            next_offset,
            mode: match next_offset <= DOTS.len() as u64 {
                true => FileKind::Directory.mode_bits(),
                false => 0,
            },
            name,
        })
    }
}
