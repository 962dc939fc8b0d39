//! Whether a near line is so slow that to compress takes less time than it saves.

use std::time::Duration;

/// How many times as long as compressing the line has to take for what is saved. Both sides also have other work for their processors.
const TIMES: f64 = 4.0;

/// What compressing takes before it was measured, in nanoseconds a byte: less than a processor of today takes.
const COMPRESSING_NS: f64 = 3.0;

/// How much is saved before that was measured.
const SAVED: f64 = 0.5;

/// Shorter writes tell of the call rather than of the line. So do shorter blocks.
const BYTES_MIN: usize = 32 << 10;

/// How much of a mean the newest sample makes.
const NEWEST: f64 = 0.1;

/// What one write tells of a line at most, in nanoseconds a byte: the processor may have had other work meanwhile.
const LINE_NS_MAX: f64 = 100.0;

/// What was measured of a line and of compressing.
#[derive(Debug)]
pub(crate) struct Pace {
    /// What to write takes, in nanoseconds a byte. That is next to nothing while buffers have room, and what the line takes once they
    /// are full.
    line_ns: f64,
    compressing_ns: f64,
    /// How much of a block is saved.
    saved: f64,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            line_ns: 0.0,
            compressing_ns: COMPRESSING_NS,
            saved: SAVED,
        }
    }
}

impl Pace {
    /// So many bytes were written.
    pub(crate) fn wrote(&mut self, bytes: usize, took: Duration) {
        if bytes >= BYTES_MIN {
            mean(&mut self.line_ns, ns(bytes, took).min(LINE_NS_MAX));
        }
    }

    /// A block was compressed.
    pub(crate) fn compressed(&mut self, plain: usize, compressed: usize, took: Duration) {
        if plain >= BYTES_MIN {
            mean(&mut self.compressing_ns, ns(plain, took));
            mean(&mut self.saved, 1.0 - compressed as f64 / plain as f64);
        }
    }

    /// Whether compressing pays by that alone.
    pub(crate) fn pays(&self) -> bool {
        self.line_ns * self.saved > TIMES * self.compressing_ns
    }
}

fn ns(bytes: usize, took: Duration) -> f64 {
    took.as_nanos() as f64 / bytes as f64
}

fn mean(of: &mut f64, sample: f64) {
    *of += (sample - *of) * NEWEST;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a line that carries so many bytes in a millisecond has been found to be slow.
    fn pays(bytes_per_ms: u64) -> bool {
        let mut pace = Pace::default();
        for _ in 0..100 {
            let took = Duration::from_nanos((256 << 10) * 1_000_000 / bytes_per_ms);
            pace.wrote(256 << 10, took);
        }
        pace.pays()
    }

    #[test]
    fn slow_lines_pay_and_quick_ones_do_not() {
        // 100 Mb/s and a memory.
        assert!(pays(12_500) && !pays(1_000_000));
    }

    #[test]
    fn nothing_pays_that_saves_nothing_or_was_not_measured() {
        let mut pace = Pace::default();
        assert!(!pace.pays());
        for _ in 0..100 {
            pace.wrote(1 << 20, Duration::from_millis(100));
            pace.compressed(128 << 10, 128 << 10, Duration::from_micros(300));
        }
        assert!(!pace.pays());
    }

    #[test]
    fn one_write_that_was_held_up_tells_little() {
        let mut pace = Pace::default();
        pace.wrote(64 << 10, Duration::from_secs(1));
        assert!(!pace.pays());
    }

    #[test]
    fn short_writes_tell_nothing() {
        let mut pace = Pace::default();
        for _ in 0..100 {
            pace.wrote(100, Duration::from_micros(20));
        }
        assert!(!pace.pays());
    }
}
