//! The network of a domain: a namespace with nothing but its loopback interface, and the [`gate`] that may
//! be added to it.

pub mod gate;
pub mod nameservers;
mod netlink;
mod nftables;
mod owner;
mod peer;
mod route;
mod rules;
mod settings;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::thread::ThreadNameSpaceType;

pub use peer::peer;
pub use surmise_sys::network::enter_new;

/// A socket for [`gate::owner`], [`gate::has_listener`] and [`peer`], of the calling thread's network namespace.
///
/// # Errors
/// As `socket`.
pub fn diagnostics() -> io::Result<OwnedFd> {
    owner::diagnostics()
}

/// Puts the calling thread into the network namespace of a process, given by its pidfd.
///
/// # Errors
/// As `setns`: `EPERM` without `CAP_SYS_ADMIN` in the namespace's user namespace, `ESRCH` when the
/// process has ended.
pub fn join(process: BorrowedFd<'_>) -> io::Result<()> {
    let network = ThreadNameSpaceType::NETWORK;
    Ok(rustix::thread::move_into_thread_name_spaces(
        process, network,
    )?)
}

/// What failed of a set-up in several steps; inside an [`io::Error`] of the same kind.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
struct Step {
    what: &'static str,
    source: io::Error,
}

impl Step {
    fn at(what: &'static str) -> impl FnOnce(io::Error) -> io::Error {
        move |source| Self::failed(what, source)
    }

    fn failed(what: &'static str, source: io::Error) -> io::Error {
        io::Error::new(source.kind(), Self { what, source })
    }
}
