//! What a user types to name the other end of a connection.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A host, or all ports of it when no port is given: `HOST`, `HOST:PORT`, `ADDRESS`,
/// `ADDRESS:PORT`, `[V6]` or `[V6]:PORT`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Peer {
    /// The host.
    pub host: Pattern,
    /// The port; all of them when there is none. Never 0.
    pub port: Option<u16>,
}

/// Which hosts a rule is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Pattern {
    /// One address.
    Address(IpAddr),
    /// One name, or with `*.` before it all names below it. Compared without case and without the
    /// dot at the end; [`Pattern::from_str`] makes it lower case without that dot.
    Name(String),
}

/// Why a text names no peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// Nothing before the port, or nothing at all.
    #[error("{0:?} names no host: write HOST or HOST:PORT")]
    NoHost(String),
    /// Not a number from 1 to 65535 where a port was expected.
    #[error("{port:?} in {text:?} is no port: write a number from 1 to 65535")]
    BadPort {
        /// All that was typed.
        text: String,
        /// What stands in the port's place.
        port: String,
    },
    /// An opening bracket without an IPv6 address and a closing bracket.
    #[error("{0:?} is no IPv6 address in brackets: write [ADDRESS] or [ADDRESS]:PORT")]
    BadBrackets(String),
    /// A URL.
    #[error("{0:?} is a URL: write only its host, or HOST:PORT")]
    Url(String),
    /// Only a number, which is more likely a port than a host.
    #[error("{0:?} is a number, not a host: for a port of this machine write 127.0.0.1:{0}")]
    OnlyNumber(String),
    /// Digits and dots, yet no address.
    #[error("{0:?} is no complete address: write all four numbers, each from 0 to 255")]
    BadAddress(String),
    /// Not a name that DNS could know.
    #[error(
        "{0:?} is no host name: write letters, digits, hyphens and dots, \
         at most 63 of them between two dots; other alphabets as xn--"
    )]
    BadName(String),
    /// A star elsewhere than in front of a dot at the beginning.
    #[error("{0:?} has a star in the wrong place: write *.DOMAIN for all names below DOMAIN")]
    BadStar(String),
    /// An address that no policy lets through.
    #[error("{0} is never reached from a domain: it means something else in each network")]
    NeverReached(IpAddr),
}

impl FromStr for Peer {
    type Err = PeerError;

    fn from_str(text: &str) -> Result<Self, PeerError> {
        let (host, port) = split(text)?;
        if host.is_empty() {
            return Err(PeerError::NoHost(text.to_owned()));
        }
        let host = host.parse()?;
        if let Pattern::Address(address) = host
            && crate::policy::never_reached(address)
        {
            return Err(PeerError::NeverReached(address));
        }
        let port = port.map(|port| parse_port(text, port)).transpose()?;
        Ok(Self { host, port })
    }
}

/// The host and, when there is one, the text of the port.
fn split(text: &str) -> Result<(&str, Option<&str>), PeerError> {
    if text.contains("://") {
        return Err(PeerError::Url(text.to_owned()));
    }
    if let Some(inner) = text.strip_prefix('[') {
        let bad = || PeerError::BadBrackets(text.to_owned());
        let (host, rest) = inner.split_once(']').ok_or_else(bad)?;
        host.parse::<Ipv6Addr>().map_err(|_| bad())?;
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if rest.is_empty() => Ok((host, None)),
            None => Err(bad()),
        };
    }
    // Without brackets, two colons are an IPv6 address and never a port.
    if text.parse::<Ipv6Addr>().is_ok() {
        return Ok((text, None));
    }
    Ok(match text.rsplit_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    })
}

fn parse_port(text: &str, port: &str) -> Result<u16, PeerError> {
    // A sign would parse, too.
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse() {
        Ok(number) if digits && number != 0 => Ok(number),
        _ => Err(PeerError::BadPort {
            text: text.to_owned(),
            port: port.to_owned(),
        }),
    }
}

