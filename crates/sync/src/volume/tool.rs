//! The programs that do the work.

use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::process::{Command, Output, Stdio};

use super::VolumeError;

/// A program, by its name, and the Debian package that has it.
pub(super) struct Tool(&'static str, &'static str);

pub(super) const MKFS: Tool = Tool("mkfs.ext4", "e2fsprogs");
pub(super) const CHECK: Tool = Tool("e2fsck", "e2fsprogs");
pub(super) const TUNE: Tool = Tool("tune2fs", "e2fsprogs");
pub(super) const MOUNT: Tool = Tool("mount", "mount");
pub(super) const UNMOUNT: Tool = Tool("umount", "mount");
pub(super) const LOOP: Tool = Tool("losetup", "mount");

/// How much of what one says of its failure is told. e2fsck(8) may say thousands of lines.
const LINES_MAX: usize = 4;

/// Where they are; an ordinary user's search path may lack it.
const DIRECTORIES: &str = "/usr/sbin:/sbin";

impl Tool {
    /// Runs it, with `input` as its standard input. Its words are not translated.
    pub(super) fn run<A: AsRef<OsStr>>(
        &self,
        input: Option<&File>,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<Output, VolumeError> {
        let program = self.0;
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => VolumeError::NoProgram {
                program,
                package: self.1,
            },
            _ => VolumeError::Program {
                program,
                told: error.to_string(),
            },
        };
        let stdin = match input {
            Some(file) => file.try_clone().map_err(failed)?.into(),
            None => Stdio::null(),
        };
        let mut path = env::var_os("PATH").unwrap_or_default();
        path.push(":");
        path.push(DIRECTORIES);
        Command::new(program)
            .args(arguments)
            .env("PATH", path)
            .env("LC_ALL", "C")
            .stdin(stdin)
            .output()
            .map_err(failed)
    }

    /// The same, where it has to succeed. Returns what it wrote to standard output.
    pub(super) fn succeed<A: AsRef<OsStr>>(
        &self,
        input: Option<&File>,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<String, VolumeError> {
        let output = self.run(input, arguments)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(self.failed(&output))
    }

    /// What it said of its failure.
    pub(super) fn failed(&self, output: &Output) -> VolumeError {
        let told = String::from_utf8_lossy(&output.stderr);
        let told: Vec<_> = told
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .take(LINES_MAX)
            .collect();
        // util-linux begins with its own name.
        let told = told.join("; ");
        let own = format!("{}: ", self.0);
        VolumeError::Program {
            program: self.0,
            told: match told.strip_prefix(&own).unwrap_or(&told) {
                "" => output.status.to_string(),
                told => told.to_owned(),
            },
        }
    }
}
