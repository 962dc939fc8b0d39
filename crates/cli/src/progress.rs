//! How far a commit is, as the user sees it: a line on the terminal, or lines of JSON.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use serde::Serialize;
use surmise_commit::{Activity, Progress};

use crate::json::Json;

/// Work that ends sooner needs no progress.
const PATIENCE: Duration = Duration::from_millis(500);
const REFRESH: Duration = Duration::from_millis(100);

/// How long an activity has to go on before its pace says when it will end.
const PACE_MIN: Duration = Duration::from_secs(3);

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
        self.pace.note(progress, now);
        let is_first = self.pace.steps_seen == 1;
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
                let line = Told {
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
            pace: Pace {
                activity: None,
                since: now,
                done_then: 0,
                steps_seen: 0,
            },
        }
    }
}

#[derive(Serialize)]
struct Told {
    progress: ProgressRow,
}

#[derive(Serialize)]
struct ProgressRow {
    activity: &'static str,
    done: usize,
    total: usize,
    /// None while the pace is not known.
    seconds_left: Option<u64>,
}

impl ProgressRow {
    fn of(progress: Progress, left: Option<Duration>) -> Self {
        Self {
            activity: progress.activity.name(),
            done: progress.done,
            total: progress.total,
            seconds_left: left.map(|left| left.as_secs()),
        }
    }
}

/// How fast one activity goes.
struct Pace {
    activity: Option<Activity>,
    since: Instant,
    done_then: usize,
    /// Calls since the activity began.
    steps_seen: usize,
}

impl Pace {
    fn note(&mut self, progress: Progress, now: Instant) {
        if self.activity != Some(progress.activity) {
            *self = Self {
                activity: Some(progress.activity),
                since: now,
                done_then: progress.done,
                steps_seen: 0,
            };
        }
        self.steps_seen = self.steps_seen.saturating_add(1);
    }

    /// How long the rest takes at this pace.
    fn left(&self, progress: Progress, now: Instant) -> Option<Duration> {
        let passed = now.duration_since(self.since);
        let done = u32::try_from(progress.done.checked_sub(self.done_then)?).ok()?;
        let rest = u32::try_from(progress.total.checked_sub(progress.done)?).ok()?;
        if passed < PACE_MIN || done == 0 {
            return None;
        }
        (passed / done).checked_mul(rest)
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

    #[test]
    fn the_time_left_follows_the_pace_of_the_activity_once_that_is_known() {
        let start = Instant::now();
        let mut pace = Pace {
            activity: None,
            since: start,
            done_then: 0,
            steps_seen: 0,
        };
        pace.note(progress(0), start);
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(pace.left(progress(3), after(2)), None, "too early to tell");
        assert_eq!(pace.left(progress(0), after(9)), None, "nothing done");
        let left = pace.left(progress(3), after(6));
        assert_eq!(left, Some(Duration::from_secs(18)));
        let applying = Progress {
            activity: Activity::Apply,
            ..progress(0)
        };
        pace.note(applying, after(6));
        assert_eq!(pace.left(applying, after(8)), None, "another pace");
    }

    #[test]
    fn a_line_of_json_is_as_documented() {
        let row = ProgressRow::of(progress(3), Some(Duration::from_secs(4)));
        let text = serde_json::to_string(&Told { progress: row }).expect("plain data");
        let wanted = r#"{"progress":{"activity":"stage","done":3,"total":12,"seconds_left":4}}"#;
        assert_eq!(text, wanted);
    }
}
