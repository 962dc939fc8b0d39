//! Calls that were let go and may not have come to the view yet.
//!
//! What a call meets there is looked up before the call is let go. So no call may be let go that changes what one under way
//! touches, nor one that touches what one under way changes: the other is made to come past its call first. Then what was looked
//! up is what the call meets.

use rustix::process::Pid;

use super::look::{Share, Touch};
use crate::map::Map;

/// By thread: what its last call touches.
#[derive(Debug, Default)]
pub(super) struct UnderWay(Map<Pid, Touched>);

/// What a call touches.
#[derive(Debug)]
struct Touched {
    touch: Touch,
    /// `None`: it may be any.
    cells: Option<Vec<(u64, Share)>>,
}

impl UnderWay {
    /// A thread has come past its call.
    pub(super) fn past(&mut self, thread: Pid) {
        // Hardly ever is any to be forgotten.
        if !self.0.is_empty() {
            self.0.remove(&thread);
        }
    }

    /// A call of a thread is let go.
    pub(super) fn let_go(&mut self, thread: Pid, touch: Touch, cells: Option<Vec<(u64, Share)>>) {
        self.0.insert(thread, Touched { touch, cells });
    }

    /// Names may lead elsewhere by now, so no call is known to touch what was looked up.
    pub(super) fn blur(&mut self) {
        for touched in self.0.values_mut() {
            touched.cells = None;
        }
    }

    pub(super) fn has_others(&self, thread: Pid) -> bool {
        self.0.keys().any(|other| *other != thread)
    }

    /// The other threads whose calls have an order with one that touches these cells, rising. Calls that only look have none.
    pub(super) fn ordered_with(
        &self,
        thread: Pid,
        touch: Touch,
        cells: Option<&[(u64, Share)]>,
    ) -> Vec<Pid> {
        let others = self.0.iter().filter(|(other, _)| **other != thread);
        let changing = others.filter(|(_, other)| touch.max(other.touch) >= Touch::Changes);
        let ordered = changing.filter(|(_, other)| match (cells, &other.cells) {
            (Some(cells), Some(under_way)) => cells.iter().any(|(cell, share)| {
                let same = under_way.iter().filter(|(other, _)| other == cell);
                same.clone().any(|(_, other)| share.is_ordered_with(*other))
            }),
            _ => true,
        });
        let mut threads: Vec<Pid> = ordered.map(|(thread, _)| *thread).collect();
        threads.sort_unstable_by_key(|thread| thread.as_raw_nonzero());
        threads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pid(number: i32) -> Pid {
        Pid::from_raw(number).expect("a number")
    }

    #[test]
    fn only_calls_that_commute_or_look_have_no_order() {
        use Share::{Changes, Commutes, Looks, Passes};
        let touch = |share| match share {
            Passes | Looks => Touch::Looks,
            Commutes | Changes => Touch::Changes,
        };
        let ordered = |one, other| {
            let mut under_way = UnderWay::default();
            under_way.let_go(pid(1), touch(one), Some(vec![(7, one)]));
            let first = under_way.ordered_with(pid(2), touch(other), Some(&[(7, other)]));
            !first.is_empty()
        };
        for (one, other, wanted) in [
            (Passes, Passes, false),
            (Passes, Looks, false),
            (Looks, Looks, false),
            (Passes, Commutes, false),
            (Commutes, Commutes, false),
            (Commutes, Looks, true),
            (Changes, Passes, true),
            (Changes, Commutes, true),
            (Changes, Changes, true),
        ] {
            assert_eq!(ordered(one, other), wanted, "{one:?} {other:?}");
            assert_eq!(ordered(other, one), wanted, "{other:?} {one:?}");
        }
    }

    #[test]
    fn a_call_of_which_nothing_is_known_has_an_order_with_all_unless_both_only_look() {
        use Touch::{Binds, Changes, Looks};
        let mut under_way = UnderWay::default();
        under_way.let_go(pid(1), Looks, Some(vec![(7, Share::Passes)]));
        under_way.let_go(pid(2), Looks, Some(vec![(8, Share::Passes)]));
        let ordered = |under_way: &UnderWay, thread, touch, cells| {
            let first = under_way.ordered_with(pid(thread), touch, cells);
            first
                .into_iter()
                .map(|first| first.as_raw_nonzero().get())
                .collect::<Vec<_>>()
        };
        let change = [(8, Share::Changes)];
        assert_eq!(ordered(&under_way, 3, Changes, Some(&change)), [2]);
        assert_eq!(ordered(&under_way, 3, Binds, None), [1, 2]);
        assert_eq!(ordered(&under_way, 3, Looks, None), []);
        assert_eq!(ordered(&under_way, 2, Changes, Some(&change)), []);
        under_way.blur();
        assert_eq!(ordered(&under_way, 3, Changes, Some(&change)), [1, 2]);
        under_way.past(pid(1));
        assert_eq!(ordered(&under_way, 2, Changes, None), []);
        under_way.let_go(pid(4), Changes, None);
        assert_eq!(
            ordered(&under_way, 2, Looks, Some(&[(9, Share::Looks)])),
            [4]
        );
    }
}
