//! The options that make tasks speculate, and what is shown of it afterwards.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use surmise_api::{Effort, Guessing, Right, SpeculationStats as Stats, Torture};

use crate::report;
use crate::summary::{counted, time};
use crate::synchrony::parse_time;
use crate::table::Table;

/// How probable a misprediction is where nobody says it.
const RATE: f64 = 0.02;

/// What a command's tasks guess.
#[derive(clap::Args)]
#[command(next_help_heading = "Test of Surmise and of programs")]
#[group(skip)]
pub struct Speculating {
    /// Mispredicts results of calls at random and rolls back; the end result must equal a plain run's
    ///
    /// SEED is a number that the random choices are made from. RATE is how probable it is for a call to be
    /// mispredicted, above 0 and at most 1; 0.02 without it.
    #[arg(long, value_name = "SEED[:RATE]", value_parser = parse, group = "guessing")]
    torture: Option<Torture>,

    /// Predicts results of calls about files rightly, and decides that later: what is left is what tracking costs
    ///
    /// RATE is how probable it is for a call about a file's name or attributes to be predicted, above 0 and at most 1.
    /// DELAY is how long it takes until a prediction is decided, as in 30ms or 2s; at most 60s. WRONG is how probable it
    /// is for a prediction to be wrong all the same, and to be rolled back after DELAY: from 0 to 1; 0 without it.
    #[arg(long, value_name = "RATE:DELAY[:WRONG]", value_parser = parse_right, group = "guessing")]
    predict_right: Option<Right>,
}

impl Speculating {
    /// Where guesses come from that the command's tasks are given.
    pub fn guessing(&self) -> Vec<Guessing> {
        let torture = self.torture.map(Guessing::Torture);
        let right = self.predict_right.map(Guessing::Right);
        torture.into_iter().chain(right).collect()
    }
}

fn parse(text: &str) -> Result<Torture, String> {
    let (seed, rate) = match text.split_once(':') {
        Some((seed, rate)) => (seed, Some(rate)),
        None => (text, None),
    };
    let seed = seed
        .parse()
        .map_err(|_| format!("the seed is a number from 0 to {}, as in 7:0.1", u64::MAX))?;
    let rate = rate.map_or(Ok(RATE), str::parse);
    match rate {
        Ok(rate) if rate > 0.0 && rate <= 1.0 => Ok(Torture { seed, rate }),
        _ => Err("the rate is above 0 and at most 1, as in 7:0.1".into()),
    }
}

/// The longest that a prediction may be undecided.
const DELAY_MAX: Duration = Duration::from_secs(60);

fn parse_right(text: &str) -> Result<Right, String> {
    let hint = "a rate above 0 and at most 1, a delay of at most 60s, and perhaps how many are wrong, from 0 to 1, as in \
                1:30ms:0.1";
    let (rate, rest) = text.split_once(':').ok_or(hint)?;
    let (delay, wrong) = rest.split_once(':').unwrap_or((rest, "0"));
    let rate: f64 = rate.parse().map_err(|_| hint)?;
    let wrong: f64 = wrong.parse().map_err(|_| hint)?;
    let delay = parse_time(delay).map_err(|_| hint)?;
    match delay <= DELAY_MAX && rate > 0.0 && rate <= 1.0 && (0.0..=1.0).contains(&wrong) {
        true => Ok(Right { rate, delay, wrong }),
        false => Err(hint.into()),
    }
}

/// Prints what was done.
pub fn show(stats: &Stats) {
    let mut text = Vec::new();
    // Memory takes all; and a remark that can't be written must not change what a run does.
    let _ = write(stats, &mut text);
    report::note(summary(stats));
    let _ = anstream::stderr().lock().write_all(&text);
}

fn summary(stats: &Stats) -> String {
    let effort = |effort: Effort, noun| {
        let number = counted(effort.count, noun);
        match effort.count {
            0 => number,
            _ => format!("{number} in {}", time(effort.time)),
        }
    };
    [
        counted(stats.events(), "tracked call"),
        counted(stats.predictions, "prediction"),
        effort(stats.checkpoints, "checkpoint"),
        effort(stats.rollbacks, "rollback"),
        counted(stats.cascades, "cascade"),
        format!("{} copied", counted(stats.pages_copied, "page")),
        effort(stats.waited_altogether(), "wait"),
    ]
    .join(", ")
}

