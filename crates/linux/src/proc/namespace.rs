//! Namespaces that tasks are in.

use std::io;

use super::Entry;

/// The inode of the namespace of a kind, `net` or `pid`, that a process or thread is in: the same for all that
/// are in it.
///
/// # Errors
/// As for reading /proc: `EACCES` for a task that is not the caller's to look into.
pub fn namespace(entry: impl Into<Entry>, kind: &str) -> io::Result<u64> {
    let path = entry.into().path("ns").join(kind);
    Ok(rustix::fs::stat(path)?.st_ino)
}
