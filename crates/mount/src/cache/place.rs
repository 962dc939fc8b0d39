//! Where caches are: in the user's directory for them, one for each source.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use surmise_remote::piece::Digest;

use crate::own;

/// Where root's caches are when root has no home directory of its own.
const ROOTS: &str = "/var/cache";

/// In the user's directory for caches.
const OURS: [&str; 2] = ["surmise", "far"];

/// How much of a source's name is in that of its directory.
const SHOWN_MAX: usize = 60;

/// The cache of a source, which no other mount has meanwhile.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) directory: OwnedFd,
    _lock: OwnedFd,
}

/// Opens the cache of a source in the first of these directories that can be had; `None` while another mount has it.
///
/// # Errors
/// When there is no place for it that is this user's alone.
pub(super) fn open(homes: &[PathBuf], source: &str) -> io::Result<Option<Opened>> {
    let mut failed = io::ErrorKind::NotFound.into();
    for home in homes {
        match open_in(home, source) {
            Err(error) => failed = error,
            opened => return opened,
        }
    }
    Err(failed)
}

fn open_in(home: &Path, source: &str) -> io::Result<Option<Opened>> {
    let mut directory = own::open(home)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let of_source = directory_name(source);
    for name in OURS.into_iter().chain([&of_source[..]]) {
        match rustix::fs::mkdirat(&directory, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        let flags = flags | OFlags::NOFOLLOW;
        directory = rustix::fs::openat(&directory, name, flags, Mode::empty())?;
        own::check(&directory)?;
        // It holds what others may not read.
        rustix::fs::fchmod(&directory, Mode::RWXU)?;
    }
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let lock = rustix::fs::openat(directory.as_fd(), "lock", flags, mode)?;
    match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(Opened {
            directory,
            _lock: lock,
        })),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Where this user's programs keep what they could do without, in the order in which it is tried (XDG Base Directory
/// Specification).
pub fn homes() -> Vec<PathBuf> {
    let absolute = |variable| {
        let path = std::env::var_os(variable).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    // By sudo, root may have the home directory of another user.
    let home = absolute("HOME").filter(|home| own::has(home));
    let home = home.map(|home| home.join(".cache"));
    let roots = rustix::process::geteuid().is_root().then(|| ROOTS.into());
    let homes = absolute("XDG_CACHE_HOME").or(home).into_iter();
    homes.chain(roots).collect()
}

/// A name that tells a person which source it is, and is no other one's.
fn directory_name(source: &str) -> String {
    let plain = |letter: char| match letter {
        letter if letter.is_ascii_alphanumeric() => letter,
        '-' | '.' | '@' => letter,
        _ => '_',
    };
    let shown: String = source.chars().map(plain).take(SHOWN_MAX).collect();
    let Digest(digest) = Digest::of(source.as_bytes());
    let digits: String = digest[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{shown}-{digits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_has_a_directory_of_its_own() {
        let names: Vec<_> = ["host:src", "host_src", "../..", &"x".repeat(5000), ""]
            .map(directory_name)
            .into();
        let is_name = |name: &String| name.len() <= 255 && !name.contains('/') && name != "..";
        assert!(names.iter().all(is_name), "{names:?}");
        assert_ne!(names[0], names[1]);
        assert!(names[0].starts_with("host_src-"));
    }
}
