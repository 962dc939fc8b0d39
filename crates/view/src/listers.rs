//! Whose listings tell attributes: a guess at what the lister does next.
//!
//! A listing can tell the kernel the attributes of each name (`FUSE_READDIRPLUS`). That spares a message for each file that
//! the lister looks at afterwards, and costs several times what the name alone costs, in the kernel more than here. `ls -l`
//! and `rm -r` look at all that they list; `find -name`, a shell's `*` and an interpreter's search for modules look at
//! directories and a few files. So a task that used no attributes of a listing is told names alone in the next one. When it
//! looks these up, it is told attributes again. A wrong guess costs time only.
//!
//! The kernel does not say when it uses attributes that it has. So a listing has a **probe**: one file whose attributes are
//! told as out of date at once. A look at this file asks for them.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;

use lru::LruCache;

use crate::types::{FileKind, NodeId};

/// How many tasks are remembered.
const LISTERS_MAX: NonZeroUsize = NonZeroUsize::new(256).expect("not zero");

/// The most listings whose attributes a task must leave unused before it is told names alone.
const PATIENCE_MAX: u32 = 64;

/// After so many listings whose attributes were used, only one in [`PROBED_OF`] has a probe.
const USED_ENOUGH: u32 = 3;
const PROBED_OF: u32 = 8;

/// A listing of which this part of the files was looked up by name should have told attributes.
const LOOKED_AT_PART: u32 = 4;

/// What a listing tells of names that are not directories. Of directories it tells attributes always: a task that
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
    attributes: Attributes,
}

/// What became of a listing's attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attributes {
    /// Nobody has used them yet.
    Open,
    /// The lister began its next listing without having used them.
    Unused,
    /// They were used, or should have been told.
    Used,
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

impl Lister {
    fn new(last: NodeId) -> Self {
        Self {
            last,
            used: 0,
            unused: 0,
            patience: 1,
            listings: 0,
        }
    }

