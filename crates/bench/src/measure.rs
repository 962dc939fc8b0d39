//! One run of one command, bounded in time, and what it cost.

use std::ffi::OsString;
use std::io::Read;
use std::ops::Add;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags};
use serde::Serialize;

use crate::place::Place;

/// What takes longer hangs: it is killed, and its row fails.
pub const LIMIT: Duration = Duration::from_secs(600);

/// One measured value, and the processor time that it took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// In the unit of its row.
    pub value: f64,
    /// In user mode, of the command and of all descendants that were waited for.
    pub user_ms: f64,
    /// In the kernel, likewise.
    pub system_ms: f64,
}

/// The time that something took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// From start to end.
    pub wall_ms: f64,
    /// As in [`Sample`].
    pub user_ms: f64,
    /// As in [`Sample`].
    pub system_ms: f64,
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            wall_ms: self.wall_ms + other.wall_ms,
            user_ms: self.user_ms + other.user_ms,
            system_ms: self.system_ms + other.system_ms,
        }
    }
}

/// A command that ended with 0.
pub struct Finished {
    /// What it took.
    pub cost: Cost,
    /// Its standard output.
    pub output: String,
    /// Its standard error.
    pub errors: String,
}

/// Runs `line` in `directory`.
pub fn run(line: &[OsString], place: &Place, directory: &Path) -> Result<Finished, String> {
    run_within(line, place, directory, LIMIT)
}

fn run_within(
    line: &[OsString],
    place: &Place,
    directory: &Path,
    limit: Duration,
) -> Result<Finished, String> {
    let clock = Clock::start()?;
    let mut child = command(line, place, directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("start {}: {error}", line[0].display()))?;
    let output = collect(child.stdout.take());
    let errors = collect(child.stderr.take());
    let ended = wait(&mut child, limit);
    let cost = clock.stop()?;
    let name = line.join(" ".as_ref());
    let name = name.display();
    let status = ended.map_err(|error| format!("{name}: {error}"))?;
    // A descendant that was left behind may keep them open.
    let text = |pipe: Receiver<String>| pipe.recv_timeout(Duration::from_secs(10));
    let (Ok(output), Ok(errors)) = (text(output), text(errors)) else {
        return Err(format!("{name}: it ended, and left its output open"));
    };
    if !status.success() {
        return Err(format!("{name}: {status}\n{errors}"));
    }
    Ok(Finished {
        cost,
        output,
        errors,
    })
}

/// `line` in `directory`, with the environment of every command of a benchmark.
pub fn command(line: &[OsString], place: &Place, directory: &Path) -> Command {
    let mut command = Command::new(&line[0]);
    command
        .args(&line[1..])
        .current_dir(directory)
        .env("XDG_STATE_HOME", place.state())
        // Of make, when this runs below one: they would join the jobs of that make.
        .env_remove("MAKEFLAGS")
        .env_remove("MAKELEVEL")
        .env_remove("MFLAGS")
        // What is built belongs into the work directory, and is built as by anybody.
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("CARGO_INCREMENTAL")
        .env_remove("RUSTFLAGS");
    command
}

/// Waits for the end; past the limit, kills it.
pub fn wait(child: &mut Child, limit: Duration) -> Result<ExitStatus, String> {
    if !ends_within(child, limit).map_err(|errno| format!("wait: {errno}"))? {
        child.kill().map_err(|error| format!("kill it: {error}"))?;
        child.wait().map_err(|error| format!("wait: {error}"))?;
        return Err(format!("killed: no end within {} s", limit.as_secs()));
    }
    child.wait().map_err(|error| format!("wait: {error}"))
}

/// Whether it ends before the limit. It is still to be waited for.
pub fn ends_within(child: &Child, limit: Duration) -> rustix::io::Result<bool> {
    let pidfd = rustix::process::pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let end = Instant::now() + limit;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).unwrap_or_default();
        match rustix::event::poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&left)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// All that comes from a pipe, once it has ended.
fn collect(pipe: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        // Nobody may be waiting any more.
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

/// Measures time and the processor time of this program's children.
pub struct Clock {
    start: Instant,
    before: (f64, f64),
}

impl Clock {
    /// From here on.
    pub fn start() -> Result<Self, String> {
        Ok(Self {
            before: processor_times_ms()?,
            start: Instant::now(),
        })
    }

    /// Up to here. Children count when they have been waited for.
    pub fn stop(self) -> Result<Cost, String> {
        let wall = self.start.elapsed();
        let after = processor_times_ms()?;
        Ok(Cost {
            wall_ms: wall.as_secs_f64() * 1e3,
            user_ms: after.0 - self.before.0,
            system_ms: after.1 - self.before.1,
        })
    }
}

/// User and system time of this program's ended children.
fn processor_times_ms() -> Result<(f64, f64), String> {
    let usage =
        getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|error| format!("getrusage: {error}"))?;
    #[expect(clippy::cast_precision_loss, reason = "exact below 285 years")]
    let ms = |time: nix::sys::time::TimeVal| time.num_microseconds() as f64 / 1e3;
    Ok((ms(usage.user_time()), ms(usage.system_time())))
}

/// The middle one of at least one number.
pub fn middle(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    if numbers.len() % 2 == 1 {
        numbers[middle]
    } else {
        f64::midpoint(numbers[middle - 1], numbers[middle])
    }
}

/// The median of each part; `samples` holds at least one.
pub fn median(samples: &[Sample]) -> Sample {
    let of = |part: fn(&Sample) -> f64| middle(samples.iter().map(part).collect());
    Sample {
        value: of(|s| s.value),
        user_ms: of(|s| s.user_ms),
        system_ms: of(|s| s.system_ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(value: f64) -> Sample {
        Sample {
            value,
            user_ms: -value,
            system_ms: 0.0,
        }
    }

    fn shell(script: &str, limit: Duration) -> Result<Finished, String> {
        let scratch = tempfile::tempdir().expect("a directory");
        let place = Place::at(scratch.path());
        let line = ["sh", "-c", script].map(OsString::from);
        run_within(&line, &place, &place.work(), limit)
    }

    #[test]
    fn the_median_is_taken_of_each_part() {
        let odd = [sample(3.0), sample(1.0), sample(2.0)];
        assert_eq!(median(&odd), sample(2.0));
        let even = [sample(4.0), sample(1.0), sample(2.0), sample(3.0)];
        assert_eq!(median(&even), sample(2.5));
    }

    #[test]
    fn a_command_that_fails_is_an_error_with_what_it_said() {
        let error = shell("echo no >&2; exit 3", LIMIT)
            .err()
            .expect("a failure");
        assert!(
            error.contains("exit status: 3") && error.contains("no"),
            "{error}"
        );
    }

    #[test]
    fn a_command_that_hangs_is_killed_and_is_an_error() {
        let error = shell("exec sleep 600", Duration::from_millis(50));
        let error = error.err().expect("a failure");
        assert!(error.contains("killed: no end within 0 s"), "{error}");
    }

    #[test]
    fn output_is_collected() {
        let finished = shell("echo 1.5", LIMIT).expect("success");
        assert_eq!(finished.output, "1.5\n");
    }
}
