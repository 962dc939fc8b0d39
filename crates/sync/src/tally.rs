//! How many promises of durability there were on one file system, and how many are kept.
//!
//! A task's output may come from files that another domain has written, and whose durability was promised to that
//! domain. So all domains of a user on one file system count in the same memory. The output of each waits for the
//! promises to all of them, and a commit by any of them keeps the promises to all.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;

use rustix::fs::{Mode, OFlags};
use surmise_sys::shared::SharedWords;

/// Lost with the machine's memory, as promises are. Domains have another directory in this place.
const SHARED_MEMORY: &str = "/dev/shm";

/// The count of one file system.
#[derive(Debug)]
pub(crate) struct Tally(SharedWords);

/// Counters: promises made, and those that are kept. There are never more of these.
const PROMISED: usize = 0;
const DURABLE: usize = 1;

impl Tally {
    /// Of one domain for itself.
    pub(crate) fn alone() -> io::Result<Self> {
        SharedWords::new().map(Self)
    }

    /// Of all domains of this user on the file system of this device. It outlives them; what is left over in
    /// it costs the next one a commit.
    pub(crate) fn of_device(device: u64) -> io::Result<Self> {
        let user = rustix::process::geteuid().as_raw();
        let directory = Path::new(SHARED_MEMORY).join(format!("surmise-{user}"));
        Self::in_directory(&directory, device)
    }

    fn in_directory(directory: &Path, device: u64) -> io::Result<Self> {
        match DirBuilder::new().mode(0o700).create(directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(at(directory)(error));
            }
            _ => {}
        }
        let found = fs::symlink_metadata(directory).map_err(at(directory))?;
        let is_ours = found.is_dir()
            && found.uid() == rustix::process::geteuid().as_raw()
            && found.mode() & 0o022 == 0;
        if !is_ours {
            // What is counted there could be anything.
            let error = io::Error::other("is a directory that somebody else can write");
            return Err(at(directory)(error));
        }
        let path = directory.join(format!("epochs-{device:x}"));
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR);
        let opened = opened.map_err(io::Error::from).map_err(at(&path))?;
        SharedWords::of_file(&File::from(opened))
            .map(Self)
            .map_err(at(&path))
    }

    /// One promise more; returns how many there are now.
    pub(crate) fn promise(&self) -> u64 {
        self.0.counters[PROMISED].fetch_add(1, SeqCst) + 1
    }

    /// How many promises there are.
    pub(crate) fn promised(&self) -> u64 {
        self.0.counters[PROMISED].load(SeqCst)
    }

    /// How many of them are kept, the first ones.
    pub(crate) fn durable(&self) -> u64 {
        self.0.counters[DURABLE].load(SeqCst)
    }

    /// So many are kept, or more if another commit was faster.
    pub(crate) fn keep(&self, promises: u64) {
        self.0.counters[DURABLE].fetch_max(promises, SeqCst);
    }
}

/// For `map_err`: what failed there.
fn at(path: &Path) -> impl FnOnce(io::Error) -> io::Error {
    let path = path.to_owned();
    move |error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_who_open_it_count_together_and_for_one_device_alone() {
        let scratch = tempfile::tempdir().expect("a directory");
        let directory = scratch.path().join("tally");
        let open = |device| Tally::in_directory(&directory, device).expect("a tally");
        let (first, second, other) = (open(7), open(7), open(8));
        assert_eq!(first.promise(), 1);
        assert_eq!(second.promise(), 2);
        second.keep(2);
        // A commit that began earlier and ended later.
        first.keep(1);
        assert_eq!((first.promised(), first.durable()), (2, 2));
        assert_eq!((other.promised(), other.durable()), (0, 0));
        drop((first, second));
        assert_eq!(open(7).promised(), 2);
    }

    #[test]
    fn a_directory_that_others_may_write_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let scratch = tempfile::tempdir().expect("a directory");
        let mode = fs::Permissions::from_mode(0o777);
        fs::set_permissions(scratch.path(), mode).expect("chmod");
        let refused = Tally::in_directory(scratch.path(), 7).expect_err("not ours");
        assert!(refused.to_string().contains("somebody else"), "{refused}");
    }
}
