//! Why syncs were made at once: told afterwards, so that somebody can do something about it.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use surmise_linux::proc;

/// How many different ones are told; whatever else there is goes by the name of [`Reason::Further`].
const KINDS_MAX: usize = 12;

/// How many characters of a file's path are told, the last ones.
const PATH_MAX: usize = 200;

/// Why a sync was made at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum Reason {
    /// A process had a file of the volume mapped, shared, and could store into it.
    Mapped {
        /// What was mapped.
        file: String,
        /// The process' name.
        program: String,
    },
    /// A process had mapped a file elsewhere, shared, and could store into it.
    MappedElsewhere {
        /// What was mapped.
        file: String,
        /// The process' name.
        program: String,
    },
    /// A process had something elsewhere open for writing.
    OpenElsewhere {
        /// What was open.
        file: String,
        /// The process' name.
        program: String,
    },
    /// A call that maps or opens such a file was under way.
    Opening {
        /// The call's name.
        call: String,
        /// The process' name.
        program: String,
    },
    /// A process was connected to a Unix socket of somebody outside.
    Connected {
        /// The process' name.
        program: String,
    },
    /// The processes could not be looked at, or what the call leads to.
    NotSeen {
        /// Why not.
        error: String,
    },
    /// It was asked for something on another file system.
    NotOfVolume,
    /// It was asked for a file whose changes the file system does not order.
    NotOrdered,
    /// Its descriptor or its arguments are none that a sync takes; the kernel names the error.
    NotSyncable,
    /// It was asked for a map (msync(2)).
    OfMap,
    /// It was asked for everything, and something elsewhere had been changed.
    ChangedElsewhere,
    /// Nearly each one before it had been waited for.
    DoesNotPay,
    /// More reasons than are told.
    Further,
}

/// A reason, and of how many syncs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Why.
    #[serde(flatten)]
    pub reason: Reason,
    /// How many were made at once because of it.
    pub count: u64,
}

/// All reasons so far, counted by one thread and told by another.
#[derive(Clone, Debug, Default)]
pub struct Reasons(Arc<Mutex<Vec<Counted>>>);

impl Reasons {
    pub(crate) fn count(&self, reason: Reason) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let reason = match all.len() >= KINDS_MAX && !all.iter().any(|one| one.reason == reason) {
            true => Reason::Further,
            false => reason,
        };
        match all.iter_mut().find(|one| one.reason == reason) {
            Some(one) => one.count += 1,
            None => all.push(Counted { reason, count: 1 }),
        }
    }

    /// Those of most syncs first.
    pub fn counted(&self) -> Vec<Counted> {
        let mut all = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        all.sort_by_key(|one| std::cmp::Reverse(one.count));
        all
    }
}

/// A file's path as it is told.
pub(crate) fn shown(path: &Path) -> String {
    let path = path.to_string_lossy();
    let count = path.chars().count();
    match count > PATH_MAX {
        true => ['…']
            .into_iter()
            .chain(path.chars().skip(count - PATH_MAX))
            .collect(),
        false => path.into_owned(),
    }
}

/// The name of a process, or a thread.
pub(crate) fn program(process: Pid) -> String {
    // It may have ended.
    proc::name(process).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(number: u32) -> Reason {
        Reason::Mapped {
            file: format!("/mnt/{number}"),
            program: "one".into(),
        }
    }

    #[test]
    fn reasons_are_counted_and_those_of_most_syncs_come_first() {
        let reasons = Reasons::default();
        for number in [1, 2, 2, 3, 2, 3] {
            reasons.count(mapped(number));
        }
        let counted: Vec<_> = reasons
            .counted()
            .into_iter()
            .map(|one| (one.reason, one.count))
            .collect();
        assert_eq!(counted, [(mapped(2), 3), (mapped(3), 2), (mapped(1), 1)]);
    }

    #[test]
    fn no_more_are_told_than_can_be_read() {
        let reasons = Reasons::default();
        for number in 0..100 {
            reasons.count(mapped(number));
            reasons.count(mapped(0));
        }
        let counted = reasons.counted();
        assert_eq!(counted.len(), KINDS_MAX + 1);
        assert_eq!((&counted[0].reason, counted[0].count), (&mapped(0), 101));
        assert_eq!(
            (&counted[1].reason, counted[1].count),
            (&Reason::Further, 88)
        );
    }

    #[test]
    fn of_a_long_path_the_end_is_told() {
        assert_eq!(shown(Path::new("/mnt/file")), "/mnt/file");
        let long = format!("/{}/file", "ä".repeat(300));
        let told = shown(Path::new(&long));
        assert!(told.starts_with('…') && told.ends_with("/file"), "{told}");
        assert_eq!(told.chars().count(), PATH_MAX + 1);
    }

    #[test]
    fn a_process_has_a_name_and_one_that_has_ended_has_none() {
        let own = rustix::process::getpid();
        assert!(!program(own).is_empty());
        let nobody = Pid::from_raw(i32::MAX).expect("a number");
        assert_eq!(program(nobody), "");
    }
}
