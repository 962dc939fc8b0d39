//! When it does not pay to put syncs off. Where clients outside wait for the outcome of nearly each sync, as a
//! database's clients do, each sync costs a commit all the same, and the way through the syncer
//! and the relay comes on top. Then syncs are real for a while, until some are put off again.

/// After how many syncs that were put off it is looked at what they were good for.
const WINDOW: u32 = 64;

/// How many of ten syncs in a window have to cost a commit, for the next ones to be real.
const COSTLY: u64 = 8;

/// How many syncs are real before some are put off again: where it never pays, a window of each 1088 syncs,
/// or 6 %, is put off in vain.
const REAL: u32 = 1024;

/// Whether the next sync is put off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    PutOff,
    Real,
}

/// What is known of the syncs so far.
#[derive(Debug)]
pub(crate) struct Adaptive {
    way: Way,
    /// How many more go the same way.
    left: u32,
    /// How many commits there had been for output at the beginning of the window.
    commits: u64,
}

impl Adaptive {
    pub(crate) fn new() -> Self {
        Self {
            way: Way::PutOff,
            left: WINDOW,
            commits: 0,
        }
    }

    /// The way that one more sync goes. `commits`: how many there have been for output. With it, whether the
    /// way has changed.
    pub(crate) fn next(&mut self, commits: u64) -> (Way, bool) {
        let before = self.way;
        if self.left == 0 {
            self.turn(commits);
        }
        self.left -= 1;
        (self.way, self.way != before)
    }

    fn turn(&mut self, commits: u64) {
        let in_window = commits.saturating_sub(self.commits);
        let is_costly = self.way == Way::PutOff && in_window * 10 >= u64::from(WINDOW) * COSTLY;
        (self.way, self.left) = match is_costly {
            true => (Way::Real, REAL),
            false => (Way::PutOff, WINDOW),
        };
        self.commits = commits;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ways of so many syncs of which every `nth` has output wait.
    fn ways(count: u64, nth: u64) -> Vec<Way> {
        let (mut adaptive, mut commits) = (Adaptive::new(), 0);
        let one = |number| {
            let (way, _) = adaptive.next(commits);
            // A real one leaves output nothing to wait for.
            commits += u64::from(way == Way::PutOff && number % nth == 0);
            way
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn as_long_as_few_wait_all_are_put_off() {
        assert!(ways(10_000, 2).iter().all(|way| *way == Way::PutOff));
    }

    #[test]
    fn where_all_wait_most_are_real_and_some_are_tried() {
        let ways = ways(10_000, 1);
        let real = ways.iter().filter(|way| **way == Way::Real).count();
        assert!((9_000..9_500).contains(&real), "{real}");
        assert_eq!(ways[WINDOW as usize - 1], Way::PutOff);
        assert_eq!(ways[WINDOW as usize], Way::Real);
        assert_eq!(ways[(WINDOW + REAL) as usize], Way::PutOff);
    }

    #[test]
    fn a_change_is_told_once() {
        let mut adaptive = Adaptive::new();
        let changes = (0..3 * (WINDOW + REAL)).filter(|&number| adaptive.next(number.into()).1);
        assert_eq!(changes.count(), 5);
    }
}
