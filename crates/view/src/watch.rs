//! Watches on real directories (inotify(7)): what somebody changes in them is heard of, so the kernel
//! may believe what it was told about them for longer than a moment.
//!
//! *What is not heard of* is believed for at most [`Lifetime::Watched`](crate::Lifetime): a file written
//! through a shared mapping or by a further name that it was given since, and a file system mounted over
//! a directory. Whoever opens a file is always told its state of that moment.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use crate::types::NodeId;

/// How many directories are watched at most: the kernel keeps each of them in memory.
const WATCHES_MAX: usize = 1 << 16;

/// The user's watches are for all programs.
const SHARE: usize = 4;

/// What the kernel allows a user, in text.
const USER_MAX: &str = "/proc/sys/fs/inotify/max_user_watches";

/// Bytes of events that are read at once.
const EVENTS_SIZE: usize = 64 << 10;

/// File systems that tell of every change, for nobody changes them but this kernel: those of disks and
/// of memory, by their numbers in statfs(2).
const LOCAL: [i64; 9] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683e, // Btrfs
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs
    0xf2f5_2010, // F2FS
    0x2fc1_2fc1, // ZFS
    0xca45_1a4e, // bcachefs
    0x794c_7630, // overlayfs
];

/// After so many looks at real directories, watching them is worth what it costs to end it.
const WORTH_FROM: u32 = 300;

/// The watched directories of a view; none until [`Watches::begin`].
#[derive(Debug, Default)]
pub(crate) struct Watches {
    /// `None` where nothing is watched.
    inotify: Option<Arc<OwnedFd>>,
    /// What is written to when watches would be worth it.
    wanted: Option<Arc<OwnedFd>>,
    /// How often something would have been watched.
    missed: u32,
    /// Also those that can't be watched.
    by_node: HashMap<NodeId, Option<i32>>,
    by_descriptor: HashMap<i32, NodeId>,
    limit: usize,
}

/// What somebody did outside.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Change {
    /// To the name of a directory: made, removed or moved.
    Name(NodeId, OsString),
    /// To the attributes of what a name leads to.
    Attributes(NodeId, OsString),
    /// To its data.
    Data(NodeId, OsString),
    /// To the directory's own attributes.
    Itself(NodeId),
    /// The directory is gone, and so is its watch.
    Gone(NodeId),
    /// So much that the kernel has lost count.
    Everything,
}

