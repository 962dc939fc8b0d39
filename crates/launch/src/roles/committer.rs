//! The committer: makes real what a running domain has changed so far, while its tasks stand still.
//!
//! A process of its own, because control sleeps on no disk, and because the person who asked may go
//! away: that only cancels a commit that has not passed its point of no return.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use surmise_changes::Changes;
use surmise_commit::{
    Activity, CommitError, OnProgress, Progress, Report, Request, Resumed, Terms,
};
use surmise_kept::Link;
use surmise_kept::doorway::{ReadChanged, Refusal, Reply, fit};

use surmise_sync::{Epochs, Stopped};

use crate::message::Order;

/// Between two messages that tell of progress.
const REFRESH: Duration = Duration::from_millis(50);

/// Lines of a refusal; what is more is counted.
const DETAILS_MAX: usize = 100;

/// All lines of a refusal or report, in bytes as a message has them, so that it can have more than these.
const LINES_BYTES_MAX: usize = 16 << 10;

/// Longest error of a refusal, in characters: it may tell of a path.
const ERROR_MAX: usize = 4 << 10;

/// What the committer is given. It keeps these links and no other descriptor.
pub(crate) struct Committer<'a> {
    pub(crate) name: &'a str,
    pub(crate) root: &'a Path,
    pub(crate) state: &'a Path,
    pub(crate) control: &'a Link,
    /// Who asked.
    pub(crate) client: &'a Link,
    /// Whether what was merely read and has changed is a conflict.
    pub(crate) is_strict: bool,
    /// What has to be durable before anything is shown, under external synchrony.
    pub(crate) epochs: Option<&'a Epochs>,
}

/// From the committer to control.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Outcome {
    /// The real tree is what the view shows. The journal still says so: it goes when control says
    /// that the view knows.
    Applied {
        changes: usize,
        left: Vec<String>,
        read_changed: ReadChanged,
    },
    /// Nothing has changed outside.
    Refused(Refusal),
    /// It was begun and could not be finished now; a later commit finishes it.
    Broken(Refusal),
    /// The journal is gone.
    Forgotten,
}

