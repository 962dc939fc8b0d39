//! A command that is measured from where it runs: this program runs it there, as often as it is told to,
//! and says how long it took each time.

use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Runs `command` so many times, one after the other, and prints the milliseconds of each as JSON.
pub fn repeat(times: u32, command: &[OsString]) -> Result<(), String> {
    let taken: Result<Vec<_>, String> = (0..times).map(|_| once(command)).collect();
    let text = serde_json::to_string(&taken?).map_err(|error| error.to_string())?;
    println!("{text}");
    Ok(())
}

fn once(command: &[OsString]) -> Result<f64, String> {
    let name = command.join(" ".as_ref());
    let start = Instant::now();
    let status = Command::new(&command[0])
        .args(&command[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .map_err(|error| format!("start {}: {error}", name.display()))?;
    let ms = start.elapsed().as_secs_f64() * 1e3;
    if !status.success() {
        return Err(format!("{}: {status}", name.display()));
    }
    Ok(ms)
}

/// The milliseconds, from what was printed.
pub fn parse(said: &str) -> Option<Vec<f64>> {
    serde_json::from_str(said.lines().last()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_is_told() {
        assert!(once(&["true".into()]).expect("a time") > 0.0);
        let failed = once(&["false".into()]).expect_err("false fails");
        assert!(failed.starts_with("false: exit status: 1"), "{failed}");
    }

    #[test]
    fn only_times_are_times() {
        assert_eq!(parse("a word\n[1.5,2.0]\n"), Some(vec![1.5, 2.0]));
        assert_eq!(parse("a word\n"), None);
        assert_eq!(parse(""), None);
    }
}
