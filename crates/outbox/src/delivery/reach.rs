//! Whether the targets of held output can be reached.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::{Limits, Unreachable};
use crate::{Host, Target};

/// Connections that are made ahead, at most.
const AHEAD_MAX: usize = 256;

/// Connections that are tried at once, beside the caller's.
const WORKERS_MAX: usize = 31;

/// What is known of all targets before anything is sent.
#[derive(Debug)]
pub(super) struct Reached {
    addresses: BTreeMap<Target, Vec<SocketAddr>>,
    ahead: BTreeMap<Target, TcpStream>,
}

/// Resolves and connects to `targets`; fails with all that cannot be reached.
///
/// One connection a target: servers that take one connection after the other would not answer a
/// second one before the first is done, and it would look as if they could not be reached.
pub(super) fn reach<'a>(
    targets: impl Iterator<Item = &'a Target>,
    limits: &Limits,
    resolve: &mut dyn FnMut(&str) -> io::Result<Vec<IpAddr>>,
) -> Result<Reached, Vec<Unreachable>> {
    let mut unreachable = Vec::new();
    let mut names = BTreeMap::new();
    let mut addresses = BTreeMap::new();
    let targets: BTreeSet<_> = targets.collect();
    for target in targets {
        let (Target::Tcp(host, port) | Target::Udp(host, port)) = target else {
            continue;
        };
        let found = match host {
            Host::Address(address) => Ok(vec![*address]),
            Host::Name(name) => look_up(&mut names, name, resolve),
        };
        match found {
            Ok(found) => {
                let found = found.iter().map(|address| SocketAddr::new(*address, *port));
                addresses.insert(target.clone(), found.collect::<Vec<_>>());
            }
            Err(source) => unreachable.push(Unreachable {
                target: target.clone(),
                source,
            }),
        }
    }
    let mut ahead = BTreeMap::new();
    for (target, connected) in connect_all(&addresses, limits.connect) {
        match connected {
            Ok(stream) => drop(ahead.insert(target, stream)),
            Err(source) => unreachable.push(Unreachable { target, source }),
        }
    }
    if unreachable.is_empty() {
        return Ok(Reached { addresses, ahead });
    }
    unreachable.sort_by(|one, other| one.target.cmp(&other.target));
    Err(unreachable)
}

impl Reached {
    /// Where `target` is; at least one address.
    pub(super) fn addresses(&self, target: &Target) -> &[SocketAddr] {
        self.addresses.get(target).map_or(&[], Vec::as_slice)
    }

    /// A connection to a TCP target: the one made ahead, where it still lives, else a new one.
    pub(super) fn connection(&mut self, target: &Target, limit: Duration) -> io::Result<TcpStream> {
        let ahead = self.ahead.remove(target).filter(is_alive);
        let stream = match ahead {
            Some(stream) => stream,
            None => connect(self.addresses(target), limit)?,
        };
        stream.set_nonblocking(true)?;
        // Pieces of several holds leave in their order only when none waits for more bytes.
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// Each name is resolved once, however many targets have it.
fn look_up(
    names: &mut BTreeMap<String, Result<Vec<IpAddr>, String>>,
    name: &str,
    resolve: &mut dyn FnMut(&str) -> io::Result<Vec<IpAddr>>,
) -> io::Result<Vec<IpAddr>> {
    let found = names
        .entry(name.to_owned())
        .or_insert_with(|| match resolve(name) {
            Ok(found) if found.is_empty() => Err("the name has no address".into()),
            Ok(found) => Ok(found),
            Err(error) => Err(error.to_string()),
        });
    found.clone().map_err(io::Error::other)
}

fn connect_all(
    addresses: &BTreeMap<Target, Vec<SocketAddr>>,
    limit: Duration,
) -> Vec<(Target, io::Result<TcpStream>)> {
    let streams = addresses
        .iter()
        .filter(|(target, _)| matches!(target, Target::Tcp(..)))
        .take(AHEAD_MAX);
    let workers = streams.clone().count().saturating_sub(1).min(WORKERS_MAX);
    let (queue, done) = (Mutex::new(streams), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((target, addresses)) = next else {
                return;
            };
            let connected = (target.clone(), connect(addresses, limit));
            done.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(connected);
        }
    };
    thread::scope(|scope| {
        for _ in 0..workers {
            // Where no thread can be had, the others do its work.
            let _ = thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Connects to the first of `addresses` that answers.
fn connect(addresses: &[SocketAddr], limit: Duration) -> io::Result<TcpStream> {
    let mut failure = io::Error::other("the name has no address");
    for address in addresses {
        match TcpStream::connect_timeout(address, limit) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Whether the receiver has not closed a connection on which nothing was sent: it may have waited
/// long for the commit to come so far.
fn is_alive(stream: &TcpStream) -> bool {
    let peeked = stream
        .set_nonblocking(true)
        .and_then(|()| stream.peek(&mut [0]));
    match peeked {
        Ok(length) => length > 0,
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}
