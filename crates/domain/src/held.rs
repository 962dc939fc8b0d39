//! Output that goes to the outbox instead of to the caller.

use std::io;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use surmise_channels::{Held, Sink};
use surmise_outbox::{End, HoldId, Outbox, Target};

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
    })
}

struct HeldOutput {
    outbox: Outbox,
    /// Until there is something to hold.
    target: Option<Target>,
    hold: Option<HoldId>,
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

    fn close(&mut self) {
        if let Some(hold) = self.hold {
            self.outbox.finish(hold, End::Closed);
        }
    }
}
