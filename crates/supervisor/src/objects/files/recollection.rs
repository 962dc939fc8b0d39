//! What calls were found to touch, so that the view need not be asked again where nothing has changed.
//!
//! Programs look at the same names again and again: each step of a build follows the same paths to the same programs and headers.
//! Which cells a path leads through stays the same until a name on the way is changed, and every change is heard of here before it
//! happens. So what was found is good for a call that looks, as long as no cell of it may have been changed since. Where one may
//! have been, only the view knows what lies there.
//!
//! What is changed outside the domain nobody hears of. The view shows that within a second, and nothing is kept longer here.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::look::{End, Look, Manner, Share, Target};
use crate::map::Map;

const KEPT: Duration = Duration::from_secs(1);

/// Of how many looks it is kept what they touch.
const LOOKS_MAX: usize = 4096;

/// Of how many cells it is kept that what was done to them is decided.
const CELLS_MAX: usize = 4096;

/// The cells that looks touch, and what they lead to.
pub(super) type Recalled = (Vec<(u64, Share)>, Vec<End>);

/// The cells of looks, and those that may have been changed since.
#[derive(Debug, Default)]
pub(super) struct Recollection {
    found: HashMap<Look, Found>,
    /// Where callers find something else than the view.
    elsewhere: Arc<HashSet<PathBuf>>,
    /// When the first of these was found.
    since: Option<Instant>,
    changed: Map<u64, Changed>,
    /// Marks that may have changed any cell.
    unknown: BTreeSet<u64>,
    /// How often changes were decided so far: what was found before a decision may not be so after it.
    decisions: u64,
}

/// What a look was found to touch.
#[derive(Debug)]
struct Found {
    cells: Vec<(u64, Share)>,
    end: End,
    /// After how many decisions.
    after: u64,
}

/// What was done to a cell.
#[derive(Clone, Copy, Debug)]
struct Changed {
    share: Share,
    /// By which decision it was settled or undone, the last of what was done to the cell.
    decision: Option<u64>,
}

impl Recollection {
    /// The cells that looks touch, if nothing undecided can lie there, and what the looks lead to.
    pub(super) fn of(
        &mut self,
        looks: &[Look],
        elsewhere: &Arc<HashSet<PathBuf>>,
        now: Instant,
    ) -> Option<Recalled> {
        let is_old = |since: Instant| now.duration_since(since) > KEPT;
        if self.since.is_some_and(is_old) || !Arc::ptr_eq(&self.elsewhere, elsewhere) {
            self.forget();
        }
        if !self.unknown.is_empty() {
            return None;
        }
        let (mut cells, mut ends) = (Vec::new(), Vec::new());
        for look in looks {
            match (&look.target, self.found.get(look)) {
                (Target::Inode(number), _) => {
                    let cell = (*number, share(look.manner)?);
                    // It is that cell whatever was decided.
                    if !self.is_unchanged(cell, self.decisions) {
                        return None;
                    }
                    cells.push(cell);
                    ends.push(End::Unknown);
                }
                (Target::Path { .. }, Some(found)) => {
                    let mut all = found.cells.iter();
                    if !all.all(|cell| self.is_unchanged(*cell, found.after)) {
                        return None;
                    }
                    cells.extend_from_slice(&found.cells);
                    ends.push(found.end);
                }
                (Target::Path { .. }, None) => return None,
            }
        }
        Some((cells, ends))
    }

    /// Whether all that was done to a cell, and that matters to such a share of it, was decided among so many first decisions.
    fn is_unchanged(&self, (cell, share): (u64, Share), after: u64) -> bool {
        let Some(changed) = self.changed.get(&cell) else {
            return true;
        };
        let is_over = changed.decision.is_some_and(|decision| decision <= after);
        is_over || !changed.share.is_ordered_with(share)
    }

