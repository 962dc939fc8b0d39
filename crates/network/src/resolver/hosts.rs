use std::net::IpAddr;

use crate::peer::normal;

/// A table of addresses and their names, in the form of `/etc/hosts`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    /// Names are lower case, without the dot at the end.
    entries: Vec<(IpAddr, Vec<String>)>,
}

impl Hosts {
    /// Reads the text of such a file; lines that are none are skipped, as the C library does.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let entries = text.lines().filter_map(|line| {
            let line = line.split('#').next()?;
            let mut words = line.split_ascii_whitespace();
            let address: IpAddr = words.next()?.parse().ok()?;
            Some((address.to_canonical(), words.map(normal).collect()))
        });
        Self {
            entries: entries.collect(),
        }
    }

    /// The addresses of a name.
    #[must_use]
    pub fn addresses_of(&self, name: &str) -> Vec<IpAddr> {
        let name = normal(name);
        let entries = self.entries.iter();
        entries
            .filter(|(_, names)| names.contains(&name))
            .map(|&(address, _)| address)
            .collect()
    }

    /// The names of an address: a domain that reads its own copy of the file asks no name server, so
    /// these count as names under which it learned the address.
    #[must_use]
    pub fn names_of(&self, address: IpAddr) -> Vec<String> {
        let address = address.to_canonical();
        let entries = self.entries.iter().filter(|(known, _)| *known == address);
        entries.flat_map(|(_, names)| names).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_found_both_ways() {
        let hosts = Hosts::parse(
            "127.0.0.1\tlocalhost # me\n\n#1.1.1.1 no\n10.1.2.3 Build.Example. build\n\
             ::1 localhost ip6-localhost\nnonsense here\n10.1.2.3 again\n",
        );
        let addresses = hosts.addresses_of("LOCALHOST");
        assert_eq!(
            addresses,
            [
                "127.0.0.1".parse::<IpAddr>().unwrap(),
                "::1".parse().unwrap()
            ]
        );
        assert_eq!(hosts.addresses_of("build.example").len(), 1);
        assert!(hosts.addresses_of("no").is_empty());
        let mapped = "::ffff:10.1.2.3".parse().unwrap();
        assert_eq!(hosts.names_of(mapped), ["build.example", "build", "again"]);
    }
}
