//! The nameservers of a network that leads nowhere: their addresses are its own, so that somebody inside can
//! answer for them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use surmise_sys::network::listener;

use super::netlink::{Batch, Socket};
use super::route;

/// Makes addresses the loopback interface's own, in the calling thread's network namespace, but for those that
/// are loopback's anyway. One after the other: one that cannot be had keeps no other away.
pub fn make_own(addresses: &[IpAddr]) {
    for address in addresses.iter().filter(|address| !address.is_loopback()) {
        // Without it the kernel answers that there is no way there.
        let _ = add(*address);
    }
}

fn add(address: IpAddr) -> io::Result<()> {
    let prefix = match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    };
    let mut batch = Batch::new();
    let step = "own the address of a nameserver";
    route::add_address(&mut batch, step, route::LOOPBACK, (address, prefix));
    Socket::open(None)?.transact(&batch)
}

/// A UDP socket for a name server at `address`, in the calling thread's network namespace. It does not
/// block.
///
/// # Errors
/// As `bind`: `AddrNotAvailable` for an address that is not the namespace's own.
pub fn serve(address: SocketAddr) -> io::Result<OwnedFd> {
    listener::datagrams(address)
}
