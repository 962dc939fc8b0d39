//! The gate of a domain's network: every connection that leaves it is first one packet that the
//! relay reads, and whatever the relay lets through is then carried by the kernel's own TCP.
//!
//! The domain's network namespace has one TUN device, `eth0`, with the default routes. Only the
//! SYN of an outgoing connection (and UDP and ICMP) travels out of it. The relay reads the SYN
//! from [`Gate::tun`] and decides:
//!
//! - *Let through*: it writes the same packet back to the TUN. The packet then reaches the
//!   transparent [`Gate::listener`], whatever its destination; the accepted socket's own address is
//!   the destination, and its peer's the source. All later packets stay inside the namespace.
//! - *Refuse*: it writes a reset, or an ICMP error, from the destination to the source.
//! - *Wait*: it does nothing yet. A SYN that is sent again meanwhile is the same request.
//!
//! The relay must reset each accepted connection whose two addresses are not those of a SYN that
//! it has written back. None is known to come: a program that connects to the listener's own
//! port, on an address of the domain, gets `ECONNREFUSED`.
//!
//! # Loopback
//!
//! Connections inside stay inside. Those to loopback addresses on the ports of [`Loopback`] are
//! gated like others: their SYN comes out of the TUN, too, with its addresses as they are. It goes
//! back not by the TUN, where the kernel takes no packets to `::1`, but by [`Gate::loopback`]:
//! [`inject`] into `inside` gives it to a server of the domain, and into `relay` to the listener.
//! A reset may go either way. So the relay asks [`has_listener`] first: if a server inside has the
//! port it has the connection, and if not, the SYN is handled as any other.
//!
//! UDP to loopback addresses is never gated, nor is a socket that is bound to the device `lo`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::netlink;
use surmise_sys::network::{listener, tun};

pub use super::owner::{Protocol, SocketOwner, has_listener, owner};
pub use super::settings::HostSettings;

use super::netlink::{Batch, Socket};
use super::route::{self, Link, Way};
use super::{Step, owner as diagnostics, rules};

/// The domain's IPv4 address, of a network of 24 bits.
pub const ADDRESS_V4: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 100);
/// The router that the domain sees; nobody has this address. ICMP errors come from here.
pub const ROUTER_V4: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
/// The domain's IPv6 address, of a network of 64 bits.
pub const ADDRESS_V6: Ipv6Addr = Ipv6Addr::new(0xfd73, 0x7572, 0x6d69, 0, 0, 0, 0, 0x64);
/// As [`ROUTER_V4`].
pub const ROUTER_V6: Ipv6Addr = Ipv6Addr::new(0xfd73, 0x7572, 0x6d69, 0, 0, 0, 0, 2);
/// The largest packet that comes out of the TUN, in bytes, and the largest it takes.
pub const PACKET_SIZE: usize = 65_520;

/// The transparent listener's port. Any will do, because packets keep the port they are sent to; but
/// a program of the domain cannot have it, and a host's server on it cannot be reached by loopback.
/// Nobody uses this one, and no port that the kernel chooses is as low.
const LISTENER: u16 = 1;

/// How many packets wait for the relay: with the kernel's 500, a burst of connections loses SYNs.
const QUEUE: u32 = 20_000;
const DEVICE: &str = "eth0";
const NAME_SERVICE: u16 = 53;

/// The table in which every destination is here, and the one in which every one is outside.
const HERE: u8 = 100;
const OUTSIDE: u8 = 102;

const ANY_V4: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const ANY_V6: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

/// What the gate of a domain's network needs.
#[derive(Debug)]
pub struct Setup<'a> {
    /// The host's `/dev/net`, an `O_PATH` descriptor.
    pub tun_directory: BorrowedFd<'a>,
    /// Settings to take over; without them the kernel's for a new network hold.
    pub settings: Option<&'a HostSettings>,
    /// Which connections to loopback addresses are gated.
    pub loopback: Loopback<'a>,
    /// The loopback address on which a name server is bound, on port 53 of UDP and TCP.
    pub names: Option<IpAddr>,
    /// Whether the domain has IPv6.
    pub ipv6: bool,
}

/// Loopback ports whose connections are gated, on 127.0.0.0/8 and `::1`.
#[derive(Clone, Copy, Debug)]
pub enum Loopback<'a> {
    /// None: all of loopback stays inside.
    None,
    /// These TCP ports.
    Ports(&'a [u16]),
    /// Every TCP port.
    All,
}

/// The open gate. All descriptors are non-blocking and closed on exec.
#[derive(Debug)]
pub struct Gate {
    /// Whole IP packets, one a read or write. Closing the last copy removes the device.
    pub tun: OwnedFd,
    /// Takes every TCP connection that was let through. Of IPv6 with IPv4 mapped into it, or of
    /// IPv4 if the domain has no IPv6.
    pub listener: OwnedFd,
    /// For [`owner`] and [`has_listener`].
    pub diagnostics: OwnedFd,
    /// The name server's sockets, UDP and a TCP listener.
    pub names: Option<(OwnedFd, OwnedFd)>,
    /// Ways back for loopback packets, if some are gated.
    pub loopback: Option<LoopbackSockets>,
}