impl FromStr for Pattern {
    type Err = PeerError;

    fn from_str(text: &str) -> Result<Self, PeerError> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Address(address.to_canonical()));
        }
        let name = normal(text);
        check_name(text, &name)?;
        Ok(Self::Name(name))
    }
}

fn check_name(text: &str, name: &str) -> Result<(), PeerError> {
    let told = text.to_owned();
    let labels = name.strip_prefix("*.").unwrap_or(name);
    if labels.contains('*') {
        return Err(PeerError::BadStar(told));
    }
    if labels.contains(['/', '@']) {
        return Err(PeerError::Url(told));
    }
    let letters = |label: &str| {
        let sort = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (1..=63).contains(&label.len()) && label.bytes().all(sort)
    };
    if labels.len() > 253 || !labels.split('.').all(letters) {
        return Err(PeerError::BadName(told));
    }
    // No top-level domain is a number, but the C library takes such names for parts of addresses.
    let last = labels.rsplit('.').next().unwrap_or_default();
    if last.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(match labels.contains('.') {
            true => PeerError::BadAddress(told),
            false => PeerError::OnlyNumber(told),
        });
    }
    Ok(())
}

/// How names are compared: lower case, without the dot at the end.
pub(crate) fn normal(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// Whether a name is one for loopback, by RFC 6761: `localhost` or any name below it.
#[must_use]
pub fn is_localhost(name: &str) -> bool {
    let name = normal(name);
    name == "localhost" || name.ends_with(".localhost")
}

/// How much a pattern says about a host that it matches. Larger is more specific.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fit {
    /// All names below one of this many bytes.
    Below(usize),
    Exact,
}

impl Pattern {
    /// How a name fits; nothing when it does not match.
    pub(crate) fn fit_name(&self, name: &str) -> Option<Fit> {
        let Self::Name(pattern) = self else {
            return None;
        };
        let (pattern, name) = (normal(pattern), normal(name));
        match pattern.strip_prefix("*.") {
            Some(domain) => name
                .strip_suffix(domain)
                .is_some_and(|below| below.len() > 1 && below.ends_with('.'))
                .then_some(Fit::Below(domain.len())),
            None => (pattern == name).then_some(Fit::Exact),
        }
    }

    pub(crate) fn fit_address(&self, address: IpAddr) -> Option<Fit> {
        match self {
            Self::Address(wanted) if wanted.to_canonical() == address.to_canonical() => {
                Some(Fit::Exact)
            }
            _ => None,
        }
    }

    /// Whether it names host loopback: an address of it, or `localhost` and names below.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match self {
            Self::Address(address) => address.to_canonical().is_loopback(),
            Self::Name(name) => is_localhost(name),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.host, self.port) {
            (Pattern::Address(IpAddr::V6(address)), Some(port)) => write!(f, "[{address}]:{port}"),
            (host, Some(port)) => write!(f, "{host}:{port}"),
            (host, None) => host.fmt(f),
        }
    }
}

impl TryFrom<String> for Pattern {
    type Error = PeerError;

    fn try_from(text: String) -> Result<Self, PeerError> {
        text.parse()
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.to_string()
    }
}

impl TryFrom<String> for Peer {
    type Error = PeerError;

    fn try_from(text: String) -> Result<Self, PeerError> {
        text.parse()
    }
}

