//! SYNs that wait: for an answer, for a connection outside, for the listener.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use surmise_linux::network::gate::Protocol;
use surmise_outbox::Sender;

use super::core::Core;
use super::jobs::Asker;
use super::poller::{Kind, Token};
use super::slab::{Key, Slab};
use super::sockets::{self, Progress};
use crate::packet::{self, Syn, Why};
use crate::policy::Verdict;

/// How many SYNs wait at once. More are dropped: the kernel inside sends them again.
const WAITING_MAX: usize = 16 << 10;

/// A SYN that was not sent again for so long is one that its program has given up: the longest gap
/// between two of them is 64 s.
const PATIENCE: Duration = Duration::from_secs(70);

/// A SYN that was written back is accepted at once, or was lost on the way and comes again.
const ADMITTED_PATIENCE: Duration = Duration::from_secs(10);

/// A SYN is first sent again after one second: a copy of one that waited longer may still be on its
/// way when its connection has been accepted.
const REPEATED_AFTER: Duration = Duration::from_millis(900);

/// How often the table is looked through for what has been given up.
const SWEEP: Duration = Duration::from_secs(5);

/// The SYNs that wait.
#[derive(Debug)]
pub(crate) struct SynGate {
    requests: Slab<Request>,
    by_ends: HashMap<(SocketAddr, SocketAddr), Key>,
    sweeping: bool,
}

#[derive(Debug)]
struct Request {
    syn: Syn,
    packet: Vec<u8>,
    state: State,
    first_seen: Instant,
    last_seen: Instant,
}

#[derive(Debug)]
enum State {
    /// For a person's answer.
    Asking,
    /// For the addresses of a name.
    Resolving,
    /// For the connection outside.
    Connecting {
        socket: OwnedFd,
        /// Where else the name leads.
        others: Vec<SocketAddr>,
    },
    /// For the listener.
    Admitted(Admission),
    /// For nothing more: copies of the SYN are of no interest.
    Accepted,
}

/// What becomes of an accepted connection.
#[derive(Debug)]
pub(crate) enum Admission {
    /// It is relayed to this socket.
    Relay(OwnedFd),
    /// What it sends is held. The program and the inode of its socket were found out while it waited
    /// for the connection; once it is connected it may be gone at any time.
    Hold(Option<Sender>, Option<u64>),
    /// It asks for names.
    Names,
}

impl SynGate {
    pub(crate) fn new() -> Self {
        Self {
            requests: Slab::new(),
            by_ends: HashMap::new(),
            sweeping: false,
        }
    }

    /// Takes a SYN that came out of the TUN in `packet`, at `seen`.
    pub(crate) fn take(&mut self, core: &mut Core, syn: Syn, packet: &[u8], seen: Instant) {
        let (source, destination) = (syn.source, syn.destination);
        if let Some(&key) = self.by_ends.get(&(source, destination)) {
            let request = self.requests.get_mut(key).expect("listed requests exist");
            if request.syn == syn {
                request.last_seen = core.now;
                if matches!(request.state, State::Admitted(_)) {
                    core.admit(destination, &request.packet);
                }
                return;
            }
            // The program has given up the connection that the other SYN asked for.
            self.forget(key);
        }
        if destination.ip().is_loopback() && core.attribution.is_served_inside(destination) {
            return core.pass_inside(destination, packet);
        }
        if self.requests.len() >= WAITING_MAX {
            return;
        }
        let state = match core.judge_connection(source, destination) {
            Verdict::Deny => return core.answer_for(destination, &packet::reset(&syn)),
            Verdict::Ask => State::Asking,
            Verdict::Hold => hold(core, &syn),
            Verdict::Allow if core.is_nameserver(destination) => State::Admitted(Admission::Names),
            Verdict::Allow => State::Resolving,
        };
        let key = self.requests.insert(Request {
            syn,
            packet: packet.to_vec(),
            state,
            first_seen: seen,
            last_seen: core.now,
        });
        self.by_ends.insert((source, destination), key);
        if !self.sweeping {
            self.sweeping = true;
            core.timers.set(core.now + SWEEP, Token::only(Kind::Gated));
        }
        self.proceed(core, key);
    }

    /// The connection outside has succeeded or failed.
    pub(crate) fn ready(&mut self, core: &mut Core, key: Key) {
        let Some(request) = self.requests.get_mut(key) else {
            return;
        };
        let State::Connecting { socket, others } = &mut request.state else {
            return;
        };
        match sockets::connected(socket) {
            Ok(()) => {
                let _ = core.poller.delete(&*socket);
                self.connected(core, key);
            }
            Err(error) => {
                let others = std::mem::take(others);
                self.connect(core, key, others, error);
            }
        }
    }

    /// A name was resolved.
    pub(crate) fn resolved(&mut self, core: &mut Core, key: Key, result: io::Result<Vec<IpAddr>>) {
        let Some(request) = self.requests.get(key) else {
            return;
        };
        let port = request.syn.destination.port();
        match result {
            Ok(addresses) => {
                let mut to: Vec<_> = addresses
                    .into_iter()
                    .map(|address| SocketAddr::new(address, port))
                    .collect();
                to.reverse();
                let none = io::ErrorKind::HostUnreachable.into();
                self.connect(core, key, to, none);
            }
            Err(_) => self.refuse(core, key, &io::ErrorKind::HostUnreachable.into()),
        }
    }

