//! The speculator, as control has to do with it.

use std::cell::RefCell;
use std::io;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::time::Timespec;
use surmise_sys::process::Child;

use crate::message::Link;
use crate::roles::speculator::{SpeculatorOrder, SpeculatorReport};

/// Its process, and what it said.
pub(super) struct SpeculatorRole {
    pub(super) process: Child,
    /// Closed, it tells the speculator to end.
    pub(super) link: Link,
    /// What it said while it was asked for something else.
    pub(super) said: RefCell<Vec<SpeculatorReport>>,
}

/// How long the speculator may take to decide what is undecided.
const SETTLING_MAX: Duration = Duration::from_secs(2);

impl SpeculatorRole {
    /// Has everything decided that tasks depend on, so that none is traced for a moment. If that takes too
    /// long, whoever wants to stop them finds some that are.
    pub(super) fn settle(&self) -> io::Result<()> {
        let deadline = Instant::now() + SETTLING_MAX;
        // If it has died, that is an event to come.
        let _ = self.link.send(&SpeculatorOrder::Settle);
        loop {
            let rest = deadline.saturating_duration_since(Instant::now());
            let rest = Timespec::try_from(rest).expect("a short wait");
            let mut events = [PollFd::new(&self.link, PollFlags::IN)];
            if rustix::io::retry_on_intr(|| rustix::event::poll(&mut events, Some(&rest)))? == 0 {
                return Ok(());
            }
            match self.link.receive()? {
                Some(SpeculatorReport::Settled) | None => return Ok(()),
                Some(report) => self.said.borrow_mut().push(report),
            }
        }
    }
}