    /// Looks were found to touch these cells, and no others, and to lead to these ends.
    pub(super) fn learn(
        &mut self,
        looks: &[Look],
        elsewhere: &Arc<HashSet<PathBuf>>,
        (cells, ends): (&[(u64, Share)], &[End]),
        now: Instant,
    ) {
        let ([look], [end]) = (looks, ends) else {
            return;
        };
        if !depends_on_names_alone(look) {
            return;
        }
        if self.found.len() >= LOOKS_MAX || !Arc::ptr_eq(&self.elsewhere, elsewhere) {
            self.forget();
        }
        self.elsewhere = Arc::clone(elsewhere);
        self.since.get_or_insert(now);
        let found = Found {
            cells: cells.to_vec(),
            end: *end,
            after: self.decisions,
        };
        self.found.insert(look.clone(), found);
    }

    /// A call is let go that changes something of these cells; of any, if they are not known. `mark`: whose change it is, if
    /// that is undecided. `binds`: whether the call may change where names lead.
    pub(super) fn change(
        &mut self,
        cells: Option<&[(u64, Share)]>,
        mark: Option<u64>,
        binds: bool,
    ) {
        let Some(cells) = cells else {
            if binds {
                self.forget();
            }
            self.unknown.extend(mark);
            return;
        };
        if mark.is_none() && !binds {
            // Names lead where they led, and nothing there is undecided.
            return;
        }
        // The change happens once the call is let go. A look at the same cells that comes in between waits until it has happened.
        let decision = match mark {
            Some(_) => None,
            None => Some(self.decide_once()),
        };
        for &(cell, share) in cells {
            if matches!(share, Share::Passes | Share::Looks) {
                continue;
            }
            let changed = self.changed.entry(cell);
            let changed = changed.or_insert(Changed { share, decision });
            // What is undecided of the cell stays so.
            changed.decision = changed.decision.and(decision);
            if share == Share::Changes {
                changed.share = share;
            }
        }
        if decision.is_some() {
            self.forget_decided();
        }
    }

    /// Keeps no more cells of which all is decided than there is room for.
    fn forget_decided(&mut self) {
        if self.changed.len() > CELLS_MAX {
            self.forget();
            self.changed.retain(|_, changed| changed.decision.is_none());
        }
    }

    fn decide_once(&mut self) -> u64 {
        self.decisions += 1;
        self.decisions
    }

    /// These marks are decided, and others only if they are `left`.
    pub(super) fn decide(&mut self, marks: &[u64], left: bool) {
        let mut was_unknown = false;
        for mark in marks {
            was_unknown |= self.unknown.remove(mark);
        }
        if was_unknown {
            self.forget();
        }
        if left {
            return;
        }
        // What a mark has changed may be undone now: so what was found while the mark was undecided is no more to be relied on
        // than what was found before.
        let decision = self.decide_once();
        for changed in self.changed.values_mut() {
            changed.decision.get_or_insert(decision);
        }
        self.forget_decided();
    }

    /// Whatever was found may be otherwise now.
    pub(super) fn forget(&mut self) {
        self.found.clear();
        self.since = None;
    }
}

/// What such a look does to the inode that is its target, as the view has it (`view/touches.rs`); `None` in doubt.
fn share(manner: Manner) -> Option<Share> {
    match manner {
        Manner::Passes | Manner::Opens { changes: false, .. } => Some(Share::Passes),
        Manner::Looks | Manner::Lists => Some(Share::Looks),
        Manner::Links => Some(Share::Commutes),
        Manner::Changes | Manner::Opens { .. } => Some(Share::Changes),
        Manner::Binds | Manner::Executes => None,
    }
}

