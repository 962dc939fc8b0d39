//! Watches on directories of this host (inotify(7)).
//!
//! *What is not heard of*: a file written through a shared mapping or by a further name that it was given
//! since, and a file system mounted over a directory.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, MutexGuard};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use crate::interface::{Change, Directory, WatchId, Watcher};

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

/// An inotify descriptor.
#[derive(Debug)]
pub(super) struct LocalWatcher {
    inotify: OwnedFd,
    counted: Mutex<Counted>,
}

#[derive(Debug)]
struct Counted {
    watches: HashSet<i32>,
    limit: usize,
}

impl LocalWatcher {
    pub(super) fn open() -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let user_max = std::fs::read_to_string(USER_MAX).unwrap_or_default();
        let user_max: usize = user_max.trim().parse().unwrap_or(0);
        let counted = Counted {
            watches: HashSet::new(),
            limit: (user_max / SHARE).min(WATCHES_MAX),
        };
        Ok(Self {
            inotify,
            counted: Mutex::new(counted),
        })
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().expect("nothing panics while counting")
    }

    fn change(&self, wd: i32, events: ReadFlags, name: Option<&OsStr>) -> Change {
        let watch = WatchId(wd);
        if events.contains(ReadFlags::QUEUE_OVERFLOW) {
            return Change::Everything;
        }
        if events.contains(ReadFlags::IGNORED) {
            self.counted().watches.remove(&wd);
            return Change::Gone(watch);
        }
        let Some(name) = name else {
            return Change::Itself(watch);
        };
        let of_names =
            ReadFlags::CREATE | ReadFlags::DELETE | ReadFlags::MOVED_FROM | ReadFlags::MOVED_TO;
        if events.intersects(of_names) {
            Change::Name(watch, name.to_owned())
        } else if events.contains(ReadFlags::MODIFY) {
            Change::Data(watch, name.to_owned())
        } else {
            Change::Attributes(watch, name.to_owned())
        }
    }
}

impl Watcher for LocalWatcher {
    fn add(&self, directory: &dyn Directory) -> Option<WatchId> {
        let directory = directory.descriptor()?;
        {
            let counted = self.counted();
            if counted.watches.len() >= counted.limit {
                return None;
            }
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
        let added = inotify::add_watch(&self.inotify, path, wanted);
        let mut counted = self.counted();
        match added {
            Ok(wd) => {
                counted.watches.insert(wd);
                Some(WatchId(wd))
            }
            Err(Errno::NOSPC) => {
                counted.limit = counted.watches.len();
                None
            }
            // Not readable by this user, most often.
            Err(_) => None,
        }
    }

    fn remove(&self, WatchId(wd): WatchId) {
        if self.counted().watches.remove(&wd) {
            // Fails when the directory is gone.
            let _ = inotify::remove_watch(&self.inotify, wd);
        }
    }

    fn changes(&self) -> io::Result<Vec<Change>> {
        let mut buffer = vec![MaybeUninit::uninit(); EVENTS_SIZE];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        let mut changes = Vec::new();
        loop {
            match reader.next() {
                Ok(event) => {
                    let name = event.file_name();
                    let name = name.map(|name| OsStr::from_bytes(name.to_bytes()));
                    changes.push(self.change(event.wd(), event.events(), name));
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

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;

    use surmise_testkit::Scratch;

    use super::*;
    use crate::{Local, Lower};

    /// Watches on a directory with the files `a` and `b`.
    fn watched(scratch: &Scratch) -> (LocalWatcher, Arc<dyn Directory>, WatchId) {
        for name in ["a", "b"] {
            fs::write(scratch.path(name), "x").expect("write");
        }
        let watcher = LocalWatcher::open().expect("inotify");
        let directory = Local::at(scratch.path(".")).root().expect("open");
        let watch = watcher.add(&*directory).expect("watch");
        (watcher, directory, watch)
    }

    fn name(name: &str) -> OsString {
        name.into()
    }

    #[test]
    fn every_change_is_heard_of() {
        let scratch = Scratch::new();
        let (watcher, _, watch) = watched(&scratch);
        assert_eq!(watcher.changes().expect("read"), []);
        fs::write(scratch.path("a"), "longer").expect("write");
        fs::set_permissions(scratch.path("b"), fs::Permissions::from_mode(0o600)).expect("chmod");
        fs::write(scratch.path("new"), "").expect("write");
        fs::rename(scratch.path("a"), scratch.path("moved")).expect("rename");
        fs::remove_file(scratch.path("b")).expect("unlink");
        let changes = watcher.changes().expect("read");
        for wanted in [
            Change::Data(watch, name("a")),
            Change::Attributes(watch, name("b")),
            Change::Name(watch, name("new")),
            Change::Name(watch, name("a")),
            Change::Name(watch, name("moved")),
            Change::Name(watch, name("b")),
        ] {
            assert!(changes.contains(&wanted), "{wanted:?} in {changes:?}");
        }
        fs::set_permissions(scratch.path("."), fs::Permissions::from_mode(0o755)).expect("chmod");
        assert_eq!(watcher.changes().expect("read"), [Change::Itself(watch)]);
    }

    #[test]
    fn a_directory_that_goes_is_heard_of_and_one_that_was_given_up_is_not() {
        let scratch = Scratch::new();
        fs::create_dir(scratch.path("d")).expect("mkdir");
        let (watcher, root, watch) = watched(&scratch);
        let directory = root.directory(OsStr::new("d")).expect("open");
        let below = watcher.add(&*directory).expect("watch");
        drop(directory);
        assert_ne!(below, watch);
        fs::remove_dir(scratch.path("d")).expect("rmdir");
        let changes = watcher.changes().expect("read");
        assert!(changes.contains(&Change::Gone(below)), "{changes:?}");
        watcher.remove(watch);
        fs::write(scratch.path("a"), "longer").expect("write");
        let changes = watcher.changes().expect("read");
        assert!(
            changes
                .iter()
                .all(|change| matches!(change, Change::Gone(_))),
            "{changes:?}"
        );
    }

    #[test]
    fn what_does_not_tell_is_not_watched() {
        let watcher = LocalWatcher::open().expect("inotify");
        let directory = Local::at("/proc").root().expect("open");
        assert_eq!(watcher.add(&*directory), None);
        assert_eq!(watcher.changes().expect("nothing"), []);
    }
}