impl Committer<'_> {
    /// The process' whole life; returns its exit status.
    pub(crate) fn live(&self) -> u8 {
        let _ = rustix::thread::set_name(c"surmise-commit");
        // A terminal's Ctrl-C is the domain's business.
        let _ = rustix::process::setsid();
        let outcome = self.commit();
        let applied = matches!(outcome, Outcome::Applied { .. });
        if self.control.send(&outcome).is_err() || !applied {
            return u8::from(!applied);
        }
        match self.control.receive() {
            Ok(Some(Order::Go)) => self.forget(),
            // Control has died: the journal stays, and says that all is applied.
            _ => 1,
        }
    }

    fn commit(&self) -> Outcome {
        if self.client.is_over() {
            return Outcome::Refused(explained(&CommitError::Stopped));
        }
        match self.settle() {
            Ok(true) => {}
            Ok(false) => return Outcome::Refused(explained(&CommitError::Stopped)),
            Err(Stopped) => {
                let error = "what was promised to be durable is not, and will not be";
                return Outcome::Refused(refusal(error.into(), None, Vec::new()));
            }
        }
        let map = match surmise_view::load(self.state) {
            Ok(map) => map,
            Err(error) => return Outcome::Refused(refusal(error.to_string(), None, Vec::new())),
        };
        let changes = Changes::of(&map).len();
        let request = Request {
            name: self.name,
            directory: self.state,
            map: &map,
            root: "/".as_ref(),
            keep: Some(self.root),
        };
        let terms = Terms {
            choices: &[],
            is_strict: self.is_strict,
        };
        let mut progress = self.on_progress();
        match surmise_commit::commit_on(&request, terms, &mut progress) {
            Ok(report) => applied(changes, &report),
            Err(error) => self.give_up(changes, error),
        }
    }

    /// Waits for the supervisor, which makes durable what was promised. A supervisor that is stopped does not, so the
    /// wait ends with the client. It ends with control, too: only control could tell of a supervisor that was killed.
    /// False if it ended so.
    fn settle(&self) -> Result<bool, Stopped> {
        self.epochs.map_or(Ok(true), |epochs| {
            epochs.settle(|| !self.client.is_over() && !self.control.is_over())
        })
    }

    /// Takes back what can be; what has passed its point of no return is tried once more.
    fn give_up(&self, changes: usize, error: CommitError) -> Outcome {
        match surmise_commit::resume(self.state, &mut |_| ControlFlow::Continue(())) {
            Ok(Resumed::Finished(report)) => applied(changes, &report),
            Ok(Resumed::Nothing | Resumed::Undone) => Outcome::Refused(explained(&error)),
            Err(_) => Outcome::Broken(explained(&error)),
        }
    }

    fn forget(&self) -> u8 {
        let forgotten = surmise_commit::forget(self.state).is_ok();
        let told = forgotten && self.control.send(&Outcome::Forgotten).is_ok();
        u8::from(!told)
    }

    /// Tells the client, and stops when it has gone.
    fn on_progress(&self) -> Box<OnProgress<'_>> {
        let mut next = Instant::now();
        Box::new(move |progress: Progress| {
            if Instant::now() < next {
                return ControlFlow::Continue(());
            }
            next = Instant::now() + REFRESH;
            // One that is too slow to take it misses it.
            let _ = self.client.try_send(&told(progress));
            // Past the point of no return there is nothing to take back.
            let cancelled = progress.activity != Activity::Apply && self.client.is_over();
            if cancelled {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
    }
}

fn told(progress: Progress) -> Reply {
    Reply::Progress {
        activity: progress.activity.name().into(),
        done: progress.done,
        total: progress.total,
    }
}

fn applied(changes: usize, report: &Report) -> Outcome {
    let left = report.left.iter();
    let left = left.map(|left| format!("{}: {}", left.path.display(), left.reason));
    Outcome::Applied {
        changes,
        left: bounded(left.collect()),
        read_changed: ReadChanged::of(&report.read_changed),
    }
}

fn explained(error: &CommitError) -> Refusal {
    let details = match error {
        CommitError::Conflicts(conflicts) => lines(conflicts),
        CommitError::Obstacles(obstacles) => lines(obstacles),
        _ => Vec::new(),
    };
    refusal(error.to_string(), Some(error.hint().into()), details)
}

fn lines(items: &[impl std::fmt::Display]) -> Vec<String> {
    items.iter().map(ToString::to_string).collect()
}

fn refusal(error: String, hint: Option<String>, details: Vec<String>) -> Refusal {
    Refusal {
        error: error.chars().take(ERROR_MAX).collect(),
        details: bounded(details),
        hint,
    }
}

fn bounded(mut lines: Vec<String>) -> Vec<String> {
    let more = fit(&mut lines, DETAILS_MAX, LINES_BYTES_MAX);
    if more > 0 {
        lines.push(format!("… and {more} more"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use surmise_commit::{Conflict, ConflictKind};

    use super::*;

    #[test]
    fn what_a_commit_tells_fits_a_message_whatever_the_names() {
        for name in ["x", "\u{1}", "é", "\u{1f600}"] {
            let path = name.repeat(4095 / name.len());
            let lines = vec![format!("{path}: it has changed"); 5000];
            let refusal = refusal(path.repeat(2), None, lines);
            let text = serde_json::to_string(&Outcome::Refused(refusal)).expect("plain data");
            assert!(text.len() < 48 << 10, "{} bytes of {name:?}", text.len());
            assert!(text.contains("more"), "the rest is counted");
            let conflict = Conflict {
                path: path.into(),
                what: ConflictKind::ReadChanged,
            };
            let report = Report {
                read_changed: vec![conflict; 5000],
                ..Report::default()
            };
            let text = serde_json::to_string(&applied(1, &report)).expect("plain data");
            assert!(text.len() < 16 << 10, "{} bytes of {name:?}", text.len());
            assert!(text.contains("5000"), "the rest is counted");
        }
    }
}
