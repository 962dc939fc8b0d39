//! Output that goes to the outbox instead of to the caller.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use surmise_kept::Link;
use surmise_outbox::{End, HoldId, Outbox, OutboxError, Piece, Target, Told};
use surmise_stdio::{Held, Sink};

use crate::message::RelayReport;

/// The outbox of a domain, opened when something is to be held.
#[derive(Debug)]
pub(crate) struct HeldPlace {
    /// The domain's own state.
    state: PathBuf,
    /// Control, which knows what waits for a person.
    control: Arc<Link>,
    outbox: Option<Outbox>,
}

impl HeldPlace {
    pub(crate) fn new(state: PathBuf, control: Arc<Link>) -> Self {
        Self {
            state,
            control,
            outbox: None,
        }
    }

    pub(crate) fn outbox(&mut self) -> Result<&Outbox, OutboxError> {
        if self.outbox.is_none() {
            let control = Arc::clone(&self.control);
            let tell = move |told| {
                let report = match told {
                    Told::Waits(HoldId(hold)) => RelayReport::Held { hold },
                    Told::Gone(HoldId(hold)) => RelayReport::Gone { hold },
                };
                // If control is dead, so is this process in a moment. Control, if it is there, reads.
                let _ = control.send(&report);
            };
            self.outbox = Some(Outbox::open_told(&self.state, tell)?);
        }
        Ok(self.outbox.as_ref().expect("opened above"))
    }

    /// The person agrees that what these hold leaves.
    pub(crate) fn agree(&self, holds: &[HoldId]) {
        if let Some(outbox) = &self.outbox {
            outbox.agree(holds);
        }
    }

    /// Returns when all that was held so far is kept.
    pub(crate) fn flush(&self) -> Result<(), OutboxError> {
        self.outbox.as_ref().map_or(Ok(()), Outbox::flush)
    }
}

/// The same error for who passes output on. The system's number stays with it: by that the loss is told.
pub(crate) fn io_error(error: OutboxError) -> io::Error {
    match error {
        OutboxError::Io(error) | OutboxError::NotKept(error) => error,
        error => io::Error::new(io::ErrorKind::InvalidData, error),
    }
}

/// Where the output `held` goes when it is held in `outbox`.
pub(crate) fn sink(outbox: &Outbox, held: Held) -> Box<dyn Sink> {
    let target = match held {
        Held::Output => Target::Output,
        Held::Error => Target::Error,
        Held::Terminal => Target::Terminal,
    };
    Box::new(HeldOutput {
        outbox: outbox.clone(),
        target: Some(target),
        hold: None,
        release: None,
    })
}

struct HeldOutput {
    outbox: Outbox,
    /// Until there is something to hold.
    target: Option<Target>,
    hold: Option<HoldId>,
    release: Option<Release>,
}

/// What is held so far, on its way to the caller.
struct Release {
    hold: HoldId,
    pieces: VecDeque<Piece>,
    /// How much of all that was ever held the caller has seen, in bytes.
    seen: u64,
    /// Likewise, with the piece that is given now.
    given: u64,
}

impl Sink for HeldOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        while !self.outbox.has_room() {
            if let Some(error) = self.outbox.failed() {
                return Err(error);
            }
            let room = self.outbox.room();
            match rustix::event::poll(&mut [PollFd::new(&room, PollFlags::IN)], None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        if let Some(target) = self.target.take() {
            self.hold = Some(self.outbox.hold(target, None));
        }
        self.outbox.append(self.hold.expect("made above"), bytes);
        Ok(())
    }

    fn release(&mut self) -> io::Result<()> {
        let Some(hold) = self.hold else {
            return Ok(());
        };
        // Nothing, if another hold was meant.
        let pieces = VecDeque::from(self.outbox.agreed(hold));
        let Some(seen) = pieces.front().map(|first| first.offset) else {
            return Ok(());
        };
        if let Err(error) = self.outbox.mark_sending(&[hold]) {
            self.outbox.keep(&[hold]);
            return Err(io_error(error));
        }
        self.release = Some(Release {
            hold,
            pieces,
            seen,
            given: seen,
        });
        Ok(())
    }

    fn next(&mut self, buffer: &mut Vec<u8>) -> io::Result<bool> {
        let Some(release) = &mut self.release else {
            return Ok(false);
        };
        release.seen = release.given;
        let Some(piece) = release.pieces.pop_front() else {
            self.keep_rest(0);
            return Ok(false);
        };
        self.outbox.read(&piece, buffer).map_err(io_error)?;
        release.given += piece.length as u64;
        Ok(true)
    }

    fn keep_rest(&mut self, seen: usize) {
        if let Some(release) = self.release.take() {
            let upto = release.given.min(release.seen.saturating_add(seen as u64));
            // Without the note it counts as interrupted: a later commit says so.
            let _ = self.outbox.mark_sent(release.hold, upto);
        }
    }

    fn close(&mut self) {
        if let Some(hold) = self.hold {
            self.outbox.finish(hold, End::Closed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_keeps_the_number_by_which_it_is_told() {
        for wrap in [OutboxError::Io, OutboxError::NotKept] {
            let error = io_error(wrap(Errno::NOSPC.into()));
            assert_eq!(error.raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
        }
    }
}
