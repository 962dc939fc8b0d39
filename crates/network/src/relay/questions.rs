//! Peers that a person is asked about.

use std::collections::HashMap;
use std::net::SocketAddr;

use surmise_outbox::Host;

use crate::policy::{Pattern, Rule, Verdict};

/// What one answer covers: a host, and for the machine itself only one of its ports, since each is
/// another server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Scope {
    host: Host,
    port: Option<u16>,
}

impl Scope {
    /// What an answer about `address`, known by `name`, covers.
    pub(crate) fn of_address(address: SocketAddr, name: Option<&String>) -> Self {
        let host = match name {
            Some(name) => Host::Name(name.clone()),
            None => Host::Address(address.ip()),
        };
        Self::of_host(host, address.port())
    }

    /// What an answer about a name covers.
    pub(crate) fn of_name(name: &str) -> Self {
        Self {
            host: Host::Name(name.to_owned()),
            port: None,
        }
    }

    /// What an answer about something held for a host covers.
    pub(crate) fn of_host(host: Host, port: u16) -> Self {
        let here = matches!(&host, Host::Address(address) if address.is_loopback());
        Self {
            host,
            port: here.then_some(port),
        }
    }

    /// Whether an answer covers this host and port.
    pub(crate) fn covers(&self, host: &Host, port: u16) -> bool {
        self.host == *host && self.port.is_none_or(|one| one == port)
    }

    /// As a person would write it.
    pub(crate) fn peer(&self, port: Option<u16>) -> String {
        match (&self.host, port) {
            (Host::Name(name), None) => name.clone(),
            (Host::Name(name), Some(port)) => format!("{name}:{port}"),
            (Host::Address(address), None) => address.to_string(),
            (Host::Address(address), Some(port)) => SocketAddr::new(*address, port).to_string(),
        }
    }

    /// The rule that an answer makes for one port: it goes before rules for other ports and for none.
    pub(crate) fn rule_for(&self, port: u16, verdict: Verdict) -> Rule {
        Rule {
            port: Some(port),
            ..self.rule(verdict)
        }
    }

    /// The rule that an answer makes.
    pub(crate) fn rule(&self, verdict: Verdict) -> Rule {
        let host = match &self.host {
            Host::Name(name) => Pattern::Name(name.clone()),
            Host::Address(address) => Pattern::Address(*address),
        };
        Rule {
            host,
            port: self.port,
            verdict,
        }
    }
}

/// The open questions. What waits for an answer is kept where it waits, and judged anew after one.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    open: HashMap<Scope, u64>,
    last: u64,
}

impl Questions {
    /// The number of a new question. `None`: it has been asked.
    pub(crate) fn ask(&mut self, scope: Scope) -> Option<u64> {
        if self.open.contains_key(&scope) {
            return None;
        }
        self.last += 1;
        self.open.insert(scope, self.last);
        Some(self.last)
    }

    /// Closes a question; gives what its answer covers.
    pub(crate) fn close(&mut self, question: u64) -> Option<Scope> {
        let found = self.open.iter().find(|&(_, &number)| number == question);
        let scope = found.map(|(scope, _)| scope.clone())?;
        self.open.remove(&scope);
        Some(scope)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn a_question_is_asked_once_until_it_is_answered() {
        let mut questions = Questions::default();
        let address = SocketAddr::from(([192, 0, 2, 1], 80));
        let scope = || Scope::of_address(address, None);
        assert_eq!(questions.ask(scope()), Some(1));
        assert_eq!(questions.ask(scope()), None);
        assert_eq!(questions.ask(Scope::of_name("a.example")), Some(2));
        assert_eq!(questions.close(1), Some(scope()));
        assert_eq!(questions.close(1), None);
        assert_eq!(questions.ask(scope()), Some(3));
    }

    #[test]
    fn an_answer_covers_a_host_but_one_port_of_this_machine() {
        let far = Host::Address(IpAddr::from([192, 0, 2, 1]));
        let scope = Scope::of_host(far.clone(), 80);
        assert!(scope.covers(&far, 81));
        let here = Host::Address(IpAddr::from([127, 0, 0, 1]));
        let scope = Scope::of_host(here.clone(), 80);
        assert!(scope.covers(&here, 80) && !scope.covers(&here, 81));
        assert_eq!(scope.rule(Verdict::Allow).port, Some(80));
        assert_eq!(scope.peer(Some(80)), "127.0.0.1:80");
    }
}
