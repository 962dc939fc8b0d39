//! The directory `.surmise` of an export, in which its server keeps its own state.
//!
//! | name | what |
//! |---|---|
//! | `lock` | held with flock(2) by the server; its process number, decimal |
//! | `log` | what was promised and may not be made ([`crate::log`]) |
//! | `progress`, `exchange` | their times tell how far the making has come ([`crate::directory::progress`]) |
//! | `overtaken` | files that others have changed since ([`crate::directory::overtaken`]) |
//! | `nameless/` | objects that have lost their last name, under their ids in hexadecimal |
//! | `lifted/` | files of which bits are set for a moment: the inode number, decimal, and the bits, octal |
//! | `lost/` | what clients have changed and others have made impossible: `NAME.lost-LOG-ID` ([`crate::directory`]) |
//! | `socket` | where clients come |
//! | `errors` | what a server in the background had to say |

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, StatxFlags, Timespec, Timestamps,
    UTIME_OMIT,
};
use rustix::io::Errno;

use crate::directory::overtaken::Overtaken;
use crate::directory::progress::Progress;
use crate::directory::{Roots, STATE};
use crate::error::ServeError;

const LOCK: &str = "lock";
const SOCKET: &str = "socket";
const ERRORS: &str = "errors";
/// How often, and after which pause, a lock is tried that another process has.
const TRIES: usize = 5;
const PAUSE: std::time::Duration = std::time::Duration::from_millis(5);

const OWNER_ONLY: Mode = Mode::RWXU;

/// The state of an export's server.
#[derive(Debug)]
pub(crate) struct State {
    export: OwnedFd,
    directory: OwnedFd,
    path: PathBuf,
}

/// Held by the server of an export.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "it is held")] File);

