//! The mount itself: by mount(2) where this process may, and otherwise by fusermount3(1), as other FUSE file systems of
//! ordinary users.

use std::ffi::CString;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
    recvmsg, socketpair,
};
use rustix::time::Timespec;
use surmise_linux::proc::Mount;

/// What mountinfo(5) calls the file system.
pub const FILE_SYSTEM: &str = "fuse.surmise";

/// The program that mounts for ordinary users.
const HELPER: &str = "fusermount3";

/// Why there is no mount.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The kernel's, or that of a file.
    #[error("{0}: {1}")]
    Io(&'static str, #[source] io::Error),
    /// The helper has said why.
    #[error("fusermount3: {0}")]
    Helper(String),
}

/// How a mount is made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MountOptions {
    /// Whether users besides the one that mounts may use it. Root's mounts are everybody's.
    pub allow_other: bool,
    /// Whether nothing can be changed by it.
    pub read_only: bool,
    /// Whether no program can be executed from it.
    pub no_exec: bool,
}

/// Mounts on a directory; returns the device on which the mount is to be served.
///
/// # Errors
/// [`MountError`].
pub fn mount(source: &str, on: &Path, how: MountOptions) -> Result<OwnedFd, MountError> {
    if rustix::process::geteuid().is_root() {
        return mount_directly(source, on, how);
    }
    mount_by_helper(source, on, how)
}

fn mount_directly(source: &str, on: &Path, how: MountOptions) -> Result<OwnedFd, MountError> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let device = rustix::fs::open("/dev/fuse", flags, Mode::empty());
    let device = device.map_err(|errno| MountError::Io("open /dev/fuse", errno.into()))?;
    let options = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions",
        device.as_raw_fd(),
    );
    let options = CString::new(options).expect("options hold no zero byte");
    let mut flags = MountFlags::NODEV | MountFlags::NOSUID;
    flags.set(MountFlags::RDONLY, how.read_only);
    flags.set(MountFlags::NOEXEC, how.no_exec);
    rustix::mount::mount(source, on, FILE_SYSTEM, flags, options.as_c_str())
        .map_err(|errno| MountError::Io("mount", errno.into()))?;
    Ok(device)
}

fn mount_by_helper(source: &str, on: &Path, how: MountOptions) -> Result<OwnedFd, MountError> {
    let failed = |what| move |error: io::Error| MountError::Io(what, error);
    let pair = socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    );
    let (own, helpers) = pair.map_err(|errno| failed("make a socket")(errno.into()))?;
    fcntl_setfd(&helpers, FdFlags::empty())
        .map_err(|errno| failed("make a socket")(errno.into()))?;
    let shared = if how.allow_other { ",allow_other" } else { "" };
    let access = if how.read_only { "ro" } else { "rw" };
    let programs = if how.no_exec { ",noexec" } else { "" };
    let source = source.replace('\\', "\\\\").replace(',', "\\,");
    let options = format!(
        "{access},nosuid,nodev,default_permissions,subtype=surmise,fsname={source}{shared}{programs}"
    );
    let run = Command::new(HELPER)
        .arg("-o")
        .arg(options)
        .arg("--")
        .arg(on)
        .env("_FUSE_COMMFD", helpers.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .output()
        .map_err(failed("start fusermount3"))?;
    drop(helpers);
    if !run.status.success() {
        let said = String::from_utf8_lossy(&run.stderr);
        let said = said.trim().trim_start_matches("fusermount3: ");
        return Err(MountError::Helper(said.to_owned()));
    }
    receive(&own).map_err(failed("receive the device from fusermount3"))
}

/// The descriptor that the helper has sent.
fn receive(socket: impl AsFd) -> io::Result<OwnedFd> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut pieces = [IoSliceMut::new(&mut byte)];
    recvmsg(socket, &mut pieces, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let device = rights.flatten().next();
    device.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// Unmounts.
///
/// # Errors
/// [`MountError`]; `EBUSY` while a program has a file of the mount open, or works in it.
pub fn unmount(on: &Path) -> Result<(), MountError> {
    if rustix::process::geteuid().is_root() {
        let flags = UnmountFlags::NOFOLLOW;
        let gone = rustix::mount::unmount(on, flags);
        return gone.map_err(|errno| MountError::Io("unmount", errno.into()));
    }
    let run = Command::new(HELPER).arg("-u").arg("--").arg(on).output();
    let run = run.map_err(|error| MountError::Io("start fusermount3", error))?;
    if run.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&run.stderr);
    if said.contains("busy") {
        return Err(MountError::Io("unmount", Errno::BUSY.into()));
    }
    let said = said.trim().trim_start_matches("fusermount3: ");
    Err(MountError::Helper(said.to_owned()))
}

/// Takes a mount out of sight at once, also while programs use it; it ends with the last of them.
///
/// # Errors
/// [`MountError`].
pub fn detach(on: &Path) -> Result<(), MountError> {
    if rustix::process::geteuid().is_root() {
        let flags = UnmountFlags::NOFOLLOW | UnmountFlags::DETACH;
        let gone = rustix::mount::unmount(on, flags);
        return gone.map_err(|errno| MountError::Io("unmount", errno.into()));
    }
    let run = Command::new(HELPER).arg("-uz").arg("--").arg(on).output();
    run.map_err(|error| MountError::Io("start fusermount3", error))?;
    Ok(())
}

/// Whether what the device serves is mounted nowhere any more.
pub(crate) fn has_ended(device: impl AsFd) -> bool {
    let mut events = [PollFd::new(&device, PollFlags::empty())];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let polled = rustix::event::poll(&mut events, Some(&now));
    polled.is_ok_and(|ready| ready > 0) && events[0].revents().contains(PollFlags::ERR)
}

/// What is mounted on a directory, if that is a far one. What is mounted on top of it counts, whatever that is.
///
/// # Errors
/// When the mounts cannot be read.
pub fn source_of(on: &Path) -> Result<Option<String>, surmise_linux::proc::MountError> {
    let all = Mount::list()?;
    let uppermost = all.into_iter().rfind(|mount| mount.directory == on);
    let far = uppermost.filter(|mount| mount.kind == FILE_SYSTEM);
    Ok(far.map(|mount| mount.source.display().to_string()))
}