/// Where gated loopback packets go back, see [`inject`].
#[derive(Debug)]
pub struct LoopbackSockets {
    /// To servers inside, or to nobody: then the kernel refuses the connection.
    pub inside: OwnedFd,
    /// To the transparent listener.
    pub relay: OwnedFd,
}

/// Sets up the gate of the network namespace that the calling thread is in.
///
/// The namespace is new, its loopback interface is up, and the thread has all capabilities in its
/// user namespace: `CAP_NET_ADMIN`, `CAP_NET_RAW` and `CAP_NET_BIND_SERVICE` are used. When this
/// fails the namespace is of no use.
///
/// # Errors
/// What the kernel does not grant, with the step that it was for: `PermissionDenied` or `NotFound`
/// for a TUN device that cannot be opened, `NotFound` for nftables expressions that the kernel
/// lacks, `AddrInUse` and `AddrNotAvailable` for `names`.
pub fn set_up(setup: &Setup<'_>) -> io::Result<Gate> {
    let step = Step::at;
    let tun = tun::open(setup.tun_directory, DEVICE).map_err(step("make a TUN device"))?;
    if let Some(settings) = setup.settings {
        settings.apply();
    }
    let routing = Socket::open(None).map_err(step("open a routing socket"))?;
    let index = rustix::net::netdevice::name_to_index(&routing, DEVICE)
        .map_err(io::Error::from)
        .map_err(step("find the TUN device"))?;
    let gated = !matches!(setup.loopback, Loopback::None);
    routing.transact(&routes(index, gated, setup.ipv6))?;
    let listener =
        listener::transparent(LISTENER, setup.ipv6).map_err(step("listen for connections"))?;
    let filter = Socket::open(Some(netlink::NETFILTER)).map_err(step("open an nftables socket"))?;
    filter.transact(&rules::ruleset(index, LISTENER, &setup.loopback))?;
    let names = setup
        .names
        .map(|address| listener::names(SocketAddr::new(address, NAME_SERVICE)))
        .transpose()
        .map_err(step("serve names"))?;
    let injector = |mark| {
        listener::injector(route::LOOPBACK, mark).map_err(step("open a way back for packets"))
    };
    let loopback = match gated {
        false => None,
        true => Some(LoopbackSockets {
            inside: injector(0)?,
            relay: injector(rules::RELAYED)?,
        }),
    };
    let diagnostics = diagnostics::diagnostics().map_err(step("open a socket for sock_diag"))?;
    Ok(Gate {
        tun,
        listener,
        diagnostics,
        names,
        loopback,
    })
}

/// Puts a whole IP packet onto the loopback interface, through a socket of [`LoopbackSockets`].
///
/// # Errors
/// As `writev`; `InvalidInput` for bytes that are no IP packet.
pub fn inject(socket: BorrowedFd<'_>, packet: &[u8]) -> io::Result<()> {
    listener::inject(socket, packet)
}

/// Messages that bring up the TUN device and lead packets to it.
fn routes(tun: u32, gated_loopback: bool, ipv6: bool) -> Batch {
    let mut batch = Batch::new();
    let device = Link {
        index: tun,
        sizes: Some((PACKET_SIZE as u32, QUEUE)),
        // What the relay writes back comes from an address of this namespace.
        accepts_local: true,
        routes_loopback: gated_loopback,
        plain_ipv6: ipv6,
    };
    route::change_link(&mut batch, "prepare the TUN device", &device);
    route::bring_up(&mut batch, "bring up the TUN device", tun);
    if gated_loopback {
        let loopback = Link {
            index: route::LOOPBACK,
            accepts_local: true,
            routes_loopback: true,
            ..Link::default()
        };
        route::change_link(&mut batch, "prepare the loopback interface", &loopback);
    }
    add_family(
        &mut batch,
        (tun, gated_loopback),
        (ADDRESS_V4.into(), 24),
        (ROUTER_V4.into(), ANY_V4),
    );
    if ipv6 {
        // The kernel adds this route, too, but some time after the address.
        route::add_own(&mut batch, "know the own address", ADDRESS_V6);
        add_family(
            &mut batch,
            (tun, gated_loopback),
            (ADDRESS_V6.into(), 64),
            (ROUTER_V6.into(), ANY_V6),
        );
    }
    batch
}

/// Address, routes and rules of one family, which is that of `any`.
fn add_family(
    batch: &mut Batch,
    (tun, gated_loopback): (u32, bool),
    address: (IpAddr, u8),
    (router, any): (IpAddr, IpAddr),
) {
    route::add_address(batch, "give the TUN device an address", tun, address);
    let main = (route::MAIN_TABLE, any);
    route::add_default(
        batch,
        "add the default route",
        main,
        &Way::Router(tun, router),
    );
    route::add_default(batch, "add the way back", (HERE, any), &Way::Here);
    let relayed = (Some(rules::RELAYED), HERE);
    route::add_rule(batch, "route relayed packets", (30, any), relayed);
    if gated_loopback {
        let step = "route gated loopback packets";
        route::add_default(batch, step, (OUTSIDE, any), &Way::Link(tun));
        route::add_rule(batch, step, (10, any), (Some(rules::GATED), OUTSIDE));
        // The kernel looks for its own addresses before all else; marked packets go first now.
        route::add_rule(batch, step, (20, any), (None, route::LOCAL_TABLE));
        route::remove_rule(batch, step, any, route::LOCAL_TABLE);
    }
}
