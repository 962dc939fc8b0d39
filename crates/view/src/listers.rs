//! Whose listings tell attributes: a guess at what the lister does next.
//!
//! A listing can tell the kernel the attributes of each name (`FUSE_READDIRPLUS`), which spares a look-up of each
//! that is looked at afterwards, and costs four times what the name alone costs, in the kernel more than here. `ls -l`
//! and `rm -r` look at all that they list; `find`, a shell's `*` and an interpreter's search for modules look at
//! directories only, and at a few files. So a task that was told attributes and used none is told names next time,
//! and once names told alone are looked up, attributes again. A wrong guess costs time only.
//!
//! What the kernel knows it uses without a word. A **probe** finds that out: one file of a listing is told
//! with attributes that do not last, so that a look at it asks for them.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;

use lru::LruCache;

use crate::types::{FileKind, NodeId};

/// How many tasks are remembered.
const LISTERS_MAX: NonZeroUsize = NonZeroUsize::new(256).expect("not zero");

/// The most listings whose attributes a task must leave unused before it is told names alone.
const PATIENCE_MAX: u32 = 64;

/// After so many listings whose attributes were used, only one of [`PROBED_OF`] has a probe.
const USED_ENOUGH: u32 = 3;
const PROBED_OF: u32 = 8;

/// A listing of which this part of the files was looked up by name should have told attributes.
const LOOKED_AT_PART: u32 = 4;

/// What a listing tells of names that are not directories. Of directories it tells attributes always: who
/// walks a tree looks at each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Attributes, and those of one file do not last.
    Probed,
    /// Attributes.
    Attributes,
    /// Names and kinds.
    Names,
}

impl Detail {
    /// Whether the attributes of a file of this kind are told.
    pub(crate) fn tells(self, kind: Option<FileKind>) -> bool {
        self != Self::Names || kind == Some(FileKind::Directory)
    }
}

/// What was told of a directory, and to whom.
#[derive(Debug)]
struct Told {
    lister: u32,
    detail: Detail,
    /// Names told that are not directories.
    files: u32,
    /// How many of them were looked up, or taken away, by name.
    looked_at: u32,
    probe: Option<NodeId>,
    /// Whether the attributes were used, or should have been told.
    was_used: bool,
    /// Whether it was counted among those that were not.
    counted_unused: bool,
}

/// What is known of a task that lists.
#[derive(Debug)]
struct Lister {
    last: NodeId,
    /// Listings one after another whose attributes it used, and did not use.
    used: u32,
    unused: u32,
    /// How many unused ones it takes until it is told names alone.
    patience: u32,
    listings: u32,
}

/// The tasks that list directories, and what each was told.
#[derive(Debug)]
pub(crate) struct Listers {
    listers: LruCache<u32, Lister>,
    told: HashMap<NodeId, Told>,
    /// The directory whose listing has this file for a probe.
    probes: HashMap<NodeId, NodeId>,
    /// Directories of which the kernel may remember that a name is absent.
    absent_in: HashSet<NodeId>,
}

impl Default for Listers {
    fn default() -> Self {
        Self {
            listers: LruCache::new(LISTERS_MAX),
            told: HashMap::new(),
            probes: HashMap::new(),
            absent_in: HashSet::new(),
        }
    }
}

impl Listers {
    /// What a task is to be told that begins to list a directory.
    pub(crate) fn begin(&mut self, lister: u32, directory: NodeId) -> Detail {
        let mut detail = self.detail(lister);
        // A name may have come since. To tell its attributes has the kernel forget that it was absent; else the lister
        // would not find what was listed.
        if self.absent_in.contains(&directory) && detail == Detail::Names {
            detail = Detail::Attributes;
        }
        let known = self.listers.get_or_insert_mut(lister, || Lister {
            last: directory,
            used: 0,
            unused: 0,
            patience: 1,
            listings: 0,
        });
        known.last = directory;
        known.listings = known.listings.wrapping_add(1);
        self.forget(directory);
        let told = Told {
            lister,
            detail,
            files: 0,
            looked_at: 0,
            probe: None,
            was_used: false,
            counted_unused: false,
        };
        self.told.insert(directory, told);
        detail
    }

