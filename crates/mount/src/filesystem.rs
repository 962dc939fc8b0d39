//! What the kernel asks, as calls of the client.

mod attributes;
mod extended;
mod files;
mod kept_listings;
mod listing;
mod locks;
mod names;

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use surmise_fuse::{
    Caller, Create, DirectoryPlusSink, DirectorySink, Entry, FileLock, FileSystem, KnownAttributes,
    Lookup, Negotiated, Notifier, Open, OpenReply, RenameFlags, SetAttributes, Statistics, Write,
};
use surmise_remote::client::{Intent, Request, Response};
use surmise_remote::errno::Errno as Number;
use surmise_remote::object::{self, Name, ObjectId};
use surmise_remote::operation::{NewKind, NewObject, Place};

use crate::kernel::{Begun, Lifetimes};
use crate::nodes::Nodes;
use crate::owners::Owners;
use crate::shell::{self, Shell};
use files::OpenFile;
use kept_listings::KeptListings;
use listing::Listing;
use locks::Lockers;

thread_local! {
    /// Of the request that this thread answers.
    static CALLER: Cell<shell::Caller> = Cell::default();
}

/// The file system of one mount.
pub struct Far {
    shell: Arc<Shell>,
    nodes: Nodes,
    owners: Owners,
    lifetimes: OnceLock<Lifetimes>,
    /// Hears of the kernel when that has begun.
    begun: Sender<Begun>,
    kernel: OnceLock<Notifier>,
    files: Mutex<HashMap<u64, OpenFile>>,
    listings: Mutex<HashMap<u64, Arc<Listing>>>,
    kept_listings: KeptListings,
    lockers: Mutex<Lockers>,
    next_handle: AtomicU64,
    /// The server's space, and when it said so.
    space: Mutex<Option<(Instant, Statistics)>>,
}

impl Far {
    /// The directory `root` of the server that `shell` is a client of.
    pub fn new(shell: Arc<Shell>, root: ObjectId, owners: Owners, begun: Sender<Begun>) -> Self {
        Self {
            shell,
            nodes: Nodes::new(root),
            owners,
            lifetimes: OnceLock::new(),
            begun,
            kernel: OnceLock::new(),
            files: Mutex::default(),
            listings: Mutex::default(),
            kept_listings: KeptListings::default(),
            lockers: Mutex::default(),
            next_handle: AtomicU64::new(1),
            space: Mutex::default(),
        }
    }

    fn lifetimes(&self) -> Lifetimes {
        *self.lifetimes.get_or_init(|| Lifetimes::new(false))
    }

    fn call(&self, request: Request) -> io::Result<Response> {
        self.shell.call(request, CALLER.get()).map_err(error)
    }

    fn change(&self, intent: Intent) -> io::Result<Response> {
        self.call(Request::Change(intent))
    }

    fn handle(&self) -> u64 {
        self.next_handle.fetch_add(1, Ordering::Relaxed)
    }

    fn place(&self, parent: u64, name: &OsStr) -> io::Result<Place> {
        Ok(Place {
            parent: self.nodes.object(parent),
            name: name_of(name)?,
        })
    }

    fn entry(&self, object: ObjectId, attributes: &object::Attributes) -> Entry {
        let lifetimes = self.lifetimes();
        Entry {
            node: self.nodes.node(object),
            generation: 0,
            attributes: self.attributes(object, attributes),
            entry_lifetime: lifetimes.names,
            attributes_lifetime: lifetimes.attributes,
        }
    }

    /// Makes an object, of which the kernel is told.
    fn make(&self, caller: Caller, place: Place, kind: NewKind, mode: u32) -> io::Result<Entry> {
        let (owner, group) = self.owners.of_new(caller.uid, caller.gid);
        let new = NewObject {
            kind,
            permissions: permissions_of(mode),
            owner,
            group,
        };
        let request = Request::Change(Intent::Create { place, new });
        self.call_for_entry(request)
    }

