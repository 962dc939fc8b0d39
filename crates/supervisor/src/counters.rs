//! What a supervisor counts while it answers calls: by types, since some calls come a hundred thousand times.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::time::Duration;

use surmise_syscalls::Syscall;

use crate::kind::Kind;
use crate::map::Map;
use crate::stats::{Call, Effort, Stats};

/// All that is counted.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// What is of no call and no kind of object.
    pub(crate) totals: Stats,
    calls: Map<Syscall, Call>,
    objects: Map<Kind, u64>,
    undone: Map<Kind, u64>,
    cascades_through: Map<Kind, u64>,
    waits: Map<Kind, Effort>,
}

impl Counters {
    /// What became of a call so far.
    pub(crate) fn call(&mut self, name: Syscall) -> &mut Call {
        self.calls.entry(name).or_default()
    }

    /// An object of a kind was met.
    pub(crate) fn met(&mut self, kind: Kind) {
        *self.objects.entry(kind).or_default() += 1;
    }

    /// What had been done to an object of a kind was taken back.
    pub(crate) fn undone(&mut self, kind: Kind) {
        *self.undone.entry(kind).or_default() += 1;
    }

    /// One abort rolled back more than one task, and took back what had been done to objects of these kinds.
    pub(crate) fn cascade(&mut self, kinds: &BTreeSet<Kind>) {
        self.totals.cascades += 1;
        for kind in kinds {
            *self.cascades_through.entry(*kind).or_default() += 1;
        }
    }

    /// A call, or a signal if it has no name, has waited for a kind of object.
    pub(crate) fn waited(&mut self, call: Option<Syscall>, kind: Kind, time: Duration) {
        if let Some(name) = call {
            self.call(name).waits.add(time);
        }
        self.waits.entry(kind).or_default().add(time);
    }

    /// So many requests have waited in the view, on changes of files.
    pub(crate) fn waited_in_view(&mut self, waited: Effort) {
        if waited.count > 0 {
            let waits = self.waits.entry(Kind::ChangedFile).or_default();
            waits.count += waited.count;
            waits.time += waited.time;
        }
    }

    /// The same for people and programs, by name.
    pub(crate) fn into_stats(self) -> Stats {
        Stats {
            calls: named(self.calls, Syscall::as_str),
            objects: named(self.objects, Kind::name),
            undone: named(self.undone, Kind::name),
            cascades_through: named(self.cascades_through, Kind::name),
            waits: named(self.waits, Kind::name),
            ..self.totals
        }
    }
}

fn named<K: Hash + Eq, V>(
    counted: Map<K, V>,
    name: impl Fn(K) -> &'static str,
) -> BTreeMap<String, V> {
    let counted = counted.into_iter();
    counted
        .map(|(key, value)| (name(key).to_owned(), value))
        .collect()
}
