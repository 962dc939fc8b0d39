//! Listings that the kernel keeps, so that an unchanged directory is listed again without a message.
//!
//! The kernel keeps what it has read through directories that were opened with its permission (`FOPEN_CACHE_DIR`), and drops that
//! when one is opened without `FOPEN_KEEP_CACHE`. It does not tell what it keeps. So all that it may read at a time is one and
//! the same list of names, and it goes on with that only if a directory that is opened now has just these names: then what is
//! kept cannot be out of date, whatever happened in between.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use surmise_remote::object::{Name, Names, ObjectId};

/// The names in a directory, in their order.
pub(super) type List = Arc<[(Name, ObjectId)]>;

/// How many names may be remembered of directories that nobody has open, which each count as one more: some 16 MB.
const NAMES_MAX: usize = 1 << 18;

/// What the kernel may keep of each directory.
#[derive(Default)]
pub(super) struct KeptListings(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    lists: HashMap<ObjectId, KeptList>,
    /// How many names those have that nobody has open.
    closed: usize,
}

struct KeptList {
    names: List,
    /// How many open directories these are read through.
    open: usize,
    /// The kernel has opened one of them by now, and so has dropped what it kept before.
    is_settled: bool,
}

/// How a directory is opened.
pub(super) struct Opening {
    pub(super) names: List,
    /// The kernel may keep what it reads.
    pub(super) is_kept: bool,
    /// What it has kept is right.
    pub(super) goes_on: bool,
}

impl KeptListings {
    /// A directory is opened that has these names.
    pub(super) fn open(&self, directory: ObjectId, names: Names) -> Opening {
        let mut kept = self.lock();
        let kept = &mut *kept;
        if let Some(list) = kept.lists.get_mut(&directory) {
            let closed = list.closed();
            if list.has(&names) {
                kept.closed -= closed;
                list.open += 1;
                return Opening {
                    names: list.names.clone(),
                    is_kept: true,
                    goes_on: list.is_settled,
                };
            }
            if list.open > 0 {
                // Other names are still being read.
                return Opening {
                    names: names.into_iter().collect(),
                    is_kept: false,
                    goes_on: false,
                };
            }
            kept.closed -= closed;
        }
        let names: List = names.into_iter().collect();
        let list = KeptList {
            names: names.clone(),
            open: 1,
            is_settled: false,
        };
        kept.lists.insert(directory, list);
        Opening {
            names,
            is_kept: true,
            goes_on: false,
        }
    }

    /// The kernel has asked for something through a directory that was opened so.
    pub(super) fn settle(&self, directory: ObjectId) {
        if let Some(list) = self.lock().lists.get_mut(&directory) {
            list.is_settled = true;
        }
    }

    /// A directory is closed that was opened so.
    pub(super) fn close(&self, directory: ObjectId) {
        let mut kept = self.lock();
        let kept = &mut *kept;
        if let Some(list) = kept.lists.get_mut(&directory) {
            list.open -= 1;
            list.is_settled = true;
            kept.closed += list.closed();
        }
        if kept.closed > NAMES_MAX {
            // Of these nothing is known any more, so the kernel drops what it has when they are opened next.
            kept.lists.retain(|_, list| list.open > 0);
            kept.closed = 0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeptList {
    /// What it counts for if nobody has it open.
    fn closed(&self) -> usize {
        match self.open {
            0 => self.names.len() + 1,
            _ => 0,
        }
    }

    fn has(&self, names: &Names) -> bool {
        let own = self.names.iter().map(|(name, object)| (name, object));
        self.names.len() == names.len() && own.eq(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[(&str, u64)]) -> Names {
        let name = |text: &str| Name::try_from(text.as_bytes()).expect("a name");
        let id = |number| ObjectId::found(number).expect("a small number");
        all.iter()
            .map(|(text, number)| (name(text), id(*number)))
            .collect()
    }

    /// What the kernel is told of a directory with these names: whether it may keep them, and whether it keeps what it has.
    fn opened(kept: &KeptListings, all: &[(&str, u64)]) -> (bool, bool) {
        let directory = ObjectId::found(7).expect("a small number");
        let opening = kept.open(directory, names(all));
        assert_eq!(opening.names.len(), all.len());
        (opening.is_kept, opening.goes_on)
    }

    #[test]
    fn the_kernel_goes_on_with_nothing_but_the_same_names() {
        let directory = ObjectId::found(7).expect("a small number");
        let kept = KeptListings::default();
        assert_eq!(opened(&kept, &[("a", 1)]), (true, false));
        // The first one may not have been opened by the kernel yet.
        assert_eq!(opened(&kept, &[("a", 1)]), (true, false));
        kept.settle(directory);
        assert_eq!(opened(&kept, &[("a", 1)]), (true, true));
        // Another object has the name, while the former one is read.
        assert_eq!(opened(&kept, &[("a", 2)]), (false, false));
        for _ in 0..3 {
            kept.close(directory);
        }
        assert_eq!(opened(&kept, &[("a", 2)]), (true, false));
        kept.close(directory);
        assert_eq!(opened(&kept, &[("a", 2), ("b", 3)]), (true, false));
        kept.close(directory);
        assert_eq!(opened(&kept, &[("a", 2), ("b", 3)]), (true, true));
        assert_eq!(opened(&kept, &[("a", 2)]), (false, false));
    }

    #[test]
    fn what_is_open_is_never_forgotten() {
        let directory = ObjectId::found(7).expect("a small number");
        let kept = KeptListings::default();
        assert_eq!(opened(&kept, &[("a", 1)]), (true, false));
        kept.settle(directory);
        let many: Vec<_> = (0..NAMES_MAX).map(|number| number.to_string()).collect();
        let many: Vec<_> = many.iter().map(|name| (&name[..], 1)).collect();
        let other = ObjectId::found(8).expect("a small number");
        kept.open(other, names(&many));
        kept.settle(other);
        assert!(kept.open(other, names(&many)).goes_on);
        kept.close(other);
        kept.close(other);
        assert!(!kept.open(other, names(&many)).goes_on);
        assert_eq!(opened(&kept, &[("a", 1)]), (true, true));
        let third = ObjectId::found(9).expect("a small number");
        kept.open(third, names(&[("b", 1)]));
        kept.close(third);
        assert!(kept.open(third, names(&[("b", 1)])).goes_on);
    }
}