impl State {
    /// The state of the export at `path`, made if there is none.
    pub(crate) fn open(path: &Path) -> Result<Self, ServeError> {
        let at = |source: Errno| ServeError::at(path)(source.into());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let export = rustix::fs::openat(CWD, path, flags, Mode::empty()).map_err(at)?;
        let own = path.join(STATE);
        let at = |source: Errno| ServeError::at(&own)(source.into());
        let before = rustix::fs::fstat(&export).map_err(at)?;
        match rustix::fs::mkdirat(&export, STATE, OWNER_ONLY) {
            // Nobody is to see from the outside that it was made.
            Ok(()) => rustix::fs::futimens(&export, &modified_as(&before)).or_else(ignore_rights),
            Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(errno),
        }
        .map_err(at)?;
        let flags = flags | OFlags::NOFOLLOW;
        let directory = rustix::fs::openat(&export, STATE, flags, Mode::empty()).map_err(at)?;
        let found = rustix::fs::fstat(&directory).map_err(at)?;
        let user = rustix::process::geteuid();
        if found.st_uid != user.as_raw() {
            return Err(ServeError::Foreign {
                path: own,
                owner: found.st_uid,
                user: user.as_raw(),
            });
        }
        Ok(Self {
            export,
            directory,
            path: own,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn directory(&self) -> &OwnedFd {
        &self.directory
    }

    /// Its inode, and its time of birth in nanoseconds since 1970, 0 if that is not known.
    pub(crate) fn identity(&self) -> io::Result<(u64, u64)> {
        let mask = StatxFlags::INO | StatxFlags::BTIME;
        let found = rustix::fs::statx(&self.directory, "", AtFlags::EMPTY_PATH, mask)?;
        let is_known = found.stx_mask & StatxFlags::BTIME.bits() != 0;
        let born = found.stx_btime;
        let nanoseconds = born.tv_sec.unsigned_abs() * 1_000_000_000 + u64::from(born.tv_nsec);
        Ok((found.stx_ino, if is_known { nanoseconds } else { 0 }))
    }

    /// Takes the lock.
    ///
    /// # Errors
    /// [`ServeError::Served`] while another server has it.
    pub(crate) fn lock(&self) -> Result<Lock, ServeError> {
        let at = |error: io::Error| ServeError::at(&self.path.join(LOCK))(error);
        let file = self.file(LOCK, OFlags::RDWR).map_err(at)?;
        let mut taken = Err(Errno::WOULDBLOCK);
        for _ in 0..TRIES {
            taken = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
            if taken != Err(Errno::WOULDBLOCK) {
                break;
            }
            // `is_served` takes the lock for an instant, to look.
            std::thread::sleep(PAUSE);
        }
        match taken {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut text = [0; 16];
                let length = file.read_at(&mut text, 0).unwrap_or(0);
                let process = String::from_utf8_lossy(&text[..length]).trim().to_owned();
                let path = self.path.clone();
                return Err(ServeError::Served { path, process });
            }
            Err(errno) => return Err(at(errno.into())),
        }
        // For messages only.
        let _ = file.set_len(0);
        let _ = file.write_all_at(std::process::id().to_string().as_bytes(), 0);
        Ok(Lock(file))
    }

    /// Whether a server has the lock.
    pub(crate) fn is_served(&self) -> bool {
        let file = self.file(LOCK, OFlags::RDWR);
        file.is_ok_and(|file| {
            let taken = rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared);
            taken == Err(Errno::WOULDBLOCK)
        })
    }

    /// What the export is reached by.
    pub(crate) fn roots(&self) -> io::Result<Roots> {
        Ok(Roots {
            export: self.export.try_clone()?,
            nameless: self.subdirectory("nameless")?,
            lifted: self.subdirectory("lifted")?,
            lost: self.subdirectory("lost")?,
            overtaken: Overtaken::read(self.file("overtaken", OFlags::RDWR)?)?,
        })
    }

    /// The files whose times tell how far the making has come; whether they were there.
    pub(crate) fn progress(&self) -> io::Result<(Progress, bool)> {
        let was_there = rustix::fs::accessat(
            &self.directory,
            "progress",
            rustix::fs::Access::EXISTS,
            AtFlags::empty(),
        );
        let made = self.file("progress", OFlags::RDWR)?;
        let exchange = self.file("exchange", OFlags::RDWR)?;
        let progress = Progress::new(made, exchange);
        if was_there.is_err() {
            progress.settled(0)?;
        }
        Ok((progress, was_there.is_ok()))
    }

    /// Listens for clients. A path by descriptor is short, however long that of the export is.
    pub(crate) fn listen(&self) -> io::Result<UnixListener> {
        match rustix::fs::unlinkat(&self.directory, SOCKET, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        UnixListener::bind(self.by_descriptor(SOCKET))
    }

    /// Removes the socket, so that nobody comes any more.
    pub(crate) fn stop_listening(&self) {
        // The lock tells in any case that there is no server.
        let _ = rustix::fs::unlinkat(&self.directory, SOCKET, AtFlags::empty());
    }

    pub(crate) fn connect(&self) -> io::Result<UnixStream> {
        UnixStream::connect(self.by_descriptor(SOCKET))
    }

    /// Where a server in the background says what is wrong.
    pub(crate) fn errors(&self) -> io::Result<File> {
        self.file(ERRORS, OFlags::RDWR | OFlags::APPEND)
    }

    fn by_descriptor(&self, name: &str) -> String {
        format!("/proc/self/fd/{}/{name}", self.directory.as_raw_fd())
    }

    fn file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = rustix::fs::openat(&self.directory, name, flags, mode)?;
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
        match kind {
            FileType::RegularFile => Ok(File::from(file)),
            _ => Err(Errno::INVAL.into()),
        }
    }

    fn subdirectory(&self, name: &str) -> io::Result<OwnedFd> {
        match rustix::fs::mkdirat(&self.directory, name, OWNER_ONLY) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(
            self.directory.as_fd(),
            name,
            flags,
            Mode::empty(),
        )?)
    }
}

fn modified_as(found: &rustix::fs::Stat) -> Timestamps {
    Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: found.st_mtime as _,
            tv_nsec: found.st_mtime_nsec as _,
        },
    }
}

/// The user may make names in the directory of another one, and not set its times.
fn ignore_rights(errno: Errno) -> Result<(), Errno> {
    match errno {
        Errno::PERM => Ok(()),
        errno => Err(errno),
    }
}
