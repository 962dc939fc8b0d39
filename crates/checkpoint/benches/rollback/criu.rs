//! The peer: CRIU, which writes a process to files and makes another one from them, with the same number.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::report::Report;

/// Each takes some tens of milliseconds.
const ROUNDS: u32 = 20;

/// Dumps a small process that goes on, then restores it when it was killed; on a file system in memory.
pub fn measure(report: &mut Report) {
    if let Err(reason) = available().and_then(|()| compare(report)) {
        println!("{NAME:<12} not compared: {reason}");
    }
}

const NAME: &str = "CRIU, sleep";

fn available() -> Result<(), String> {
    criu(&["check"]).map(drop)
}

fn compare(report: &mut Report) -> Result<(), String> {
    let images = tempfile::tempdir_in("/dev/shm").map_err(|error| error.to_string())?;
    let images = images.path().to_str().ok_or("a directory's name")?;
    let (mut dumps, mut restores) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let mut process = start()?;
        let pid = process.id().to_string();
        let dump = criu(&[
            "dump",
            "--tree",
            &pid,
            "--images-dir",
            images,
            "--leave-running",
        ]);
        // Its own child, which it has not reaped: the number is still that process'.
        let ended = process.kill().and_then(|()| process.wait());
        ended.map_err(|error| format!("end a process: {error}"))?;
        dumps.push(dump?);
        restores.push(criu(&[
            "restore",
            "--images-dir",
            images,
            "--restore-detached",
        ])?);
        let number = pid.parse().ok().and_then(Pid::from_raw);
        let restored = number.ok_or("a process' number")?;
        kill_process(restored, Signal::KILL).map_err(|errno| errno.to_string())?;
    }
    report.add(NAME, "dump --leave-running", &dumps, None);
    report.add(NAME, "restore", &restores, None);
    Ok(())
}

/// A process that waits, in a session of its own and with nothing open but /dev/null.
fn start() -> Result<Child, String> {
    let started = Command::new("setsid")
        .args(["sleep", "1000"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("start sleep: {error}"))?;
    // Until it is in its wait.
    std::thread::sleep(Duration::from_millis(50));
    Ok(started)
}

/// Returns what it took in microseconds, or what was wrong.
fn criu(arguments: &[&str]) -> Result<f64, String> {
    let begun = Instant::now();
    let output = Command::new("criu").args(arguments).output();
    let took = begun.elapsed().as_secs_f64() * 1e6;
    let output = output.map_err(|error| format!("start criu: {error}"))?;
    if output.status.success() {
        return Ok(took);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said: Vec<_> = said.lines().filter(|line| line.contains("Error")).collect();
    Err(format!(
        "`criu {}`: {}",
        arguments.join(" "),
        said.join("; ")
    ))
}
