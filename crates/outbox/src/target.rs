//! Where held output goes, and who sent it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// One held channel. Numbers ascend in the order in which the channels were opened, over the whole
/// life of a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HoldId(pub u64);

/// Where the output of a hold goes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// A stream connection to this host and port.
    Tcp(Host, u16),
    /// Datagrams to this host and port.
    Udp(Host, u16),
    /// The standard output of the command.
    Output,
    /// The standard error of the command.
    Error,
    /// The terminal of the command.
    Terminal,
}

/// A host, as the program inside named it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// By address.
    Address(IpAddr),
    /// By name, which is resolved at delivery.
    Name(String),
}

/// The process that opened a held channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sender {
    /// Its number, as the domain counts.
    pub pid: i32,
    /// Its command name.
    pub name: String,
}

/// How the program ended a held channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// In order: nothing more comes.
    Closed,
    /// By a reset: the receiver is to see that the stream is not whole.
    Reset,
}

impl Target {
    /// Whether an append is one datagram, whose bounds are kept.
    pub fn is_datagrams(&self) -> bool {
        matches!(self, Self::Udp(..))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) => peer(formatter, host, *port),
            Self::Udp(host, port) => {
                peer(formatter, host, *port)?;
                formatter.write_str(" (UDP)")
            }
            Self::Output => formatter.write_str("standard output"),
            Self::Error => formatter.write_str("standard error"),
            Self::Terminal => formatter.write_str("the terminal"),
        }
    }
}

fn peer(formatter: &mut fmt::Formatter<'_>, host: &Host, port: u16) -> fmt::Result {
    match host {
        Host::Address(address) => write!(formatter, "{}", SocketAddr::new(*address, port)),
        Host::Name(name) => write!(formatter, "{name}:{port}"),
    }
}

impl fmt::Display for Sender {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}, pid {}", self.name, self.pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_written_as_users_write_them() {
        let local = Host::Address([127, 0, 0, 1].into());
        assert_eq!(Target::Tcp(local, 8080).to_string(), "127.0.0.1:8080");
        let six = Host::Address("::1".parse().expect("an address"));
        assert_eq!(Target::Tcp(six, 80).to_string(), "[::1]:80");
        let name = Host::Name("example.org".into());
        assert_eq!(Target::Udp(name, 53).to_string(), "example.org:53 (UDP)");
    }
}