    fn call_for_entry(&self, request: Request) -> io::Result<Entry> {
        let answer = self.shell.call_for_entry(request, CALLER.get());
        match answer.map_err(error)? {
            Response::Object(object, attributes) => Ok(self.entry(object, &attributes)),
            _ => Err(Errno::IO.into()),
        }
    }
}

impl FileSystem for Far {
    fn init(&self, negotiated: &Negotiated, kernel: Notifier) {
        let has_epochs = negotiated.has_epochs();
        let _ = self.lifetimes.set(Lifetimes::new(has_epochs));
        let _ = self.kernel.set(kernel.clone());
        // The receiver lives as long as the mount.
        let _ = self.begun.send((kernel, has_epochs));
    }

    fn serves(&self, request: u64, caller: Caller) {
        CALLER.set(shell::Caller {
            request,
            thread: caller.pid,
        });
    }

    fn interrupted(&self, request: u64) -> io::Result<()> {
        match self.shell.interrupted(request) {
            true => Ok(()),
            // It may not have come so far. The kernel asks again.
            false => Err(Errno::AGAIN.into()),
        }
    }

    fn lookup(&self, _: Caller, parent: u64, name: &OsStr) -> io::Result<Lookup> {
        self.look_up(parent, name)
    }

    fn forget(&self, node: u64, lookups: u64) {
        self.shell.forget(self.nodes.object(node), lookups);
    }

    fn getattr(&self, _: Caller, node: u64, _: Option<u64>) -> io::Result<KnownAttributes> {
        let object = self.nodes.object(node);
        self.known(self.call(Request::Attributes(object))?)
    }

    fn setattr(
        &self,
        _: Caller,
        node: u64,
        changes: &SetAttributes,
    ) -> io::Result<KnownAttributes> {
        self.set_attributes(self.nodes.object(node), changes)
    }

    fn readlink(&self, _: Caller, node: u64) -> io::Result<OsString> {
        match self.call(Request::Target(self.nodes.object(node)))? {
            Response::Target(target) => Ok(OsString::from_vec(target)),
            _ => Err(Errno::IO.into()),
        }
    }

    fn symlink(
        &self,
        caller: Caller,
        parent: u64,
        name: &OsStr,
        target: &OsStr,
    ) -> io::Result<Entry> {
        let kind = NewKind::Symlink(target.as_bytes().to_vec());
        self.make(caller, self.place(parent, name)?, kind, 0o777)
    }

    fn mknod(
        &self,
        caller: Caller,
        parent: u64,
        name: &OsStr,
        mode: u32,
        _: u32,
        device: u32,
    ) -> io::Result<Entry> {
        let kind = attributes::new_kind(mode, device)?;
        self.make(caller, self.place(parent, name)?, kind, mode)
    }

    fn mkdir(
        &self,
        caller: Caller,
        parent: u64,
        name: &OsStr,
        mode: u32,
        _: u32,
    ) -> io::Result<Entry> {
        self.make(caller, self.place(parent, name)?, NewKind::Directory, mode)
    }

    fn unlink(&self, _: Caller, parent: u64, name: &OsStr) -> io::Result<()> {
        self.remove(parent, name, false)
    }

    fn rmdir(&self, _: Caller, parent: u64, name: &OsStr) -> io::Result<()> {
        self.remove(parent, name, true)
    }

    fn rename(
        &self,
        _: Caller,
        parent: u64,
        name: &OsStr,
        new_parent: u64,
        new_name: &OsStr,
        flags: RenameFlags,
    ) -> io::Result<()> {
        self.move_name((parent, name), (new_parent, new_name), flags)
    }

    fn link(&self, _: Caller, node: u64, new_parent: u64, new_name: &OsStr) -> io::Result<Entry> {
        let intent = Intent::Link {
            object: self.nodes.object(node),
            place: self.place(new_parent, new_name)?,
        };
        // The kernel has the object already, and takes these attributes for newer than a recall that it has heard of meanwhile.
        Ok(Entry {
            attributes_lifetime: Duration::ZERO,
            ..self.call_for_entry(Request::Change(intent))?
        })
    }

    fn open(&self, _: Caller, node: u64, open: Open) -> io::Result<OpenReply> {
        self.open_file(node, open)
    }

