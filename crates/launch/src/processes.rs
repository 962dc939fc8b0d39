//! The processes of a domain, as its pid 1 sees them in /proc.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags};
use rustix::io::Errno;

use crate::launch::Lingering;

/// How many are told of by name.
const TOLD_MAX: usize = 256;

/// The domain's /proc, held open: to look at it must not need the view, which may be dead.
#[derive(Debug)]
pub(crate) struct Processes(OwnedFd);

impl Processes {
    pub(crate) fn open() -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::openat(
            CWD,
            "/proc",
            flags,
            Mode::empty(),
        )?))
    }

    /// The inode of the calling process' network namespace.
    pub(crate) fn own_network(&self) -> Result<u64, Errno> {
        let found = rustix::fs::statat(&self.0, "self/ns/net", AtFlags::empty())?;
        Ok(found.st_ino)
    }

    /// All that live, but pid 1.
    pub(crate) fn living(&self) -> Result<Vec<Lingering>, Errno> {
        let mut living = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = entry.file_name();
            // One that ends while we look is none that lingers.
            if name.to_bytes().iter().all(u8::is_ascii_digit)
                && let Ok(stat) = self.stat(name)
            {
                living.extend(parse(&stat));
            }
            if living.len() == TOLD_MAX {
                break;
            }
        }
        Ok(living)
    }

    fn stat(&self, pid: &CStr) -> Result<Vec<u8>, Errno> {
        let path = [pid.to_bytes(), b"/stat"].concat();
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(self.0.as_fd(), path, flags, Mode::empty())?;
        let mut bytes = vec![0; 4096];
        let length = rustix::io::read(file, &mut bytes[..])?;
        bytes.truncate(length);
        Ok(bytes)
    }
}

/// From `pid (name) state …`; the name may hold anything, also `)`. `None` for pid 1 and the dead.
fn parse(stat: &[u8]) -> Option<Lingering> {
    let text = String::from_utf8_lossy(stat);
    let (before, after) = text.rsplit_once(')')?;
    let (pid, name) = before.split_once(" (")?;
    let pid = pid.parse().ok()?;
    let dead = after.trim_start().starts_with(['Z', 'X']);
    (pid != 1 && !dead).then(|| Lingering {
        pid,
        name: name.into(),
    })
}

impl AsFd for Processes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let lingering = |pid, name: &str| {
            Some(Lingering {
                pid,
                name: name.into(),
            })
        };
        assert_eq!(parse(b"7 (sleep) S 1 7 7"), lingering(7, "sleep"));
        assert_eq!(parse(b"8 (a) Z (b) R 1"), lingering(8, "a) Z (b"));
        assert_eq!(parse(b"9 (sh) Z 1"), None);
        assert_eq!(parse(b"1 (surmise) S 0"), None);
    }
}
