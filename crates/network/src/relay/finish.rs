//! The end: what programs have sent before they ended is delivered, as their kernel would do it.

use std::time::{Duration, Instant};

use super::Relay;
use super::interface::Event;
use super::poller::{Kind, Token};

/// How often it is looked whether receivers have taken everything: the kernel does not tell.
const LOOK_MIN: Duration = Duration::from_millis(2);
const LOOK_MAX: Duration = Duration::from_millis(50);

/// An end under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finishing {
    since: Instant,
    /// How long a receiver outside may take nothing.
    patience: Duration,
}

impl Relay {
    /// The programs have ended. Everything that they have sent is in the kernel's hands or in the
    /// relay's, and their sockets are closed: each direction to the outside comes to its end.
    pub(super) fn finish(&mut self, patience: Duration) {
        let since = self.core.now;
        self.finishing = Some(Finishing { since, patience });
        for key in self.pumps.keys() {
            if let Some(pump) = self.pumps.get_mut(key) {
                pump.finish(since, &mut self.core.scratch);
            }
            self.register(key);
        }
        // What could not be kept was told of.
        let _ = self.drain();
        self.see_off();
    }

    /// Whether an end under way is reached: nothing is left to be delivered.
    pub(super) fn is_finished(&self) -> bool {
        self.finishing.is_some()
            && self.pumps.len() == 0
            && !self.releases.are_under_way()
            && !self.core.waiting.has_pieces()
            && !self.datagrams.are_resolving()
    }

    /// Closes the connections whose receivers have everything, or take nothing any more, and looks
    /// again if some are left.
    pub(super) fn see_off(&mut self) {
        let Some(Finishing { since, patience }) = self.finishing else {
            return;
        };
        let now = self.core.now;
        for key in self.pumps.keys() {
            let Some(pump) = self.pumps.get_mut(key) else {
                continue;
            };
            if pump.is_delivered() {
                if let Some(pump) = self.pumps.remove(key) {
                    pump.close(&mut self.core.scratch);
                }
            } else if now.saturating_duration_since(pump.idle_since(now)) > patience {
                let peer = pump.peer().map(|peer| peer.to_string());
                let peer = peer.unwrap_or_else(|| "a host outside".into());
                self.core.tell(Event::Cut { peer });
                self.break_off(key);
            }
        }
        if !self.is_finished() {
            let pause = now.saturating_duration_since(since) / 8;
            let next = now + pause.clamp(LOOK_MIN, LOOK_MAX);
            self.core.timers.set(next, Token::only(Kind::PumpOutside));
        }
    }
}
