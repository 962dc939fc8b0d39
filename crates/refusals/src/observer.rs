//! Calls that are heard, and whether they are about to fail for what is outside.

mod sockets;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::path::PathBuf;

use rustix::net::{AddressFamily, SocketType, sockopt};
use rustix::process::Pid;
use surmise_linux::network;
use surmise_linux::network::gate::has_listener;
use surmise_linux::proc::{self, Entry};
use surmise_sys::seccomp::{Answer, Notification};
use surmise_syscalls::{Disposition, Kind as Column, Reach, Row, row_numbered};

use crate::address::Address;
use crate::refusal::Kind;
use crate::tally::Tally;
use crate::task;

/// What of a domain's boundary its calls may meet.
#[derive(Clone, Debug)]
pub struct Boundary {
    /// The inode of the domain's network namespace. Namespaces that its tasks make are their own.
    pub network: u64,
    /// Whether a relay takes what is sent to other hosts. It tells of its refusals itself.
    pub has_gate: bool,
    /// The nameservers that are answered inside.
    pub nameservers: Vec<IpAddr>,
    /// The ports of the host's loopback that a relay takes.
    pub caught: Caught,
    /// Whom Unix sockets lead to.
    pub sockets: Sockets,
    /// The option without which no call would be heard.
    pub unheard: Option<&'static str>,
}

/// Ports of the host's loopback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caught {
    /// None of them.
    None,
    /// These.
    Ports(Vec<u16>),
    /// All of them.
    All,
}

/// Unix sockets and FIFOs of programs outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sockets {
    /// They are reached: the files are the real ones.
    Reached,
    /// They are not, but for these paths and what is below them.
    Apart(Vec<PathBuf>),
}

/// Looks at calls for a [`Tally`].
#[derive(Debug)]
pub struct Observer {
    boundary: Boundary,
    tally: Tally,
    /// To find servers, of the domain's network namespace and of the host's. Lists in /proc would take
    /// milliseconds each time.
    inside: OwnedFd,
    outside: OwnedFd,
}