    /// What its next listing tells.
    fn next(&self) -> Detail {
        if self.unused >= self.patience {
            Detail::Names
        } else if self.used < USED_ENOUGH || self.listings.is_multiple_of(PROBED_OF) {
            Detail::Probed
        } else {
            Detail::Attributes
        }
    }
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
        self.settle(lister);
        let known = self
            .listers
            .get_or_insert_mut(lister, || Lister::new(directory));
        let detail = match known.next() {
            // A name may have come since. To tell its attributes has the kernel forget that it was absent; else the lister
            // would not find what was listed.
            Detail::Names if self.absent_in.contains(&directory) => Detail::Attributes,
            detail => detail,
        };
        known.last = directory;
        known.listings = known.listings.wrapping_add(1);
        self.forget(directory);
        let told = Told {
            lister,
            detail,
            files: 0,
            looked_at: 0,
            probe: None,
            attributes: Attributes::Open,
        };
        self.told.insert(directory, told);
        detail
    }

    /// A task opens a directory of which the kernel remembers the last listing. Whether that is as much as the task is to be
    /// told. If so, the task is the lister of it from now on.
    pub(crate) fn may_remember(&mut self, lister: u32, directory: NodeId) -> bool {
        self.settle(lister);
        let next = self.listers.peek(&lister).map(Lister::next);
        match self.told.get_mut(&directory) {
            Some(told) if told.detail == Detail::Names => {
                let is_enough = next == Some(Detail::Names);
                if is_enough {
                    told.lister = lister;
                    told.looked_at = 0;
                    told.attributes = Attributes::Open;
                }
                is_enough
            }
            _ => true,
        }
    }

    /// So many more files were told of a directory, and this one is the probe.
    pub(crate) fn add(&mut self, directory: NodeId, files: u32, probe: Option<NodeId>) {
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

    /// The kernel was told that a name in this directory is absent, which may change outside.
    pub(crate) fn absent_in(&mut self, directory: NodeId) {
        self.absent_in.insert(directory);
    }

    /// The kernel does not know the node any more, or is told anew of it.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.absent_in.remove(&node);
        self.probes.remove(&node);
        if let Some(probe) = self.told.remove(&node).and_then(|told| told.probe)
            && self.probes.get(&probe) == Some(&node)
        {
            self.probes.remove(&probe);
        }
    }

    fn used(&mut self, directory: NodeId) {
        let Some(told) = self.told.get_mut(&directory) else {
            return;
        };
        let before = std::mem::replace(&mut told.attributes, Attributes::Used);
        if before == Attributes::Used {
            return;
        }
        let was_wrong = told.detail == Detail::Names || before == Attributes::Unused;
        if let Some(lister) = self.listers.peek_mut(&told.lister) {
            lister.unused = 0;
            lister.used = lister.used.saturating_add(1);
            if was_wrong {
                lister.patience = (lister.patience * 2).min(PATIENCE_MAX);
            }
        }
    }

    /// A task is about to list: what it has not used of its last listing by now counts as unused.
    fn settle(&mut self, lister: u32) {
        let Some(known) = self.listers.peek_mut(&lister) else {
            return;
        };
        if let Some(last) = self.told.get_mut(&known.last)
            && last.lister == lister
            && last.probe.is_some()
            && last.attributes == Attributes::Open
        {
            last.attributes = Attributes::Unused;
            known.unused += 1;
            known.used = 0;
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
        listers.add(NodeId(directory), 10, probe);
        detail
    }

    #[test]
    fn a_task_that_uses_no_attributes_is_told_names_from_the_second_listing_on() {
        let mut listers = Listers::default();
        assert_eq!(list(&mut listers, TASK, 2), Detail::Probed);
        for directory in 3..20 {
            assert_eq!(list(&mut listers, TASK, directory), Detail::Names);
        }
        assert_eq!(list(&mut listers, TASK + 1, 20), Detail::Probed);
    }

    #[test]
    fn a_task_that_uses_attributes_is_told_them_and_probed_less_often() {
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
    fn the_kernels_memory_of_names_is_not_enough_for_a_task_that_is_told_attributes() {
        let mut listers = Listers::default();
        list(&mut listers, TASK, 2);
        list(&mut listers, TASK, 3);
        assert!(listers.may_remember(TASK, NodeId(3)));
        assert!(!listers.may_remember(TASK + 1, NodeId(3)));
        assert!(listers.may_remember(TASK + 1, NodeId(2)));
        listers.forget(NodeId(3));
        assert!(listers.may_remember(TASK + 1, NodeId(3)));
    }

    #[test]
    fn a_task_that_lists_from_the_kernels_memory_is_the_lister() {
        let mut listers = Listers::default();
        for task in [TASK, TASK + 1] {
            list(&mut listers, task, u64::from(task));
        }
        assert_eq!(list(&mut listers, TASK, 3), Detail::Names);
        assert!(listers.may_remember(TASK + 1, NodeId(3)));
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
            listers.add(NodeId(directory), 10, Some(NodeId(20)));
        }
        listers.forget(NodeId(3));
        listers.looked_at(NodeId(20));
        assert_eq!(list(&mut listers, TASK, 4), Detail::Probed);
        // By now it is that of another directory, which the end of the first does not change.
        assert_eq!(listers.begin(TASK + 2, NodeId(5)), Detail::Probed);
        listers.add(NodeId(5), 10, Some(NodeId(20)));
        listers.forget(NodeId(2));
        listers.looked_at(NodeId(20));
        assert_eq!(list(&mut listers, TASK + 2, 6), Detail::Probed);
    }

    #[test]
    fn a_directory_without_files_says_nothing() {
        let mut listers = Listers::default();
        for directory in 2..9 {
            assert_eq!(listers.begin(TASK, NodeId(directory)), Detail::Probed);
            listers.add(NodeId(directory), 0, None);
        }
        assert!(Detail::Names.tells(Some(FileKind::Directory)));
        assert!(!Detail::Names.tells(None));
    }
}
