//! How far ahead the work of one root may run.
//!
//! A budget is a number of open branches, on whatever machines. A call takes a quarter of what is left
//! to its server, if that knows what to do with it, and gives it back with its answer. So what is open
//! anywhere on behalf of a root never exceeds what the root began with, and neither a long chain nor
//! its servers' calls find nothing left soon. Where there is nothing left, calls run one after the
//! other.

/// What a scope, or the server of a call, may still open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Branches that are open at the same time.
    pub branches: u32,
    /// Undecided predictions, of which one rests on the other.
    pub depth: u32,
}

impl Budget {
    /// Nothing may be opened: calls run as if there were no predictions.
    pub const NONE: Self = Self {
        branches: 0,
        depth: 0,
    };

    /// What a server grants to a caller that says it has this budget. Whatever a caller says, it
    /// gets no more than anybody.
    pub fn clamped(self, granted: Self) -> Self {
        Self {
            branches: self.branches.min(granted.branches),
            depth: self.depth.min(granted.depth),
        }
    }

    /// Splits off what a call takes along that is made `depth` undecided predictions deep.
    pub(crate) fn lend(&mut self, depth: u32) -> Self {
        let depth = self.depth.saturating_sub(depth);
        let branches = if depth == 0 { 0 } else { self.branches / 4 };
        self.branches -= branches;
        Self { branches, depth }
    }

    /// What a call took along comes back.
    pub(crate) fn take_back(&mut self, lent: &mut Self) {
        self.branches += lent.branches;
        *lent = Self::NONE;
    }
}

/// What one root may do at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The budget it begins with.
    pub budget: Budget,
    /// Predictions that one call is run ahead with.
    pub fan_out_max: u32,
}

impl Default for Limits {
    /// 128 open branches, 16 deep, 4 a call.
    fn default() -> Self {
        Self {
            budget: Budget {
                branches: 128,
                depth: 16,
            },
            fan_out_max: 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forged_budget_is_clamped() {
        let granted = Limits::default().budget;
        let forged = Budget {
            branches: u32::MAX,
            depth: u32::MAX,
        };
        assert_eq!(forged.clamped(granted), granted);
        assert_eq!(Budget::NONE.clamped(granted), Budget::NONE);
    }

    #[test]
    fn what_is_lent_is_not_there_and_comes_back() {
        let mut budget = Budget {
            branches: 9,
            depth: 2,
        };
        let mut first = budget.lend(1);
        let mut second = budget.lend(2);
        assert_eq!((first.branches, first.depth), (2, 1));
        assert_eq!(second, Budget::NONE);
        assert_eq!(budget.branches, 7);
        budget.take_back(&mut first);
        budget.take_back(&mut second);
        budget.take_back(&mut first);
        assert_eq!(budget.branches, 9);
    }
}
