//! What crosses the boundary of a domain, as its caller wants it.

use std::path::PathBuf;

use surmise_network::{Policy, Verdict};

/// What a command reaches, what reaches it, and which of its output waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boundary {
    /// Whom it reaches over the network.
    pub net: Policy,
    /// Ports of servers inside that are reached from this machine's loopback address.
    pub publish: Vec<u16>,
    /// Unix sockets and FIFOs outside that it reaches; absolute paths.
    pub sockets: Vec<PathBuf>,
    /// Whether what it writes to the terminal waits for the commit.
    pub hold_terminal: bool,
    /// Whether what it writes to standard output and standard error does.
    pub hold_streams: bool,
    /// Descriptors that it inherits besides 0, 1 and 2.
    pub keep_descriptors: Vec<i32>,
}

/// Nothing but the terminal and the standard streams, which show at once.
impl Default for Boundary {
    fn default() -> Self {
        Self {
            net: Policy {
                default: Verdict::Deny,
                rules: Vec::new(),
            },
            publish: Vec::new(),
            sockets: Vec::new(),
            hold_terminal: false,
            hold_streams: false,
            keep_descriptors: Vec::new(),
        }
    }
}

impl Boundary {
    /// What of it is the domain's: another command in it starts with the same.
    pub(crate) fn kept(&self) -> Self {
        Self {
            net: self.net.clone(),
            sockets: self.sockets.clone(),
            ..Self::default()
        }
    }

    /// Whether a socket inside may lead to somebody outside who may act without a commit.
    pub fn lets_in(&self) -> bool {
        let verdicts = self.net.rules.iter().map(|rule| rule.verdict);
        let mut verdicts = verdicts.chain([self.net.default]);
        !self.publish.is_empty() || verdicts.any(|v| matches!(v, Verdict::Allow | Verdict::Ask))
    }

    /// Whether the domain's network needs a gate. Otherwise it has only a loopback interface, which
    /// is quicker to make.
    pub fn needs_gate(&self) -> bool {
        self.net.needs_gate() || !self.publish.is_empty()
    }
}
