//! Whose thread a caller is: the threads of processes that have marks.
//!
//! A child of such a process is a process of its own. What it changes before it has a mark is decided, whatever its parent has
//! guessed: it was born before that.

use std::collections::{HashMap, HashSet};

use rustix::process::Pid;
use surmise_linux::proc::{self, Status};

use crate::types::MarkId;

/// The processes with marks.
#[derive(Debug, Default)]
pub(super) struct Families(HashMap<u32, Family>);

#[derive(Debug, Default)]
struct Family {
    /// What the process opened before this mark it may share with its children.
    shared_before: Option<MarkId>,
    /// Whether nobody but the view sees to it that what the process writes can be undone for others.
    is_checked: bool,
    /// The process' threads, by their numbers where the device was opened, once they were asked for.
    own: Option<HashSet<u32>>,
}

impl Families {
    /// A process has a new mark, given here where the process has borne children since its last. It may have other threads
    /// than then.
    pub(super) fn put(&mut self, process: u32, shared_before: Option<MarkId>) {
        let family = self.0.entry(process).or_default();
        family.shared_before = shared_before.or(family.shared_before);
        family.own = None;
    }

    /// What a process with a mark writes is to be checked.
    pub(super) fn check_writes(&mut self, process: u32) {
        if let Some(family) = self.0.get_mut(&process) {
            family.is_checked = true;
        }
    }

    /// Whether a process has a mark, and what it writes need not be checked.
    pub(super) fn may_write(&self, process: u32) -> bool {
        self.0
            .get(&process)
            .is_some_and(|family| !family.is_checked)
    }

    /// Forgets the others.
    pub(super) fn keep(&mut self, has_marks: impl Fn(u32) -> bool) {
        self.0.retain(|process, _| has_marks(*process));
    }

    /// What a process opened before this mark it may share with children.
    pub(super) fn shared_before(&self, process: u32) -> Option<MarkId> {
        self.0.get(&process)?.shared_before
    }

    /// Whether a thread is a process' own.
    pub(super) fn is_own(&mut self, process: u32, thread: u32) -> bool {
        let Some(family) = self.0.get_mut(&process) else {
            return false;
        };
        family.is_own(thread) || {
            // The process may have more of them by now.
            family.look(process);
            family.is_own(thread)
        }
    }

    /// The process that a thread is of, if that has marks.
    pub(super) fn of(&mut self, thread: u32) -> Option<u32> {
        self.known(thread).or_else(|| {
            for (process, family) in &mut self.0 {
                family.look(*process);
            }
            self.known(thread)
        })
    }

    /// Likewise, as far as that is known.
    pub(super) fn known(&self, thread: u32) -> Option<u32> {
        let own = |(process, family): (&u32, &Family)| family.is_own(thread).then_some(*process);
        self.0.iter().find_map(own)
    }
}

impl Family {
    fn is_own(&self, thread: u32) -> bool {
        self.own.as_ref().is_some_and(|own| own.contains(&thread))
    }

    /// Looks what threads there are.
    fn look(&mut self, process: u32) {
        let process = i32::try_from(process).ok().and_then(Pid::from_raw);
        self.own = Some(process.map_or_else(HashSet::new, threads));
    }
}

/// The threads of a process, by their numbers in the innermost namespace that they are in.
fn threads(process: Pid) -> HashSet<u32> {
    let threads = proc::threads(process).unwrap_or_default();
    let inner = threads.into_iter().map(|thread| Status::of(thread).ok());
    inner
        .flatten()
        .filter_map(|status| number_of(&status))
        .collect()
}

/// The number of a thread in the innermost namespace that it is in.
pub(super) fn inner(thread: u32) -> Option<u32> {
    let thread = i32::try_from(thread).ok().and_then(Pid::from_raw)?;
    number_of(&Status::of(thread).ok()?)
}

fn number_of(status: &Status) -> Option<u32> {
    let inner = status.inner()?;
    Some(inner.as_raw_nonzero().get().unsigned_abs())
}
