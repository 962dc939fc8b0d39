//! What of a domain's boundary has to be known to tell what it refused.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use surmise_kept::Boundary;
use surmise_network::{Loopback, Resolver};
use surmise_refusals::{Caught, Observer, Refusals, Sockets, Tally};

use crate::error::LaunchError;
use crate::launch::Launch;
use crate::message::{Failure, Listened};

/// How many refusals one message carries: as long as they get, they fit.
const MESSAGE_MAX: usize = 16;

/// The port of nameservers.
const NAME_SERVICE: u16 = 53;

/// The option without which no call is heard in a domain that does not need it.
const UNHEARD: &str = "--quiet";

/// How a launch tells what was refused. Known before the domain is.
#[derive(Clone, Debug)]
pub(crate) struct Telling {
    boundary: surmise_refusals::Boundary,
}

impl Telling {
    /// `None` where nothing is to be told. `has_real_files`: of a domain without a view; `changes_calls`: whether calls
    /// are heard for another reason.
    pub(crate) fn of(
        launch: &Launch,
        has_real_files: bool,
        changes_calls: bool,
    ) -> Result<Option<Self>, LaunchError> {
        if !launch.tells_refusals {
            return Ok(None);
        }
        let boundary = &launch.boundary;
        let has_gate = boundary.needs_gate();
        let nameservers = match has_gate {
            true => Vec::new(),
            false => nameservers()?,
        };
        let boundary = surmise_refusals::Boundary {
            // Until it is there.
            network: 0,
            has_gate,
            nameservers,
            caught: caught(boundary),
            sockets: sockets(boundary.sockets.clone(), has_real_files),
            unheard: (!changes_calls).then_some(UNHEARD),
        };
        Ok(Some(Self { boundary }))
    }

    /// The nameservers that somebody inside is to answer for.
    pub(crate) fn nameservers(&self) -> Vec<SocketAddr> {
        let addresses = self.boundary.nameservers.iter();
        addresses
            .map(|&address| SocketAddr::new(address, NAME_SERVICE))
            .collect()
    }

    /// Whether calls are heard for nothing else.
    pub(crate) fn is_alone(&self) -> bool {
        self.boundary.unheard.is_some()
    }

    /// Whether a relay takes what is sent to other hosts.
    pub(crate) fn has_gate(&self) -> bool {
        self.boundary.has_gate
    }

    /// The boundary of the domain whose network namespace has this inode.
    fn boundary(&self, network: u64) -> surmise_refusals::Boundary {
        surmise_refusals::Boundary {
            network,
            ..self.boundary.clone()
        }
    }
}

/// Those of the host, but for addresses that mean something only with an interface.
fn nameservers() -> Result<Vec<IpAddr>, LaunchError> {
    let resolver =
        Resolver::system().map_err(LaunchError::step("find out how names are resolved"))?;
    let all = resolver.nameservers().iter().map(SocketAddr::ip);
    let is_plain = |address: &IpAddr| match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(address) => !address.is_unicast_link_local(),
    };
    Ok(all.filter(is_plain).collect())
}

fn caught(boundary: &Boundary) -> Caught {
    if !boundary.needs_gate() {
        return Caught::None;
    }
    match boundary.net.loopback() {
        Loopback::None => Caught::None,
        Loopback::Ports(ports) => Caught::Ports(ports),
        Loopback::All => Caught::All,
    }
}

fn sockets(allowed: Vec<PathBuf>, has_real_files: bool) -> Sockets {
    match has_real_files {
        true => Sockets::Reached,
        false => Sockets::Apart(allowed),
    }
}

/// Who counts what is refused in a domain, if that is told. `diagnostics`: of its network namespace.
pub(crate) fn observer(
    telling: Option<&Telling>,
    listened: Listened,
    (tally, diagnostics): (&Tally, OwnedFd),
) -> Result<Option<Observer>, Failure> {
    let Some(telling) = telling else {
        return Ok(None);
    };
    let boundary = telling.boundary(listened.network);
    let observer = Observer::new(boundary, tally.clone(), diagnostics);
    observer.map(Some).map_err(Failure::at("look at calls"))
}

/// Parts of it that each fit one message.
pub(crate) fn in_messages(refusals: Refusals) -> Vec<Refusals> {
    let mut parts: Vec<_> = refusals
        .list
        .chunks(MESSAGE_MAX)
        .map(|list| Refusals {
            list: list.to_vec(),
            more: 0,
        })
        .collect();
    if refusals.more > 0 {
        parts.push(Refusals {
            list: Vec::new(),
            more: refusals.more,
        });
    }
    parts
}

#[cfg(test)]
mod tests {
    use surmise_kept::Link;
    use surmise_refusals::Kind;

    use super::*;
    use crate::message::RelayReport;

    /// With targets of bytes that take most room in a message, and as long as they are kept.
    #[test]
    fn the_longest_refusals_arrive_whole() {
        let tally = Tally::default();
        for number in 0..500 {
            let target = format!("{number}{}", "\u{1}".repeat(1000));
            let allow = Some(format!("--allow-socket {}", "\u{1}".repeat(250)));
            tally.record(Kind::Socket, &target, Some("fifteen letters"), allow);
        }
        let (one, two) = Link::pair().expect("a pair");
        let arrived = Tally::default();
        for part in in_messages(tally.refusals()) {
            one.send(&RelayReport::RefusedInside(part)).expect("send");
            match two.receive().expect("receive") {
                Some(RelayReport::RefusedInside(part)) => arrived.merge(part),
                other => panic!("{other:?}"),
            }
        }
        assert!(tally.refusals().more > 0);
        assert_eq!(arrived.refusals(), tally.refusals());
    }
}
