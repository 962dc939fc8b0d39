//! The server of `surmise mount`, which outlives a mount: the next client may come soon.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::measure::LIMIT;
use crate::place::{about, remove};

const LOOKS_EVERY: Duration = Duration::from_millis(10);

/// Ends the server of a directory, and removes what it keeps there.
pub fn end(export: &Path) -> Result<(), String> {
    let state = export.join(".surmise");
    let lock = state.join("lock");
    let number = match fs::read_to_string(&lock) {
        Ok(number) => number,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(about("read", &lock, &error)),
    };
    let server = number.trim().parse().ok().and_then(Pid::from_raw);
    let server = server.ok_or_else(|| format!("{} holds no process: {number}", lock.display()))?;
    match kill_process(server, Signal::TERM) {
        Ok(()) | Err(Errno::SRCH) => {}
        Err(errno) => return Err(format!("end the server {number}: {errno}")),
    }
    let begun = Instant::now();
    while test_kill_process(server).is_ok() {
        if begun.elapsed() > LIMIT {
            return Err(format!("the server {number} has not ended"));
        }
        thread::sleep(LOOKS_EVERY);
    }
    remove(&state)
}