    /// Whether what a task is to be told of a directory is in the kernel's memory of the last listing. If so, the
    /// task is the lister of that.
    pub(crate) fn remembered_is_enough(&mut self, lister: u32, directory: NodeId) -> bool {
        let detail = self.detail(lister);
        match self.told.get_mut(&directory) {
            Some(told) if told.detail == Detail::Names => {
                told.lister = lister;
                told.looked_at = 0;
                told.was_used = false;
                detail == Detail::Names
            }
            _ => true,
        }
    }

    /// So many files were told of a directory, and this one is the probe.
    pub(crate) fn told(&mut self, directory: NodeId, files: u32, probe: Option<NodeId>) {
        let Some(told) = self.told.get_mut(&directory) else {
            return;
        };
        told.files = told.files.saturating_add(files);
        // A file with several names is the probe of one directory.
        if let Some(probe) = probe
            && let Entry::Vacant(vacant) = self.probes.entry(probe)
        {
            vacant.insert(directory);
            told.probe = Some(probe);
        }
    }

    /// A file was looked up, or taken away, by its name in this directory.
    pub(crate) fn looked_up_in(&mut self, directory: NodeId) {
        let Some(told) = self.told.get_mut(&directory) else {
            return;
        };
        told.looked_at = told.looked_at.saturating_add(1);
        if told.files > 0 && told.looked_at.saturating_mul(LOOKED_AT_PART) >= told.files {
            self.used(directory);
        }
    }

    /// A file's attributes were asked for, or it was opened.
    pub(crate) fn looked_at(&mut self, file: NodeId) {
        if let Some(directory) = self.probes.remove(&file) {
            self.used(directory);
        }
    }

    /// The kernel was told that a name in this directory is absent.
    pub(crate) fn absent_in(&mut self, directory: NodeId) {
        self.absent_in.insert(directory);
    }

