//! Other commands of the user that come to a running domain.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use surmise_kept::Link;
use surmise_kept::doorway::{Doorway, Refusal, Request, VERSION, Wish};

use super::standstill::refuse;

/// How many may wait to be heard; more knock in vain until one is.
const VISITORS_MAX: usize = 16;

/// Clients that have come and have not said what they want.
pub(super) struct Visitors {
    doorway: Doorway,
    silent: Vec<Link>,
}

impl Visitors {
    pub(super) fn new(state: &Path) -> io::Result<Self> {
        Ok(Self {
            doorway: Doorway::open(state)?,
            silent: Vec::new(),
        })
    }

    /// What is readable when there is something to do.
    pub(super) fn sources(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let room = self.silent.len() < VISITORS_MAX;
        let doorway = room.then(|| self.doorway.as_fd());
        doorway
            .into_iter()
            .chain(self.silent.iter().map(AsFd::as_fd))
    }

    /// The next client that has said what it wants, in the order in which they came: the watch that began first is the
    /// first to make room.
    pub(super) fn hear(&mut self) -> io::Result<Option<(Link, Wish)>> {
        while self.silent.len() < VISITORS_MAX
            && let Some(visitor) = self.doorway.accept()?
        {
            self.silent.push(visitor);
        }
        let mut index = 0;
        while index < self.silent.len() {
            match self.silent[index].try_receive::<Request>() {
                Ok(None) => index += 1,
                Ok(Some(Some(request))) => {
                    let visitor = self.silent.remove(index);
                    if request.version == VERSION {
                        return Ok(Some((visitor, request.wish)));
                    }
                    let hint = "use the version of surmise that runs the domain";
                    refuse(&visitor, Refusal::new("another version of surmise", hint));
                }
                // Gone, or speaks another language.
                Ok(Some(None)) | Err(_) => drop(self.silent.remove(index)),
            }
        }
        Ok(None)
    }
}
