//! One way that output takes, and what is promised to it.
//!
//! Programs often end what they do with a step that they do not sync: SQLite removes its journal, git renames its
//! branch. So the first output after a sync that was put off is a promise itself, of all that was changed before it.
//!
//! Which output is the first is not known at once. A task goes on while its output waits in the pipe. So a sync may be
//! counted before that output is read, and still have come after it: then the first output after the sync is still to
//! come. But once the reader has seen the pipe empty, all later output comes after every sync that was counted by then.

use crate::epochs::{Epoch, Epochs, Stopped};

/// A stream, a terminal or a connection.
#[derive(Debug)]
pub struct Outlet {
    epochs: Epochs,
    /// What was put off before the output that was taken last.
    shown: PutOff,
    /// What was put off before this was last seen empty.
    empty: PutOff,
}

/// How many syncs were put off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PutOff(pub(crate) u64);

impl Outlet {
    /// One of this domain, of which nothing was taken yet. What others have shown something after need not be
    /// promised to it again.
    pub fn new(epochs: Epochs) -> Self {
        let shown = epochs.shown();
        Self {
            epochs,
            shown,
            empty: shown,
        }
    }

    /// To be asked before something is taken.
    pub fn before(&self) -> PutOff {
        self.epochs.put_off()
    }

    /// Something was taken, and was all that was there, or not. Returns what it depends on, as
    /// [`Epochs::of_output`].
    pub fn take(&mut self, before: PutOff, is_all: bool) -> Option<Epoch> {
        let shown = self.empty;
        if is_all {
            self.empty = before;
        }
        self.take_after(shown)
    }

    /// As [`Self::take`], of output that came after all that is counted: the task that put it out then waits for an
    /// answer to it.
    pub fn take_in_turn(&mut self) -> Option<Epoch> {
        self.empty = self.before();
        self.take_after(self.empty)
    }

    fn take_after(&mut self, shown: PutOff) -> Option<Epoch> {
        let is_first = self.epochs.put_off() != self.shown;
        self.shown = shown;
        let epoch = self.epochs.awaited(is_first);
        // After the promise: a reader that finds this has to find the promise, too.
        self.epochs.show(self.shown);
        epoch
    }

    /// As [`Self::take`], and waits until it may leave.
    ///
    /// # Errors
    /// When it never may.
    pub fn release(&mut self, before: PutOff, is_all: bool) -> Result<(), Stopped> {
        let epoch = self.take(before, is_all);
        self.epochs.await_release(epoch)
    }

    /// Of the domain.
    pub fn epochs(&self) -> &Epochs {
        &self.epochs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epochs::{Promise, Trigger};
    use crate::testing::InMemory;

    fn outlet() -> Outlet {
        Outlet::new(Epochs::new(Promise::Fsync).expect("epochs"))
    }

    fn commit(outlet: &Outlet) {
        let disk = InMemory(|| Ok(()));
        let committed = outlet.epochs().commit(&disk, Trigger::Interval);
        committed.expect("commit");
    }

    /// Takes all, and commits what that waits for. Returns whether it waited.
    fn waits(outlet: &mut Outlet) -> bool {
        let before = outlet.before();
        let epoch = outlet.take(before, true);
        commit(outlet);
        assert!(epoch.is_none_or(|epoch| outlet.epochs().is_durable(epoch)));
        epoch.is_some()
    }

    #[test]
    fn what_was_changed_after_the_last_sync_is_promised_to_the_first_output() {
        let mut outlet = outlet();
        assert!(!waits(&mut outlet));
        outlet.epochs().promise();
        commit(&outlet);
        assert_eq!(outlet.epochs().of_output(), None);
        assert!(waits(&mut outlet));
        // It may have been put out before the sync, for all that is known.
        assert!(waits(&mut outlet));
        assert!(!waits(&mut outlet) && outlet.epochs().is_clean());
    }

    #[test]
    fn a_task_that_is_ahead_of_its_output_is_promised_the_same() {
        let mut outlet = outlet();
        // This was put out before the sync, and is taken after it.
        outlet.epochs().promise();
        assert!(waits(&mut outlet));
        // And this after a step that no commit has had.
        assert!(waits(&mut outlet));
    }

    #[test]
    fn as_long_as_more_is_there_all_of_it_waits() {
        let mut outlet = outlet();
        outlet.epochs().promise();
        for _ in 0..3 {
            let before = outlet.before();
            assert!(outlet.take(before, false).is_some());
            commit(&outlet);
        }
        assert!(waits(&mut outlet) && waits(&mut outlet));
        assert!(!waits(&mut outlet));
    }

    #[test]
    fn in_turn_the_first_output_is_the_next() {
        let mut outlet = outlet();
        outlet.epochs().promise();
        assert!(outlet.take_in_turn().is_some());
        commit(&outlet);
        assert_eq!(outlet.take_in_turn(), None);
    }

    #[test]
    fn what_one_shows_is_not_shown_by_another() {
        let mut first = outlet();
        let mut second = Outlet::new(first.epochs().clone());
        first.epochs().promise();
        assert!(waits(&mut first) && waits(&mut first) && !waits(&mut first));
        assert!(waits(&mut second));
        // A new one begins where others are.
        assert!(!waits(&mut Outlet::new(first.epochs().clone())));
        first.epochs().promise();
        assert!(waits(&mut Outlet::new(first.epochs().clone())));
    }
}
