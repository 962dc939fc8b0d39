//! The host's own resolution of names.
//!
//! The command is linked statically, where the C library's resolver does not work; and it needs only
//! the part that rules and held names need: the host's `/etc/hosts` and the name servers in its
//! `/etc/resolv.conf`. Not served are search domains, multicast DNS and the other services of
//! `/etc/nsswitch.conf`.

mod client;
mod configuration;
mod hosts;

pub use hosts::Hosts;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use crate::peer::is_localhost;
use configuration::Configuration;

/// Looks names up as the host does. Cheap to clone; has no sockets of its own between look-ups.
#[derive(Clone, Debug)]
pub struct Resolver {
    configuration: Configuration,
    hosts: Hosts,
}

impl Resolver {
    /// The host's resolver, as it is configured now. Where there is no configuration, the name server
    /// is 127.0.0.1.
    ///
    /// # Errors
    /// As reading `/etc/resolv.conf` and `/etc/hosts`, except that they may be absent.
    pub fn system() -> io::Result<Self> {
        let configuration = read(Path::new("/etc/resolv.conf"))?;
        let hosts = read(Path::new("/etc/hosts"))?;
        Ok(Self {
            configuration: Configuration::parse(&configuration),
            hosts: Hosts::parse(&hosts),
        })
    }

    /// A resolver that asks one server, which has a second for each of two attempts.
    #[must_use]
    pub fn with(nameserver: SocketAddr, hosts: Hosts) -> Self {
        Self {
            configuration: Configuration::one(nameserver),
            hosts,
        }
    }

    /// All addresses of a host: of an address itself, of a name in `/etc/hosts` those, of names of
    /// loopback 127.0.0.1 and ::1, and of all others what the name servers say, IPv4 first. Waits for
    /// their answers, at most attempts times servers times the time-out of each.
    ///
    /// # Errors
    /// `NotFound` when the name or an address of it does not exist, `TimedOut` when no server
    /// answered, `InvalidInput` for what cannot be a name, otherwise as the sockets' operations.
    pub fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        if let Ok(address) = name.parse() {
            return Ok(vec![address]);
        }
        let known = self.hosts.addresses_of(name);
        if !known.is_empty() {
            return Ok(known);
        }
        if is_localhost(name) {
            return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
        }
        client::lookup(&self.configuration, name)
    }

    /// The servers that are asked, first first; never none.
    #[must_use]
    pub fn nameservers(&self) -> &[SocketAddr] {
        &self.configuration.nameservers
    }

    /// The first name server on loopback. A domain's own loopback has nobody there, so the gate must
    /// answer in its place.
    #[must_use]
    pub fn loopback_nameserver(&self) -> Option<IpAddr> {
        let mut addresses = self.nameservers().iter().map(SocketAddr::ip);
        addresses.find(IpAddr::is_loopback)
    }

    /// What the host's `/etc/hosts` says.
    #[must_use]
    pub fn hosts(&self) -> &Hosts {
        &self.hosts
    }
}

fn read(path: &Path) -> io::Result<String> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(io::Error::new(
            error.kind(),
            format!("{}: {error}", path.display()),
        )),
    }
}

#[cfg(test)]
mod tests;
