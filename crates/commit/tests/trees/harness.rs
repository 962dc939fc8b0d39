//! What a command does to the copy of a tree, the same command and a commit must do to the real tree.

use std::ops::{ControlFlow, Deref};
use std::path::{Path, PathBuf};

use surmise_changes::Changes;
use surmise_commit::{
    Choice, CommitError, Conflict, ConflictKind, Progress, Report, Request, Resumed, Terms, Winner,
    commit, commit_on, pending, resume, undo,
};
use surmise_diff::Diff;
use surmise_testkit::{Facets, TreeSnapshot, assert_same_tree};

use surmise_twins::Twins;
pub use surmise_twins::{Act, each_path, plant_files, real_takes};

/// Two trees, and the commit that makes them equal again.
pub struct World(Twins);

impl Deref for World {
    type Target = Twins;

    fn deref(&self) -> &Twins {
        &self.0
    }
}

impl World {
    /// Two equal trees, made by `plant`.
    pub fn new(plant: impl Fn(&Path)) -> Self {
        Self(Twins::new(plant))
    }

    /// The same, with the state directory below `place`.
    pub fn with_state_in(place: &Path, plant: impl Fn(&Path)) -> Self {
        Self(Twins::with_state_in(place, plant))
    }

    /// The same, with the trees below `trees` and the state directory below `state`.
    pub fn between(trees: &Path, state: &Path, plant: impl Fn(&Path)) -> Self {
        Self(Twins::between(trees, state, plant))
    }

    /// As [`Twins::act`].
    pub fn act(&self, acts: &[Act]) -> &Self {
        self.0.act(acts);
        self
    }

    /// As [`Twins::let_go`].
    pub fn let_go(&mut self) {
        self.0.let_go();
    }
}

impl World {
    pub fn lines(&self) -> Vec<String> {
        let diff = Diff::without_notes(Changes::of(&self.map()));
        diff.iter().map(|row| row.line(Path::new("/"))).collect()
    }

    pub fn commit(&self) -> Result<Report, CommitError> {
        self.commit_with(None, &mut |_| ControlFlow::Continue(()))
    }

    pub fn commit_with(
        &self,
        keep: Option<&Path>,
        on_progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Report, CommitError> {
        self.request(keep, |request| commit(request, on_progress))
    }

    fn request<R>(&self, keep: Option<&Path>, ask: impl FnOnce(&Request<'_>) -> R) -> R {
        let (map, directory, root) = (self.map(), self.state(), self.real());
        ask(&Request {
            name: "t",
            directory: &directory,
            map: &map,
            root: &root,
            keep,
        })
    }

    /// Expects these conflicts, by their paths in the tree.
    #[track_caller]
    pub fn assert_conflicts(&self, found: Vec<Conflict>, wanted: &[(&str, ConflictKind)]) {
        let found = found.into_iter().map(|conflict| {
            let path = conflict.path.strip_prefix(self.real()).unwrap();
            (path.to_owned(), conflict.what)
        });
        let wanted = wanted.iter();
        let wanted = wanted.map(|(path, what)| (PathBuf::from(path), *what));
        assert_eq!(found.collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
    }

    /// Commits, and expects the real tree to become the copy.
    #[track_caller]
    pub fn assert_commits(&self) {
        let report = self.commit().unwrap_or_else(|error| failed(&error));
        assert_eq!(report, Report::default());
        self.assert_same();
    }

    /// Commits, but stops as a kill would before the step `stop`; `None` when there are fewer steps.
    pub fn commit_until(&self, stop: usize) -> Option<()> {
        match self.commit_with(None, &mut stop_after(stop)) {
            Err(CommitError::Stopped) => Some(()),
            Ok(_) => None,
            Err(error) => failed(&error),
        }
    }

    /// Resumes until the end, stopping on the way before each of the steps `stops`.
    pub fn resume(&self, stops: &[usize]) -> Resumed {
        for stop in stops {
            match resume(&self.state(), &mut stop_after(*stop)) {
                Err(CommitError::Stopped) => {}
                Ok(resumed) => return resumed,
                Err(error) => failed(&error),
            }
        }
        let resumed = resume(&self.state(), &mut |_| ControlFlow::Continue(()));
        resumed.unwrap_or_else(|error| failed(&error))
    }

    /// Commits with every conflict at and below `path` settled for `winner`.
    pub fn commit_for(&self, winner: Winner, paths: &[&str]) -> Result<Report, CommitError> {
        let choices = paths.iter().map(|path| Choice {
            path: match path.is_empty() {
                true => self.real(),
                false => self.real().join(path),
            },
            winner,
        });
        let choices: Vec<_> = choices.collect();
        self.commit_on(Terms {
            choices: &choices,
            is_strict: false,
        })
    }

    /// Commits on these terms.
    pub fn commit_on(&self, terms: Terms<'_>) -> Result<Report, CommitError> {
        self.request(None, |request| {
            commit_on(request, terms, &mut |_| ControlFlow::Continue(()))
        })
    }

    /// Takes back a commit that was cut short, stopping on the way before each of the steps `stops`, as
    /// kills would. `false` when it is too late for that, and nothing has been done.
    #[track_caller]
    pub fn undo(&self, stops: &[usize]) -> bool {
        for stop in stops {
            match undo(&self.state(), &mut stop_after(*stop)) {
                Err(CommitError::Stopped) => {}
                Err(CommitError::TooLate) => return false,
                Ok(()) => return true,
                Err(error) => failed(&error),
            }
        }
        match undo(&self.state(), &mut |_| ControlFlow::Continue(())) {
            Err(CommitError::TooLate) => false,
            Ok(()) => true,
            Err(error) => failed(&error),
        }
    }

    /// Expects the real tree to be as it was, and the domain to be ready for another commit.
    #[track_caller]
    pub fn assert_undone(&self, before: &TreeSnapshot) {
        let untouched = Facets {
            ctime: false,
            ..Facets::EXACT
        };
        assert_same_tree(before, &TreeSnapshot::of(self.real()), untouched);
        assert_eq!(pending(&self.state()).unwrap(), None);
        assert!(!self.state().join("commit.undo").exists());
    }
}

/// Shows an error with everything in it.
#[track_caller]
fn failed<T>(error: &CommitError) -> T {
    panic!("{error}: {error:?}")
}

fn stop_after(steps: usize) -> impl FnMut(Progress) -> ControlFlow<()> {
    let mut left = steps;
    move |_| match left {
        0 => ControlFlow::Break(()),
        _ => {
            left -= 1;
            ControlFlow::Continue(())
        }
    }
}
