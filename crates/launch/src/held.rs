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

/// The same error for the channel that passes output on. The error keeps the system's number: by that number the
/// loss is told.
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
            self.note_sent(0);
            return Ok(false);
        };
        self.outbox.read(&piece, buffer).map_err(io_error)?;
        release.given += piece.length as u64;
        Ok(true)
    }

    fn keep_rest(&mut self, seen: usize) {
        self.note_sent(seen);
        if let Some(hold) = self.hold {
            self.outbox.keep(&[hold]);
        }
    }

    fn close(&mut self) {
        if let Some(hold) = self.hold {
            self.outbox.finish(hold, End::Closed);
        }
    }
}

impl HeldOutput {
    /// The caller has seen this much of the last piece, and is shown no more of what is being released.
    fn note_sent(&mut self, seen: usize) {
        if let Some(release) = self.release.take() {
            let upto = release.given.min(release.seen.saturating_add(seen as u64));
            // Without the note it counts as interrupted: a later commit says so.
            let _ = self.outbox.mark_sent(release.hold, upto);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use surmise_testkit::Scratch;

    use super::*;

    #[test]
    fn a_loss_keeps_the_number_by_which_it_is_told() {
        for wrap in [OutboxError::Io, OutboxError::NotKept] {
            let error = io_error(wrap(Errno::NOSPC.into()));
            assert_eq!(error.raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
        }
    }

    /// Standard output that is held, of which the person has agreed to "first" and the caller gets that; since then
    /// "second" was held, and the person has agreed to that, too.
    fn agreed_while_the_first_leaves(scratch: &Scratch) -> (Outbox, Receiver<Told>, HeldOutput) {
        let (tell, told) = channel();
        let tell = move |what| tell.send(what).expect("somebody hears");
        let outbox = Outbox::open_told(scratch.root(), tell).expect("an outbox");
        let mut sink = HeldOutput {
            outbox: outbox.clone(),
            target: Some(Target::Output),
            hold: None,
            release: None,
        };
        sink.write(b"first").expect("held");
        outbox.flush().expect("kept");
        let hold = sink.hold.expect("something is held");
        outbox.agree(&[hold]);
        sink.release().expect("released");
        assert_eq!(next(&mut sink), b"first");
        sink.write(b"second").expect("held");
        outbox.flush().expect("kept");
        outbox.agree(&[hold]);
        // Two tell of its opening and its first bytes, the third that it waits again.
        assert_eq!(told.try_iter().collect::<Vec<_>>(), [Told::Waits(hold); 3]);
        (outbox, told, sink)
    }

    fn next(sink: &mut HeldOutput) -> Vec<u8> {
        let mut piece = Vec::new();
        match sink.next(&mut piece).expect("read") {
            true => piece,
            false => Vec::new(),
        }
    }

    #[test]
    fn what_was_agreed_to_while_the_caller_read_slowly_is_shown_next() {
        let scratch = Scratch::new();
        let (outbox, told, mut sink) = agreed_while_the_first_leaves(&scratch);
        assert!(next(&mut sink).is_empty());
        sink.release().expect("released");
        assert_eq!(next(&mut sink), b"second");
        assert!(next(&mut sink).is_empty());
        assert!(outbox.pending().is_empty());
        assert!(told.try_iter().next().is_none());
    }

    #[test]
    fn what_was_agreed_to_and_the_caller_does_not_see_waits_again() {
        let scratch = Scratch::new();
        let (outbox, told, mut sink) = agreed_while_the_first_leaves(&scratch);
        let hold = sink.hold.expect("something is held");
        sink.keep_rest(usize::MAX);
        assert_eq!(told.try_iter().collect::<Vec<_>>(), [Told::Waits(hold)]);
        // The caller is gone when the next release comes.
        outbox.agree(&[hold]);
        sink.keep_rest(0);
        assert_eq!(told.try_iter().collect::<Vec<_>>(), [Told::Waits(hold)]);
        sink.release().expect("nothing to release");
        assert!(next(&mut sink).is_empty());
        let pending: Vec<_> = outbox
            .pending()
            .iter()
            .map(|one| (one.hold, one.bytes))
            .collect();
        assert_eq!(pending, [(hold, 6)]);
    }
}
