//! The options that say what crosses the boundary of a domain, the same for `run` and `shell`.

use std::path::{Path, PathBuf};

use surmise_api::{Boundary, Peer, Policy, Rule, Verdict};

use crate::terminal;

/// What a command reaches, and what reaches it.
#[derive(clap::Args)]
#[command(next_help_heading = "What crosses the boundary")]
pub struct Options {
    /// What the command reaches over the network; `ask` on a terminal, else `deny`
    #[arg(long, value_name = "POLICY")]
    net: Option<Net>,

    /// A host that it reaches in any case. Ports of this machine's loopback addresses are reached
    /// only if they are named here or in --hold-net
    #[arg(long, value_name = "HOST[:PORT]")]
    allow_net: Vec<Peer>,

    /// A host for which output is held until the commit
    #[arg(long, value_name = "HOST[:PORT]")]
    hold_net: Vec<Peer>,

    /// A port of a server inside that is reached from outside, on this machine's loopback address
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    publish: Vec<u16>,

    /// A Unix socket or FIFO outside that it reaches: an ssh-agent's, Docker's, X11's
    #[arg(long, value_name = "PATH")]
    allow_socket: Vec<PathBuf>,

    /// What it writes to the terminal
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "show",
        hide_default_value = true
    )]
    tty: Showing,

    /// What it writes to standard output and standard error
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "show",
        hide_default_value = true
    )]
    stdio: Showing,

    /// A descriptor that it inherits; without it, only 0, 1 and 2
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(3..))]
    keep_fd: Vec<i32>,
}

/// What becomes of connections that no other option names.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Net {
    /// A person decides, host by host
    Ask,
    /// They are refused
    Deny,
    /// What is sent waits for the commit; nobody outside sees a connection before
    Hold,
    /// They are made; what is sent cannot be undone
    Allow,
}

/// When output appears.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Showing {
    /// Appears at once
    Show,
    /// Waits for the commit
    Hold,
}

impl Options {
    /// The boundary that they describe; paths are taken in `directory`.
    pub fn boundary(self, directory: &Path) -> Boundary {
        let rules = self.rules();
        Boundary {
            net: Policy {
                default: self.net.map_or_else(usual, Verdict::from),
                rules,
            },
            publish: self.publish,
            sockets: self
                .allow_socket
                .iter()
                .map(|path| directory.join(path))
                .collect(),
            hold_terminal: self.tty == Showing::Hold,
            hold_streams: self.stdio == Showing::Hold,
            keep_descriptors: self.keep_fd,
        }
    }

    /// As [`Options::boundary`], but what was not said is as in `before`, which the domain was made
    /// with.
    pub fn boundary_like(self, before: &Boundary, directory: &Path) -> Boundary {
        let same_net = self.net.is_none() && self.allow_net.is_empty() && self.hold_net.is_empty();
        let mut boundary = self.boundary(directory);
        if same_net {
            boundary.net = before.net.clone();
        }
        if boundary.sockets.is_empty() {
            boundary.sockets.clone_from(&before.sockets);
        }
        boundary
    }

    fn rules(&self) -> Vec<Rule> {
        let allowed = self.allow_net.iter().map(|peer| (peer, Verdict::Allow));
        let held = self.hold_net.iter().map(|peer| (peer, Verdict::Hold));
        let rule = |(peer, verdict): (&Peer, _)| Rule {
            host: peer.host.clone(),
            port: peer.port,
            verdict,
        };
        allowed.chain(held).map(rule).collect()
    }
}

/// A question needs somebody to answer it, and a gate at which the connection waits. Who may not have
/// one can do without a network still.
fn usual() -> Verdict {
    match terminal::can_ask() && surmise_api::can_gate() {
        true => Verdict::Ask,
        false => Verdict::Deny,
    }
}

impl From<Net> for Verdict {
    fn from(net: Net) -> Self {
        match net {
            Net::Ask => Self::Ask,
            Net::Deny => Self::Deny,
            Net::Hold => Self::Hold,
            Net::Allow => Self::Allow,
        }
    }
}
