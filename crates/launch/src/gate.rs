//! The gate of a domain's network, from the process that sets it up to the relay process.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use serde::{Deserialize, Serialize};
use surmise_kept::Link;
use surmise_linux::network::gate::{self, Gate, HostSettings, LoopbackSockets};
use surmise_network::{Loopback, Policy, Resolver};

/// Whether this user can have a gate, as far as that shows without making one. `surmise doctor` makes
/// one.
pub fn can_gate() -> bool {
    use rustix::fs::Access;

    rustix::fs::access("/dev/net/tun", Access::READ_OK | Access::WRITE_OK).is_ok()
}

/// What a gate shall be like: found out before the domain is started.
#[derive(Debug)]
pub(crate) struct Plan {
    loopback: Loopback,
    names: Option<IpAddr>,
    ipv6: bool,
    tun_directory: OwnedFd,
    settings: Option<HostSettings>,
}

impl Plan {
    /// Of a gate for `policy`, on a host that resolves names as `resolver` does.
    ///
    /// # Errors
    /// `NotFound` where the host has no TUN devices.
    pub(crate) fn new(policy: &Policy, resolver: &Resolver) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self {
            loopback: policy.loopback(),
            names: resolver.loopback_nameserver(),
            ipv6: Path::new("/proc/sys/net/ipv6").exists(),
            // Inside there is none.
            tun_directory: rustix::fs::openat(CWD, "/dev/net", flags, Mode::empty())?,
            // The kernel's own do.
            settings: HostSettings::read().ok(),
        })
    }

    /// The descriptors that the process needs that sets the gate up.
    pub(crate) fn descriptors(&self) -> Vec<std::os::fd::BorrowedFd<'_>> {
        let settings = self.settings.as_ref().map(AsFd::as_fd);
        [self.tun_directory.as_fd()]
            .into_iter()
            .chain(settings)
            .collect()
    }

    /// Sets the gate up in the network namespace of the calling thread.
    pub(crate) fn set_up(&self) -> io::Result<Gate> {
        gate::set_up(&gate::Setup {
            tun_directory: self.tun_directory.as_fd(),
            settings: self.settings.as_ref(),
            loopback: match &self.loopback {
                Loopback::None => gate::Loopback::None,
                Loopback::Ports(ports) => gate::Loopback::Ports(ports),
                Loopback::All => gate::Loopback::All,
            },
            names: self.names,
            ipv6: self.ipv6,
        })
    }
}

/// Which of a gate's descriptors follow.
#[derive(Serialize, Deserialize)]
struct Parts {
    names: bool,
    loopback: bool,
}

/// Hands a gate over.
pub(crate) fn send(link: &Link, gate: &Gate) -> io::Result<()> {
    link.send(&Parts {
        names: gate.names.is_some(),
        loopback: gate.loopback.is_some(),
    })?;
    let names = gate.names.iter().flat_map(|(udp, tcp)| [udp, tcp]);
    let loopback = gate.loopback.iter();
    let loopback = loopback.flat_map(|sockets| [&sockets.inside, &sockets.relay]);
    [&gate.tun, &gate.listener, &gate.diagnostics]
        .into_iter()
        .chain(names)
        .chain(loopback)
        .try_for_each(|descriptor| link.send_descriptor(descriptor.as_fd()))
}

/// Takes one over; `None` when the other end is closed first.
pub(crate) fn receive(link: &Link) -> io::Result<Option<Gate>> {
    let Some(parts) = link.receive::<Parts>()? else {
        return Ok(None);
    };
    let cut = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let next = || link.receive_descriptor()?.ok_or_else(cut);
    Ok(Some(Gate {
        tun: next()?,
        listener: next()?,
        diagnostics: next()?,
        names: match parts.names {
            true => Some((next()?, next()?)),
            false => None,
        },
        loopback: match parts.loopback {
            true => Some(LoopbackSockets {
                inside: next()?,
                relay: next()?,
            }),
            false => None,
        },
    }))
}
