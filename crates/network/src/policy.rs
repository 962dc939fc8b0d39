//! Which connections of a domain may reach what.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde::{Deserialize, Serialize};

pub use crate::peer::{Pattern, Peer, PeerError};

use crate::peer::{Fit, is_localhost};

/// What happens to a connection that wants to leave the domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It is relayed.
    Allow,
    /// It is refused.
    Deny,
    /// It is accepted at once; what is sent is kept and delivered at commit.
    Hold,
    /// It waits until the user has answered.
    Ask,
}

/// What happens to connections to some hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The hosts.
    pub host: Pattern,
    /// The port; all of them when there is none.
    pub port: Option<u16>,
    /// What happens.
    pub verdict: Verdict,
}

/// All rules of a domain, in the order in which they were given. An answer that the user gives
/// while the domain runs is a rule appended.
///
/// The most specific rule decides: one with a port before one without, then an address or a whole
/// name before `*.` and a longer name after `*.` before a shorter one; of equals the last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// The verdict where no rule matches.
    pub default: Verdict,
    /// The rules.
    pub rules: Vec<Rule>,
}

/// The loopback ports that the gate must catch when no server inside has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loopback {
    /// None of them.
    None,
    /// These, ascending, each once.
    Ports(Vec<u16>),
    /// All of them.
    All,
}

impl Policy {
    /// What happens to a connection to `address`, which the domain learned under `names`.
    ///
    /// Host loopback is reached only by a rule that names it, or by an answer: the default is then
    /// Ask where it is Ask, and Deny otherwise. Names do not count for it, except `localhost`:
    /// whoever serves a name in DNS could otherwise point it at the user's own servers.
    #[must_use]
    pub fn decide(&self, address: SocketAddr, names: &[String]) -> Verdict {
        let host = address.ip().to_canonical();
        let nameless = crate::names::is_synthetic(host) && names.is_empty();
        if never_reached(host) || nameless {
            return Verdict::Deny;
        }
        let fits = |rule: &Rule| {
            if host.is_loopback() {
                return fit_loopback(&rule.host, host);
            }
            let by_name = names.iter().filter_map(|name| rule.host.fit_name(name));
            by_name.chain(rule.host.fit_address(host)).max()
        };
        let default = match host.is_loopback() {
            true => self.loopback_default(),
            false => self.default,
        };
        self.most_specific(address.port(), fits).unwrap_or(default)
    }

    /// What happens to a question for `name`, whatever port is meant.
    ///
    /// It is the most permissive verdict that a connection to the name could get: Allow before Ask
    /// before Hold before Deny. Names of loopback are always allowed, for inside they mean the
    /// domain's own loopback; the ports are decided when they are used.
    #[must_use]
    pub fn decide_name(&self, name: &str) -> Verdict {
        if is_localhost(name) {
            return Verdict::Allow;
        }
        // Port 0 is no rule's: it stands for all ports without one.
        let ports = self.rules.iter().filter_map(|rule| rule.port).chain([0]);
        let fits = |rule: &Rule| rule.host.fit_name(name);
        ports
            .map(|port| self.most_specific(port, fits).unwrap_or(self.default))
            .max_by_key(|verdict| match verdict {
                Verdict::Allow => 3,
                Verdict::Ask => 2,
                Verdict::Hold => 1,
                Verdict::Deny => 0,
            })
            .unwrap_or(self.default)
    }

    /// Which loopback ports the gate must catch.
    #[must_use]
    pub fn loopback(&self) -> Loopback {
        if self.loopback_default() == Verdict::Ask {
            return Loopback::All;
        }
        let through = |rule: &&Rule| rule.host.is_loopback() && rule.verdict != Verdict::Deny;
        let rules = self.rules.iter().filter(through);
        let Some(mut ports) = rules.map(|rule| rule.port).collect::<Option<Vec<u16>>>() else {
            return Loopback::All;
        };
        ports.sort_unstable();
        ports.dedup();
        match ports.is_empty() {
            true => Loopback::None,
            false => Loopback::Ports(ports),
        }
    }

    /// Whether anything could pass. If not, the domain needs no gate: loopback is enough.
    #[must_use]
    pub fn needs_gate(&self) -> bool {
        let verdicts = self.rules.iter().map(|rule| rule.verdict);
        verdicts.chain([self.default]).any(|v| v != Verdict::Deny)
    }

    fn loopback_default(&self) -> Verdict {
        match self.default {
            Verdict::Ask => Verdict::Ask,
            Verdict::Allow | Verdict::Deny | Verdict::Hold => Verdict::Deny,
        }
    }

    fn most_specific(&self, port: u16, fits: impl Fn(&Rule) -> Option<Fit>) -> Option<Verdict> {
        let rules = self.rules.iter();
        rules
            .filter(|rule| rule.port.is_none_or(|wanted| wanted == port))
            .filter_map(|rule| Some((rule.port.is_some(), fits(rule)?, rule.verdict)))
            .max_by_key(|&(with_port, fit, _)| (with_port, fit)) // of equals the last
            .map(|(_, _, verdict)| verdict)
    }
}

fn fit_loopback(pattern: &Pattern, host: IpAddr) -> Option<Fit> {
    let first = host == Ipv4Addr::LOCALHOST || host.is_ipv6();
    match pattern {
        Pattern::Name(name) => (first && is_localhost(name)).then_some(Fit::Exact),
        Pattern::Address(_) => pattern.fit_address(host),
    }
}

/// Addresses that mean something else in each network, so that a connection to one could not be
/// relayed faithfully: `0.0.0.0/8` and `::`, broadcast, multicast, link-local IPv6, and the gate's own.
pub(crate) fn never_reached(host: IpAddr) -> bool {
    match host.to_canonical() {
        IpAddr::V4(v4) => {
            v4.octets()[0] == 0
                || v4.is_broadcast()
                || v4.is_multicast()
                || v4.octets()[..3] == [10, 0, 2]
        }
        IpAddr::V6(v6) => {
            v6.is_unspecified()
                || v6.is_multicast()
                || v6.is_unicast_link_local()
                || v6.segments()[..4] == [0xfd73, 0x7572, 0x6d69, 0]
        }
    }
}