/// Whether nothing but names tells what a look touches. What is executed has interpreters, which its data name; and what is made
/// has none before.
fn depends_on_names_alone(look: &Look) -> bool {
    let is_path = matches!(look.target, Target::Path { .. });
    is_path
        && match look.manner {
            Manner::Passes | Manner::Looks | Manner::Lists => true,
            Manner::Opens { creates, changes } => !creates && !changes,
            Manner::Links | Manner::Changes | Manner::Binds | Manner::Executes => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::files::Target;

    fn look(path: &str, manner: Manner) -> [Look; 1] {
        let target = Target::Path {
            base: "/".into(),
            path: path.into(),
            follows: true,
        };
        [Look { target, manner }]
    }

    /// A name in a directory, cells 2 and 1.
    const CELLS: [(u64, Share); 2] = [(1, Share::Passes), (2, Share::Looks)];

    const FOUND: (&[(u64, Share)], &[End]) = (&CELLS, &[End::File]);

    fn told() -> (Vec<(u64, Share)>, Vec<End>) {
        (FOUND.0.to_vec(), FOUND.1.to_vec())
    }

    fn that_has_learnt(now: Instant) -> (Recollection, Arc<HashSet<PathBuf>>) {
        let elsewhere = Arc::default();
        let mut recollection = Recollection::default();
        recollection.learn(&look("/a", Manner::Looks), &elsewhere, FOUND, now);
        (recollection, elsewhere)
    }

    const MARK: u64 = 7;

    #[test]
    fn what_was_found_is_told_until_a_cell_may_have_changed() {
        use Share::{Changes, Commutes, Looks};
        let now = Instant::now();
        for (changed, is_told) in [
            (Some(&[][..]), true),
            (Some(&[(2, Looks)]), true),
            (Some(&[(3, Changes)]), true),
            // Another name in the same directory.
            (Some(&[(1, Commutes), (3, Changes)]), true),
            (Some(&[(1, Changes)]), false),
            (Some(&[(2, Changes)]), false),
            (Some(&[(2, Changes), (2, Commutes)]), false),
            (None, false),
        ] {
            let (mut recollection, elsewhere) = that_has_learnt(now);
            recollection.change(changed, Some(MARK), true);
            let told = recollection.of(&look("/a", Manner::Looks), &elsewhere, now);
            assert_eq!(told.is_some(), is_told, "{changed:?}");
        }
    }

    #[test]
    fn what_was_found_before_a_change_is_not_told_after_the_decision() {
        let now = Instant::now();
        for cells in [Some(&[(2, Share::Changes)][..]), None] {
            let (mut recollection, elsewhere) = that_has_learnt(now);
            recollection.change(cells, Some(MARK), true);
            let asked = look("/a", Manner::Looks);
            recollection.decide(&[MARK - 1], true);
            assert_eq!(recollection.of(&asked, &elsewhere, now), None);
            recollection.decide(&[MARK], cells.is_none());
            assert_eq!(recollection.of(&asked, &elsewhere, now), None);
            recollection.learn(&asked, &elsewhere, FOUND, now);
            let told = recollection.of(&asked, &elsewhere, now);
            assert_eq!(told, Some(self::told()));
        }
    }

    #[test]
    fn a_change_that_is_decided_at_once_may_lead_names_elsewhere() {
        let now = Instant::now();
        for (binds, is_told) in [(true, false), (false, true)] {
            let (mut recollection, elsewhere) = that_has_learnt(now);
            recollection.change(Some(&[(2, Share::Changes)]), None, binds);
            let told = recollection.of(&look("/a", Manner::Looks), &elsewhere, now);
            assert_eq!(told.is_some(), is_told);
        }
    }

    #[test]
    fn a_decision_leaves_what_touches_no_cell_that_was_changed() {
        use Share::{Changes, Passes};
        const OTHERS: [(u64, Share); 2] = [(1, Passes), (3, Changes)];
        let now = Instant::now();
        let (mut recollection, elsewhere) = that_has_learnt(now);
        let [kept, lost] = ["/a", "/b"].map(|path| look(path, Manner::Looks));
        recollection.change(Some(&OTHERS), Some(MARK), true);
        // What lies there now may be undone.
        let others = [(1, Passes), (3, Share::Looks)];
        let found = (&others[..], &[End::File][..]);
        recollection.learn(&lost, &elsewhere, found, now);
        for is_left in [true, false] {
            recollection.decide(&[MARK], is_left);
            assert_eq!(recollection.of(&lost, &elsewhere, now), None);
            assert_eq!(recollection.of(&kept, &elsewhere, now), Some(told()));
        }
        recollection.learn(&lost, &elsewhere, found, now);
        assert!(recollection.of(&lost, &elsewhere, now).is_some());
        // The next change of that cell begins anew, and so does one that is decided at once.
        for mark in [Some(MARK + 1), None] {
            recollection.change(Some(&OTHERS), mark, true);
            recollection.decide(&[MARK + 1], false);
            assert_eq!(recollection.of(&lost, &elsewhere, now), None, "{mark:?}");
            recollection.learn(&lost, &elsewhere, found, now);
            assert!(recollection.of(&lost, &elsewhere, now).is_some());
        }
    }

    #[test]
    fn of_cells_that_are_decided_no_more_are_kept_than_there_is_room_for() {
        let now = Instant::now();
        let (mut recollection, elsewhere) = that_has_learnt(now);
        recollection.change(Some(&[(2, Share::Changes)]), Some(MARK), true);
        for cell in 0..3 * CELLS_MAX as u64 {
            recollection.change(Some(&[(10 + cell, Share::Changes)]), None, true);
            assert!(recollection.changed.len() <= CELLS_MAX + 1);
        }
        // What is undecided is among them, and what was found before is forgotten.
        recollection.learn(&look("/a", Manner::Looks), &elsewhere, FOUND, now);
        let told = |recollection: &mut Recollection| {
            recollection.of(&look("/a", Manner::Looks), &elsewhere, now)
        };
        assert_eq!(told(&mut recollection), None);
        recollection.decide(&[MARK], false);
        assert_eq!(told(&mut recollection), None);
    }

    #[test]
    fn only_the_same_look_is_told_and_not_for_long() {
        let now = Instant::now();
        let (mut recollection, elsewhere) = that_has_learnt(now);
        let asked = look("/a", Manner::Looks);
        for other in [look("/b", Manner::Looks), look("/a", Manner::Passes)] {
            assert_eq!(recollection.of(&other, &elsewhere, now), None);
        }
        assert!(recollection.of(&asked, &elsewhere, now + KEPT).is_some());
        let late = now + KEPT + Duration::from_nanos(1);
        assert_eq!(recollection.of(&asked, &elsewhere, late), None);
        let (mut recollection, _) = that_has_learnt(now);
        let others = Arc::default();
        assert_eq!(recollection.of(&asked, &others, now), None, "mounts");
    }

    #[test]
    fn what_depends_on_more_than_names_is_not_kept() {
        let now = Instant::now();
        let elsewhere = Arc::default();
        let mut recollection = Recollection::default();
        for manner in [Manner::Executes, Manner::Binds, Manner::Changes] {
            let asked = look("/a", manner);
            recollection.learn(&asked, &elsewhere, FOUND, now);
            let told = recollection.of(&asked, &elsewhere, now);
            assert_eq!(told, None, "{manner:?}");
        }
    }

    #[test]
    fn an_inode_is_its_own_cell() {
        let now = Instant::now();
        let (mut recollection, elsewhere) = that_has_learnt(now);
        let target = Target::Inode(9);
        let manner = Manner::Passes;
        let asked = [Look { target, manner }];
        let told = recollection.of(&asked, &elsewhere, now);
        let wanted = (vec![(9, Share::Passes)], vec![End::Unknown]);
        assert_eq!(told, Some(wanted));
        recollection.change(Some(&[(9, Share::Changes)]), Some(MARK), false);
        assert_eq!(recollection.of(&asked, &elsewhere, now), None);
    }
}
