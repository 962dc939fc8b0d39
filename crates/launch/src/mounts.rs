//! The file systems of a domain: the view as root, or what is the root outside, and what must not come
//! from there.
//!
//! Everything here happens in the domain's own mount namespace, as its pid 1.

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive,
    mount_change, unmount,
};
use surmise_sys::mounts;

use crate::devices;
use crate::message::Failure;
use crate::native::Trees;
use crate::nested;
use crate::proc::{self, Superuser};

/// As much as one message carries.
const READ_AHEAD_KIB: &str = "1024";

/// Keeps what is mounted here from showing outside, and the other way round.
pub(crate) fn make_private() -> Result<(), Failure> {
    let flags = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", flags).map_err(Failure::at("make / private"))
}

/// Mounts the view on `mount_point` and returns the device that it must be served on.
///
/// `set_uid`: whether set-uid programs get the rights of their owner.
pub(crate) fn mount_view(mount_point: &Path, set_uid: bool) -> Result<OwnedFd, Failure> {
    // Opened here, because the kernel wants it opened in the user namespace of the mount.
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let device = rustix::fs::open("/dev/fuse", flags, Mode::empty())
        .map_err(Failure::at("open /dev/fuse"))?;
    let options = format!(
        "fd={},rootmode=40000,user_id={},group_id={},allow_other,default_permissions",
        device.as_raw_fd(),
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    let options = CString::new(options).expect("options hold no zero byte");
    let mut flags = MountFlags::NODEV;
    if !set_uid {
        flags |= MountFlags::NOSUID;
    }
    let kind = nested::FILE_SYSTEM;
    mount("surmise", mount_point, kind, flags, options.as_c_str())
        .map_err(Failure::at("mount the view"))?;
    Ok(device)
}

/// Puts the real files on `mount_point`, with all that is mounted below them.
pub(crate) fn mount_real(mount_point: &Path) -> Result<(), Failure> {
    mount_bind_recursive("/", mount_point).map_err(Failure::at("mount the root again"))
}

/// Mounts the rest below the root, which is a view that is being served by now, or the real one, and makes it
/// the root. Nothing else of the host's mounts is left in the namespace afterwards.
///
/// `sockets`: Unix sockets and FIFOs of the host that are themselves inside, too,
/// not only their names. `through`: a directory that is. `native`: directories that are, read-only.
pub(crate) fn enter(
    mount_point: &Path,
    superuser: Superuser,
    native: &Trees,
    (sockets, through): (&[PathBuf], Option<&Path>),
) -> Result<(), Failure> {
    // From here on relative paths are inside, absolute ones on the host.
    rustix::process::chdir(mount_point).map_err(Failure::at("enter the root to be"))?;
    // Without, reading takes longer; only root may.
    let _ = read_further_ahead(".");
    proc::mount(superuser)?;
    devices::mount_all()?;
    if let Err(errno) = mount_bind_recursive("/sys", "sys")
        && errno != Errno::NOENT
    {
        return Err(Failure::at("mount /sys")(errno));
    }
    match mounts::make_read_only(c"sys") {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(Failure::at("make /sys read-only")(error));
        }
        _ => {}
    }
    native.show()?;
    if let Some(directory) = through {
        show(directory, Shown::Whole)
            .map_err(Failure::at(format!("pass {} through", directory.display())))?;
    }
    for path in sockets {
        show(path, Shown::Alone).map_err(Failure::at(format!("reach {}", path.display())))?;
    }
    rustix::process::pivot_root(".", ".").map_err(Failure::at("change the root"))?;
    // The old root is now mounted over the new one, at the same place.
    unmount(".", UnmountFlags::DETACH).map_err(Failure::at("detach the old root"))?;
    rustix::process::chdir("/").map_err(Failure::at("enter the new root"))
}

/// Has the kernel ask the view for more at once when a file is read from front to back.
fn read_further_ahead(mount_point: &str) -> std::io::Result<()> {
    let device = rustix::fs::stat(mount_point)?.st_dev;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let setting = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    std::fs::write(setting, READ_AHEAD_KIB)
}

/// How something of the host is shown.
#[derive(Clone, Copy)]
enum Shown {
    /// A directory, with all that is mounted there. Its devices are none inside.
    Whole,
    /// A socket or FIFO. It is reached as before; its mode, owner and times are the host's.
    Alone,
}

/// Puts what is at `path` on the host over the same name below the current directory. Links on the
/// way are followed on the host: those of the view would lead to the host's root.
fn show(path: &Path, shown: Shown) -> std::io::Result<()> {
    let path = path.canonicalize()?;
    let inside = path.strip_prefix("/").unwrap_or(&path);
    let name = CString::new(inside.as_os_str().as_bytes())?;
    match shown {
        Shown::Whole => {
            mount_bind_recursive(&path, inside)?;
            mounts::hide_devices(&name)
        }
        Shown::Alone => {
            mount_bind(&path, inside)?;
            mounts::make_read_only(&name)
        }
    }
}
