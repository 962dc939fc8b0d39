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
    /// the server of a name in DNS could otherwise point the name at the user's own servers.
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

/// Addresses that mean something else outside, so that a connection to one could not be relayed
/// faithfully: `0.0.0.0/8` and `::`, broadcast, multicast, link-local IPv6, and the domain's own.
pub(crate) fn never_reached(host: IpAddr) -> bool {
    match host.to_canonical() {
        IpAddr::V4(v4) => {
            v4.octets()[0] == 0
                || v4.is_broadcast()
                || v4.is_multicast()
                || v4 == surmise_linux::network::gate::ADDRESS_V4
        }
        IpAddr::V6(v6) => {
            v6.is_unspecified()
                || v6.is_multicast()
                || v6.is_unicast_link_local()
                || v6 == surmise_linux::network::gate::ADDRESS_V6
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Allow, Ask, Deny, Hold};
    use proptest::prelude::*;

    fn policy(default: Verdict, rules: &[(&str, Verdict)]) -> Policy {
        let rules = rules.iter().map(|&(text, verdict)| {
            let peer: Peer = text.parse().unwrap();
            Rule {
                host: peer.host,
                port: peer.port,
                verdict,
            }
        });
        Policy {
            default,
            rules: rules.collect(),
        }
    }

    fn decide(policy: &Policy, address: &str, names: &[&str]) -> Verdict {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        policy.decide(address.parse().unwrap(), &names)
    }

    #[test]
    fn the_most_specific_rule_decides_and_of_equals_the_last() {
        let rules = [
            ("a.example:443", Allow),
            ("a.example", Hold),
            ("*.example", Ask),
            ("*.b.example", Deny),
            ("9.9.9.9", Deny),
            ("9.9.9.9", Allow),
        ];
        let policy = policy(Deny, &rules);
        assert_eq!(decide(&policy, "1.1.1.1:443", &["A.Example."]), Allow);
        assert_eq!(decide(&policy, "1.1.1.1:80", &["a.example"]), Hold);
        assert_eq!(decide(&policy, "1.1.1.1:80", &["c.example"]), Ask);
        assert_eq!(decide(&policy, "1.1.1.1:80", &["c.b.example"]), Deny);
        assert_eq!(decide(&policy, "1.1.1.1:80", &["b.example"]), Ask);
        assert_eq!(decide(&policy, "1.1.1.1:80", &[]), Deny);
        assert_eq!(decide(&policy, "9.9.9.9:80", &[]), Allow);
        assert_eq!(decide(&policy, "[::ffff:9.9.9.9]:80", &[]), Allow);
        // Under several names, each rule for one of them counts.
        assert_eq!(
            decide(&policy, "1.1.1.1:80", &["x.example", "a.example"]),
            Hold
        );
    }

    #[test]
    fn host_loopback_is_reached_only_when_named_or_asked_for() {
        for address in [
            "127.0.0.1:80",
            "127.9.9.9:80",
            "[::1]:80",
            "[::ffff:127.0.0.1]:80",
        ] {
            for (default, wanted) in [(Allow, Deny), (Hold, Deny), (Deny, Deny), (Ask, Ask)] {
                let names = ["a.example"];
                let policy = policy(default, &[("a.example", Allow), ("*.com", Allow)]);
                assert_eq!(
                    decide(&policy, address, &names),
                    wanted,
                    "{address} {default:?}"
                );
            }
        }
        let named = policy(Hold, &[("127.0.0.1:80", Allow), ("::1", Hold)]);
        assert_eq!(decide(&named, "127.0.0.1:80", &[]), Allow);
        assert_eq!(decide(&named, "127.0.0.1:81", &[]), Deny);
        assert_eq!(decide(&named, "127.0.0.2:80", &[]), Deny);
        assert_eq!(decide(&named, "[::1]:9", &[]), Hold);
        let localhost = policy(Deny, &[("LocalHost:80", Allow)]);
        assert_eq!(decide(&localhost, "127.0.0.1:80", &[]), Allow);
        assert_eq!(decide(&localhost, "[::1]:80", &[]), Allow);
        assert_eq!(decide(&localhost, "127.0.0.53:80", &[]), Deny);
        // Nor does a name that pretends to be localhost open anything else.
        assert_eq!(decide(&localhost, "1.1.1.1:80", &["a.example"]), Deny);
    }

    #[test]
    fn the_gate_catches_the_loopback_ports_that_rules_let_through() {
        type Row<'a> = (Verdict, &'a [(&'a str, Verdict)], Loopback);
        let rows: [Row<'_>; 7] = [
            (Allow, &[], Loopback::None),
            (Ask, &[], Loopback::All),
            (
                Allow,
                &[("10.0.0.1:5", Allow), ("a.example", Hold)],
                Loopback::None,
            ),
            (Deny, &[("127.0.0.1:5", Deny)], Loopback::None),
            (
                Hold,
                &[
                    ("::1:0:0:1", Hold),
                    ("[::1]:9", Hold),
                    ("127.0.0.1:5", Ask),
                    ("localhost:9", Allow),
                ],
                Loopback::Ports(vec![5, 9]),
            ),
            (
                Deny,
                &[("localhost:5", Allow), ("127.0.0.1", Ask)],
                Loopback::All,
            ),
            (Deny, &[("::1", Hold)], Loopback::All),
        ];
        for (default, rules, wanted) in rows {
            assert_eq!(
                policy(default, rules).loopback(),
                wanted,
                "{default:?} {rules:?}"
            );
        }
    }

    #[test]
    fn what_means_nothing_outside_is_denied_whatever_the_policy() {
        let addresses = [
            "0.0.0.0",
            "0.1.2.3",
            "255.255.255.255",
            "224.0.0.1",
            "239.255.255.250",
            "10.0.2.100",
            "::",
            "ff02::1",
            "fe80::1",
            "fd73:7572:6d69::64",
            "198.19.3.4",
            "::ffff:0.0.0.0",
        ];
        for address in addresses {
            let host: IpAddr = address.parse().unwrap();
            let rule = Rule {
                host: Pattern::Address(host),
                port: None,
                verdict: Allow,
            };
            let policy = Policy {
                default: Allow,
                rules: vec![rule],
            };
            let told = policy.decide(SocketAddr::new(host, 80), &[]);
            assert_eq!(told, Deny, "{address}");
        }
        let policy = policy(Hold, &[("a.example:1", Ask)]);
        assert_eq!(decide(&policy, "198.19.3.4:1", &["a.example"]), Ask);
        assert_eq!(decide(&policy, "198.19.3.4:2", &["a.example"]), Hold);
    }

    #[test]
    fn a_name_gets_the_most_permissive_verdict_of_its_ports() {
        let rules = [
            ("a.example:443", Allow),
            ("b.example", Deny),
            ("*.c.example:80", Ask),
            ("d.example:80", Deny),
            ("9.9.9.9", Allow),
        ];
        let hold = policy(Hold, &rules);
        let rows = [
            ("A.example.", Allow),
            ("b.example", Deny),
            ("x.c.example", Ask),
            ("d.example", Hold),
            ("other.example", Hold),
            ("localhost", Allow),
        ];
        for (name, wanted) in rows {
            assert_eq!(hold.decide_name(name), wanted, "{name}");
        }
        assert_eq!(policy(Deny, &rules).decide_name("d.example"), Deny);
        assert_eq!(policy(Allow, &rules).decide_name("d.example"), Allow);
    }

    #[test]
    fn only_a_policy_that_lets_nothing_through_needs_no_gate() {
        assert!(!policy(Deny, &[]).needs_gate());
        assert!(!policy(Deny, &[("a.example", Deny)]).needs_gate());
        assert!(policy(Deny, &[("a.example", Hold)]).needs_gate());
        for default in [Allow, Ask, Hold] {
            assert!(policy(default, &[]).needs_gate());
        }
    }

    #[test]
    fn it_is_kept_as_text() {
        let policy = policy(Ask, &[("[2001:db8::1]:80", Hold), ("*.a.example", Allow)]);
        let json = serde_json::to_string(&policy).unwrap();
        let wanted = r#"{"default":"ask","rules":[{"host":"2001:db8::1","port":80,"verdict":"hold"},{"host":"*.a.example","port":null,"verdict":"allow"}]}"#;
        assert_eq!(json, wanted);
        assert_eq!(serde_json::from_str::<Policy>(&json).unwrap(), policy);
        assert!(serde_json::from_str::<Pattern>("\"a b\"").is_err());
    }

    fn any_policy() -> impl Strategy<Value = Policy> {
        let verdict = || prop_oneof![Just(Allow), Just(Deny), Just(Hold), Just(Ask)];
        let host = prop_oneof![
            Just("a.example"),
            Just("*.example"),
            Just("*.a.example"),
            Just("b.a.example"),
            Just("1.1.1.1"),
            Just("2.2.2.2"),
            Just("127.0.0.1"),
            Just("localhost"),
        ];
        let host = host.prop_map(|host| host.parse().unwrap());
        let rule =
            (host, proptest::option::of(1u16..4), verdict()).prop_map(|(host, port, verdict)| {
                Rule {
                    host,
                    port,
                    verdict,
                }
            });
        let rules = proptest::collection::vec(rule, 0..8);
        (verdict(), rules).prop_map(|(default, rules)| Policy { default, rules })
    }

    /// As `decide`, without its order: a rule loses when another one beats it.
    fn naive(policy: &Policy, name: &str, port: u16) -> Verdict {
        let matching: Vec<(usize, &Rule)> = policy
            .rules
            .iter()
            .enumerate()
            .filter(|(_, rule)| {
                let text = rule.host.to_string();
                let host = match text.strip_prefix('*') {
                    Some(end) => name.ends_with(end),
                    None => name == text,
                };
                host && (rule.port.is_none() || rule.port == Some(port))
            })
            .collect();
        let beats = |a: &(usize, &Rule), b: &(usize, &Rule)| {
            let rank = |&(number, rule): &(usize, &Rule)| {
                let text = rule.host.to_string();
                (
                    rule.port.is_some(),
                    !text.starts_with('*'),
                    text.len(),
                    number,
                )
            };
            rank(a) > rank(b)
        };
        let unbeaten = |rule: &&(usize, &Rule)| !matching.iter().any(|other| beats(other, rule));
        match matching.iter().find(unbeaten) {
            Some((_, rule)) => rule.verdict,
            None => policy.default,
        }
    }

    proptest! {
        #[test]
        fn it_decides_as_the_naive_model(policy in any_policy(), port in 1u16..5) {
            for name in ["a.example", "b.a.example", "c.a.example", "d.example", "other"] {
                let address = SocketAddr::from(([9, 9, 9, 9], port));
                let told = policy.decide(address, &[name.to_owned()]);
                prop_assert_eq!(told, naive(&policy, name, port));
            }
        }

        #[test]
        fn a_name_that_is_denied_cannot_be_connected_to(policy in any_policy(), port in 1u16..) {
            for name in ["a.example", "b.a.example", "d.example"] {
                let address = SocketAddr::from(([9, 9, 9, 9], port));
                let told = policy.decide(address, &[name.to_owned()]);
                if policy.decide_name(name) == Deny {
                    prop_assert_eq!(told, Deny);
                }
                if told == Allow {
                    prop_assert_eq!(policy.decide_name(name), Allow);
                }
            }
        }

        #[test]
        fn loopback_that_is_not_caught_is_denied(policy in any_policy(), port in 1u16..6) {
            let caught = match policy.loopback() {
                Loopback::None => false,
                Loopback::Ports(ports) => ports.contains(&port),
                Loopback::All => true,
            };
            for address in [IpAddr::from([127, 0, 0, 1]), "::1".parse().unwrap()] {
                let told = policy.decide(SocketAddr::new(address, port), &[]);
                prop_assert!(caught || told == Deny);
            }
        }
    }
}
