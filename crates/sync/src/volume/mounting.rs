//! Mounting a volume, and unmounting it.

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use surmise_sys::mounts;

use super::superblock;
use super::tool::{LOOP, MOUNT, UNMOUNT};
use super::{VolumeError, mounted};
use crate::driver::driver_of;

/// The maker of the volume gets no rights by it. A journal that fails makes the file system read-only.
const OPTIONS: &str = "data=journal,barrier=1,errors=remount-ro,nosuid,nodev";

/// Mounts a volume. What a power loss left half done is finished or gone afterwards.
///
/// # Errors
/// As [`VolumeError`] says; then nothing is mounted.
pub fn mount(file: &Path, directory: &Path) -> Result<(), VolumeError> {
    let image = superblock::open(file, false)?;
    // Until this returns nobody else looks for the loop device, or makes one.
    lock(&image, file)?;
    let words = |options: &str, source: OsString| {
        let words = [
            "-t".into(),
            "ext4".into(),
            "-o".into(),
            options.into(),
            "--".into(),
            source,
        ];
        words.into_iter().chain([directory.as_os_str().to_owned()])
    };
    match loop_device(file)? {
        Some(device) => MOUNT.succeed(None, words(OPTIONS, device.into()))?,
        None => {
            let options = format!("loop,{OPTIONS}");
            MOUNT.succeed(None, words(&options, file.as_os_str().to_owned()))?
        }
    };
    if let Err(lack) = driver_of(directory) {
        unmount_any(directory)?;
        return Err(lack.into());
    }
    Ok(())
}

/// The same for the calling thread and what it starts from now on: nobody outside finds the volume's files,
/// and it is unmounted when the last of them has ended. Where the current directory is covered by the
/// volume, it is the volume's from then on.
///
/// # Errors
/// As [`VolumeError`] says; then nothing is mounted.
pub fn mount_privately(file: &Path, directory: &Path) -> Result<(), VolumeError> {
    let error = |what, path: &Path| {
        let path = path.to_owned();
        move |source| VolumeError::Path { what, path, source }
    };
    let current = std::env::current_dir().map_err(error("find", Path::new(".")))?;
    // A relative path would go on leading to what the volume covers.
    let directory = directory.canonicalize().map_err(error("find", directory))?;
    mounts::enter_new().map_err(VolumeError::Namespace)?;
    mount(file, &directory)?;
    std::env::set_current_dir(&current).map_err(error("go on in", &current))
}

/// Unmounts the volume that was mounted on `directory` last; its loop device goes with its last mount.
///
/// # Errors
/// As [`VolumeError`] says; then it is mounted as before.
pub fn unmount(directory: &Path) -> Result<(), VolumeError> {
    let error = |source| VolumeError::Path {
        what: "find",
        path: directory.to_owned(),
        source,
    };
    let found = directory.canonicalize().map_err(error)?;
    if !mounted()?.iter().any(|volume| volume.directory == found) {
        return Err(VolumeError::NotMounted { directory: found });
    }
    unmount_any(&found)
}

fn unmount_any(directory: &Path) -> Result<(), VolumeError> {
    UNMOUNT
        .succeed(None, ["--".as_ref(), directory.as_os_str()])
        .map(drop)
}

/// The loop device of a file, if it has one.
pub(super) fn loop_device(file: &Path) -> Result<Option<String>, VolumeError> {
    let arguments = ["--noheadings", "--output", "NAME", "--associated"].map(OsString::from);
    let told = LOOP.succeed(None, arguments.into_iter().chain([file.into()]))?;
    Ok(told
        .lines()
        .map(str::trim)
        .find(|name| !name.is_empty())
        .map(str::to_owned))
}

/// Held as long as the file is open.
pub(super) fn lock(image: &File, path: &Path) -> Result<(), VolumeError> {
    flock(image, FlockOperation::LockExclusive).map_err(|errno| VolumeError::Path {
        what: "lock",
        path: path.to_owned(),
        source: errno.into(),
    })
}