impl From<Peer> for String {
    fn from(peer: Peer) -> Self {
        peer.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn peer(text: &str) -> Peer {
        text.parse().unwrap()
    }

    #[test]
    fn every_documented_form_is_read() {
        let rows = [
            ("example.com", "example.com", None),
            ("Example.COM.:80", "example.com", Some(80)),
            ("*.example.com:443", "*.example.com", Some(443)),
            ("1.2.3.4", "1.2.3.4", None),
            ("127.0.0.1:8080", "127.0.0.1", Some(8080)),
            ("::1", "::1", None),
            ("[::1]", "::1", None),
            ("[2001:db8::1]:65535", "2001:db8::1", Some(65535)),
            ("::ffff:1.2.3.4", "1.2.3.4", None),
            ("my_host", "my_host", None),
        ];
        for (text, host, port) in rows {
            let peer = peer(text);
            assert_eq!(peer.host.to_string(), host, "{text}");
            assert_eq!(peer.port, port, "{text}");
        }
    }

    #[test]
    fn what_is_no_peer_is_told_with_its_fix() {
        let rows = [
            ("", "names no host"),
            (":80", "names no host"),
            ("a:", "is no port"),
            ("a:0", "is no port"),
            ("a:65536", "is no port"),
            ("a:+1", "is no port"),
            ("a:http", "write a number"),
            ("[::1", "brackets"),
            ("[::1]80", "brackets"),
            ("[1.2.3.4]:80", "brackets"),
            ("http://a.b/", "write only its host"),
            ("a.b/c", "write only its host"),
            ("8080", "write 127.0.0.1:8080"),
            ("127.1", "no complete address"),
            ("1.2.3.256", "no complete address"),
            ("a..b", "no host name"),
            ("-a b", "no host name"),
            ("bücher.example", "xn--"),
            ("a.*.b", "*.DOMAIN"),
            ("*", "*.DOMAIN"),
            ("**.a", "*.DOMAIN"),
            ("fe80::1", "never reached"),
            ("0.0.0.0:80", "never reached"),
            ("224.0.0.251:5353", "never reached"),
        ];
        for (text, wanted) in rows {
            let error = text.parse::<Peer>().unwrap_err().to_string();
            assert!(error.contains(wanted), "{text:?}: {error}");
        }
        assert!(("a".repeat(64) + ".com").parse::<Peer>().is_err());
        assert!("a.".repeat(127).parse::<Peer>().is_ok());
        assert!("a.".repeat(128).parse::<Peer>().is_err());
    }

    #[test]
    fn names_match_without_case_and_last_dot_and_stars_only_names_below() {
        let exact = peer("example.com").host;
        assert_eq!(exact.fit_name("EXAMPLE.com."), Some(Fit::Exact));
        assert_eq!(exact.fit_name("www.example.com"), None);
        let below = peer("*.example.com").host;
        assert!(below.fit_name("a.b.Example.com.").is_some());
        for other in [
            "example.com",
            ".example.com",
            "badexample.com",
            "a.example.org",
            "",
        ] {
            assert_eq!(below.fit_name(other), None, "{other}");
        }
        assert!(below.fit_name("a.example.com") > peer("*.com").host.fit_name("a.example.com"));
        assert!(is_localhost("LOCALHOST.") && is_localhost("a.localhost"));
        assert!(!is_localhost("notlocalhost") && !is_localhost("localhost.example"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_told(text in any::<String>()) {
            if let Ok(peer) = text.parse::<Peer>() {
                prop_assert_eq!(peer.to_string().parse::<Peer>().unwrap(), peer);
            }
        }

        #[test]
        fn what_is_shown_reads_back(
            host in prop_oneof![
                any::<[u8; 4]>().prop_map(|a| IpAddr::from(a).to_string()),
                any::<[u8; 16]>().prop_map(|a| IpAddr::from(a).to_string()),
                "(\\*\\.)?[a-z0-9_-]{1,20}(\\.[a-z][a-z0-9-]{0,10}){1,3}",
            ],
            port in proptest::option::of(1u16..),
        ) {
            let host: Pattern = host.parse().unwrap();
            let peer = Peer { host, port };
            let read = peer.to_string().parse::<Peer>();
            match read {
                Ok(read) => prop_assert_eq!(read, peer),
                Err(error) => prop_assert!(matches!(error, PeerError::NeverReached(_))),
            }
        }
    }
}
