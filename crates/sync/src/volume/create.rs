//! Making a volume.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FallocateFlags, Mode, OFlags, fallocate, linkat, open};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};

use super::VolumeError;
use super::superblock::LABEL;
use super::tool::MKFS;

/// The smallest volume, in bytes.
pub const BYTES_MIN: u64 = 32 << 20;

/// All data go through the journal, so it is large: it has to be emptied when it is full.
const JOURNAL_PART: u64 = 8;
const JOURNAL_MIB: std::ops::RangeInclusive<u64> = 8..=1024;

/// Makes a volume of `bytes` bytes, whose root directory is the caller's, in a new file that only the caller
/// may read. The space is taken at once where the file system can, so that the volume cannot run out of
/// it later. Until all is made and on the disk, the file has no name.
///
/// # Errors
/// As [`VolumeError`] says; then there is no new file.
pub fn create(file: &Path, bytes: u64) -> Result<(), VolumeError> {
    if bytes < BYTES_MIN {
        return Err(VolumeError::Small { bytes });
    }
    if file.symlink_metadata().is_ok() {
        return Err(VolumeError::Exists {
            path: file.to_owned(),
        });
    }
    let directory = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let error = |what, path: &Path| {
        let path = path.to_owned();
        move |source: io::Error| VolumeError::Path { what, path, source }
    };
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    let image = open(&directory, flags, Mode::RUSR | Mode::WUSR);
    let image = image.map_err(|errno| error("make a file in", &directory)(errno.into()))?;
    let image = File::from(image);
    match fallocate(&image, FallocateFlags::empty(), 0, bytes) {
        Ok(()) => Ok(()),
        Err(Errno::OPNOTSUPP) => image.set_len(bytes),
        Err(errno) => Err(errno.into()),
    }
    .map_err(error("take the space of", file))?;
    MKFS.succeed(Some(&image), arguments(bytes))?;
    image.sync_all().map_err(error("write", file))?;
    let unnamed = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&image));
    match linkat(CWD, unnamed, CWD, file, AtFlags::SYMLINK_FOLLOW) {
        Ok(()) => {}
        Err(Errno::EXIST) => {
            return Err(VolumeError::Exists {
                path: file.to_owned(),
            });
        }
        Err(errno) => return Err(error("name", file)(errno.into())),
    }
    File::open(&directory)
        .and_then(|directory| directory.sync_all())
        .map_err(error("write", &directory))
}

/// How mkfs.ext4(8) makes it, on its standard input.
fn arguments(bytes: u64) -> Vec<OsString> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    // To discard would give the space back.
    let extended =
        format!("nodiscard,lazy_itable_init=0,lazy_journal_init=0,root_owner={user}:{group}");
    let words = [
        "-q",
        "-F",
        "-b",
        "4096",
        "-m",
        "0",
        "-L",
        LABEL,
        "-e",
        "remount-ro",
    ];
    let mut arguments: Vec<OsString> = words.map(OsString::from).into();
    arguments.extend(["-J".into(), format!("size={}", journal_mib(bytes)).into()]);
    arguments.extend(["-E".into(), extended.into(), "/dev/stdin".into()]);
    arguments
}

/// How large the journal of a volume is.
pub(super) fn journal_mib(bytes: u64) -> u64 {
    ((bytes / JOURNAL_PART) >> 20).clamp(*JOURNAL_MIB.start(), *JOURNAL_MIB.end())
}
