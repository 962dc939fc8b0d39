//! A command that is stopped, with all that it has started, when it takes too long.

use std::ffi::OsString;
use std::fs;
use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal};

use crate::measure::{command, ends_within};
use crate::place::Place;

/// Where commands keep what they may lose.
pub fn caches(place: &Place) -> PathBuf {
    place.bench().join("far/caches")
}

/// Runs `line` in `directory`, and returns how many milliseconds it took; `None` if that was more than the limit, in
/// which case it was killed.
pub fn run(
    line: &[OsString],
    place: &Place,
    directory: &Path,
    limit: Duration,
) -> Result<Option<f64>, String> {
    let name = line.join(" ".as_ref());
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", name.display());
    // No pipe: a process that stays in the background would keep it open.
    let errors = memfd_create("errors", MemfdFlags::CLOEXEC).map_err(|errno| failed(&errno))?;
    let mut errors = fs::File::from(errors);
    let told = errors.try_clone().map_err(|error| failed(&error))?;
    let mut prepared = command(line, place, directory);
    prepared
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(told)
        .env("XDG_CACHE_HOME", caches(place))
        .process_group(0);
    let start = Instant::now();
    let mut child = prepared.spawn().map_err(|error| failed(&error))?;
    let has_ended = ends_within(&child, limit).map_err(|errno| failed(&errno))?;
    if !has_ended {
        // It has not been waited for, so the number is its own.
        let _ = rustix::process::kill_process_group(Pid::from_child(&child), Signal::KILL);
    }
    let status = child.wait().map_err(|error| failed(&error))?;
    let ms = start.elapsed().as_secs_f64() * 1e3;
    if !has_ended {
        return Ok(None);
    }
    if !status.success() {
        let mut said = String::new();
        // What cannot be read is left out of the message.
        let _ = errors
            .rewind()
            .and_then(|()| errors.read_to_string(&mut said));
        return Err(format!("{}\n{said}", failed(&status)));
    }
    Ok(Some(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Result<Option<f64>, String> {
        let scratch = tempfile::tempdir().expect("a directory");
        let place = Place::at(scratch.path());
        let line = ["sh", "-c", script].map(OsString::from);
        run(&line, &place, &place.work(), limit)
    }

    #[test]
    fn a_command_is_stopped_with_what_it_started() {
        let limit = Duration::from_millis(50);
        assert_eq!(shell("sleep 600 & wait", limit), Ok(None));
    }

    #[test]
    fn a_process_that_stays_in_the_background_is_not_waited_for() {
        let limit = Duration::from_secs(60);
        let ms = shell("sleep 2 & true", limit).expect("success");
        assert!(ms.is_some());
    }

    #[test]
    fn a_command_that_fails_is_an_error_with_what_it_said() {
        let error = shell("echo busy >&2; exit 1", Duration::from_secs(60)).expect_err("it fails");
        assert!(error.contains("busy"), "{error}");
    }
}
