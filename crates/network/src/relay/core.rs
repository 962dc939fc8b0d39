//! What every part of the relay works with.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use surmise_linux::network::gate::{LoopbackSockets, Protocol, inject};
use surmise_outbox::{Host, Outbox, Sender};
use surmise_refusals::Kind;

use super::attribution::Attribution;
use super::epochs::Waiting;
use super::flow::Scratch;
use super::interface::Event;
use super::jobs::Jobs;
use super::poller::{Poller, Timers};
use super::questions::{Questions, Scope};
use super::refused::{Attempt, Refused};
use crate::lookups::Lookups;
use crate::names::{Names, Query};
use crate::packet::{self, Why};
use crate::policy::{Policy, Verdict, never_reached};
use crate::resolver::Hosts;

/// The port of nameservers.
pub(crate) const NAME_SERVICE: u16 = 53;

/// What every part of the relay works with.
pub(crate) struct Core {
    pub(crate) poller: Poller,
    pub(crate) timers: Timers,
    /// When the current events were taken.
    pub(crate) now: Instant,
    pub(crate) policy: Policy,
    pub(crate) names: Names,
    /// Names that programs know without asking anybody.
    pub(crate) hosts: Hosts,
    pub(crate) outbox: Outbox,
    pub(crate) attribution: Attribution,
    pub(crate) questions: Questions,
    pub(crate) jobs: Jobs,
    pub(crate) scratch: Scratch,
    /// What waits for promises to be kept.
    pub(crate) waiting: Waiting,
    /// A descriptor was closed: who stopped for lack of them may try again.
    pub(crate) released_descriptors: bool,
    pub(super) tun: OwnedFd,
    pub(super) loopback: Option<LoopbackSockets>,
    pub(super) nameservers: Vec<SocketAddr>,
    pub(super) published: Vec<u16>,
    pub(super) refused: Refused,
    pub(super) lookups: Lookups,
    pub(super) events: Box<dyn Fn(Event) + Send>,
}

impl Core {
    /// Tells the listener.
    pub(crate) fn tell(&self, event: Event) {
        (self.events)(event);
    }

    /// The verdict on a new connection. What is refused, or waits for an answer, is told of.
    pub(crate) fn judge_connection(
        &mut self,
        source: SocketAddr,
        destination: SocketAddr,
    ) -> Verdict {
        // Policy applies to the names that are asked for. A published port is a way inside.
        if self.is_nameserver(destination) {
            return Verdict::Allow;
        }
        let own = destination.ip().is_loopback() && self.published.contains(&destination.port());
        if own {
            // A server inside has it, or nobody: neither is anybody's decision.
            return Verdict::Deny;
        }
        self.judge(Kind::Connection, destination, |core| {
            core.sender(Protocol::Tcp, source, destination).0
        })
    }

    /// The verdict on a datagram, likewise.
    pub(crate) fn judge_datagram(
        &mut self,
        source: SocketAddr,
        destination: SocketAddr,
    ) -> Verdict {
        self.judge(Kind::Datagram, destination, |core| {
            core.sender(Protocol::Udp, source, destination).0
        })
    }

    /// The verdict on a ping, likewise. Who sends one is not known.
    pub(crate) fn judge_ping(&mut self, destination: IpAddr) -> Verdict {
        // Port 0 is no rule's.
        self.judge(Kind::Datagram, SocketAddr::new(destination, 0), |_| None)
    }

    fn judge(
        &mut self,
        kind: Kind,
        destination: SocketAddr,
        sender: impl FnOnce(&mut Self) -> Option<Sender>,
    ) -> Verdict {
        let learned = self.names.names_of(self.now, destination.ip());
        // A person is asked about what a program asked for; a rule may also name the host otherwise.
        let mut names = learned.clone();
        names.extend(self.hosts.names_of(destination.ip()));
        let verdict = self.policy.decide(destination, &names);
        let scope = || Scope::of_address(destination, learned.first());
        let port = Some(destination.port()).filter(|&port| port != 0);
        match verdict {
            Verdict::Ask => {
                let scope = scope();
                let peer = scope.peer(port);
                self.ask(scope, peer, sender);
            }
            Verdict::Deny => {
                // Which port datagrams are for says little: many programs only see whether there is a way.
                let wanted = port.filter(|_| kind == Kind::Connection);
                let attempt = Attempt {
                    kind,
                    peer: scope().peer(port),
                    allowed_as: (!never_reached(destination.ip())).then(|| scope().peer(wanted)),
                };
                self.refuse(attempt, sender);
            }
            Verdict::Allow | Verdict::Hold => {}
        }
        verdict
    }

