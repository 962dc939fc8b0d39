//! Which volumes are mounted.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::statvfs;
use surmise_linux::proc::Mount;

use super::VolumeError;

/// A volume that is mounted, as the calling process sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountedVolume {
    /// The file that it is in.
    pub file: PathBuf,
    /// Where it is mounted.
    pub directory: PathBuf,
    /// How much fits in.
    pub bytes: u64,
    /// How much of that is taken.
    pub used_bytes: u64,
}

/// All file systems that are mounted from a file and have all data go through their journal, in the order
/// in which they were mounted.
///
/// # Errors
/// As for reading the mounts.
pub fn mounted() -> Result<Vec<MountedVolume>, VolumeError> {
    let mounts = Mount::list()?;
    Ok(mounts.iter().filter_map(look).collect())
}

fn look(mount: &Mount) -> Option<MountedVolume> {
    if mount.kind != "ext4" || !mount.has("data=journal") {
        return None;
    }
    let device = mount.block_device().ok()?;
    let file = Path::new("/sys/block")
        .join(device)
        .join("loop/backing_file");
    let mut file = fs::read(file).ok()?;
    file.pop_if(|last| *last == b'\n');
    let space = statvfs(&mount.directory).ok()?;
    Some(MountedVolume {
        file: OsString::from_vec(file).into(),
        directory: mount.directory.clone(),
        bytes: space.f_blocks * space.f_frsize,
        used_bytes: (space.f_blocks - space.f_bfree) * space.f_frsize,
    })
}
