//! How long an interval is, as people write it, and what is shown of external synchrony afterwards.

use std::io::{self, Write};
use std::time::Duration;

use surmise_api::results::SyncLine;
use surmise_api::{Commits, Counted, Reason, Refusals, SyncStats as Stats};

use crate::failure::Failure;
use crate::report;
use crate::summary::{counted, time};
use surmise_api::quote::command_line;

/// Nobody loses more than this in a loss of power without having been told that it is durable.
const LONGEST: Duration = Duration::from_secs(3600);

/// Reads `5s`, `500ms` or `1m`.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[number.len()..] {
        "ms" => Some(0.001),
        "s" | "" => Some(1.0),
        "m" | "min" => Some(60.0),
        _ => None,
    };
    let seconds = unit.and_then(|unit| Some(number.parse::<f64>().ok()? * unit));
    seconds
        .filter(|seconds| *seconds >= 0.001)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|time| *time <= LONGEST)
        .ok_or_else(|| "a time is a number with ms, s or m, from 1ms to 60m: 500ms, 5s".to_owned())
}

/// Prints what was done.
pub fn show(stats: &Stats, refusals: &Refusals, json: bool) -> Result<(), Failure> {
    if json {
        return print_json(stats, refusals)
            .map_err(|error| Failure::new(format_args!("write to standard error: {error}")));
    }
    tell(stats);
    Ok(())
}

/// Prints what was done, in words.
pub fn tell(stats: &Stats) {
    for line in lines(stats) {
        report::note(line);
    }
}

fn print_json(stats: &Stats, refusals: &Refusals) -> io::Result<()> {
    let mut stderr = io::stderr().lock();
    serde_json::to_writer(&mut stderr, &SyncLine::of(stats, refusals))?;
    writeln!(stderr)
}

fn lines(stats: &Stats) -> Vec<String> {
    let Stats {
        put_off,
        real,
        reasons,
        switches,
        commits,
        held,
        hold_times,
    } = stats;
    let mut lines = vec![format!(
        "{} put off, {real} made at once{}",
        counted(*put_off, "sync"),
        switched(*switches)
    )];
    let because =
        |Counted { reason, count }: &Counted| format!("  {count} because {}", why(reason));
    lines.extend(reasons.iter().map(because));
    lines.push(format!(
        "{}{}",
        counted(commits.all(), "commit"),
        triggers(commits)
    ));
    lines.push(match held {
        0 => "no output was held".to_owned(),
        _ => format!(
            "{} of output held: half no longer than {}, 99 % no longer than {}, the longest {}",
            counted(*held, "piece"),
            time(hold_times.median),
            time(hold_times.p99),
            time(hold_times.longest)
        ),
    });
    lines
}

fn switched(switches: u64) -> String {
    match switches {
        0 => String::new(),
        _ => format!(" (by what paid, with {})", counted(switches, "change")),
    }
}

fn why(reason: &Reason) -> String {
    let word = |text: &String| command_line(&[text]);
    match reason {
        Reason::Mapped { file, program } => {
            let (file, program) = (word(file), word(program));
            format!("{program} had {file} mapped, shared and writable")
        }
        Reason::MappedElsewhere { file, program } => {
            let (file, program) = (word(file), word(program));
            format!("{program} had mapped {file}, shared and writable, which is not on the volume")
        }
        Reason::OpenElsewhere { file, program } => {
            let (file, program) = (word(file), word(program));
            format!("{program} had {file} open for writing, which is not on the volume")
        }
        Reason::Opening { call, program } => format!("{} was in a call of {call}", word(program)),
        Reason::Connected { program } => {
            format!("{} had connected to a Unix socket outside", word(program))
        }
        Reason::NotSeen { error } => {
            format!("it could not be seen what they would rest on: {error}")
        }
        Reason::NotOfVolume => "they were asked for on another file system".to_owned(),
        Reason::NotOrdered => {
            "they were asked for files whose changes the file system does not order".to_owned()
        }
        Reason::NotSyncable => "they were asked for what cannot be synced".to_owned(),
        Reason::OfMap => "they were asked for mapped memory (msync)".to_owned(),
        Reason::ChangedElsewhere => {
            "they were asked for everything, and files elsewhere had been changed".to_owned()
        }
        Reason::DoesNotPay => "nearly each one before had been waited for".to_owned(),
        Reason::Further => "of further reasons".to_owned(),
    }
}

fn triggers(commits: &Commits) -> String {
    let all = [
        (commits.output, "output"),
        (commits.barrier, "a call that waited"),
        (commits.interval, "time"),
        (commits.eager, "--eager"),
        (commits.end, "the end"),
    ];
    let told: Vec<_> = all
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("{number} for {what}"))
        .collect();
    match told.is_empty() {
        true => String::new(),
        false => format!(": {}", told.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use surmise_api::HoldTimes;

    use super::*;

    #[test]
    fn times_are_read_with_their_unit() {
        assert_eq!(parse_time("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(parse_time("5"), Ok(Duration::from_secs(5)));
        assert_eq!(parse_time("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_time("1.5m"), Ok(Duration::from_secs(90)));
        for wrong in ["", "s", "0s", "-1s", "61m", "5h", "1e400s", "NaNs", "5 s"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn it_is_told_why_syncs_were_made_at_once() {
        let mapped = Reason::Mapped {
            file: "/mnt/a file".into(),
            program: "\u{1b}[31mlmdb".into(),
        };
        let counted = |reason, count| Counted { reason, count };
        let stats = Stats {
            real: 12,
            reasons: vec![counted(mapped, 9), counted(Reason::OfMap, 3)],
            ..Stats::default()
        };
        assert_eq!(
            lines(&stats)[..3],
            [
                "0 syncs put off, 12 made at once",
                "  9 because '?[31mlmdb' had '/mnt/a file' mapped, shared and writable",
                "  3 because they were asked for mapped memory (msync)",
            ]
        );
        let json = serde_json::to_value(SyncLine::of(&stats, &Refusals::default())).expect("JSON");
        assert_eq!(json["reasons"][0]["reason"], "mapped");
        assert_eq!(json["reasons"][0]["file"], "/mnt/a file");
        assert_eq!(
            json["reasons"][1],
            serde_json::json!({"reason": "of-map", "count": 3})
        );
    }

    #[test]
    fn what_was_done_is_told_in_three_lines() {
        let stats = Stats {
            put_off: 1000,
            real: 1,
            reasons: Vec::new(),
            switches: 0,
            commits: Commits {
                output: 2,
                end: 1,
                ..Commits::default()
            },
            held: 1,
            hold_times: HoldTimes {
                median: Duration::from_micros(900),
                p99: Duration::from_micros(1_250),
                longest: Duration::from_millis(1_200),
            },
        };
        assert_eq!(
            lines(&stats),
            [
                "1000 syncs put off, 1 made at once",
                "3 commits: 2 for output, 1 for the end",
                "1 piece of output held: half no longer than 900 us, 99 % no longer than 1.2 ms, the \
                 longest 1.2 s",
            ]
        );
        assert_eq!(
            lines(&Stats::default()),
            [
                "0 syncs put off, 0 made at once",
                "0 commits",
                "no output was held"
            ]
        );
    }
}
