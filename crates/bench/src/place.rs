//! Where the benchmark works: all of it below the target directory.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The directories of a run.
pub struct Place {
    /// The command under test.
    pub surmise: PathBuf,
    /// `target/bench`.
    bench: PathBuf,
}

impl Place {
    /// Finds them from where this program lies, `target/PROFILE/surmise-bench`.
    pub fn locate() -> Result<Self, String> {
        let own =
            env::current_exe().map_err(|error| format!("the path of this program: {error}"))?;
        let profile = own.parent().ok_or("this program lies in no directory")?;
        let surmise = profile.join("surmise");
        if !surmise.exists() {
            return Err(format!(
                "{} is missing\nHint: make build",
                surmise.display()
            ));
        }
        let target = profile
            .parent()
            .ok_or("this program lies in no target directory")?;
        let bench = target.join("bench");
        for directory in [&bench, &bench.join("sources")] {
            fs::create_dir_all(directory).map_err(|error| about("create", directory, &error))?;
        }
        Ok(Self { surmise, bench })
    }

    /// The file for a suite's results.
    pub fn results(&self, suite: &str) -> PathBuf {
        self.bench.join(format!("{suite}.json"))
    }

    /// Where commands run.
    pub fn work(&self) -> PathBuf {
        self.bench.join("work")
    }

    /// The state directory of the command under test.
    pub fn state(&self) -> PathBuf {
        self.bench.join("state")
    }

    /// The unpacked source of a package, fetched once.
    pub fn source(&self, package: &str) -> Result<PathBuf, String> {
        let path = self.bench.join("sources").join(package);
        if !path.exists() {
            let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/fetch-source");
            succeed(Command::new(script).arg(package).arg(&path))?;
        }
        Ok(path)
    }

    /// Makes `work` a fresh copy of `source`, or an empty directory.
    pub fn reset(&self, source: Option<&Path>) -> Result<(), String> {
        let work = self.work();
        if work.exists() {
            fs::remove_dir_all(&work).map_err(|error| about("remove", &work, &error))?;
        }
        match source {
            Some(source) => succeed(Command::new("cp").arg("-a").arg(source).arg(&work)),
            None => fs::create_dir(&work).map_err(|error| about("create", &work, &error)),
        }
    }
}

fn succeed(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}")),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}

/// What failed, where and why, on one line.
pub fn about(what: &str, path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{what} {}: {error}", path.display())
}
