//! A domain's /dev: the harmless devices, terminals of its own, and memory of its own.

use std::ffi::CString;
use std::io;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount, mount_bind};

use crate::message::Failure;

/// The host's own devices. Each holds no state, or is the caller's terminal.
const SHARED: [&str; 6] = ["full", "null", "random", "tty", "urandom", "zero"];

const LINKS: [(&str, &str); 6] = [
    ("/proc/self/fd", "dev/fd"),
    ("/proc/self/fd/0", "dev/stdin"),
    ("/proc/self/fd/1", "dev/stdout"),
    ("/proc/self/fd/2", "dev/stderr"),
    ("pts/ptmx", "dev/ptmx"),
    ("/proc/kcore", "dev/core"),
];

/// Mounts it on `dev` below the current directory, from the host's /dev.
pub(crate) fn mount_all() -> Result<(), Failure> {
    let plain = MountFlags::NOSUID | MountFlags::NOEXEC;
    let failed = |path: &str| Failure::at(format!("make /{path}"));
    mount("tmpfs", "dev", "tmpfs", plain, c"mode=755").map_err(failed("dev"))?;
    for name in SHARED {
        let path = format!("dev/{name}");
        share(name, &path).map_err(Failure::at(format!("make /{path}")))?;
    }
    for (target, path) in LINKS {
        rustix::fs::symlink(target, path).map_err(failed(path))?;
    }
    let directory = |path: &str| {
        rustix::fs::mkdirat(CWD, path, Mode::from_raw_mode(0o755)).map_err(failed(path))
    };
    directory("dev/pts")?;
    let options = c"newinstance,ptmxmode=0666,mode=620";
    mount("devpts", "dev/pts", "devpts", plain, options).map_err(failed("dev/pts"))?;
    directory("dev/shm")?;
    let flags = plain | MountFlags::NODEV;
    mount("tmpfs", "dev/shm", "tmpfs", flags, c"mode=1777").map_err(failed("dev/shm"))?;
    directory("dev/mqueue")?;
    match mount("mqueue", "dev/mqueue", "mqueue", flags, None) {
        // A kernel without message queues.
        Ok(()) | Err(Errno::NODEV) => Ok(()),
        Err(errno) => Err(failed("dev/mqueue")(errno)),
    }
}

fn share(name: &str, path: &str) -> io::Result<()> {
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())?;
    match mount_bind(format!("/dev/{name}"), path) {
        Ok(()) => {}
        Err(Errno::NOENT) => return Ok(rustix::fs::unlink(path)?),
        Err(errno) => return Err(errno.into()),
    }
    // A device is written as before; its mode, owner and times are the host's.
    let path = CString::new(path)?;
    surmise_sys::mounts::make_read_only(&path)
}
