//! What commands work on. It is made once by this program, the same on every machine, but for what registries have at that time.

mod fetched;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::place::{Place, about, succeed};

/// Where a command starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Input {
    /// In an empty directory.
    Empty,
    /// In a fresh copy of a source package of the distribution.
    Package(&'static str),
    /// In a fresh copy of what was made.
    Copy(Made),
    /// In what was made: the command changes nothing, or what it changes is thrown away.
    There(Made),
}

/// What this program makes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Made {
    /// Source files, so many.
    Tree(u32),
    /// The same in a git repository, all committed.
    Repository(u32),
    /// The same in a git repository that has recorded nothing yet.
    Unrecorded(u32),
    /// An archive of the same, [`ARCHIVE`].
    Archive(u32),
    /// A file of so many megabytes (of 2^20) that do not repeat, [`DATA`].
    Data(u32),
    /// A Rust crate without dependencies.
    Crate,
    /// C files, so many, and a makefile for GNU make that compiles each of them.
    Sources(u32),
    /// What pip can install.
    Wheels,
    /// What npm can install, with all that it needs.
    Project,
}

/// The name of an archive in its directory.
pub const ARCHIVE: &str = "files.tar";

/// The name of a file of data in its directory.
pub const DATA: &str = "data";

pub use fetched::NPM_INSTALL;

/// How many files a directory of a tree holds.
const FILES_A_DIRECTORY: u32 = 50;

/// How many lines a file of a tree has: about 3 KB.
const LINES_A_FILE: u32 = 80;

/// How many modules the crate has, and how many functions each of them.
const MODULES: u32 = 10;
const FUNCTIONS_A_MODULE: u32 = 15;

impl Input {
    /// Sees to it that all is there, and returns the directory to start in.
    pub fn directory(self, place: &Place) -> Result<PathBuf, String> {
        let source = match self {
            Self::There(made) => return made.path(place),
            Self::Empty => None,
            Self::Package(package) => Some(place.source(package)?),
            Self::Copy(made) => Some(made.path(place)?),
        };
        place.reset(source.as_deref())?;
        Ok(place.work())
    }

    /// The program that it is made with, where one is needed that not every machine has.
    pub fn maker(self) -> Option<&'static str> {
        match self {
            Self::There(made) | Self::Copy(made) => made.maker(),
            Self::Empty | Self::Package(_) => None,
        }
    }
}

impl Made {
    fn maker(self) -> Option<&'static str> {
        match self {
            Self::Repository(_) | Self::Unrecorded(_) => Some("git"),
            Self::Sources(_) => Some("cc"),
            Self::Project => Some("npm"),
            Self::Tree(_) | Self::Archive(_) | Self::Data(_) | Self::Crate | Self::Wheels => None,
        }
    }

    /// Where it is; made now if it is not there.
    pub fn path(self, place: &Place) -> Result<PathBuf, String> {
        match self {
            Self::Tree(files) => place.made(&format!("tree-{files}"), |at| tree(at, files)),
            Self::Repository(files) => {
                place.made(&format!("repository-{files}"), |at| repository(at, files))
            }
            Self::Unrecorded(files) => {
                place.made(&format!("unrecorded-{files}"), |at| unrecorded(at, files))
            }
            Self::Archive(files) => {
                let tree = Self::Tree(files).path(place)?;
                place.made(&format!("archive-{files}"), |at| archive(at, &tree))
            }
            Self::Data(megabytes) => {
                place.made(&format!("data-{megabytes}"), |at| data(at, megabytes))
            }
            Self::Crate => place.made("crate", a_crate),
            Self::Sources(files) => {
                place.made(&format!("sources-{files}"), |at| sources(at, files))
            }
            Self::Wheels => place.made("wheels", fetched::wheels),
            Self::Project => place.made("project", fetched::project),
        }
    }
}

fn tree(at: &Path, files: u32) -> Result<(), String> {
    for number in 0..files {
        let directory = at.join(format!("part_{:03}/src", number / FILES_A_DIRECTORY));
        if number % FILES_A_DIRECTORY == 0 {
            fs::create_dir_all(&directory).map_err(|error| about("create", &directory, &error))?;
        }
        let mut text = format!("/* File {number} of {files}. */\n");
        for line in 0..LINES_A_FILE {
            let _ = writeln!(
                text,
                "static int value_{number}_{line} = {};",
                number ^ line
            );
        }
        write_old(&directory.join(format!("file_{number:05}.c")), &text)?;
    }
    Ok(())
}

/// Long ago, so that nobody who compares times has to doubt that the file was changed since.
fn write_old(path: &Path, text: &str) -> Result<(), String> {
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000);
    let written = File::create(path).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.set_modified(long_ago)
    });
    written.map_err(|error| about("write", path, &error))
}

fn repository(at: &Path, files: u32) -> Result<(), String> {
    unrecorded(at, files)?;
    git(at, &["add", "."])?;
    git(at, &["commit", "--quiet", "--message=All files"])
}

fn unrecorded(at: &Path, files: u32) -> Result<(), String> {
    tree(at, files)?;
    git(at, &["init", "--quiet", "--initial-branch=main"])?;
    for (name, value) in [
        ("user.name", "bench"),
        ("user.email", "bench@localhost"),
        // Not in the background, where it would go on while something is measured.
        ("gc.auto", "0"),
        ("maintenance.auto", "false"),
    ] {
        git(at, &["config", name, value])?;
    }
    Ok(())
}