impl Watches {
    /// Where changes come, for somebody who waits for them; `None` where none can be had. Every user
    /// may have some 128; a view without one is slower.
    pub(crate) fn open() -> Option<Arc<OwnedFd>> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
        inotify.ok().map(Arc::new)
    }

    /// Has an eventfd written to when much is looked at while nothing is watched.
    pub(crate) fn announce(&mut self, wanted: Arc<OwnedFd>) {
        self.wanted = Some(wanted);
    }

    /// Watches from now on what it is told to: somebody waits for changes there, and tells the kernel.
    pub(crate) fn begin(&mut self, inotify: Arc<OwnedFd>) {
        let user_max = std::fs::read_to_string(USER_MAX).unwrap_or_default();
        let user_max: usize = user_max.trim().parse().unwrap_or(0);
        self.limit = (user_max / SHARE).min(WATCHES_MAX);
        self.inotify = Some(inotify);
    }

    /// Whether every change of the directory's names is heard of, and of what they lead to.
    pub(crate) fn has(&self, id: NodeId) -> bool {
        matches!(self.by_node.get(&id), Some(Some(_)))
    }

    /// Watches the real directory of a node, if that can be. What is read of it afterwards is true
    /// until a change is heard of.
    pub(crate) fn add(&mut self, id: NodeId, directory: BorrowedFd<'_>) {
        if self.inotify.is_none() {
            return self.miss();
        }
        if !self.by_node.contains_key(&id) {
            let descriptor = self.watch(directory);
            let descriptor = descriptor.filter(|one| !self.by_descriptor.contains_key(one));
            if let Some(descriptor) = descriptor {
                self.by_descriptor.insert(descriptor, id);
            }
            self.by_node.insert(id, descriptor);
        }
    }

    fn miss(&mut self) {
        self.missed = self.missed.saturating_add(1);
        if let (WORTH_FROM, Some(wanted)) = (self.missed, &self.wanted) {
            // Cannot fail: it is the first.
            let _ = rustix::io::write(wanted, &1_u64.to_ne_bytes());
        }
    }

    /// The kernel does not know the node any more.
    pub(crate) fn remove(&mut self, id: NodeId) {
        if let Some(Some(descriptor)) = self.by_node.remove(&id) {
            self.by_descriptor.remove(&descriptor);
            if let Some(inotify) = &self.inotify {
                // Fails when the directory is gone.
                let _ = inotify::remove_watch(inotify, descriptor);
            }
        }
    }

    /// Nothing is heard of from now on.
    pub(crate) fn end(&mut self) {
        self.inotify = None;
        self.by_node.clear();
        self.by_descriptor.clear();
    }

    /// What has changed since the last call.
    ///
    /// # Errors
    /// As read(2).
    pub(crate) fn changes(&mut self) -> io::Result<Vec<Change>> {
        let Some(inotify) = self.inotify.clone() else {
            return Ok(Vec::new());
        };
        let mut buffer = vec![MaybeUninit::uninit(); EVENTS_SIZE];
        let mut reader = Reader::new(&*inotify, &mut buffer);
        let mut changes = Vec::new();
        loop {
            match reader.next() {
                Ok(event) => {
                    let name = event
                        .file_name()
                        .map(|name| OsStr::from_bytes(name.to_bytes()));
                    self.take(event.wd(), event.events(), name, &mut changes);
                }
                Err(Errno::AGAIN) => return Ok(changes),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            if reader.is_buffer_empty() {
                return Ok(changes);
            }
        }
    }

    fn take(
        &mut self,
        wd: i32,
        events: ReadFlags,
        name: Option<&OsStr>,
        changes: &mut Vec<Change>,
    ) {
        if events.contains(ReadFlags::QUEUE_OVERFLOW) {
            changes.push(Change::Everything);
            return;
        }
        let Some(&id) = self.by_descriptor.get(&wd) else {
            return;
        };
        if events.contains(ReadFlags::IGNORED) {
            self.by_descriptor.remove(&wd);
            self.by_node.remove(&id);
            changes.push(Change::Gone(id));
            return;
        }
        let Some(name) = name else {
            changes.push(Change::Itself(id));
            return;
        };
        let of_names =
            ReadFlags::CREATE | ReadFlags::DELETE | ReadFlags::MOVED_FROM | ReadFlags::MOVED_TO;
        changes.push(if events.intersects(of_names) {
            Change::Name(id, name.to_owned())
        } else if events.contains(ReadFlags::MODIFY) {
            Change::Data(id, name.to_owned())
        } else {
            Change::Attributes(id, name.to_owned())
        });
    }

    fn watch(&mut self, directory: BorrowedFd<'_>) -> Option<i32> {
        let inotify = self.inotify.as_ref()?;
        if self.by_descriptor.len() >= self.limit {
            return None;
        }
        let file_system = rustix::fs::fstatfs(directory).ok()?;
        if !LOCAL.contains(&file_system.f_type) {
            return None;
        }
        let wanted = WatchFlags::ATTRIB
            | WatchFlags::MODIFY
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVE_SELF
            | WatchFlags::DELETE_SELF
            | WatchFlags::ONLYDIR;
        let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
        match inotify::add_watch(inotify, path, wanted) {
            Ok(descriptor) => Some(descriptor),
            Err(Errno::NOSPC) => {
                self.limit = self.by_descriptor.len();
                None
            }
            // Not readable by this user, most often.
            Err(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use surmise_testkit::Scratch;

    use super::*;

    const NODE: NodeId = NodeId(7);

    /// Watches on a directory with the files `a` and `b`.
    fn watched(scratch: &Scratch) -> Watches {
        for name in ["a", "b"] {
            fs::write(scratch.path(name), "x").expect("write");
        }
        let mut watches = Watches::default();
        watches.begin(Watches::open().expect("inotify"));
        let directory = fs::File::open(scratch.path(".")).expect("open");
        watches.add(NODE, std::os::fd::AsFd::as_fd(&directory));
        assert!(watches.has(NODE));
        watches
    }

    fn name(name: &str) -> OsString {
        name.into()
    }

    #[test]
    fn every_change_is_heard_of() {
        let scratch = Scratch::new();
        let mut watches = watched(&scratch);
        assert_eq!(watches.changes().expect("read"), []);
        fs::write(scratch.path("a"), "longer").expect("write");
        fs::set_permissions(scratch.path("b"), fs::Permissions::from_mode(0o600)).expect("chmod");
        fs::write(scratch.path("new"), "").expect("write");
        fs::rename(scratch.path("a"), scratch.path("moved")).expect("rename");
        fs::remove_file(scratch.path("b")).expect("unlink");
        let changes = watches.changes().expect("read");
        for wanted in [
            Change::Data(NODE, name("a")),
            Change::Attributes(NODE, name("b")),
            Change::Name(NODE, name("new")),
            Change::Name(NODE, name("a")),
            Change::Name(NODE, name("moved")),
            Change::Name(NODE, name("b")),
        ] {
            assert!(changes.contains(&wanted), "{wanted:?} in {changes:?}");
        }
        fs::set_permissions(scratch.path("."), fs::Permissions::from_mode(0o755)).expect("chmod");
        assert_eq!(watches.changes().expect("read"), [Change::Itself(NODE)]);
    }

    #[test]
    fn what_is_not_watched_any_more_is_not_believed() {
        let scratch = Scratch::new();
        fs::create_dir(scratch.path("d")).expect("mkdir");
        let mut watches = watched(&scratch);
        let below = NodeId(8);
        let directory = fs::File::open(scratch.path("d")).expect("open");
        watches.add(below, std::os::fd::AsFd::as_fd(&directory));
        drop(directory);
        fs::remove_dir(scratch.path("d")).expect("rmdir");
        let changes = watches.changes().expect("read");
        assert!(changes.contains(&Change::Gone(below)), "{changes:?}");
        assert!(!watches.has(below));
        watches.remove(NODE);
        assert!(!watches.has(NODE));
        fs::write(scratch.path("a"), "longer").expect("write");
        assert_eq!(watches.changes().expect("read"), []);
    }

    #[test]
    fn what_cannot_be_watched_is_tried_once() {
        let mut watches = Watches::default();
        watches.begin(Watches::open().expect("inotify"));
        // No file system that tells.
        let directory = fs::File::open("/proc/self").expect("open");
        watches.add(NODE, std::os::fd::AsFd::as_fd(&directory));
        assert!(!watches.has(NODE));
        assert_eq!(watches.by_node.len(), 1);
        watches.end();
        assert_eq!(watches.changes().expect("nothing"), []);
    }
}
