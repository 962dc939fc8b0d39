//! How far a commit is.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use surmise_commit::{Activity, Progress};

/// How long an activity has to go on before its pace says when it will end.
const PACE_MIN: Duration = Duration::from_secs(3);

/// A line of `surmise commit --json` while the commit works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgressLine {
    /// How far it is.
    pub progress: ProgressRow,
}

/// How far a commit is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgressRow {
    /// What it does: `stage`, `keep`, `apply`, `send` or `undo`.
    pub activity: String,
    /// Steps of this activity that are done.
    pub done: usize,
    /// Steps of this activity in all.
    pub total: usize,
    /// Null while the pace is not known.
    pub seconds_left: Option<u64>,
}

impl ProgressRow {
    /// Of a moment, with what is known of the rest.
    pub fn of(progress: Progress, left: Option<Duration>) -> Self {
        Self {
            activity: progress.activity.name().to_owned(),
            done: progress.done,
            total: progress.total,
            seconds_left: left.map(|left| left.as_secs()),
        }
    }
}

/// How fast one activity goes.
#[derive(Debug)]
pub struct Pace {
    activity: Option<Activity>,
    since: Instant,
    done_then: usize,
    /// Calls since the activity began.
    steps_seen: usize,
}

impl Pace {
    /// Before the first activity.
    pub fn new(now: Instant) -> Self {
        Self {
            activity: None,
            since: now,
            done_then: 0,
            steps_seen: 0,
        }
    }

    /// Takes in how far it is. Whether that is the first of an activity.
    pub fn note(&mut self, progress: Progress, now: Instant) -> bool {
        if self.activity != Some(progress.activity) {
            *self = Self {
                activity: Some(progress.activity),
                since: now,
                done_then: progress.done,
                steps_seen: 0,
            };
        }
        self.steps_seen = self.steps_seen.saturating_add(1);
        self.steps_seen == 1
    }

    /// How long the rest takes at this pace.
    pub fn left(&self, progress: Progress, now: Instant) -> Option<Duration> {
        let passed = now.duration_since(self.since);
        let done = u32::try_from(progress.done.checked_sub(self.done_then)?).ok()?;
        let rest = u32::try_from(progress.total.checked_sub(progress.done)?).ok()?;
        if passed < PACE_MIN || done == 0 {
            return None;
        }
        (passed / done).checked_mul(rest)
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
    fn the_time_left_follows_the_pace_of_the_activity_once_that_is_known() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        assert!(pace.note(progress(0), start));
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
        let progress = ProgressRow::of(progress(3), Some(Duration::from_secs(4)));
        let text = serde_json::to_string(&ProgressLine { progress }).expect("plain data");
        let wanted = r#"{"progress":{"activity":"stage","done":3,"total":12,"seconds_left":4}}"#;
        assert_eq!(text, wanted);
    }
}
