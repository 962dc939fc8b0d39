//! A network namespace without a name: it is gone with the processes in it and this one.

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;
use std::thread;

use rustix::thread::LinkNameSpaceType;
use surmise_sys::network;
use surmise_sys::network::tun;

use crate::place::succeed;

/// Of the calling thread.
const OWN: &str = "/proc/thread-self/ns/net";

/// A network namespace with a loopback interface and a TUN device.
pub struct Namespace(File);

impl Namespace {
    /// Makes one whose TUN device has this name and address, in a network of 256 addresses. Returns the side of the
    /// device that has no network.
    pub fn new(device: &str, address: Ipv4Addr) -> Result<(Self, OwnedFd), String> {
        in_thread(|| {
            network::enter_new().map_err(|error| format!("a network namespace: {error}"))?;
            let tun =
                tun::open_offloading(device).map_err(|error| format!("a TUN device: {error}"))?;
            // IPv6 would have packets of its own on the line.
            for words in [
                format!("address add {address}/24 dev {device}"),
                format!("link set dev {device} addrgenmode none"),
                format!("link set dev {device} mtu 1500 txqueuelen 10000 up"),
            ] {
                succeed(Command::new("ip").args(words.split(' ')))?;
            }
            let namespace = File::open(OWN).map_err(|error| format!("open {OWN}: {error}"))?;
            Ok((Self(namespace), tun))
        })
    }

    /// Calls `act` in a thread that is in this namespace. So are the processes that it starts.
    pub fn enter<T: Send>(
        &self,
        act: impl FnOnce() -> Result<T, String> + Send,
    ) -> Result<T, String> {
        in_thread(|| {
            let network = Some(LinkNameSpaceType::Network);
            rustix::thread::move_into_link_name_space(self.0.as_fd(), network)
                .map_err(|errno| format!("enter a network namespace: {errno}"))?;
            act()
        })
    }
}

/// A thread has a namespace of its own, so none of the others moves.
fn in_thread<T: Send>(act: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
    thread::scope(|scope| scope.spawn(act).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
