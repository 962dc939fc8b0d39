use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};
use std::path::Path;
use std::time::Duration;

const PORT: u16 = 53;
/// As the C library: more are not asked.
const NAMESERVERS_MAX: usize = 3;
const TIMEOUT_S_MAX: u64 = 30;
const ATTEMPTS_MAX: u32 = 5;

/// Whom to ask, and how long to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Never none.
    pub nameservers: Vec<SocketAddr>,
    /// For one answer of one server.
    pub timeout: Duration,
    /// How often each server is asked; never 0.
    pub attempts: u32,
}

impl Configuration {
    pub fn one(nameserver: SocketAddr) -> Self {
        Self {
            nameservers: vec![nameserver],
            timeout: Duration::from_secs(1),
            attempts: 2,
        }
    }

    /// Reads the text of `/etc/resolv.conf`. What cannot be read is skipped; what is missing is as in
    /// the C library.
    pub fn parse(text: &str) -> Self {
        let mut read = Self {
            nameservers: Vec::new(),
            timeout: Duration::from_secs(5),
            attempts: 2,
        };
        for line in text.lines().filter(|line| !line.starts_with(['#', ';'])) {
            let mut words = line.split_ascii_whitespace();
            match words.next() {
                Some("nameserver") => {
                    let server = words.next().and_then(parse_address);
                    read.nameservers.extend(server);
                }
                Some("options") => words.for_each(|option| read.set(option)),
                _ => {}
            }
        }
        read.nameservers.truncate(NAMESERVERS_MAX);
        if read.nameservers.is_empty() {
            let local = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
            read.nameservers.push(local);
        }
        read
    }

    fn set(&mut self, option: &str) {
        match option.split_once(':') {
            Some(("timeout", value)) => {
                if let Ok(seconds) = value.parse::<u64>() {
                    self.timeout = Duration::from_secs(seconds.clamp(1, TIMEOUT_S_MAX));
                }
            }
            Some(("attempts", value)) => {
                if let Ok(attempts) = value.parse::<u32>() {
                    self.attempts = attempts.clamp(1, ATTEMPTS_MAX);
                }
            }
            _ => {}
        }
    }
}

/// An address, after which an interface may be named: `fe80::1%eth0`.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let Some((address, interface)) = text.split_once('%') else {
        return Some(SocketAddr::new(text.parse::<IpAddr>().ok()?, PORT));
    };
    let address = address.parse().ok()?;
    let scope = interface.parse().ok().or_else(|| index_of(interface))?;
    Some(SocketAddrV6::new(address, PORT, 0, scope).into())
}

fn index_of(interface: &str) -> Option<u32> {
    if interface.contains('/') {
        return None;
    }
    let file = Path::new("/sys/class/net").join(interface).join("ifindex");
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_and_options_are_read_and_bounded() {
        let text = "# nameserver 9.9.9.9\n; comment\nsearch example.com\nnameserver 127.0.0.53\n\
                    nameserver ::1\nnameserver nonsense\nnameserver fe80::1%7\nnameserver 1.1.1.1\n\
                    options edns0 timeout:2 attempts:100 ndots:x\n";
        let read = Configuration::parse(text);
        let scoped = SocketAddrV6::new("fe80::1".parse().unwrap(), 53, 0, 7);
        let wanted: [SocketAddr; 3] = [
            "127.0.0.53:53".parse().unwrap(),
            "[::1]:53".parse().unwrap(),
            scoped.into(),
        ];
        assert_eq!(read.nameservers, wanted);
        assert_eq!(read.timeout, Duration::from_secs(2));
        assert_eq!(read.attempts, ATTEMPTS_MAX);
    }

    #[test]
    fn an_interface_is_found_by_its_name() {
        let lo = parse_address("fe80::1%lo").unwrap();
        assert!(
            matches!(lo, SocketAddr::V6(v6) if v6.scope_id() == 1),
            "{lo}"
        );
        assert_eq!(parse_address("fe80::1%no-such-interface"), None);
        assert_eq!(parse_address("fe80::1%../lo"), None);
    }

    #[test]
    fn without_a_server_it_is_the_local_one() {
        let read = Configuration::parse("options timeout:0\n");
        assert_eq!(read.nameservers, ["127.0.0.1:53".parse().unwrap()]);
        assert_eq!(read.timeout, Duration::from_secs(1));
    }
}
