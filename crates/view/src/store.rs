//! The object store: the data of files that the domain wrote.
//!
//! Object `n` is the plain file `objects/XXXX/N`, where `N` is `n` in hexadecimal and `XXXX` is
//! `n / 4096`: ids are given out in order, so what was written together lies together. Objects are
//! mode 0600 and owned by the domain's user; whose file it is, the name map says. Their size, blocks
//! and times are the file's. What a large one lacks and borrows from the real file, the map says, too.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, OFlags, Statx, StatxFlags};

use crate::types::ObjectId;

/// Objects of one directory of the store.
const SHARD: u64 = 4096;

/// The objects of one state directory.
#[derive(Debug, Clone)]
pub struct ObjectStore {
    directory: PathBuf,
}

impl ObjectStore {
    /// The store of the state directory `state`. Nothing is created before the first object.
    pub fn at(state: &Path) -> Self {
        Self {
            directory: state.join("objects"),
        }
    }

    /// Where an object is.
    pub fn path(&self, object: ObjectId) -> PathBuf {
        self.shard(object).join(format!("{:x}", object.0))
    }

    /// Opens an object for reading and writing.
    pub fn open(&self, object: ObjectId) -> io::Result<File> {
        File::options()
            .read(true)
            .write(true)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(self.path(object))
    }

    /// Whether anybody has an object open or mapped. One that is gone counts as unused: nobody can open it any more.
    ///
    /// # Errors
    /// Where that cannot be known.
    pub fn is_in_use(&self, object: ObjectId) -> io::Result<bool> {
        let opened = File::options()
            .read(true)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(self.path(object));
        match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            opened => surmise_sys::descriptors::has_others(opened?),
        }
    }

    /// What statx(2) says of an object.
    pub fn stat(&self, object: ObjectId) -> io::Result<Statx> {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        Ok(rustix::fs::statx(
            rustix::fs::CWD,
            self.path(object),
            flags,
            wanted,
        )?)
    }

    /// Creates an empty object.
    pub(crate) fn create(&self, object: ObjectId) -> io::Result<File> {
        let create = || {
            File::options()
                .read(true)
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(self.path(object))
        };
        match create() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                std::fs::create_dir_all(self.shard(object))?;
                create()
            }
            result => result,
        }
    }

    /// Removes an object; one that is not there is fine.
    pub(crate) fn remove(&self, object: ObjectId) -> io::Result<()> {
        match std::fs::remove_file(self.path(object)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes every object that is not wanted: those that a kill left between their creation and
    /// the record that would have named them.
    pub(crate) fn sweep(&self, wanted: impl Fn(ObjectId) -> bool) -> io::Result<()> {
        let shards = match std::fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            shards => shards?,
        };
        for shard in shards {
            for object in std::fs::read_dir(shard?.path())? {
                let object = object?;
                let name = object.file_name();
                let id = name
                    .to_str()
                    .and_then(|name| u64::from_str_radix(name, 16).ok());
                if !id.is_some_and(|id| wanted(ObjectId(id))) {
                    std::fs::remove_file(object.path())?;
                }
            }
        }
        Ok(())
    }

    fn shard(&self, object: ObjectId) -> PathBuf {
        self.directory.join(format!("{:04x}", object.0 / SHARD))
    }
}
