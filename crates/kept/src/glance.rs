//! What a list shows of a domain.

use surmise_changes::Changes;

use crate::domain::{Domain, Status};
use crate::error::DecideError;
use crate::outbox::Holdings;
use crate::seal::Depth;

/// A domain as a list shows it. What cannot be read is left out, so that one domain does not hide the others.
#[derive(Clone, Debug)]
pub struct Glance {
    /// What it is doing.
    pub status: Status,
    /// Whether it shows to be damaged.
    pub is_damaged: bool,
    /// What it changed so far; `None` also while a commit is unfinished.
    pub changes: Option<Changes>,
    /// What it holds at its boundary.
    pub holdings: Option<Holdings>,
}

impl Domain {
    /// Looks at the domain once: its seal is read once, whatever the number of its files.
    pub fn glance(&self) -> Glance {
        let sealed = self.check_seal(Depth::Records).map_err(DecideError::from);
        let (holdings, unsealed) = match sealed {
            Ok(()) => (Some(self.read_holdings()), None),
            Err(error) => (None, Some(error)),
        };
        let has_unsent = || matches!(&holdings, Some(Ok(holdings)) if !holdings.unsent.is_empty());
        let status = self.status_given(has_unsent);
        let is_read = status != Status::Committing && unsealed.is_none();
        let changes = is_read.then(|| self.read_changes());
        let errors = [
            unsealed.as_ref(),
            changes.as_ref().and_then(|changes| changes.as_ref().err()),
            holdings.as_ref().and_then(|held| held.as_ref().err()),
        ];
        let is_damaged = errors.into_iter().flatten().any(DecideError::is_damage);
        Glance {
            status,
            is_damaged,
            changes: changes.and_then(Result::ok),
            holdings: holdings.and_then(Result::ok),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Read;

    use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
    use surmise_journal::{Format, Journal};

    use super::*;
    use crate::error::StateError;
    use crate::seal::SealError;
    use crate::state::StateRoot;

    #[test]
    fn the_seal_is_read_once() {
        let root = tempfile::tempdir().expect("a directory");
        let state = root.path().join("t");
        fs::create_dir(&state).expect("mkdir");
        let domain = StateRoot::at(root.path()).open("t").expect("a domain");
        domain.make_durable().expect("sealed");
        let watch = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).expect("inotify");
        add_watch(&watch, state.join("seal"), WatchFlags::OPEN).expect("watch");
        let glance = domain.glance();
        assert!(!glance.is_damaged && glance.changes.is_some() && glance.holdings.is_some());
        // An event of one file is four numbers of 32 bits.
        let mut events = [0; 1024];
        let length = File::from(watch).read(&mut events).expect("an event");
        assert_eq!(length, 16, "{:?}", &events[..length]);
    }

    #[test]
    fn a_log_of_another_version_is_told_by_its_version() {
        let root = tempfile::tempdir().expect("a directory");
        let state = root.path().join("t");
        for (file, tag) in [("seal", "SEAL"), ("log", "VIEW"), ("outbox", "OUTBOX")] {
            fs::create_dir(&state).expect("mkdir");
            let format = Format { tag, version: 99 };
            drop(Journal::create_at(&state.join(file), format).expect("a log"));
            let domain = StateRoot::at(root.path()).open("t").expect("a domain");
            let error = match file {
                "outbox" => domain.holdings().map(drop),
                _ => domain.changes().map(drop),
            };
            let Err(DecideError::State(error)) = error else {
                panic!("{error:?}")
            };
            let is_version = matches!(
                &error,
                StateError::Seal {
                    source: SealError::Version { found: 99, .. },
                    ..
                }
            );
            assert!(is_version, "{error:?}");
            assert_eq!(error.hint(), "use the version of surmise that wrote it");
            let glance = domain.glance();
            assert!(!glance.is_damaged);
            fs::remove_dir_all(&state).expect("removed");
        }
    }
}
