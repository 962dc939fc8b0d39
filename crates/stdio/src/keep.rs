//! Descriptors that a command is to have besides its standard streams.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use rustix::fs::{FileType, Mode, OFlags, SeekFrom};
use surmise_sys::descriptors;

/// A descriptor that cannot be kept.
#[derive(Debug, thiserror::Error)]
#[error("descriptor {descriptor}: {reason}")]
pub struct KeepError {
    /// Its number.
    pub descriptor: i32,
    /// Why not.
    pub reason: KeepRefusal,
}

/// Why a descriptor cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum KeepRefusal {
    /// 0, 1 and 2 are always there.
    #[error("a standard stream, which the command has in any case")]
    Stream,
    /// It would lead around the view.
    #[error("a directory, which would lead around the view")]
    Directory,
    /// It would lead around the view.
    #[error("a file open for writing, whose changes could not be undone")]
    Writable,
    /// It would lead around the view.
    #[error("a block device, whose changes could not be undone")]
    BlockDevice,
    /// The view has no name for it.
    #[error("a file without a name")]
    Nameless,
    /// It is not open, or cannot be looked at.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Descriptors that a command keeps under their numbers.
#[derive(Debug, Default)]
pub struct KeptDescriptors(Vec<Kept>);

#[derive(Debug)]
struct Kept {
    fd: BorrowedFd<'static>,
    /// For a regular file: it is opened again inside, where its name leads to the view's.
    file: Option<File>,
}

#[derive(Debug)]
struct File {
    path: PathBuf,
    flags: OFlags,
    offset: u64,
}

impl KeptDescriptors {
    /// Looks at the descriptors with these numbers, which the program was started with.
    ///
    /// # Errors
    /// For one that is not open, and for one through which something outside could be changed.
    pub fn look_up(numbers: &[i32]) -> Result<Self, KeepError> {
        let kept = numbers.iter().map(|&descriptor| {
            Kept::look_up(descriptor).map_err(|reason| KeepError { descriptor, reason })
        });
        kept.collect::<Result<_, _>>().map(Self)
    }

    /// What every process up to the command has to keep open.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'static>> {
        self.0.iter().map(|kept| kept.fd).collect()
    }

    /// Makes them what the command gets, in its process, inside. Everything else is closed by the exec
    /// before: call [`descriptors::close_on_exec`] first.
    ///
    /// # Errors
    /// For a file that the view does not show any more.
    pub fn pass_on(&self) -> io::Result<()> {
        for kept in &self.0 {
            if let Some(file) = &kept.file {
                let opened = rustix::fs::open(&file.path, file.flags, Mode::empty())?;
                rustix::fs::seek(&opened, SeekFrom::Start(file.offset))?;
                descriptors::put(std::os::fd::AsFd::as_fd(&opened), kept.fd)?;
            }
            rustix::io::fcntl_setfd(kept.fd, rustix::io::FdFlags::empty())?;
        }
        Ok(())
    }
}

impl Kept {
    fn look_up(number: i32) -> Result<Self, KeepRefusal> {
        if (0..3).contains(&number) {
            return Err(KeepRefusal::Stream);
        }
        let fd = descriptors::inherited(number)?;
        let stat = rustix::fs::fstat(fd).map_err(io::Error::from)?;
        let file = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => return Err(KeepRefusal::Directory),
            FileType::BlockDevice => return Err(KeepRefusal::BlockDevice),
            FileType::RegularFile => Some(File::look_up(fd, stat.st_nlink)?),
            _ => None,
        };
        Ok(Self { fd, file })
    }
}

impl File {
    fn look_up(fd: BorrowedFd<'static>, links: u64) -> Result<Self, KeepRefusal> {
        let flags = rustix::fs::fcntl_getfl(fd).map_err(io::Error::from)?;
        if flags & OFlags::ACCMODE != OFlags::RDONLY {
            return Err(KeepRefusal::Writable);
        }
        if links == 0 {
            return Err(KeepRefusal::Nameless);
        }
        let path = rustix::fs::readlink(format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new())
            .map_err(io::Error::from)?;
        let path = std::ffi::OsString::from_vec(path.into_bytes());
        Ok(Self {
            path: path.into(),
            flags: (flags & (OFlags::NONBLOCK | OFlags::NOATIME))
                | OFlags::RDONLY
                | OFlags::CLOEXEC,
            offset: rustix::fs::tell(fd).map_err(io::Error::from)?,
        })
    }
}
