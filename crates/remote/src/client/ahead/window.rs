//! How much may be on its way that no program waits for. What programs wait for comes behind it over a slow line, so it is as
//! little as keeps the line busy: where answers take longer than the quickest one did, they queue somewhere, and less is asked
//! for (as TCP Vegas and LEDBAT do, RFC 6817).

use std::collections::BTreeMap;

use crate::server::Moment;

/// At first, at least and at most, in bytes.
const FIRST: u64 = 512 << 10;
const LEAST: u64 = 64 << 10;
const MOST: u64 = 4 << 20;

/// What a message takes besides what it carries, in bytes.
const MESSAGE_BYTES: u64 = 64;

/// How much longer an answer may take than the quickest one, in milliseconds.
const QUEUES_MS_MAX: u64 = 25;

#[derive(Debug)]
pub(in crate::client) struct Window {
    /// By the numbers of the questions: when each left, and about how many bytes its answer has.
    out: BTreeMap<u64, (Moment, u64)>,
    out_bytes: u64,
    most: u64,
    quickest_ms: Option<u64>,
    /// When it was too much last. Answers to what was asked before then tell nothing new.
    narrowed: Option<Moment>,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            out: BTreeMap::new(),
            out_bytes: 0,
            most: FIRST,
            quickest_ms: None,
            narrowed: None,
        }
    }
}

impl Window {
    /// How many more bytes may be asked for.
    pub(super) fn room(&self) -> u64 {
        self.most.saturating_sub(self.out_bytes)
    }

    /// A question leaves whose answer has about so many bytes.
    pub(in crate::client) fn sent(&mut self, request: u64, bytes: u64, now: Moment) {
        let bytes = bytes + MESSAGE_BYTES;
        self.out.insert(request, (now, bytes));
        self.out_bytes += bytes;
    }

    /// An answer has come, to one of these questions or another one.
    pub(super) fn came(&mut self, request: u64, now: Moment) {
        let Some((sent, bytes)) = self.out.remove(&request) else {
            return;
        };
        self.out_bytes -= bytes;
        let took = now.0 - sent.0;
        let quickest = self.quickest_ms.map_or(took, |quickest| quickest.min(took));
        self.quickest_ms = Some(quickest);
        if took <= quickest + QUEUES_MS_MAX {
            // Twice as much with each round trip at first; once it was too much, a message more.
            let more = match self.narrowed {
                None => bytes,
                Some(_) => bytes * bytes / self.most,
            };
            self.most = (self.most + more).min(MOST);
        } else if Some(sent) >= self.narrowed {
            self.most = (self.most / 2).max(LEAST);
            self.narrowed = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Questions of 64 KiB that a line answers in their order, each after what is before it. Returns the longest queue in
    /// milliseconds, once the window has had time to adapt.
    fn queues(latency_ms: u64, bytes_per_ms: u64) -> u64 {
        let mut window = Window::default();
        let (mut now, mut free, mut worst) = (0, 0, 0);
        let mut line = VecDeque::<(u64, u64, u64)>::new();
        for request in 0..2000 {
            while window.room() == 0 {
                let (number, at, queued) = line.pop_front().expect("something is out");
                now = at;
                window.came(number, Moment(now));
                worst = if request > 1000 { queued.max(worst) } else { 0 };
            }
            window.sent(request, 64 << 10, Moment(now));
            let begins = free.max(now);
            free = begins + (64 << 10) / bytes_per_ms;
            line.push_back((request, free + latency_ms, begins - now));
        }
        worst
    }

    #[test]
    fn what_nobody_waits_for_queues_shortly() {
        // 20 Mb/s: the least that is asked for takes 26 ms.
        assert!(queues(30, 2_500) <= 80, "{}", queues(30, 2_500));
        assert!(queues(30, 125_000) <= 40, "{}", queues(30, 125_000));
    }

    #[test]
    fn a_quick_line_is_kept_busy() {
        let mut window = Window::default();
        for round in 0..20 {
            let mut sent = Vec::new();
            while window.room() > 0 {
                let request = round * 1000 + sent.len() as u64;
                window.sent(request, 64 << 10, Moment(round * 30));
                sent.push(request);
            }
            for request in sent {
                window.came(request, Moment(round * 30 + 30));
            }
        }
        assert_eq!(window.room(), MOST);
    }
}
