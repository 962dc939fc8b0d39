//! Addresses of sockets, read from the memory of the task that names one.

use std::ffi::OsStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::process::Pid;
use surmise_sys::memory;

/// `sa_family_t` of unix(7), ip(7) and ipv6(7).
const UNIX: u16 = 1;
const INET: u16 = 2;
const INET6: u16 = 10;

/// `struct sockaddr_un`, the longest of them.
const LONGEST: usize = 110;

/// Where a socket is, or is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A host and a port. An IPv4 address in the form of an IPv6 one is the IPv4 address.
    Host(SocketAddr),
    /// A name of a file system.
    Path(PathBuf),
    /// A name of a network namespace: all of its bytes.
    Abstract(Vec<u8>),
}

impl Address {
    /// The address of `length` bytes in the memory of `task`; `None` for one of another family, and for none.
    ///
    /// # Errors
    /// As reading the task's memory.
    pub fn read(task: Pid, place: u64, length: u64) -> io::Result<Option<Self>> {
        let length = usize::try_from(length).unwrap_or(0).min(LONGEST);
        if place == 0 || length <= 2 {
            return Ok(None);
        }
        let mut bytes = vec![0; length];
        memory::read(task, place, &mut bytes)?;
        Ok(Self::parse(&bytes))
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (family, rest) = bytes.split_first_chunk()?;
        match u16::from_ne_bytes(*family) {
            UNIX => unix(rest),
            INET => {
                let (port, rest) = rest.split_first_chunk()?;
                let (host, _) = rest.split_first_chunk::<4>()?;
                Some(host_of(Ipv4Addr::from(*host).into(), *port))
            }
            INET6 => {
                let (port, rest) = rest.split_first_chunk()?;
                let (_flow, rest) = rest.split_first_chunk::<4>()?;
                let (host, _) = rest.split_first_chunk::<16>()?;
                Some(host_of(Ipv6Addr::from(*host).into(), *port))
            }
            _ => None,
        }
    }
}

fn host_of(host: IpAddr, port: [u8; 2]) -> Address {
    let port = u16::from_be_bytes(port);
    Address::Host(SocketAddr::new(host.to_canonical(), port))
}

fn unix(name: &[u8]) -> Option<Address> {
    match name.split_first()? {
        (0, name) => Some(Address::Abstract(name.into())),
        _ => {
            let end = name.iter().position(|byte| *byte == 0);
            let name = &name[..end.unwrap_or(name.len())];
            Some(Address::Path(OsStr::from_bytes(name).into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(family: u16, rest: &[u8]) -> Option<Address> {
        Address::parse(&[&family.to_ne_bytes(), rest].concat())
    }

    #[test]
    fn addresses_of_each_family_are_read() {
        let host = |text: &str| Some(Address::Host(text.parse().expect("an address")));
        let v4 = [0x1f, 0x90, 192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(parsed(INET, &v4), host("192.0.2.1:8080"));
        let v6 = |address: &str| {
            let octets = address.parse::<Ipv6Addr>().expect("an address").octets();
            [&[0, 80, 0, 0, 0, 0][..], &octets, &[0; 4]].concat()
        };
        assert_eq!(parsed(INET6, &v6("2001:db8::1")), host("[2001:db8::1]:80"));
        assert_eq!(parsed(INET6, &v6("::ffff:192.0.2.1")), host("192.0.2.1:80"));
        assert_eq!(
            parsed(UNIX, b"/run/a\0junk"),
            Some(Address::Path("/run/a".into()))
        );
        assert_eq!(
            parsed(UNIX, b"\0name\0x"),
            Some(Address::Abstract(b"name\0x".into()))
        );
        assert_eq!(parsed(INET, &v4[..3]), None, "cut short");
        assert_eq!(parsed(0, &v4), None, "AF_UNSPEC");
    }
}
