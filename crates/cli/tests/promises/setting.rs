//! Who runs a test, and the commands that most tests need.

use surmise_testkit::{
    Facets, Outcome, Run, Scratch, TreeSnapshot, User, assert_same_tree, is_root, ordinary_user,
    skip,
};

/// A scratch tree and the user that works in it.
pub struct Setting {
    pub scratch: Scratch,
    pub user: Option<&'static User>,
}

/// Runs a test as the user that runs the tests.
pub fn as_own_user(test: impl Fn(&Setting)) {
    test(&Setting {
        scratch: Scratch::new(),
        user: None,
    });
}

/// Runs a test as the user that runs the tests and, where that is root, as an ordinary user too.
pub fn as_each_user(test: impl Fn(&Setting)) {
    as_own_user(&test);
    if !is_root() {
        return;
    }
    match ordinary_user() {
        Ok(user) => test(&Setting {
            scratch: Scratch::owned_by(user),
            user: Some(user),
        }),
        Err(reason) => skip(format_args!("as an ordinary user: {reason}")),
    }
}

impl Setting {
    /// The user, for a test that needs root to take something away from an ordinary one; `None` in
    /// the setting that is root's own.
    pub fn ordinary_user(&self) -> Option<&'static User> {
        if !is_root() {
            skip("to take something away from the user takes root");
        }
        self.user
    }

    /// Whether the commands run as root.
    pub fn is_root(&self) -> bool {
        is_root() && self.user.is_none()
    }

    /// `surmise` with these arguments, as the setting's user.
    pub fn surmise(&self, arguments: &[&str]) -> Run<'_> {
        self.as_user(Run::surmise(&self.scratch, arguments.iter().copied()))
    }

    /// Another command, as the setting's user.
    pub fn plain(&self, command: &[&str]) -> Run<'_> {
        self.as_user(Run::plain(&self.scratch, command.iter().copied()))
    }

    /// `surmise run --name t -- sh -c SCRIPT`, which must exit 0 and keep the domain.
    #[track_caller]
    pub fn run_script(&self, script: &str) -> Outcome {
        let outcome = self
            .surmise(&["run", "--name", "t", "--", "sh", "-ec", script])
            .outcome();
        outcome.assert_success();
        outcome
    }

    /// `surmise` with these arguments, which must exit 0.
    #[track_caller]
    pub fn succeed(&self, arguments: &[&str]) -> Outcome {
        let outcome = self.surmise(arguments).outcome();
        outcome.assert_success();
        outcome
    }

    /// An empty scratch tree of the same user, for plain runs to compare with.
    pub fn twin(&self) -> Self {
        Self {
            scratch: match self.user {
                Some(user) => Scratch::owned_by(user),
                None => Scratch::new(),
            },
            user: self.user,
        }
    }

    /// Runs a script in a domain that is committed and once plainly in `twin`, and expects equal
    /// trees.
    #[track_caller]
    pub fn commits_as_plain(&self, twin: &Self, script: &str) {
        self.run_script(script);
        self.succeed(&["commit", "t"]);
        twin.plain(&["sh", "-ec", script])
            .outcome()
            .assert_success();
        assert_same_tree(
            &TreeSnapshot::of(twin.scratch.work()),
            &TreeSnapshot::of(self.scratch.work()),
            Facets::SAME_RESULT,
        );
    }

    fn as_user<'a>(&self, run: Run<'a>) -> Run<'a> {
        let run = run.seconds(60);
        match self.user {
            Some(user) => run.user(user),
            None => run,
        }
    }
}
