//! Whether a domain can have a gated network, found out by making one.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::pipe::PipeFlags;
use rustix::process::{getegid, geteuid};
use rustix::thread::UnshareFlags;
use surmise_sys::process;

use super::{Ability, had, lacking, map_self, optional};
use crate::network;
use crate::network::gate::{Loopback, Setup, set_up};

/// Below the size that a pipe takes in one piece.
const MESSAGE_SIZE: usize = 512;

pub(super) fn probe() -> Ability {
    let name = "network gate (TUN, nftables)";
    optional(match make_one() {
        Ok(()) => had(name, "can be set up"),
        Err(message) => lacking(name, message, hint()),
    })
}

/// Each cause that can be told apart, by looking at it once more.
fn hint() -> &'static str {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open("/dev/net/tun", flags, Mode::empty()) {
        Err(rustix::io::Errno::ACCESS) => "as root: chmod 0666 /dev/net/tun",
        Err(_) => "as root: modprobe tun; in a container: --device /dev/net/tun",
        Ok(_) => {
            "as root: modprobe -a nf_tables nft_tproxy nft_reject_inet; \
             without user namespaces, above, it cannot work either"
        }
    }
}

/// In a process with namespaces of its own, with which all of it ends.
fn make_one() -> Result<(), String> {
    let told = |error: io::Error| error.to_string();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let devices = rustix::fs::openat(CWD, "/dev/net", flags, Mode::empty())
        .map_err(|errno| format!("/dev/net: {errno}"))?;
    let (result, sender) =
        rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(|errno| told(errno.into()))?;
    let keep = [sender.as_fd(), devices.as_fd()];
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    let child = process::clone(UnshareFlags::NEWUSER, &keep, || {
        let made = map_self(uid, gid)
            .and_then(|()| network::enter_new())
            .and_then(|()| try_gate(devices.as_fd()));
        if let Err(error) = made {
            let message = error.to_string().into_bytes();
            let length = message.len().min(MESSAGE_SIZE);
            let _ = rustix::io::write(&sender, &message[..length]);
        }
        0
    })
    .map_err(told)?;
    drop(sender);
    let mut message = [0; MESSAGE_SIZE];
    let length = rustix::io::retry_on_intr(|| rustix::io::read(&result, &mut message))
        .map_err(|errno| told(errno.into()))?;
    child.wait().map_err(told)?;
    match length {
        0 => Ok(()),
        _ => Err(String::from_utf8_lossy(&message[..length]).into_owned()),
    }
}

/// With everything that a domain may ask of it.
fn try_gate(tun_directory: BorrowedFd<'_>) -> io::Result<()> {
    let setup = Setup {
        tun_directory,
        settings: None,
        loopback: Loopback::All,
        names: None,
        ipv6: Path::new("/proc/sys/net/ipv6").exists(),
    };
    set_up(&setup).map(drop)
}