/// The calls, then the objects; a table of nothing is left out.
fn write(stats: &Stats, out: &mut impl Write) -> io::Result<()> {
    let calls = stats.calls_by_frequency();
    if !calls.is_empty() {
        let mut table = Table::new(["CALL", "EVENTS", "PREDICTIONS", "WAITS", "WAITED"]);
        for (name, call) in calls {
            table.push([
                name.to_owned(),
                call.events.to_string(),
                call.predictions.to_string(),
                call.waits.count.to_string(),
                time(call.waits.time),
            ]);
        }
        table.write(out)?;
    }
    if !stats.objects.is_empty() {
        let mut table = Table::new(["OBJECT", "TIMES", "UNDONE", "CASCADES"]);
        for (kind, times) in &stats.objects {
            let of = |counts: &BTreeMap<String, u64>| counts.get(kind).copied().unwrap_or_default();
            let (undone, cascades) = (of(&stats.undone), of(&stats.cascades_through));
            table.push([
                kind.clone(),
                times.to_string(),
                undone.to_string(),
                cascades.to_string(),
            ]);
        }
        table.write(out)?;
    }
    if !stats.waits.is_empty() {
        let mut table = Table::new(["WAITED FOR", "TIMES", "TIME"]);
        for (kind, waits) in &stats.waits {
            table.push([kind.clone(), waits.count.to_string(), time(waits.time)]);
        }
        table.write(out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_torture_has_a_seed_and_perhaps_a_rate() {
        let torture = |seed, rate| Ok(Torture { seed, rate });
        assert_eq!(parse("7"), torture(7, RATE));
        assert_eq!(parse("7:0.1"), torture(7, 0.1));
        assert_eq!(parse("18446744073709551615:1"), torture(u64::MAX, 1.0));
        assert_eq!(parse("1:1e-7"), torture(1, 1e-7));
        for wrong in [
            "", "x", "-1", "1:", "1:0", "1:-0.1", "1:1.01", "1:NaN", "1:x", "1:1:1", ":1",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn right_predictions_have_a_rate_a_delay_and_perhaps_a_share_that_is_wrong() {
        let delay = Duration::from_millis(30);
        let right = |rate, wrong| Ok(Right { rate, delay, wrong });
        assert_eq!(parse_right("1:30ms"), right(1.0, 0.0));
        assert_eq!(parse_right("0.5:0.03s"), right(0.5, 0.0));
        assert_eq!(parse_right("0.5:30ms:0.1"), right(0.5, 0.1));
        assert!(parse_right("1:60s").is_ok() && parse_right("1:1ms:1").is_ok());
        for wrong in [
            "",
            "1",
            "1:",
            "1:0ms",
            "1:ms",
            "0:1s",
            "2:1s",
            "NaN:1s",
            "1:61s",
            "1:-1s",
            "x:1s",
            "1:30ms:",
            "1:30ms:1.1",
            "1:30ms:-0.1",
            "1:30ms:NaN",
            "1:30ms:0:0",
        ] {
            assert!(parse_right(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_was_done_is_told_in_words_and_tables() {
        let mut stats = Stats {
            predictions: 2,
            cascades: 1,
            ..Stats::default()
        };
        stats.checkpoints.add(Duration::from_micros(55));
        stats.rollbacks.add(Duration::from_micros(1_250));
        stats.calls.entry("read".into()).or_default().events = 1;
        stats.calls.entry("openat".into()).or_default().events = 30;
        stats.objects = [("file".into(), 30), ("input".into(), 4)].into();
        stats.undone = [("input".into(), 3)].into();
        stats.cascades_through = [("input".into(), 1)].into();
        let waits = Effort {
            count: 3,
            time: Duration::from_millis(90),
        };
        stats.calls.entry("read".into()).or_default().waits = waits;
        stats.waits = [("input".into(), waits)].into();
        assert_eq!(
            summary(&stats),
            "31 tracked calls, 2 predictions, 1 checkpoint in 55 us, 1 rollback in 1.2 ms, 1 cascade, \
             0 pages copied, 3 waits in 90.0 ms"
        );
        let mut out = anstream::StripStream::new(Vec::new());
        write(&stats, &mut out).expect("written");
        assert_eq!(
            String::from_utf8(out.into_inner()).expect("text"),
            "CALL    EVENTS  PREDICTIONS  WAITS  WAITED\n\
             openat  30      0            0      0 us\n\
             read    1       0            3      90.0 ms\n\
             OBJECT  TIMES  UNDONE  CASCADES\nfile    30     0       0\ninput   4      3       1\n\
             WAITED FOR  TIMES  TIME\ninput       3      90.0 ms\n"
        );
    }
}