impl Observer {
    /// One for a domain. `inside`: a socket for diagnostics of its network namespace; the calling thread is
    /// in the host's.
    ///
    /// # Errors
    /// As `socket`.
    pub fn new(boundary: Boundary, tally: Tally, inside: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            boundary,
            tally,
            inside,
            outside: network::diagnostics()?,
        })
    }

    /// The answer to a call: the error with which the table refuses it, or that it runs. Either is counted,
    /// the latter if it is about to fail. To be called once, when the call is to be answered: what runs
    /// then is up to the arguments that are read now, but nothing is decided by them.
    #[must_use]
    pub fn answer(&self, call: &Notification) -> Answer {
        if let Some(refused) = self.refuse(call) {
            return refused;
        }
        let reach = row_numbered(call.number).and_then(|row| row.reach_with(&call.arguments));
        if let Some(reach) = reach {
            // What cannot be looked at is not told.
            let _ = self.look(call, reach);
        }
        Answer::Continue
    }

    /// The answer to a call that the table refuses, which is counted; `None` for one that it allows.
    #[must_use]
    pub fn refuse(&self, call: &Notification) -> Option<Answer> {
        let row = row_numbered(call.number)?;
        let Disposition::Refuse(errno) = row.disposition_with(Column::Consent, &call.arguments)
        else {
            return None;
        };
        if errno.is_told() {
            self.record(
                call.thread,
                Kind::Call,
                &name_of(row, &call.arguments),
                None,
            );
        }
        let errno = rustix::io::Errno::from_raw_os_error(errno.number().into());
        Some(Answer::Error(errno))
    }

    fn look(&self, call: &Notification, reach: Reach) -> io::Result<()> {
        let [descriptor, first, second, _, fifth, sixth] = call.arguments;
        match reach {
            // The relay hears of datagrams itself, and there are many.
            Reach::Datagram if self.boundary.has_gate => Ok(()),
            Reach::Address => self.reach(call, descriptor, (first, second)),
            Reach::Datagram => self.reach(call, descriptor, (fifth, sixth)),
            Reach::Process => {
                self.trace(call, first);
                Ok(())
            }
            Reach::Calls => {
                let row = row_numbered(call.number).expect("its row says what it reaches");
                let allow = self.boundary.unheard.map(str::to_owned);
                self.record(
                    call.thread,
                    Kind::Call,
                    &name_of(row, &call.arguments),
                    allow,
                );
                Ok(())
            }
        }
    }

    /// A socket is about to reach an address.
    fn reach(
        &self,
        call: &Notification,
        descriptor: u64,
        (place, length): (u64, u64),
    ) -> io::Result<()> {
        let Some(address) = Address::read(call.thread, place, length)? else {
            return Ok(());
        };
        if !self.is_inside(call.thread) {
            return Ok(());
        }
        let socket = task::descriptor_of(call.thread, descriptor as RawFd)?;
        let family = sockopt::socket_domain(&socket)?;
        let kind = match sockopt::socket_type(&socket)? {
            SocketType::STREAM | SocketType::SEQPACKET => Kind::Connection,
            _ => Kind::Datagram,
        };
        match address {
            Address::Host(host) if family != AddressFamily::UNIX => self.host(call, kind, host),
            Address::Path(name) if family == AddressFamily::UNIX => self.named(call, &name),
            Address::Abstract(name) if family == AddressFamily::UNIX => {
                self.abstract_name(call, &name)
            }
            _ => {}
        }
        Ok(())
    }

    fn host(&self, call: &Notification, kind: Kind, address: SocketAddr) {
        let address = meant(address);
        let host = address.ip();
        if host.is_loopback() {
            return self.loopback(call, kind, address);
        }
        // Queries for names are told of by the name.
        let asks = kind == Kind::Datagram
            && address.port() == NAME_SERVICE
            && self.boundary.nameservers.contains(&host);
        if self.boundary.has_gate || asks {
            return;
        }
        // Which port of a host datagrams are for says little: many programs choose one only to see whether
        // there is a way.
        let allow = match kind {
            Kind::Connection => format!("--allow-net {address}"),
            _ => format!("--allow-net {host}"),
        };
        let target = match address.port() {
            0 => host.to_string(),
            _ => address.to_string(),
        };
        self.record(call.thread, kind, &target, Some(allow));
    }

    /// Loopback inside is the domain's own: a server outside is missed only where there is one, and none
    /// inside. One that comes up inside meanwhile was what the program had waited for.
    fn loopback(&self, call: &Notification, kind: Kind, address: SocketAddr) {
        let is_caught = match &self.boundary.caught {
            Caught::None => false,
            Caught::Ports(ports) => ports.contains(&address.port()),
            Caught::All => true,
        };
        // Datagrams to loopback stay inside, whatever the options say.
        if is_caught || kind != Kind::Connection {
            return;
        }
        let serves =
            |diagnostics: &OwnedFd| has_listener(diagnostics.as_fd(), address).unwrap_or(false);
        let target = address.to_string();
        let is_missed = serves(&self.outside);
        if serves(&self.inside) {
            self.tally.withdraw(kind, &target);
        } else if is_missed {
            let allow = format!("--allow-net {target}");
            self.record(call.thread, kind, &target, Some(allow));
        }
    }

    /// A process is about to be traced by its number, which is one of the caller's pid namespace.
    fn trace(&self, call: &Notification, number: u64) {
        let is_inside = task::has_process(call.thread, number).unwrap_or(true);
        let is_outside =
            Pid::from_raw(number as i32).is_some_and(|process| Entry::from(process).exists());
        if !is_inside && is_outside {
            self.record(call.thread, Kind::Process, &number.to_string(), None);
        }
    }

    /// One attempt of a thread was refused.
    pub(crate) fn record(&self, thread: Pid, kind: Kind, target: &str, allow: Option<String>) {
        let program = task::program_of(thread);
        self.tally.record(kind, target, program.as_deref(), allow);
    }

    /// Whom Unix sockets and FIFOs lead to.
    pub(crate) fn sockets(&self) -> &Sockets {
        &self.boundary.sockets
    }

    /// Whether a process or thread is in the domain's network namespace.
    pub(crate) fn is_inside(&self, task: Pid) -> bool {
        proc::namespace(task, "net").is_ok_and(|found| found == self.boundary.network)
    }
}

/// The port of nameservers.
const NAME_SERVICE: u16 = 53;

/// The host that a connection to no particular one is made to.
fn meant(address: SocketAddr) -> SocketAddr {
    let host = match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        host => host,
    };
    SocketAddr::new(host, address.port())
}

/// What a call is called, with the argument that matters: `ioctl TIOCSTI`.
fn name_of(row: &Row, arguments: &[u64; 6]) -> String {
    match row.exception(arguments) {
        Some(exception) => {
            let argument = exception.reason().split([' ', ':']).next();
            format!("{} {}", row.name(), argument.unwrap_or_default())
        }
        None => row.name().to_string(),
    }
}

#[cfg(test)]
mod tests;
