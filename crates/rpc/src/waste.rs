//! How much of what is run ahead may be for nothing: a token bucket, as gRPC's retry throttling is
//! (gRFC A6), with calls for tokens.
//!
//! A call that is sent ahead takes a token along. When its scope is confirmed the token comes back, and brings a
//! part of another; when it is thrown away the token is gone. Without a token, calls wait for their scopes, and so
//! bring parts of tokens again. Tokens in the bucket and under way are never more than the burst. So in any stretch of
//! time
//!
//! ```text
//! calls thrown away <= burst + percent / 100 * calls of use
//! ```
//!
//! whatever is predicted, and no more calls than the burst are undecided at once.

/// How many calls may be thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waste {
    /// For every hundred that were of use.
    pub percent: u32,
    /// Besides, while none is of use; and how many may be undecided at a time, so nothing is sent ahead with 0.
    pub burst: u32,
}

/// What one token is worth in parts, of which a call of use brings [`Waste::percent`].
const TOKEN: u64 = 100;

/// The calls of all roots that share one limit.
#[derive(Clone, Debug)]
pub struct Account {
    limit: Waste,
    /// In parts of a token.
    left: u64,
    /// Calls sent ahead and undecided, of which each has a token.
    undecided: u64,
}

impl Account {
    /// Of which nothing was taken yet.
    pub fn new(limit: Waste) -> Self {
        Self {
            limit,
            left: u64::from(limit.burst) * TOKEN,
            undecided: 0,
        }
    }

    /// Whether a call could be sent ahead.
    pub fn has_left(&self) -> bool {
        self.left >= TOKEN
    }

    /// A call is to be sent ahead. Returns whether it may.
    pub fn take(&mut self) -> bool {
        let may = self.has_left();
        if may {
            self.left -= TOKEN;
            self.undecided += 1;
        }
        may
    }

    /// So many calls were sent ahead, and are of use.
    pub fn keep(&mut self, calls: u64) {
        self.undecided -= calls;
        self.put(calls * TOKEN);
        self.earn(calls);
    }

    /// So many calls were sent ahead, and are thrown away.
    pub fn waste(&mut self, calls: u64) {
        self.undecided -= calls;
    }

    /// So many calls were sent, and not ahead.
    pub fn earn(&mut self, calls: u64) {
        self.put(calls * u64::from(self.limit.percent));
    }

    fn put(&mut self, parts: u64) {
        let room = (u64::from(self.limit.burst) - self.undecided) * TOKEN;
        self.left = room.min(self.left + parts);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_thrown_away_is_bounded_and_use_brings_it_back() {
        let mut account = Account::new(Waste {
            percent: 25,
            burst: 2,
        });
        assert!(account.take() && account.take() && !account.take());
        account.waste(2);
        account.earn(3);
        assert!(!account.has_left());
        account.earn(1);
        assert!(account.take() && !account.take());
        account.keep(1);
        assert!(account.take() && !account.take());
        // A long time of use is no more than the burst.
        account.earn(1000);
        assert!(account.take() && !account.take());
        account.keep(2);
        assert!(account.take() && account.take() && !account.take());
    }

    #[test]
    fn a_limit_of_nothing_sends_nothing_ahead() {
        let mut account = Account::new(Waste {
            percent: 100,
            burst: 0,
        });
        account.earn(100);
        assert!(!account.take());
    }

    proptest! {
        #[test]
        fn no_stretch_of_time_throws_more_away_than_its_limit(
            percent in 0..300_u32,
            burst in 0..20_u32,
            events in prop::collection::vec(0..4_u8, 0..200),
            from in 0..200_usize,
        ) {
            let mut account = Account::new(Waste { percent, burst });
            let (mut undecided, mut wasted, mut of_use) = (0_u64, 0_u64, 0_u64);
            for (index, event) in events.into_iter().enumerate() {
                if index == from {
                    (wasted, of_use) = (0, 0);
                }
                match event {
                    0 => undecided += u64::from(account.take()),
                    1 if undecided > 0 => {
                        account.keep(1);
                        (undecided, of_use) = (undecided - 1, of_use + 1);
                    }
                    2 if undecided > 0 => {
                        account.waste(1);
                        (undecided, wasted) = (undecided - 1, wasted + 1);
                    }
                    _ => {
                        account.earn(1);
                        of_use += 1;
                    }
                }
                prop_assert!(undecided <= burst.into());
                prop_assert!(wasted * 100 <= u64::from(burst) * 100 + u64::from(percent) * of_use);
            }
        }
    }
}
