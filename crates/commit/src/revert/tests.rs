//! Taking back, on trees in memory.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use surmise_twins::model::{Domain, Tree, acts};
use surmise_view::{FileKind, InodeKey};

use super::judge::{self, Changed};
use super::places;
use super::seen::{Edited, Seen};
use crate::plan::{Edit, Plan};
use crate::site::Site;

/// What is seen of a site whose steps are taken; `before` is what it was.
fn seen(site: &Site<'_>, before: &Tree) -> Seen {
    let key = |inode: u64| site.tree.identity(inode).key();
    let found = places(site.plan).filter_map(|place| {
        let inode = site.find_at(&place)?;
        Some((place, site.tree.identity(inode)))
    });
    let directories = site.plan.directories.iter().enumerate();
    let made = directories.filter(|(_, directory)| directory.staging.is_some());
    Seen {
        found: found.collect(),
        edits: site
            .plan
            .edits
            .iter()
            .map(|edit| edited(site, before, edit))
            .collect(),
        staged: site.staged.iter().map(|inode| Some(key(*inode))).collect(),
        made: made
            .filter_map(|(index, _)| {
                let inode = site.find(index, &mut Vec::new())?;
                let names = site.tree.names(inode).map(|(name, _)| name.clone());
                Some((index, names.collect()))
            })
            .collect(),
        objects: Vec::new(),
    }
}

fn edited(site: &Site<'_>, before: &Tree, edit: &Edit) -> Edited {
    let inode = edit.key.inode;
    let mut places = edit.places.iter();
    let Some(place) = places.find(|place| site.find_at(place) == Some(inode)) else {
        return Edited::Gone;
    };
    let now = site.tree.permissions(inode);
    let made = edit.metadata.permissions;
    match now == before.permissions(inode) || Some(now) == made {
        true => Edited::Ours,
        false => Edited::Changed(place.clone()),
    }
}

fn judged(site: &Site<'_>, before: &Tree) -> Vec<Changed> {
    let directories = 0..site.plan.directories.len();
    let are_there: Vec<_> = directories
        .map(|index| site.find(index, &mut Vec::new()).is_some())
        .collect();
    let missing = judge::directories(site.plan, &are_there);
    match missing.is_empty() {
        true => judge::changed(site.plan, &[], &seen(site, before)),
        false => missing,
    }
}

/// A site at which all of a plan is applied, and nothing is removed yet.
fn applied<'p>(plan: &'p Plan, real: &Tree) -> Site<'p> {
    let mut site = Site::new(plan, real.inside());
    site.stage();
    site.apply();
    site
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// Nothing that a commit did itself looks like somebody's change, and the steps back make the tree
    /// what it was.
    #[test]
    fn what_was_applied_is_taken_back(done in acts(24)) {
        let real = Tree::planted();
        let domain = Domain::after(&real, &done);
        let keep = HashSet::<InodeKey>::new();
        let (plan, _) = Plan::of(&domain.map, ".t-", &keep, None).unwrap();
        let mut site = applied(&plan, &real);
        prop_assert_eq!(judged(&site, &real), Vec::new());
        site.take_back(&real);
        prop_assert_eq!(site.tree.shape(), real.shape());
    }

    /// Where nothing is judged to be somebody's change, no step back meets what is not the commit's, and
    /// every file but those that the domain made is still there.
    #[test]
    fn what_is_not_told_is_not_lost(done in acts(12), meanwhile in acts(4)) {
        let real = Tree::planted();
        let domain = Domain::after(&real, &done);
        let keep = HashSet::<InodeKey>::new();
        let (plan, _) = Plan::of(&domain.map, ".t-", &keep, None).unwrap();
        let mut site = applied(&plan, &real);
        // Names that the commit gave go, too, if somebody has removed all others since.
        let linked = plan.links.iter().map(|link| link.key.inode);
        let made: HashSet<_> = site.staged.iter().copied().chain(linked).collect();
        site.tree = site.tree.changed_by(&meanwhile);
        if !judged(&site, &real).is_empty() {
            return Ok(());
        }
        let before = site.tree.clone();
        site.take_back(&real);
        let after: HashMap<_, _> = site.tree.shape().into_iter().collect();
        for (path, (kind, _, which)) in before.shape() {
            let is_theirs = which.parse().is_ok_and(|inode: u64| !made.contains(&inode));
            let is_there = after.values().any(|other| other.2 == which);
            prop_assert!(!is_theirs || is_there || kind == FileKind::Directory, "{path} is gone");
        }
    }
}
