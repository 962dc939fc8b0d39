//! Which sockets of a network namespace have a name, as /proc/PID/net lists them.

use std::ffi::OsStr;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A state of /proc/net/tcp.
const LISTENS: &str = "0A";
/// The flag of a Unix socket that takes connections (`__SO_ACCEPTCON`).
const TAKES_CONNECTIONS: &str = "00010000";
/// The type of a Unix socket for datagrams.
const DATAGRAMS: &str = "0002";

/// What carries what is sent to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Udp,
}

/// Whether a server in the network namespace of `task`, a place in /proc, would get what is sent to
/// `address`. What cannot be read has none.
pub(crate) fn has_server(task: &Path, transport: Transport, address: SocketAddr) -> bool {
    let lists = match transport {
        Transport::Tcp => ["tcp", "tcp6"],
        Transport::Udp => ["udp", "udp6"],
    };
    lists.iter().any(|list| {
        let text = fs::read_to_string(task.join("net").join(list)).unwrap_or_default();
        let mut lines = text.lines().skip(1);
        lines.any(|line| serves(line, transport, address))
    })
}

fn serves(line: &str, transport: Transport, address: SocketAddr) -> bool {
    let mut words = line.split_ascii_whitespace().skip(1);
    let (Some(local), Some(remote), Some(state)) = (words.next(), words.next(), words.next())
    else {
        return false;
    };
    let is_server = match transport {
        Transport::Tcp => state == LISTENS,
        Transport::Udp => remote.ends_with(":0000"),
    };
    let Some(bound) = is_server.then(|| parse(local)).flatten() else {
        return false;
    };
    let host = bound.ip();
    let is_meant = match host.is_unspecified() {
        // One of IPv6 takes IPv4, too, unless it says otherwise, which is not listed.
        true => host.is_ipv6() || address.is_ipv4(),
        false => host == address.ip(),
    };
    is_meant && bound.port() == address.port()
}

/// `0100007F:1F90`: 32 bits at a time in the machine's order.
fn parse(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let words = host.as_bytes().chunks(8).map(|word| {
        let word = std::str::from_utf8(word).ok()?;
        Some(u32::from_str_radix(word, 16).ok()?.to_ne_bytes())
    });
    let octets = words.collect::<Option<Vec<_>>>()?.concat();
    let host = match octets.len() {
        4 => Ipv4Addr::from(<[u8; 4]>::try_from(octets).ok()?).into(),
        16 => IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(octets).ok()?)).to_canonical(),
        _ => return None,
    };
    Some(SocketAddr::new(host, port))
}

/// The names of Unix sockets, in the network namespace of `task`, that take connections or datagrams; an
/// abstract one begins with `@`, and so do its other zero bytes. None where they cannot be read.
pub(crate) fn unix_names(task: &Path) -> Vec<Vec<u8>> {
    let list = fs::read(task.join("net/unix")).unwrap_or_default();
    let lines = list.split(|byte| *byte == b'\n').skip(1);
    lines.filter_map(unix_name).map(<[u8]>::to_vec).collect()
}

fn unix_name(line: &[u8]) -> Option<&[u8]> {
    /// Address, references, protocol, flags, type, state, inode.
    const BEFORE: usize = 7;
    let mut words = [""; BEFORE];
    let mut rest = line;
    for word in &mut words {
        rest = rest.trim_ascii_start();
        let end = rest.iter().position(|byte| *byte == b' ')?;
        *word = std::str::from_utf8(&rest[..end]).ok()?;
        rest = &rest[end..];
    }
    let [.., flags, kind, _state, _inode] = words;
    let name = &rest[1..];
    let is_server = flags == TAKES_CONNECTIONS || kind == DATAGRAMS;
    (is_server && !name.is_empty()).then_some(name)
}

/// The last part of a path that is a socket's name.
pub(crate) fn file_name(name: &[u8]) -> Option<&OsStr> {
    (!name.starts_with(b"@"))
        .then(|| Path::new(OsStr::from_bytes(name)).file_name())
        .flatten()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};
    use std::os::unix::net::UnixListener;

    use super::*;

    const OWN: &str = "/proc/thread-self";

    #[test]
    fn servers_are_found_by_the_addresses_that_they_serve() {
        let serves_at = |transport, address| has_server(Path::new(OWN), transport, address);
        for bound in ["127.0.0.1:0", "0.0.0.0:0"] {
            let server = TcpListener::bind(bound).expect("listen");
            let port = server.local_addr().expect("an address").port();
            let here = SocketAddr::from(([127, 0, 0, 1], port));
            assert!(serves_at(Transport::Tcp, here), "{bound}");
            drop(server);
            assert!(!serves_at(Transport::Tcp, here), "{bound}");
        }
        let server = UdpSocket::bind("127.0.0.1:0").expect("bind");
        let address = server.local_addr().expect("an address");
        assert!(serves_at(Transport::Udp, address));
        let other = SocketAddr::from(([127, 0, 0, 2], address.port()));
        assert!(!serves_at(Transport::Udp, other));
    }

    #[test]
    fn a_server_of_ipv6_takes_what_is_sent_to_its_address_or_to_any() {
        let line = |host: &str| {
            format!(
                "   0: {host}:1F90 {}:0000 0A 00000000:00000000",
                "0".repeat(32)
            )
        };
        let any = line(&"0".repeat(32));
        let loopback = line("00000000000000000000000001000000");
        let mapped = line("0000000000000000FFFF00000100007F");
        for (address, served) in [
            ("127.0.0.1:8080", [true, false, true]),
            ("[::1]:8080", [true, true, false]),
            ("[::1]:80", [false; 3]),
        ] {
            let address = address.parse().expect("an address");
            let found =
                [&any, &loopback, &mapped].map(|line| serves(line, Transport::Tcp, address));
            assert_eq!(found, served, "{address}");
        }
    }

    #[test]
    fn servers_with_names_are_found_and_their_clients_are_not() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a socket");
        let _server = UnixListener::bind(&path).expect("listen");
        let names = unix_names(Path::new(OWN));
        let found = |name: &Vec<u8>| name == path.as_os_str().as_bytes();
        assert_eq!(names.iter().filter(|name| found(name)).count(), 1);
        assert_eq!(
            file_name(path.as_os_str().as_bytes()),
            Some(OsStr::new("a socket"))
        );
        assert_eq!(file_name(b"@/tmp/x"), None);
        let line = "0000000000000000: 00000003 00000000 00000000 0001 03 12345 /run/a";
        assert_eq!(unix_name(line.as_bytes()), None, "a connection's other end");
    }
}
