//! A mount namespace and a process namespace for the benchmark: what it mounts and what it starts, also in the
//! background, ends when it ends, even if it is killed.

use std::env;
use std::process::{Command, ExitCode};

/// Tells this program that it has run itself so.
const OWN_PROCESSES: &str = "SURMISE_BENCH_OWN_PROCESSES";

/// The first process of the namespace. Signals that a terminal sends would not end this program if it were that.
const FIRST: &str = r#""$@"; exit $?"#;

/// Runs this program once more, in namespaces of its own, and returns how that went; `None` in that one. Returns why
/// it cannot be.
pub fn run_again() -> Result<Option<ExitCode>, String> {
    if env::var_os(OWN_PROCESSES).is_some() {
        return Ok(None);
    }
    if !rustix::process::geteuid().is_root() {
        return Err(
            "only root can make the network namespaces that the delay line joins".to_owned(),
        );
    }
    let own = env::current_exe().map_err(|error| format!("the path of this program: {error}"))?;
    // If this process is killed, `unshare` is, and so is the first process, with which all others end.
    let status = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "unshare", "--mount", "--pid"])
        .args([
            "--mount-proc",
            "--fork",
            "--kill-child",
            "sh",
            "-c",
            FIRST,
            "sh",
        ])
        .arg(own)
        .args(env::args_os().skip(1))
        .env(OWN_PROCESSES, "1")
        .status()
        .map_err(|error| format!("setpriv: {error}"))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(Some(code.map_or(ExitCode::FAILURE, ExitCode::from)))
}
