//! Sets of predictions, as few intervals of ids.

use std::collections::BTreeSet;
use std::iter::Peekable;

use crate::id::Id;

/// All ids from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Extent {
    /// The oldest.
    pub first: Id,
    /// The newest; not below `first`.
    pub last: Id,
}

/// A set of ids as extents, rising and apart.
///
/// Inside the engine only undecided predictions count as members: an extent may span ids that are
/// decided or of another kind, so that a task that depends on all that is undecided has one extent
/// whatever was decided in between. This cannot go wrong later, since new ids are above all extents
/// and an id that is decided stays so. The sets that the engine gives out are exact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extents {
    extents: Vec<Extent>,
}

impl Extents {
    /// Whether the set has no member.
    pub fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// Whether `id` is a member. O(log extents).
    pub fn contains(&self, id: Id) -> bool {
        let after = self.extents.partition_point(|extent| extent.first <= id);
        after > 0 && id <= self.extents[after - 1].last
    }

    /// The extents, rising.
    pub fn iter(&self) -> impl Iterator<Item = Extent> + '_ {
        self.extents.iter().copied()
    }

    /// Adds one prediction.
    pub(crate) fn add(&mut self, id: Id, undecided: &BTreeSet<Id>) {
        let one = Extent {
            first: id,
            last: id,
        };
        self.merge(&[one], undecided);
    }

    /// Adds all members of `other`, and forgets what is decided.
    pub(crate) fn union(&mut self, other: &Self, undecided: &BTreeSet<Id>) {
        // Most accesses meet what they know already.
        if !other.is_empty() && self != other {
            self.merge(&other.extents, undecided);
        }
    }

    /// The undecided members of `other` that are not in this set. O(extents of both).
    pub(crate) fn missing(&self, other: &Self, undecided: &BTreeSet<Id>) -> Self {
        let mut missing = Self::default();
        // Most accesses meet what they know already.
        if other.is_empty() || self == other {
            return missing;
        }
        let mut own = self.extents.iter().copied().peekable();
        for extent in &other.extents {
            let mut first = extent.first;
            while let Some(known) = own.peek().filter(|known| known.first <= extent.last) {
                if first < known.first {
                    let last = Id(known.first.0 - 1);
                    missing.push(Extent { first, last }, undecided);
                }
                first = first.max(Id(known.last.0 + 1));
                if known.last > extent.last {
                    break;
                }
                own.next();
            }
            if first <= extent.last {
                let last = extent.last;
                missing.push(Extent { first, last }, undecided);
            }
        }
        missing
    }

    fn merge(&mut self, other: &[Extent], undecided: &BTreeSet<Id>) {
        if let Some(first) = other.first()
            && self
                .extents
                .last()
                .is_none_or(|own| own.first <= first.first)
        {
            self.forget_decided(undecided);
            for &extent in other {
                self.push(extent, undecided);
            }
            return;
        }
        let own = std::mem::take(&mut self.extents);
        let mut own = own.into_iter().peekable();
        let mut other = other.iter().copied().peekable();
        while let Some(extent) = next(&mut own, &mut other) {
            self.push(extent, undecided);
        }
    }

    /// Forgets the oldest extents that are decided; and all that are, where there is no room for one more. Then as many
    /// have to come as are left until that is done again, so that adding one takes O(log predictions) in the long run.
    fn forget_decided(&mut self, undecided: &BTreeSet<Id>) {
        let oldest = undecided.first();
        let is_past = |extent: &Extent| oldest.is_none_or(|&oldest| extent.last < oldest);
        self.extents.drain(..self.extents.partition_point(is_past));
        if self.extents.len() > 1 && self.extents.len() == self.extents.capacity() {
            let own = std::mem::take(&mut self.extents);
            self.extents.reserve_exact(own.len());
            for extent in own {
                self.push(extent, undecided);
            }
            self.extents.reserve(self.extents.len());
        }
    }

    /// Appends an extent that begins no earlier than any here.
    fn push(&mut self, extent: Extent, undecided: &BTreeSet<Id>) {
        if undecided.range(extent.first..=extent.last).next().is_none() {
            return;
        }
        if let Some(before) = self.extents.last_mut() {
            let gap = Id(before.last.0 + 1)..extent.first;
            if gap.is_empty() || undecided.range(gap).next().is_none() {
                before.last = before.last.max(extent.last);
                return;
            }
        }
        // Most sets have one extent, and there may be a million.
        if self.extents.is_empty() {
            self.extents.reserve_exact(1);
        }
        self.extents.push(extent);
    }

    /// The newest undecided member.
    pub(crate) fn newest(&self, undecided: &BTreeSet<Id>) -> Option<Id> {
        let members = |extent: &Extent| undecided.range(extent.first..=extent.last).next_back();
        self.extents.iter().rev().find_map(members).copied()
    }

    /// The undecided members alone, with nothing else in their extents.
    pub(crate) fn exact(&self, undecided: &BTreeSet<Id>) -> Self {
        let mut extents: Vec<Extent> = Vec::new();
        for id in self.members(undecided) {
            match extents.last_mut() {
                Some(before) if before.last.0 + 1 == id.0 => before.last = id,
                _ => extents.push(Extent {
                    first: id,
                    last: id,
                }),
            }
        }
        Self { extents }
    }

    /// The undecided members, rising.
    pub(crate) fn members<'a>(
        &'a self,
        undecided: &'a BTreeSet<Id>,
    ) -> impl Iterator<Item = Id> + 'a {
        let members = |extent: &Extent| undecided.range(extent.first..=extent.last);
        self.extents.iter().flat_map(members).copied()
    }
}

