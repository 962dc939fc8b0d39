//! When one thread serves alone, and until when. Pure: it is told the time and what was seen.

use std::time::Duration;

/// Requests come in quick succession when this many of them come within [`BURST`].
pub(super) const BURST_REQUESTS: u64 = 16;
const BURST: Duration = Duration::from_millis(16);

/// How long workers serve after serving alone has lost time: at first, and at most. Each loss doubles the time. It is as
/// at first again when one thread has served alone for [`STEADY_LOOKS`] looks.
const REST: Duration = Duration::from_millis(64);
const REST_MAX: Duration = Duration::from_secs(2);
const STEADY_LOOKS: u32 = 16;

/// Serving alone ends after so many looks in a row without a request. A command may compute for a moment.
const QUIET_LOOKS: u32 = 8;

/// Serving alone ends after so many looks in a row that found several callers, or a busy machine. A command may start programs
/// for a moment.
const CROWDED_LOOKS: u32 = 3;

/// Serving alone ends after so many looks in a row that found a request waiting, with fewer than [`STUCK_REQUESTS`] taken since
/// the look before.
const STUCK_LOOKS: u32 = 2;
const STUCK_REQUESTS: u64 = 4;

/// Several callers ask at once where more than one request in so many comes from another caller than the request before it.
const REQUESTS_A_CALLER: u64 = 4;

/// How requests come, and what became of earlier tries to serve them alone.
#[derive(Debug)]
pub(super) struct Pace {
    /// When the last group of [`BURST_REQUESTS`] was whole.
    last: Option<Duration>,
    rest: Duration,
    rests_until: Duration,
    /// How many looks there were since one began to serve alone, and how many of the last ones in a row were quiet, crowded, or
    /// at a request that waits.
    steady: u32,
    quiet: u32,
    crowded: u32,
    stuck: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            last: None,
            rest: REST,
            rests_until: Duration::ZERO,
            steady: 0,
            quiet: 0,
            crowded: 0,
            stuck: 0,
        }
    }
}

/// What the guard has seen since its last look.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look {
    /// How many requests were taken.
    pub(super) taken: u64,
    /// How many of them came from another caller than the request before.
    pub(super) of_others: u64,
    /// Whether a request waits, or has not been answered since the last look.
    pub(super) is_waiting: bool,
    /// Whether more threads of the machine want to run than its processors and one serial command explain.
    pub(super) is_busy: bool,
}

/// What becomes of serving alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    GoesOn,
    /// The thread that serves alone may need another processor.
    Stuck,
    /// Nothing is to be gained at the moment.
    Quiet,
    /// It is slower than with others.
    Loses,
}

impl Look {
    fn is_stuck(self) -> bool {
        self.taken < STUCK_REQUESTS && self.is_waiting
    }

    fn is_quiet(self) -> bool {
        self.taken == 0
    }
}

/// Whether several callers ask at once.
fn are_many(of_others: u64, requests: u64) -> bool {
    of_others * REQUESTS_A_CALLER > requests.max(REQUESTS_A_CALLER)
}

impl Pace {
    /// [`BURST_REQUESTS`] more have come by now; so many of them from another caller than the request before. Tells whether one
    /// thread should serve alone.
    pub(super) fn is_quick(&mut self, now: Duration, of_others: u64) -> bool {
        let last = self.last.replace(now);
        let is_quick = last.is_some_and(|last| now.saturating_sub(last) <= BURST);
        is_quick && now >= self.rests_until && !are_many(of_others, BURST_REQUESTS)
    }

    /// One has begun to serve alone.
    pub(super) fn began(&mut self) {
        (self.steady, self.quiet, self.crowded, self.stuck) = (0, 0, 0, 0);
    }