    fn read(
        &self,
        _: Caller,
        node: u64,
        _: u64,
        offset: u64,
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        let object = self.nodes.object(node);
        let read = self.shell.read(object, offset, buffer, CALLER.get());
        read.map_err(error)
    }

    fn write(&self, _: Caller, node: u64, _: u64, write: Write<'_>) -> io::Result<usize> {
        self.write_file(node, write)
    }

    fn statfs(&self, _: Caller, _: u64) -> io::Result<Statistics> {
        self.space()
    }

    fn flush(&self, _: Caller, node: u64, _: u64, lock_owner: u64) -> io::Result<()> {
        self.close_one(node, lock_owner)
    }

    fn release(&self, node: u64, handle: u64, _: u32, flock_owner: Option<u64>) -> io::Result<()> {
        self.files().remove(&handle);
        self.close_last(node, handle, flock_owner);
        Ok(())
    }

    fn may_resume(&self) -> bool {
        self.shell.has_lock_answer()
    }

    fn getlk(&self, _: Caller, node: u64, _: u64, lock: FileLock) -> io::Result<FileLock> {
        self.lock_in_the_way(node, lock)
    }

    fn setlk(
        &self,
        _: Caller,
        node: u64,
        handle: u64,
        lock: FileLock,
        waits: bool,
    ) -> io::Result<()> {
        self.set_lock(node, handle, lock, waits)
    }

    fn fsync(&self, _: Caller, _: u64, handle: u64, _: bool) -> io::Result<()> {
        let losses = self.files().get(&handle).map(|file| file.losses);
        self.sync(losses)
    }

    fn fsyncdir(&self, _: Caller, _: u64, handle: u64, _: bool) -> io::Result<()> {
        let losses = self.listing(handle).map(|listing| listing.losses);
        self.sync(losses.ok())
    }

    fn syncfs(&self, _: Caller, _: u64) -> io::Result<()> {
        self.sync(None)
    }

    fn setxattr(
        &self,
        _: Caller,
        node: u64,
        name: &OsStr,
        value: &[u8],
        flags: u32,
        _: bool,
    ) -> io::Result<()> {
        self.set_extended(node, name, Some(value), flags)
    }

    fn getxattr(&self, _: Caller, node: u64, name: &OsStr, buffer: &mut [u8]) -> io::Result<usize> {
        self.extended(node, name, buffer)
    }

    fn listxattr(&self, _: Caller, node: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.list_extended(node, buffer)
    }

    fn removexattr(&self, _: Caller, node: u64, name: &OsStr) -> io::Result<()> {
        self.set_extended(node, name, None, 0)
    }

    fn opendir(&self, _: Caller, node: u64, _: Open) -> io::Result<OpenReply> {
        self.open_directory(node)
    }

    fn readdir(
        &self,
        _: Caller,
        _: u64,
        handle: u64,
        offset: u64,
        sink: &mut DirectorySink<'_>,
    ) -> io::Result<()> {
        self.read_listing(handle)?.list(offset, sink);
        Ok(())
    }

    fn readdirplus(
        &self,
        _: Caller,
        _: u64,
        handle: u64,
        offset: u64,
        sink: &mut DirectoryPlusSink<'_>,
    ) -> io::Result<()> {
        self.list_with_attributes(handle, offset, sink)
    }

    fn releasedir(&self, _: u64, handle: u64, _: u32) -> io::Result<()> {
        self.close_directory(handle);
        Ok(())
    }

    fn create(
        &self,
        caller: Caller,
        parent: u64,
        name: &OsStr,
        create: Create,
    ) -> io::Result<(Entry, OpenReply)> {
        self.create_file(caller, parent, name, create)
    }
}

fn permissions_of(mode: u32) -> u16 {
    (mode & 0o7777) as u16
}

/// A name that the kernel asks for.
fn name_of(name: &OsStr) -> io::Result<Name> {
    let name = Name::try_from(name.as_bytes());
    name.map_err(|_| Errno::NAMETOOLONG.into())
}

fn error(number: Number) -> io::Error {
    io::Error::from_raw_os_error(number.0)
}
