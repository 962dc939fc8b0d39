//! The C project that the demonstration builds: a checksum tool with a generated table and tests.

use std::fs;
use std::io;
use std::path::Path;

/// A project carried in this binary.
pub struct Project {
    /// The name of its directory and of the program that it builds.
    pub name: &'static str,
    files: &'static [(&'static str, &'static str)],
}

macro_rules! project {
    ($name:literal: $($file:literal),+ $(,)?) => {
        Project {
            name: $name,
            files: &[$(($file, include_str!(concat!("../../demo/", $name, "/", $file)))),+],
        }
    };
}

/// See `demo/crc32sum` in this crate.
pub const PROJECT: Project = project!("crc32sum":
    "Makefile",
    "check.sh",
    "checklist.c",
    "checklist.h",
    "crc32.c",
    "crc32.h",
    "main.c",
    "mktable.c",
);

impl Project {
    /// Writes its files into the new directory `path`.
    pub fn unpack(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)?;
        self.files
            .iter()
            .try_for_each(|(name, text)| fs::write(path.join(name), text))
    }
}