fn git(at: &Path, words: &[&str]) -> Result<(), String> {
    let mut command = Command::new("git");
    command
        .arg("-C")
        .arg(at)
        .args(words)
        .env("GIT_AUTHOR_DATE", "2020-09-13T12:26:40Z")
        .env("GIT_COMMITTER_DATE", "2020-09-13T12:26:40Z");
    succeed(&mut command)
}

fn archive(at: &Path, tree: &Path) -> Result<(), String> {
    fs::create_dir_all(at).map_err(|error| about("create", at, &error))?;
    let mut tar = Command::new("tar");
    tar.args(["--create", "--sort=name", "--numeric-owner", "--file"]);
    succeed(
        tar.arg(at.join(ARCHIVE))
            .arg("--directory")
            .arg(tree)
            .arg("."),
    )
}

fn data(at: &Path, megabytes: u32) -> Result<(), String> {
    fs::create_dir_all(at).map_err(|error| about("create", at, &error))?;
    let path = at.join(DATA);
    let write = || {
        let file = File::create(&path)?;
        let mut out = BufWriter::with_capacity(1 << 20, &file);
        // A xorshift generator: quick, and nothing that could be compressed or shared.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..u64::from(megabytes) << 17 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            out.write_all(&state.to_le_bytes())?;
        }
        out.flush()?;
        // Only what is on disk can be dropped from memory.
        file.sync_all()
    };
    write().map_err(|error: std::io::Error| about("write", &path, &error))
}

fn sources(at: &Path, files: u32) -> Result<(), String> {
    fs::create_dir_all(at).map_err(|error| about("create", at, &error))?;
    for number in 0..files {
        let text = format!(
            "#include <stdio.h>\n\nint print_{number}(const char *text) {{\n    return printf(\"%s {number}\\n\", text);\n}}\n"
        );
        write_old(&at.join(format!("part_{number:04}.c")), &text)?;
    }
    let makefile = "all: $(patsubst %.c,%.o,$(wildcard *.c))\n";
    write_old(&at.join("Makefile"), makefile)
}

fn a_crate(at: &Path) -> Result<(), String> {
    let source = at.join("src");
    fs::create_dir_all(&source).map_err(|error| about("create", &source, &error))?;
    let manifest =
        "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[workspace]\n";
    write_old(&at.join("Cargo.toml"), manifest)?;
    let mut main = String::new();
    let mut calls = String::new();
    for module in 0..MODULES {
        let _ = writeln!(main, "mod part_{module:02};");
        let _ = writeln!(calls, "    total += part_{module:02}::all(total);");
        write_old(
            &source.join(format!("part_{module:02}.rs")),
            &module_text(module),
        )?;
    }
    let _ = write!(
        main,
        "\nfn main() {{\n    let mut total = 0_u64;\n{calls}    println!(\"{{total}}\");\n}}\n"
    );
    write_old(&source.join("main.rs"), &main)
}

fn module_text(module: u32) -> String {
    let mut text = "use std::collections::BTreeMap;\n\n".to_owned();
    let mut calls = String::new();
    for function in 0..FUNCTIONS_A_MODULE {
        let factor = module * FUNCTIONS_A_MODULE + function + 1;
        let _ = write!(
            text,
            "fn count_{function}(seed: u64) -> u64 {{\n    \
             let mut seen = BTreeMap::new();\n    \
             for step in 0..{factor} {{\n        \
             *seen.entry(seed.wrapping_mul({factor}) % (step + 1)).or_insert(0_u64) += step;\n    \
             }}\n    \
             seen.into_iter().map(|(key, value)| key ^ value).sum()\n}}\n\n"
        );
        let _ = writeln!(calls, "    total ^= count_{function}(total);");
    }
    let _ = write!(
        text,
        "pub fn all(seed: u64) -> u64 {{\n    let mut total = seed;\n{calls}    total\n}}\n"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_made_once_and_always_the_same() {
        let text = |made: Made, file: &str| {
            let scratch = tempfile::tempdir().expect("a directory");
            let place = Place::at(scratch.path());
            let path = made.path(&place).expect("make it");
            let file = path.join(file);
            let first = fs::read(&file).expect("a file");
            fs::write(&file, "changed").expect("change it");
            assert_eq!(made.path(&place), Ok(path));
            assert_eq!(fs::read(&file).expect("the file"), b"changed");
            first
        };
        for (made, file) in [
            (Made::Tree(60), "part_001/src/file_00051.c"),
            (Made::Data(1), DATA),
            (Made::Crate, "src/part_07.rs"),
        ] {
            let first = text(made, file);
            assert!(first.len() > 1000, "{made:?}");
            assert!(first == text(made, file), "{made:?}");
        }
    }

    #[test]
    fn a_command_that_changes_its_input_gets_a_copy() {
        let scratch = tempfile::tempdir().expect("a directory");
        let place = Place::at(scratch.path());
        let made = Made::Tree(1);
        for input in [Input::Empty, Input::Copy(made)] {
            let directory = input.directory(&place).expect("a directory");
            assert_eq!(directory, place.work());
            assert_eq!(directory.join("part_000").exists(), input != Input::Empty);
        }
        let there = Input::There(made).directory(&place);
        assert_eq!(there, made.path(&place));
    }
}