/// The one that begins first.
fn next(
    one: &mut Peekable<impl Iterator<Item = Extent>>,
    other: &mut Peekable<impl Iterator<Item = Extent>>,
) -> Option<Extent> {
    match (one.peek(), other.peek()) {
        (Some(left), Some(right)) if right.first < left.first => other.next(),
        (None, _) => other.next(),
        _ => one.next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ids: &[u64], undecided: &BTreeSet<Id>) -> Extents {
        let mut set = Extents::default();
        for &id in ids {
            set.add(Id(id), undecided);
        }
        set
    }

    fn ids(ids: impl IntoIterator<Item = u64>) -> BTreeSet<Id> {
        ids.into_iter().map(Id).collect()
    }

    #[test]
    fn decided_ids_are_spanned_and_undecided_ones_are_not() {
        let undecided = ids([2, 5, 9, 12]);
        let spanning = set(&[9, 2, 5], &undecided);
        let wanted = [Extent {
            first: Id(2),
            last: Id(9),
        }];
        assert_eq!(spanning.extents, wanted);
        assert_eq!(set(&[2, 9], &undecided).extents.len(), 2);
        assert!(!set(&[2, 9], &undecided).contains(Id(5)));
        assert!(set(&[3, 4], &undecided).is_empty());
    }

    #[test]
    fn an_exact_set_has_only_what_is_undecided() {
        let undecided = ids([2, 3, 5, 9, 12]);
        let exact = set(&[2, 3, 5, 9], &undecided).exact(&undecided);
        let found: Vec<_> = exact
            .iter()
            .map(|extent| (extent.first.0, extent.last.0))
            .collect();
        assert_eq!(found, [(2, 3), (5, 5), (9, 9)]);
        assert_eq!(set(&[2, 9], &undecided).newest(&ids([2, 3])), Some(Id(2)));
    }

    #[test]
    fn what_is_missing_is_what_a_plain_set_would_lack() {
        let undecided = ids((1..40).filter(|id| id % 7 != 0));
        for step in [2, 3, 5, 11] {
            for offset in 1..6 {
                let own: Vec<_> = (1..40).filter(|id| id / offset % step == 0).collect();
                let other: Vec<_> = (1..40).filter(|id| id % (step + offset) < 3).collect();
                let (one, two) = (set(&own, &undecided), set(&other, &undecided));
                let found: Vec<_> = one.missing(&two, &undecided).members(&undecided).collect();
                let lacks = other
                    .iter()
                    .filter(|id| !own.contains(id))
                    .map(|&id| Id(id));
                let wanted: Vec<_> = lacks.filter(|id| undecided.contains(id)).collect();
                assert_eq!(found, wanted, "{own:?} without {other:?}");
            }
        }
    }

    #[test]
    fn an_old_prediction_does_not_keep_what_was_decided_since() {
        let mut undecided = ids([0]);
        let mut own = set(&[0], &undecided);
        for id in 1..2000 {
            undecided.insert(Id(id));
            // Every other one is somebody else's, and lies between.
            if id % 2 == 0 {
                own.add(Id(id), &undecided);
            }
            undecided.remove(&Id(id.saturating_sub(8).max(1)));
        }
        assert!(own.extents.len() < 32, "{}", own.extents.len());
        let members: Vec<_> = own.members(&undecided).map(|id| id.0).collect();
        assert_eq!(members, [0, 1992, 1994, 1996, 1998]);
    }

    #[test]
    fn depending_on_two_thousand_alternate_predictions_in_a_row_is_one_extent() {
        let undecided = ids((0..4000).filter(|id| id % 2 == 0));
        let all: Vec<_> = (0..4000).collect();
        assert_eq!(set(&all, &undecided).extents.len(), 1);
    }
}
