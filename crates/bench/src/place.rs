//! Where the benchmark works: all of it below the target directory.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs and directories of a run.
pub struct Place {
    /// The command under test.
    surmise: PathBuf,
    /// This program.
    own: PathBuf,
    /// `target/bench`, or another directory for all that a run makes.
    bench: PathBuf,
    /// Where programs to compare with are installed.
    peers: PathBuf,
}

impl Place {
    /// Finds them from where this program lies, `target/PROFILE/surmise-bench`. It works in
    /// `directory`, or in `target/bench`.
    pub fn locate(directory: Option<&Path>) -> Result<Self, String> {
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
        let bench = match directory {
            None => target.join("bench"),
            Some(directory) => {
                std::path::absolute(directory).map_err(|error| about("find", directory, &error))?
            }
        };
        for directory in [&bench, &bench.join("sources")] {
            fs::create_dir_all(directory).map_err(|error| about("create", directory, &error))?;
        }
        let peers = target.join("peers");
        Ok(Self {
            surmise,
            own,
            bench,
            peers,
        })
    }

    /// The command under test.
    pub fn surmise(&self) -> &Path {
        &self.surmise
    }

    /// The file for a suite's results.
    pub fn results(&self, suite: &str) -> PathBuf {
        self.bench.join(format!("{suite}.json"))
    }

    /// The file for the picture of a suite's results.
    pub fn plot(&self, suite: &str) -> PathBuf {
        self.bench.join(format!("{suite}.svg"))
    }

    /// All that a run makes is below it.
    pub fn bench(&self) -> &Path {
        &self.bench
    }

    /// An example of a crate, built beside this program.
    pub fn example(&self, name: &str) -> Result<PathBuf, String> {
        let profile = self
            .own
            .parent()
            .ok_or("this program lies in no directory")?;
        let path = profile.join("examples").join(name);
        match path.exists() {
            true => Ok(path),
            false => Err(format!(
                "{} is missing\nHint: make bench-rpc builds it",
                path.display()
            )),
        }
    }

    /// Where a program to compare with is installed; a script of ours does that.
    pub fn peer(&self, name: &str) -> Result<PathBuf, String> {
        let path = self.peers.join(name);
        if !path.exists() {
            let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/fetch-peer");
            succeed(Command::new(script).arg(name).arg(&path))?;
        }
        Ok(path)
    }

    /// Where commands run.
    pub fn work(&self) -> PathBuf {
        self.bench.join("work")
    }

    /// The state directory of the command under test.
    pub fn state(&self) -> PathBuf {
        self.bench.join("state")
    }

    /// The words that run this program itself.
    pub fn own(&self, words: &[OsString]) -> Vec<OsString> {
        let mut line = vec![self.own.clone().into_os_string()];
        line.extend_from_slice(words);
        line
    }

    /// The words that run `command` under Surmise and throw its changes away.
    pub fn inside<S: Into<OsString> + Clone>(
        &self,
        options: &[&str],
        command: &[S],
    ) -> Vec<OsString> {
        let mut line = vec![self.surmise.clone().into_os_string()];
        line.extend(["run", "--dry-run"].map(OsString::from));
        line.extend(options.iter().map(OsString::from));
        line.push("--".into());
        line.extend(command.iter().cloned().map(Into::into));
        line
    }

    /// The words that run `command` under external synchrony.
    pub fn synced(&self, options: &[&str], command: &[OsString]) -> Vec<OsString> {
        let mut line = vec![self.surmise.clone().into_os_string(), "sync".into()];
        line.extend(options.iter().map(OsString::from));
        line.push("--".into());
        line.extend_from_slice(command);
        line
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

    /// What `make` makes, made once.
    pub fn made(
        &self,
        name: &str,
        make: impl FnOnce(&Path) -> Result<(), String>,
    ) -> Result<PathBuf, String> {
        let path = self.bench.join("sources").join(name);
        if path.exists() {
            return Ok(path);
        }
        // What was cut short must not be taken for the whole.
        let part = path.with_extension("part");
        remove(&part)?;
        make(&part)?;
        fs::rename(&part, &path).map_err(|error| about("rename", &part, &error))?;
        Ok(path)
    }

    /// Makes `work` a fresh copy of `source`, or an empty directory.
    pub fn reset(&self, source: Option<&Path>) -> Result<(), String> {
        let work = self.work();
        remove(&work)?;
        match source {
            Some(source) => succeed(Command::new("cp").arg("-a").arg(source).arg(&work)),
            None => fs::create_dir(&work).map_err(|error| about("create", &work, &error)),
        }
    }

    /// One that has a work directory only.
    #[cfg(test)]
    pub fn at(bench: &Path) -> Self {
        let place = Self {
            surmise: "surmise".into(),
            own: "surmise-bench".into(),
            bench: bench.to_owned(),
            peers: bench.join("peers"),
        };
        fs::create_dir_all(bench.join("sources")).expect("a directory for sources");
        place.reset(None).expect("a work directory");
        place
    }
}

/// Removes a directory, if it is there, and all below it.
pub fn remove(directory: &Path) -> Result<(), String> {
    if directory.exists() {
        fs::remove_dir_all(directory).map_err(|error| about("remove", directory, &error))?;
    }
    Ok(())
}

/// An address on loopback whose port nobody has: for a server that takes its port as an argument.
pub fn free_address() -> Result<SocketAddr, String> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map_err(|error| format!("find a free port: {error}"))
}

/// Runs a command that must end with 0.
pub fn succeed(command: &mut Command) -> Result<(), String> {
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
