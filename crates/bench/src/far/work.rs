//! What is done on each file system, and what it starts from.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use surmise_testkit::is_installed;

use super::loops::{HEADER, HEADERS};
use crate::inputs::{ARCHIVE, Made, NPM_INSTALL};
use crate::place::{Place, about, remove, succeed};

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Work {
    /// An archive of so many files is unpacked.
    Untar(u32),
    /// A loop like that of PostMark: so many files, and as many transactions.
    Postmark(u32),
    /// Lua is built.
    MakeLua,
    /// `git status` in a repository of so many files, and once more.
    GitStatus(u32),
    /// A tree of so many files is searched, and once more.
    Grep(u32),
    /// So many tests of a configure script.
    Storm(u32),
    /// `git checkout` of so many files.
    Checkout(u32),
    /// A project's packages are installed.
    NpmCi,
    /// A crate is built.
    CargoBuild,
    /// Two mounts of one directory, written in turns.
    Turns(u32),
    /// The directory is mounted and listed.
    List,
}

/// What stays the same for all samples of a row.
pub struct Inputs {
    /// A copy of it is in the directory that is exported.
    source: Option<PathBuf>,
    archive: Option<PathBuf>,
    /// What unpacking gives.
    unpacked: Option<PathBuf>,
}

impl Work {
    /// The program that it needs and that is not installed.
    pub fn missing_program(self) -> Option<&'static str> {
        let needed: &[_] = match self {
            Self::Untar(_) => &["tar", "diff"],
            Self::MakeLua => &["make", "cc"],
            Self::GitStatus(_) | Self::Checkout(_) => &["git"],
            Self::Grep(_) => &["grep"],
            Self::NpmCi => &["npm"],
            Self::CargoBuild => &["cargo"],
            Self::Postmark(_) | Self::Storm(_) | Self::Turns(_) | Self::List => &[],
        };
        needed
            .iter()
            .find(|program| !is_installed(program))
            .copied()
    }

    /// How many mounts of the directory there are.
    pub fn mounts(self) -> usize {
        match self {
            Self::Turns(_) => 2,
            _ => 1,
        }
    }

    /// Makes what it starts from, if that is not there.
    pub fn inputs(self, place: &Place) -> Result<Inputs, String> {
        let source = match self {
            Self::MakeLua => Some(place.source("lua5.4")?),
            Self::GitStatus(files) => Some(Made::Repository(files).path(place)?),
            Self::Checkout(files) => {
                let repository = Made::Repository(files).path(place)?;
                Some(place.made(&format!("clone-{files}"), |at| clone(&repository, at))?)
            }
            Self::Grep(files) => Some(Made::Tree(files).path(place)?),
            Self::NpmCi => Some(Made::Project.path(place)?),
            Self::CargoBuild => Some(Made::Crate.path(place)?),
            Self::Storm(_) => Some(place.made("headers", headers)?),
            Self::Untar(_) | Self::Postmark(_) | Self::Turns(_) | Self::List => None,
        };
        let (archive, unpacked) = match self {
            Self::Untar(files) => (
                Some(Made::Archive(files).path(place)?.join(ARCHIVE)),
                Some(Made::Tree(files).path(place)?),
            ),
            _ => (None, None),
        };
        Ok(Inputs {
            source,
            archive,
            unpacked,
        })
    }

    /// The commands of a sample, each in the first of `mounts`. All but the last leave files and caches to the next.
    pub fn steps(self, place: &Place, inputs: &Inputs, mounts: &[PathBuf]) -> Vec<Vec<OsString>> {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let own = |work: &[&str], paths: &[PathBuf]| {
            let paths = paths.iter().map(OsString::from);
            place.own(&words(work).into_iter().chain(paths).collect::<Vec<_>>())
        };
        match self {
            Self::Untar(_) => {
                let mut line = words(&["tar", "--extract", "--file"]);
                line.extend(inputs.archive.clone().map(OsString::from));
                vec![line]
            }
            Self::Postmark(files) => {
                let files = files.to_string();
                vec![own(&["loop", "postmark", &files, &files], &[])]
            }
            Self::MakeLua => vec![words(&["make", "--silent", "-j2", "generic"])],
            Self::GitStatus(_) => vec![words(&["git", "status", "--porcelain"]); 2],
            // Of one file.
            Self::Grep(_) => vec![words(&["grep", "-r", "File 7 of", "."]); 2],
            Self::Storm(tests) => vec![own(&["loop", "storm", &tests.to_string()], &[])],
            Self::Checkout(_) => vec![words(&["git", "checkout", "--quiet", "--force", "main"])],
            Self::NpmCi => vec![words(NPM_INSTALL)],
            Self::CargoBuild => vec![words(&["cargo", "build", "--quiet", "--offline"])],
            Self::Turns(turns) => vec![own(&["loop", "turns", &turns.to_string()], mounts)],
            Self::List => vec![words(&["ls"])],
        }
    }

    /// Whether the server has what the work gives.
    pub fn check(self, inputs: &Inputs, export: &Path) -> Result<(), String> {
        let mut command = match self {
            Self::Untar(_) => {
                let mut diff = Command::new("diff");
                diff.args(["--recursive", "--brief"]);
                diff.args(inputs.unpacked.as_ref()).arg(export);
                diff
            }
            Self::MakeLua => {
                let mut lua = Command::new(export.join("src/lua"));
                lua.arg("-v");
                lua
            }
            Self::Checkout(_) => {
                let mut git = Command::new("git");
                git.arg("-C").arg(export).args(["diff", "--quiet", "HEAD"]);
                git
            }
            Self::CargoBuild => Command::new(export.join("target/debug/small")),
            Self::NpmCi => {
                let mut node = Command::new("node");
                node.args(["--eval", "require('express')"])
                    .current_dir(export);
                node
            }
            Self::Turns(turns) => return holds(export, turns),
            Self::Postmark(_) => return holds(export, 0),
            Self::GitStatus(_) | Self::Grep(_) | Self::Storm(_) | Self::List => return Ok(()),
        };
        succeed(command.stdout(Stdio::null()))
            .map_err(|error| format!("the server has not what was written: {error}"))
    }
}

