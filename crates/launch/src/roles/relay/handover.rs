//! What pid 1 hands over to the relay process, one thing after the other.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use surmise_kept::Link;

use super::witness;
use crate::message::{Failure, Handed};

pub(super) struct Handover {
    /// `None` when pid 1 has ended.
    init: Option<Link>,
    /// Until all is handed over that it takes.
    witness: Option<witness::Parts>,
    /// Held only: no call goes unheard while there is anybody to show what comes after it.
    _listener: Option<OwnedFd>,
}

impl Handover {
    pub(super) fn new(init: Link, witness: Option<witness::Parts>) -> Self {
        Self {
            init: Some(init),
            witness,
            _listener: None,
        }
    }

    /// Readable when [`Self::next`] has something.
    pub(super) fn source(&self) -> Option<BorrowedFd<'_>> {
        self.init.as_ref().map(AsFd::as_fd)
    }

    /// Whether pid 1 has ended, and nothing more comes.
    pub(super) fn is_over(&self) -> bool {
        self.init.is_none()
    }

    /// Takes the next thing, and returns it if it is the domain's terminal.
    pub(super) fn next(&mut self) -> Result<Option<OwnedFd>, Failure> {
        let Some(init) = &self.init else {
            return Ok(None);
        };
        let handed = init.receive().and_then(|handed| match handed {
            Some(handed) => Ok(init.receive_descriptor()?.map(|fd| (handed, fd))),
            None => Ok(None),
        });
        match handed.map_err(Failure::at("receive what pid 1 hands over"))? {
            Some((Handed::Terminal, outer)) => return Ok(Some(outer)),
            Some((Handed::Nameserver, socket)) => {
                if let Some(witness) = &mut self.witness {
                    witness.nameserver(socket);
                }
            }
            Some((Handed::Diagnostics, socket)) => {
                if let Some(witness) = &mut self.witness {
                    witness.diagnostics(socket);
                }
            }
            Some((Handed::Listener(listened), listener)) => {
                self._listener = match self.witness.take() {
                    Some(witness) => witness.start(listened, listener)?,
                    None => Some(listener),
                };
            }
            None => self.init = None,
        }
        Ok(None)
    }
}