    /// The verdict on a name that somebody wants to have resolved, likewise.
    pub(crate) fn judge_name(
        &mut self,
        query: &Query,
        sender: impl FnOnce(&mut Self) -> Option<Sender>,
    ) -> Verdict {
        let name = &query.question().name;
        let verdict = self.policy.decide_name(name);
        let scope = Scope::of_name(name);
        let peer = scope.peer(None);
        match verdict {
            Verdict::Ask => self.ask(scope, peer, sender),
            Verdict::Deny => {
                let sender = sender(self);
                let program = sender.as_ref().map(|sender| sender.name.as_str());
                if self.lookups.is_another(query, program) {
                    let attempt = Attempt {
                        kind: Kind::Name,
                        allowed_as: Some(peer.clone()),
                        peer,
                    };
                    self.tell(attempt.told(sender));
                }
            }
            Verdict::Allow | Verdict::Hold => {}
        }
        verdict
    }

    fn ask(
        &mut self,
        scope: Scope,
        peer: String,
        sender: impl FnOnce(&mut Self) -> Option<Sender>,
    ) {
        if let Some(question) = self.questions.ask(scope) {
            let sender = sender(self);
            self.tell(Event::Asked {
                question,
                peer,
                sender,
            });
        }
    }

    fn refuse(&mut self, attempt: Attempt, sender: impl FnOnce(&mut Self) -> Option<Sender>) {
        let sender = match self.refused.known(&attempt.peer) {
            Some(known) => known,
            None => {
                let sender = sender(self);
                self.refused.learn(&attempt.peer, sender.as_ref());
                sender
            }
        };
        self.tell(attempt.told(sender));
    }

    /// The process at the inner end, and the inode of its socket.
    pub(crate) fn sender(
        &mut self,
        protocol: Protocol,
        source: SocketAddr,
        destination: SocketAddr,
    ) -> (Option<Sender>, Option<u64>) {
        let inode = self.attribution.inode(protocol, source, destination);
        let sender = inode.and_then(|inode| self.attribution.sender(inode));
        (sender, inode)
    }

    /// The host that held output for `address` is for: its name, where the address only stands for it.
    pub(crate) fn host(&mut self, address: IpAddr) -> Host {
        match self.names.name_of(self.now, address) {
            Some(name) => Host::Name(name),
            None => Host::Address(address),
        }
    }

    /// Whether queries for names are sent to this address.
    pub(crate) fn is_nameserver(&self, address: SocketAddr) -> bool {
        let mut servers = self.nameservers.iter();
        address.port() == NAME_SERVICE && servers.any(|server| server.ip() == address.ip())
    }

    /// The address of the proxy's own socket, where the host's nameserver is one on its loopback.
    pub(crate) fn names_address(&self) -> Option<SocketAddr> {
        let mut servers = self.nameservers.iter().map(SocketAddr::ip);
        let address = servers.find(IpAddr::is_loopback)?;
        Some(SocketAddr::new(address, NAME_SERVICE))
    }

    /// Lets a SYN through to the listener.
    pub(crate) fn admit(&self, destination: SocketAddr, syn: &[u8]) {
        let relay = self.loopback.as_ref().map(|sockets| sockets.relay.as_fd());
        self.write_back(destination, relay, syn);
    }

    /// Hands a SYN to the server inside that has its port.
    pub(crate) fn pass_inside(&self, destination: SocketAddr, syn: &[u8]) {
        let inside = self.loopback.as_ref().map(|sockets| sockets.inside.as_fd());
        self.write_back(destination, inside, syn);
    }

    /// Sends a packet that `destination`, if it were here, would send.
    pub(crate) fn answer_for(&self, destination: SocketAddr, packet: &[u8]) {
        self.pass_inside(destination, packet);
    }

    /// Sends a packet to the domain that comes from outside.
    pub(crate) fn send_packet(&self, packet: &[u8]) {
        // A packet may get lost; a device that is gone ends the relay when it is read next.
        let _ = rustix::io::write(&self.tun, packet);
    }

    /// Tells the sender of a packet that it is not delivered.
    pub(crate) fn answer(&self, packet: &[u8], why: Why) {
        if let Some(answer) = packet::unreachable(packet, why) {
            self.send_packet(&answer);
        }
    }

    fn write_back(&self, peer: SocketAddr, loopback: Option<BorrowedFd<'_>>, packet: &[u8]) {
        match loopback.filter(|_| peer.ip().is_loopback()) {
            // As above.
            Some(socket) => _ = inject(socket, packet),
            None => self.send_packet(packet),
        }
    }
}