    /// The kernel does not know the node any more, or is told anew of it.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.absent_in.remove(&node);
        self.probes.remove(&node);
        if let Some(probe) = self.told.remove(&node).and_then(|told| told.probe) {
            self.probes.remove(&probe);
        }
    }

    fn used(&mut self, directory: NodeId) {
        let Some(told) = self.told.get_mut(&directory).filter(|told| !told.was_used) else {
            return;
        };
        told.was_used = true;
        let was_wrong = told.detail == Detail::Names || told.counted_unused;
        if let Some(lister) = self.listers.peek_mut(&told.lister) {
            lister.unused = 0;
            lister.used = lister.used.saturating_add(1);
            if was_wrong {
                lister.patience = (lister.patience * 2).min(PATIENCE_MAX);
            }
        }
    }

    /// What a task is to be told next: by now, the last listing was used or was not.
    fn detail(&mut self, lister: u32) -> Detail {
        let Some(known) = self.listers.peek_mut(&lister) else {
            return Detail::Probed;
        };
        if let Some(last) = self.told.get_mut(&known.last)
            && last.lister == lister
            && last.probe.is_some()
            && !last.was_used
            && !last.counted_unused
        {
            last.counted_unused = true;
            known.unused += 1;
            known.used = 0;
        }
        if known.unused >= known.patience {
            Detail::Names
        } else if known.used < USED_ENOUGH || known.listings.is_multiple_of(PROBED_OF) {
            Detail::Probed
        } else {
            Detail::Attributes
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: u32 = 70;

    /// Lists a directory of ten files, of which the first is node 10 times that of the directory.
    fn list(listers: &mut Listers, lister: u32, directory: u64) -> Detail {
        let detail = listers.begin(lister, NodeId(directory));
        let probe = (detail == Detail::Probed).then_some(NodeId(directory * 10));
        listers.told(NodeId(directory), 10, probe);
        detail
    }

    #[test]
    fn who_uses_no_attributes_is_told_names_from_the_second_listing_on() {
        let mut listers = Listers::default();
        assert_eq!(list(&mut listers, TASK, 2), Detail::Probed);
        for directory in 3..20 {
            assert_eq!(list(&mut listers, TASK, directory), Detail::Names);
        }
        assert_eq!(list(&mut listers, TASK + 1, 20), Detail::Probed);
    }

    #[test]
    fn who_uses_them_is_told_them_and_asked_less_often() {
        let mut listers = Listers::default();
        let mut probed = 0;
        for directory in 2..42 {
            let detail = list(&mut listers, TASK, directory);
            assert_ne!(detail, Detail::Names);
            probed += u32::from(detail == Detail::Probed);
            listers.looked_at(NodeId(directory * 10));
        }
        assert_eq!(probed, 3 + 4);
    }

    #[test]
    fn names_that_are_looked_up_bring_the_attributes_back_and_patience() {
        let mut listers = Listers::default();
        list(&mut listers, TASK, 2);
        assert_eq!(list(&mut listers, TASK, 3), Detail::Names);
        // Two of ten are not enough, three are.
        listers.looked_up_in(NodeId(3));
        listers.looked_up_in(NodeId(3));
        assert_eq!(list(&mut listers, TASK, 4), Detail::Names);
        (0..3).for_each(|_| listers.looked_up_in(NodeId(4)));
        assert_eq!(list(&mut listers, TASK, 5), Detail::Probed);
        assert_eq!(list(&mut listers, TASK, 6), Detail::Probed);
        assert_eq!(list(&mut listers, TASK, 7), Detail::Names);
    }

    #[test]
    fn a_use_that_comes_late_counts() {
        let mut listers = Listers::default();
        list(&mut listers, TASK, 2);
        assert_eq!(list(&mut listers, TASK, 3), Detail::Names);
        listers.looked_at(NodeId(20));
        assert_eq!(list(&mut listers, TASK, 4), Detail::Probed);
        assert_eq!(list(&mut listers, TASK, 5), Detail::Probed);
    }

    #[test]
    fn the_kernels_memory_of_names_is_not_enough_for_who_is_told_attributes() {
        let mut listers = Listers::default();
        list(&mut listers, TASK, 2);
        list(&mut listers, TASK, 3);
        assert!(listers.remembered_is_enough(TASK, NodeId(3)));
        assert!(!listers.remembered_is_enough(TASK + 1, NodeId(3)));
        assert!(listers.remembered_is_enough(TASK + 1, NodeId(2)));
        listers.forget(NodeId(3));
        assert!(listers.remembered_is_enough(TASK + 1, NodeId(3)));
    }

    #[test]
    fn who_lists_from_the_kernels_memory_is_the_lister() {
        let mut listers = Listers::default();
        for task in [TASK, TASK + 1] {
            list(&mut listers, task, u64::from(task));
        }
        assert_eq!(list(&mut listers, TASK, 3), Detail::Names);
        assert!(listers.remembered_is_enough(TASK + 1, NodeId(3)));
        (0..3).for_each(|_| listers.looked_up_in(NodeId(3)));
        assert_eq!(list(&mut listers, TASK + 1, 4), Detail::Probed);
        assert_eq!(list(&mut listers, TASK, 5), Detail::Names);
    }

    #[test]
    fn where_a_name_was_absent_names_are_not_told_alone() {
        let mut listers = Listers::default();
        list(&mut listers, TASK, 2);
        listers.absent_in(NodeId(3));
        assert_eq!(list(&mut listers, TASK, 3), Detail::Attributes);
        assert_eq!(list(&mut listers, TASK, 3), Detail::Names);
    }

    #[test]
    fn a_file_with_two_names_is_the_probe_of_one_directory() {
        let mut listers = Listers::default();
        for (task, directory) in [(TASK, 2), (TASK + 1, 3)] {
            assert_eq!(listers.begin(task, NodeId(directory)), Detail::Probed);
            listers.told(NodeId(directory), 10, Some(NodeId(20)));
        }
        listers.forget(NodeId(3));
        listers.looked_at(NodeId(20));
        assert_eq!(list(&mut listers, TASK, 4), Detail::Probed);
    }

    #[test]
    fn a_directory_without_files_says_nothing() {
        let mut listers = Listers::default();
        for directory in 2..9 {
            assert_eq!(listers.begin(TASK, NodeId(directory)), Detail::Probed);
            listers.told(NodeId(directory), 0, None);
        }
        assert!(Detail::Names.tells(Some(FileKind::Directory)));
        assert!(!Detail::Names.tells(None));
    }
}