    /// Policy has changed: who waits for an answer may have one.
    pub(crate) fn reconsider(&mut self, core: &mut Core) {
        for key in self.requests.keys() {
            let Some(request) = self.requests.get_mut(key) else {
                continue;
            };
            if !matches!(request.state, State::Asking) {
                continue;
            }
            let (source, destination) = (request.syn.source, request.syn.destination);
            let inode = core.attribution.inode(Protocol::Tcp, source, destination);
            if inode.is_none() {
                // Nobody waits any more.
                self.forget(key);
                continue;
            }
            request.state = match core.judge_connection(source, destination) {
                Verdict::Ask => continue,
                Verdict::Deny => {
                    core.answer_for(destination, &packet::reset(&request.syn));
                    self.forget(key);
                    continue;
                }
                Verdict::Hold => hold(core, &request.syn),
                Verdict::Allow => State::Resolving,
            };
            self.proceed(core, key);
        }
    }

    /// What becomes of a connection that the listener accepted. `None`: it was not let through.
    pub(crate) fn accepted(
        &mut self,
        core: &Core,
        source: SocketAddr,
        destination: SocketAddr,
    ) -> Option<Admission> {
        let key = *self.by_ends.get(&(source, destination))?;
        let request = self.requests.get_mut(key)?;
        if !matches!(request.state, State::Admitted(_)) {
            return None;
        }
        let State::Admitted(admission) = std::mem::replace(&mut request.state, State::Accepted)
        else {
            unreachable!("looked at above");
        };
        request.packet = Vec::new();
        if core.now.saturating_duration_since(request.first_seen) < REPEATED_AFTER {
            self.forget(key);
        }
        Some(admission)
    }

    /// Looks for what has been given up.
    pub(crate) fn sweep(&mut self, core: &mut Core) {
        for key in self.requests.keys() {
            let request = self.requests.get(key).expect("listed just now");
            let patience = match request.state {
                State::Asking | State::Resolving | State::Connecting { .. } => PATIENCE,
                State::Admitted(_) | State::Accepted => ADMITTED_PATIENCE,
            };
            if core.now.saturating_duration_since(request.last_seen) > patience {
                self.forget(key);
            }
        }
        self.sweeping = self.requests.len() > 0;
        if self.sweeping {
            core.timers.set(core.now + SWEEP, Token::only(Kind::Gated));
        }
    }

    /// Goes on with a request that is allowed or held.
    fn proceed(&mut self, core: &mut Core, key: Key) {
        let request = self.requests.get(key).expect("a request that goes on");
        let destination = request.syn.destination;
        match request.state {
            State::Asking | State::Connecting { .. } | State::Accepted => {}
            State::Admitted(_) => core.admit(destination, &request.packet),
            State::Resolving => match core.names.name_of(core.now, destination.ip()) {
                Some(name) => {
                    core.jobs.resolve(&name, Asker::Connection(key));
                }
                None => {
                    let none = io::ErrorKind::HostUnreachable.into();
                    self.connect(core, key, vec![destination], none);
                }
            },
        }
    }

    /// Connects to the last of `to` that lets itself be tried.
    fn connect(
        &mut self,
        core: &mut Core,
        key: Key,
        mut to: Vec<SocketAddr>,
        mut error: io::Error,
    ) {
        while let Some(next) = to.pop() {
            let begun = sockets::connect(next).and_then(|(socket, progress)| {
                if progress == Progress::UnderWay {
                    let token = Token::new(Kind::Gated, key);
                    core.poller.add(&socket, token, EventFlags::OUT)?;
                }
                Ok((socket, progress))
            });
            match begun {
                Ok((socket, progress)) => {
                    let request = self.requests.get_mut(key).expect("a request that goes on");
                    let others = std::mem::take(&mut to);
                    request.state = State::Connecting { socket, others };
                    if progress == Progress::Connected {
                        self.connected(core, key);
                    }
                    return;
                }
                Err(failed) if sockets::is_out_of_descriptors(&failed) => {
                    // The SYN comes again; perhaps some have come back by then.
                    return self.forget(key);
                }
                Err(failed) => error = failed,
            }
        }
        self.refuse(core, key, &error);
    }

    fn connected(&mut self, core: &mut Core, key: Key) {
        let request = self.requests.get_mut(key).expect("a request that goes on");
        let state = std::mem::replace(&mut request.state, State::Accepted);
        if let State::Connecting { socket, .. } = state {
            request.state = State::Admitted(Admission::Relay(socket));
            request.last_seen = core.now;
            core.admit(request.syn.destination, &request.packet);
        }
    }

    fn refuse(&mut self, core: &mut Core, key: Key, error: &io::Error) {
        let request = self.requests.get(key).expect("a request that goes on");
        if let Some(answer) = refusal(request, error) {
            core.answer_for(request.syn.destination, &answer);
        }
        self.forget(key);
    }

    fn forget(&mut self, key: Key) {
        if let Some(request) = self.requests.remove(key) {
            let ends = (request.syn.source, request.syn.destination);
            self.by_ends.remove(&ends);
        }
    }
}

fn hold(core: &mut Core, syn: &Syn) -> State {
    let (sender, inode) = core.sender(Protocol::Tcp, syn.source, syn.destination);
    State::Admitted(Admission::Hold(sender, inode))
}

/// What tells the program why there is no connection. None where it finds out as soon itself.
fn refusal(request: &Request, error: &io::Error) -> Option<Vec<u8>> {
    // On loopback there is nothing but a reset.
    if request.syn.destination.ip().is_loopback() {
        return Some(packet::reset(&request.syn));
    }
    let why = match Errno::from_io_error(error) {
        Some(Errno::CONNREFUSED | Errno::CONNRESET) => return Some(packet::reset(&request.syn)),
        Some(Errno::TIMEDOUT) => return None,
        Some(Errno::NETUNREACH) => Why::Network,
        Some(Errno::ACCESS | Errno::PERM) => Why::Prohibited,
        _ => Why::Host,
    };
    packet::unreachable(&request.packet, why)
}
