//! What the disks in memory share: the mounting of a FUSE file, the loop device on it, and the ext4 file
//! system on that.
//!
//! The process that holds the FUSE device must hold nothing above it: such a process can hang in exit.

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use surmise_fuse::{Attributes, Entry, KnownAttributes};

/// The file that is the disk.
pub(crate) const DISK_NAME: &str = "disk";

/// How long a file system may stay busy after its last user.
pub(crate) const BUSY_LIMIT: Duration = Duration::from_secs(10);

/// A mounted file system; unmounted when the value is dropped.
#[derive(Debug)]
pub struct Mounted {
    path: PathBuf,
    /// A loop device that is given back afterwards.
    borrowed: Option<PathBuf>,
}

impl Mounted {
    /// Mounts ext4 with options of its own, as `mount -o` takes them.
    pub(crate) fn ext4(device: &Path, path: &Path, options: &str) -> Result<Self, String> {
        let options = CString::new(options).expect("no zero byte");
        rustix::mount::mount(device, path, "ext4", MountFlags::NODEV, options.as_c_str())
            .map_err(|error| format!("mount {}: {error}", device.display()))?;
        Ok(Self {
            path: path.to_owned(),
            borrowed: None,
        })
    }

    /// Gives this loop device back afterwards.
    pub(crate) fn borrowing(mut self, device: PathBuf) -> Self {
        self.borrowed = Some(device);
        self
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let deadline = Instant::now() + BUSY_LIMIT;
        while let Err(error) = rustix::mount::unmount(&self.path, UnmountFlags::empty()) {
            if error != Errno::BUSY || Instant::now() > deadline {
                // Should this be a test that fails already, a second panic would hide why.
                assert!(
                    thread::panicking(),
                    "unmount {}: {error}",
                    self.path.display()
                );
                break;
            }
            thread::sleep(Duration::from_millis(2));
        }
        if let Some(device) = &self.borrowed {
            // In use no more, or given back when it is.
            let _ = Command::new("losetup").arg("-d").arg(device).status();
        }
    }
}

/// Makes an ext4 file system with a journal of so many megabytes, whose parts are all written now: none is
/// left to the kernel to write later. It passes for a volume, by its label.
pub(crate) fn make_ext4(device: &Path, journal_megabytes: u32) -> Result<(), String> {
    let made = Command::new("mkfs.ext4")
        .args(["-q", "-F", "-L", "surmise", "-b", "4096", "-J"])
        .arg(format!("size={journal_megabytes}"))
        .args(["-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"])
        .arg(device)
        .status();
    match made {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("mkfs.ext4 {}: {status}", device.display())),
        Err(error) => Err(format!("mkfs.ext4: {error}")),
    }
}

/// A loop device on the disk that is served in a directory, or why there is none.
pub(crate) fn attach(served: &Path) -> Result<PathBuf, String> {
    let attached = Command::new("losetup")
        .args(["--find", "--show"])
        .arg(served.join(DISK_NAME))
        .output()
        .map_err(|error| format!("losetup: {error}"))?;
    match attached.status.success() {
        true => Ok(String::from_utf8_lossy(&attached.stdout).trim().into()),
        false => Err(String::from_utf8_lossy(&attached.stderr).trim().into()),
    }
}

/// Mounts a FUSE file system; the result is its device, for the server.
pub(crate) fn mount_served(point: &Path) -> Result<OwnedFd, String> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let device = rustix::fs::open("/dev/fuse", flags, Mode::empty())
        .map_err(|error| format!("open /dev/fuse: {error}"))?;
    let options = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0,allow_other",
        device.as_raw_fd()
    );
    let options = CString::new(options).expect("no zero byte");
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("disk", point, "fuse.disk", flags, options.as_c_str())
        .map_err(|error| format!("mount {}: {error}", point.display()))?;
    Ok(device)
}

/// What a served file system tells of its root.
pub(crate) fn root() -> KnownAttributes {
    known(surmise_fuse::ROOT, 0o040_700, 0)
}

/// What it tells of a file. That is so for good.
pub(crate) fn file(node: u64, bytes: u64) -> KnownAttributes {
    known(node, 0o100_600, bytes)
}

fn known(node: u64, mode: u32, size: u64) -> KnownAttributes {
    let attributes = Attributes {
        ino: node,
        size,
        block_size: 4096,
        links: 1,
        mode,
        ..Attributes::default()
    };
    KnownAttributes {
        attributes,
        lifetime: Duration::MAX,
    }
}

/// A name that leads to such a file, for good.
pub(crate) fn entry(known: KnownAttributes) -> Entry {
    Entry {
        node: known.attributes.ino,
        generation: 0,
        attributes: known.attributes,
        entry_lifetime: known.lifetime,
        attributes_lifetime: known.lifetime,
    }
}