    /// What the guard has seen, at this time.
    pub(super) fn judge(&mut self, now: Duration, look: Look) -> Verdict {
        let more = |looks: u32, is_so: bool| match is_so {
            true => looks.saturating_add(1),
            false => 0,
        };
        self.quiet = more(self.quiet, look.is_quiet());
        self.crowded = more(
            self.crowded,
            look.is_busy || are_many(look.of_others, look.taken),
        );
        self.stuck = more(self.stuck, look.is_stuck());
        self.steady = self.steady.saturating_add(1);
        if self.stuck == STUCK_LOOKS || self.crowded == CROWDED_LOOKS {
            self.last = None;
            self.rests_until = now + self.rest;
            self.rest = (self.rest * 2).min(REST_MAX);
            return Verdict::Loses;
        }
        if self.steady == STEADY_LOOKS {
            self.rest = REST;
        }
        if self.quiet == QUIET_LOOKS {
            self.last = None;
            return Verdict::Quiet;
        }
        match self.stuck {
            0 => Verdict::GoesOn,
            _ => Verdict::Stuck,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEADY: Look = Look {
        taken: 100,
        of_others: 5,
        is_waiting: true,
        is_busy: false,
    };
    const STUCK: Look = Look {
        taken: 0,
        of_others: 0,
        ..STEADY
    };

    fn ms(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    #[test]
    fn only_quick_successions_are_served_alone() {
        let mut pace = Pace::default();
        assert!(!pace.is_quick(ms(0), 1), "the first");
        assert!(!pace.is_quick(ms(17), 1));
        assert!(pace.is_quick(ms(33), 4));
        assert!(!pace.is_quick(ms(34), 5), "callers ask at once");
    }

    fn last_of(looks: &[Look]) -> Verdict {
        let mut pace = Pace::default();
        pace.began();
        let verdicts = looks.iter().map(|&look| pace.judge(ms(0), look));
        verdicts.last().expect("one at least")
    }

    #[test]
    fn looks_tell_when_others_are_wanted() {
        assert_eq!(last_of(&[STEADY]), Verdict::GoesOn);
        assert_eq!(last_of(&[STUCK]), Verdict::Stuck);
        assert_eq!(last_of(&[STUCK, STUCK]), Verdict::Loses);
        assert_eq!(last_of(&[STUCK, STEADY, STUCK]), Verdict::Stuck);
        let slow = |taken| Look { taken, ..STUCK };
        assert_eq!(last_of(&[slow(3), slow(3)]), Verdict::Loses);
        assert_eq!(last_of(&[slow(4), slow(4)]), Verdict::GoesOn);
        let parallel = |of_others| Look {
            of_others,
            ..STEADY
        };
        assert_eq!(last_of(&[parallel(25); 3]), Verdict::GoesOn);
        assert_eq!(last_of(&[parallel(26); 3]), Verdict::Loses);
        let one = Look {
            taken: 1,
            of_others: 1,
            is_waiting: false,
            ..STEADY
        };
        assert_eq!(last_of(&[one; 3]), Verdict::GoesOn);
    }

    #[test]
    fn a_moment_without_requests_or_with_many_threads_changes_nothing() {
        let idle = Look::default();
        assert_eq!(last_of(&[idle; 7]), Verdict::GoesOn);
        assert_eq!(last_of(&[idle; 8]), Verdict::Quiet);
        let interrupted = [&[idle; 7][..], &[STEADY], &[idle; 7]].concat();
        assert_eq!(last_of(&interrupted), Verdict::GoesOn);
        let busy = Look {
            is_busy: true,
            ..STEADY
        };
        assert_eq!(last_of(&[busy; 2]), Verdict::GoesOn);
        assert_eq!(last_of(&[busy; 3]), Verdict::Loses);
        assert_eq!(last_of(&[busy, busy, STEADY, busy, busy]), Verdict::GoesOn);
    }

    #[test]
    fn each_loss_doubles_the_rest_until_all_goes_well() {
        let mut pace = Pace::default();
        let mut now = ms(1000);
        let quick_after = |pace: &mut Pace, now: Duration| {
            pace.is_quick(now, 0);
            pace.is_quick(now, 0)
        };
        for rest in [64, 128, 256, 512, 1024, 2000, 2000] {
            assert_eq!(pace.judge(now, STUCK), Verdict::Stuck);
            assert_eq!(pace.judge(now, STUCK), Verdict::Loses);
            assert!(!quick_after(&mut pace, now + ms(rest - 1)), "{rest}");
            now += ms(rest);
            assert!(quick_after(&mut pace, now), "{rest}");
            pace.began();
        }
        for _ in 0..STEADY_LOOKS {
            assert_eq!(pace.judge(now, STEADY), Verdict::GoesOn);
        }
        assert_eq!(pace.judge(now, STUCK), Verdict::Stuck);
        assert_eq!(pace.judge(now, STUCK), Verdict::Loses);
        assert!(quick_after(&mut pace, now + ms(64)));
    }

    #[test]
    fn a_pause_is_no_loss() {
        let mut pace = Pace::default();
        let idle = [Look::default(); QUIET_LOOKS as usize];
        let verdicts = idle.map(|look| pace.judge(ms(5), look));
        assert_eq!(verdicts.last(), Some(&Verdict::Quiet));
        assert!(!pace.is_quick(ms(6), 0), "it begins anew");
        assert!(pace.is_quick(ms(7), 0));
    }
}