impl Inputs {
    /// Makes the directory that is exported as it is before each sample.
    pub fn reset(&self, export: &Path) -> Result<(), String> {
        remove(export)?;
        let Some(source) = &self.source else {
            return fs::create_dir_all(export).map_err(|error| about("create", export, &error));
        };
        succeed(Command::new("cp").arg("-a").arg(source).arg(export))?;
        let index = export.join(".git/index");
        if !index.exists() {
            return Ok(());
        }
        // A client of sshfs sees other numbers of inodes than the server, and no ctimes. Git would take every file
        // for changed, and read it.
        for setting in ["core.checkStat=minimal", "core.trustctime=false"] {
            let (name, value) = setting.split_once('=').expect("a name and a value");
            git(export, &["config", name, value])?;
        }
        // The copies have other times than those in the index.
        git(export, &["update-index", "-q", "--refresh"])
    }
}

fn holds(export: &Path, files: u32) -> Result<(), String> {
    let there = fs::read_dir(export).map_err(|error| about("list", export, &error))?;
    match u32::try_from(there.count()) {
        Ok(count) if count == files => Ok(()),
        count => Err(format!(
            "the server has {} files, and not {files}",
            count.unwrap_or(u32::MAX)
        )),
    }
}

/// A repository without a work tree.
fn clone(repository: &Path, at: &Path) -> Result<(), String> {
    let mut clone = Command::new("git");
    clone.args(["clone", "--quiet", "--no-checkout", "--no-hardlinks"]);
    succeed(clone.arg(repository).arg(at))
}

fn git(at: &Path, words: &[&str]) -> Result<(), String> {
    succeed(Command::new("git").arg("-C").arg(at).args(words))
}

fn headers(at: &Path) -> Result<(), String> {
    let directory = at.join(HEADERS);
    fs::create_dir_all(&directory).map_err(|error| about("create", &directory, &error))?;
    let header = directory.join(HEADER);
    fs::write(&header, "/* Nothing. */\n").map_err(|error| about("write", &header, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_what_was_written_is_told() {
        let scratch = tempfile::tempdir().expect("a directory");
        let place = Place::at(scratch.path());
        let export = scratch.path().join("export");
        let work = Work::Untar(60);
        let inputs = work.inputs(&place).expect("an archive");
        inputs.reset(&export).expect("an empty directory");
        assert!(work.check(&inputs, &export).is_err());
        for line in work.steps(&place, &inputs, std::slice::from_ref(&export)) {
            succeed(Command::new(&line[0]).args(&line[1..]).current_dir(&export)).expect("untar");
        }
        assert_eq!(work.check(&inputs, &export), Ok(()));
        fs::write(export.join("part_000/src/file_00007.c"), "").expect("a change");
        assert!(work.check(&inputs, &export).is_err());
    }

    #[test]
    fn files_that_stay_or_are_missing_are_told() {
        let scratch = tempfile::tempdir().expect("a directory");
        assert_eq!(holds(scratch.path(), 0), Ok(()));
        assert!(holds(scratch.path(), 1).is_err());
    }
}
