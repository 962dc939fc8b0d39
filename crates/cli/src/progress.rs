//! How far a commit is, as the user sees it: a line on the terminal, or lines of JSON.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use surmise_api::results::{Pace, ProgressLine, ProgressRow};
use surmise_api::{Activity, Progress};

use crate::json::Json;

/// Work that ends sooner needs no progress.
const PATIENCE: Duration = Duration::from_millis(500);
const REFRESH: Duration = Duration::from_millis(100);

/// Where progress is shown.
pub struct Display {
    way: Way,
    /// When to show the next one.
    next: Instant,
    pace: Pace,
}

enum Way {
    /// One line on the terminal, written over and over.
    Line {
        shown: bool,
    },
    /// Lines of JSON on standard output.
    Json,
    Nowhere,
}

impl Display {
    /// On the terminal, if there is one, when it takes long.
    pub fn on_terminal() -> Self {
        let way = match io::stderr().is_terminal() {
            true => Way::Line { shown: false },
            false => Way::Nowhere,
        };
        Self::new(way, PATIENCE)
    }

    /// As lines of JSON on standard output, from the start.
    pub fn as_json() -> Self {
        Self::new(Way::Json, Duration::ZERO)
    }

    /// Whether others may write on standard output.
    pub fn leaves_standard_output(&self) -> bool {
        !matches!(self.way, Way::Json)
    }

    /// Shows it, if the last one was shown some time ago.
    pub fn show(&mut self, progress: Progress) {
        let now = Instant::now();
        let is_first = self.pace.note(progress, now);
        let is_due = now >= self.next || (is_first && matches!(self.way, Way::Json));
        if !is_due || matches!(self.way, Way::Nowhere) {
            return;
        }
        self.next = now + REFRESH;
        let left = self.pace.left(progress, now);
        match &mut self.way {
            Way::Line { shown } => {
                *shown = true;
                write_line(&text(progress, left));
            }
            Way::Json => {
                let line = ProgressLine {
                    progress: ProgressRow::of(progress, left),
                };
                // Who reads no more does not stop a commit.
                let _ = Json::Out.print(&line);
            }
            Way::Nowhere => {}
        }
    }

    /// Takes the line off the terminal.
    pub fn clear(&mut self) {
        if let Way::Line { shown: true } = self.way {
            write_line("");
        }
    }

    fn new(way: Way, patience: Duration) -> Self {
        let now = Instant::now();
        Self {
            way,
            next: now + patience,
            pace: Pace::new(now),
        }
    }
}

/// Returns to the start of the line, and erases what the old text had more.
fn write_line(text: &str) {
    let mut stderr = anstream::stderr().lock();
    let end = if text.is_empty() { "" } else { "\r" };
    let _ = write!(stderr, "\r{text}\x1b[K{end}");
    let _ = stderr.flush();
}

fn text(progress: Progress, left: Option<Duration>) -> String {
    let Progress {
        activity,
        done,
        total,
    } = progress;
    let activity = match activity {
        Activity::Send => return "surmise: commit: sending what was held".into(),
        Activity::Stage => "writing new data",
        Activity::Keep => "keeping old data",
        Activity::Apply => "changing names and files",
        Activity::Undo => "taking back what was done",
    };
    let left = left.map_or_else(String::new, |left| {
        format!(", {} left", rounded(left.as_secs()))
    });
    format!("surmise: commit: {activity} ({done} of {total}{left})")
}

/// A duration no finer than one can know it.
fn rounded(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{}s", seconds.max(1)),
        60..3600 => format!("{}m", seconds.div_ceil(60)),
        _ => format!("{}h", seconds.div_ceil(3600)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(done: usize) -> Progress {
        Progress {
            activity: Activity::Stage,
            done,
            total: 12,
        }
    }

    #[test]
    fn progress_tells_what_is_done_and_how_much() {
        let known = [
            (None, "(3 of 12)"),
            (Some(0), "(3 of 12, 1s left)"),
            (Some(59), "(3 of 12, 59s left)"),
            (Some(61), "(3 of 12, 2m left)"),
            (Some(7200), "(3 of 12, 2h left)"),
        ];
        for (left, wanted) in known {
            let told = text(progress(3), left.map(Duration::from_secs));
            assert_eq!(told, format!("surmise: commit: writing new data {wanted}"));
        }
    }
}
