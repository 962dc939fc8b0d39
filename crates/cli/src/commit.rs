//! A commit as the user sees it.

use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use surmise_commit::{Activity, Progress, Report};
use surmise_domain::Domain;

use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::summary::count;

/// Makes the changes of `domain` real, or finishes what an earlier commit began.
///
/// On a terminal, one that takes long shows how far it is. A signal that asks to stop stops it
/// between two steps.
pub fn commit(domain: Domain) -> Result<(), Failure> {
    let interrupts = Interrupts::hold().map_err(Failure::new)?;
    let mut line = ProgressLine::new();
    let report = domain.commit(&mut |progress| {
        line.show(progress);
        if interrupts.arrived() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    line.clear();
    tell_left(&report?)
}

/// What someone outside was faster with is not lost in silence.
fn tell_left(report: &Report) -> Result<(), Failure> {
    if report.left.is_empty() {
        return Ok(());
    }
    let left = report.left.iter();
    Err(Failure::new(format_args!(
        "committed, but for {} that changed while the commit ran",
        count(report.left.len(), "path")
    ))
    .details(left.map(|left| format!("{}: {}", left.path.display(), left.reason)))
    .hint("nothing of yours or theirs was overwritten; compare the paths and settle them by hand"))
}

/// Work that ends sooner needs no progress.
const PATIENCE: Duration = Duration::from_millis(500);
const REFRESH: Duration = Duration::from_millis(100);

/// One line on the terminal, written over and over.
struct ProgressLine {
    next: Option<Instant>,
    shown: bool,
}

impl ProgressLine {
    fn new() -> Self {
        let next = io::stderr()
            .is_terminal()
            .then(|| Instant::now() + PATIENCE);
        Self { next, shown: false }
    }

    fn show(&mut self, progress: Progress) {
        let now = Instant::now();
        if self.next.is_none_or(|next| now < next) {
            return;
        }
        self.next = Some(now + REFRESH);
        self.shown = true;
        self.write(&text(progress));
    }

    fn clear(&mut self) {
        if self.shown {
            self.write("");
        }
    }

    /// Returns to the start of the line, and erases what the old text had more.
    fn write(&self, text: &str) {
        let mut stderr = anstream::stderr().lock();
        let _ = write!(
            stderr,
            "\r{text}\x1b[K{}",
            if text.is_empty() { "" } else { "\r" }
        );
        let _ = stderr.flush();
    }
}

fn text(progress: Progress) -> String {
    let Progress {
        activity,
        done,
        total,
    } = progress;
    let activity = match activity {
        Activity::Stage => "writing new data",
        Activity::Apply => "changing names and files",
        Activity::Undo => "taking back what was written",
    };
    format!("surmise: commit: {activity} ({done} of {total})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_tells_what_is_done_and_how_much() {
        let progress = Progress {
            activity: Activity::Stage,
            done: 3,
            total: 12,
        };
        assert_eq!(
            text(progress),
            "surmise: commit: writing new data (3 of 12)"
        );
    }
}
