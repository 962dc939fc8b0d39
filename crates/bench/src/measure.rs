//! The cost of one command.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::Serialize;

/// What one command cost, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// From start to end.
    pub wall: f64,
    /// In user mode, of it and of all descendants that were waited for.
    pub user: f64,
    /// In the kernel, likewise.
    pub system: f64,
}

/// Runs `line` in `directory`, `repeat` times, and tells the mean cost of one run.
pub fn measure(
    line: &[OsString],
    directory: &Path,
    state: &Path,
    repeat: u32,
) -> Result<Sample, String> {
    let before = processor_times()?;
    let start = Instant::now();
    for _ in 0..repeat {
        run(line, directory, state)?;
    }
    let wall = start.elapsed().as_secs_f64();
    let after = processor_times()?;
    let each = f64::from(repeat);
    Ok(Sample {
        wall: wall / each,
        user: (after.0 - before.0) / each,
        system: (after.1 - before.1) / each,
    })
}

/// The median of each cost; `samples` holds at least one.
pub fn median(samples: &[Sample]) -> Sample {
    let of = |cost: fn(&Sample) -> f64| {
        let mut costs: Vec<_> = samples.iter().map(cost).collect();
        costs.sort_by(f64::total_cmp);
        let middle = costs.len() / 2;
        if costs.len() % 2 == 1 {
            costs[middle]
        } else {
            f64::midpoint(costs[middle - 1], costs[middle])
        }
    };
    Sample {
        wall: of(|s| s.wall),
        user: of(|s| s.user),
        system: of(|s| s.system),
    }
}

fn run(line: &[OsString], directory: &Path, state: &Path) -> Result<(), String> {
    let output = Command::new(&line[0])
        .args(&line[1..])
        .current_dir(directory)
        .env("XDG_STATE_HOME", state)
        // Of make, when this runs below one: they would join the jobs of that make.
        .env_remove("MAKEFLAGS")
        .env_remove("MAKELEVEL")
        .env_remove("MFLAGS")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .map_err(|error| format!("start {}: {error}", line[0].display()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "{}: {}\n{said}",
        line.join(" ".as_ref()).display(),
        output.status
    ))
}

/// User and system time of this program's ended children.
fn processor_times() -> Result<(f64, f64), String> {
    let usage =
        getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|error| format!("getrusage: {error}"))?;
    #[expect(clippy::cast_precision_loss, reason = "exact below 285 years")]
    let seconds = |time: nix::sys::time::TimeVal| time.num_microseconds() as f64 / 1e6;
    Ok((seconds(usage.user_time()), seconds(usage.system_time())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(wall: f64) -> Sample {
        Sample {
            wall,
            user: -wall,
            system: 0.0,
        }
    }

    #[test]
    fn the_median_is_taken_of_each_cost() {
        let odd = [sample(3.0), sample(1.0), sample(2.0)];
        assert_eq!(median(&odd), sample(2.0));
        let even = [sample(4.0), sample(1.0), sample(2.0), sample(3.0)];
        assert_eq!(median(&even), sample(2.5));
    }

    #[test]
    fn a_command_that_fails_is_an_error_with_what_it_said() {
        let line = ["sh", "-c", "echo no >&2; exit 3"].map(OsString::from);
        let here = std::env::temp_dir();
        let error = measure(&line, &here, &here, 1).expect_err("a failure");
        assert!(
            error.contains("exit status: 3") && error.contains("no"),
            "{error}"
        );
    }
}
