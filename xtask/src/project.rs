//! The project's text files, read once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::rust_text::{self, Line};

/// Every text file that git tracks or would track.
pub struct Project {
    /// In order of their paths.
    pub files: Vec<SourceFile>,
    /// Where this checkout lies; empty for one made up by a test.
    pub root: PathBuf,
}

/// One text file.
pub struct SourceFile {
    /// Relative to the project's root, with forward slashes.
    pub path: String,
    /// Its contents.
    pub text: String,
    /// The lines of Rust code, apart from comments and literals; empty for other files.
    pub rust: Vec<Line>,
}

impl Project {
    /// Reads the project that this program was built from.
    pub fn load() -> Result<Self, String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .ok_or("xtask lies in no directory")?;
        let output = Command::new("git")
            .args(["-c", "safe.directory=*", "ls-files", "-z"])
            .args(["--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .map_err(|error| format!("start git: {error}"))?;
        if !output.status.success() {
            let reason = String::from_utf8_lossy(&output.stderr);
            return Err(format!("git ls-files in {}: {reason}", root.display()));
        }
        let mut files: Vec<_> = String::from_utf8_lossy(&output.stdout)
            .split_terminator('\0')
            // A deleted file is still listed until the deletion is staged; pictures are no text.
            .filter_map(|path| {
                Some(SourceFile::new(
                    path,
                    fs::read_to_string(root.join(path)).ok()?,
                ))
            })
            .collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files.dedup_by(|a, b| a.path == b.path);
        Ok(Self {
            files,
            root: root.to_owned(),
        })
    }

    /// A project made up of these files, for tests of rules.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let files = files
            .iter()
            .map(|(path, text)| SourceFile::new(path, (*text).to_owned()))
            .collect();
        Self {
            files,
            root: PathBuf::new(),
        }
    }

    /// The file at `path`.
    pub fn file(&self, path: &str) -> Option<&SourceFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The Rust files.
    pub fn rust(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().filter(|file| file.is("rs"))
    }
}

impl SourceFile {
    fn new(path: &str, text: String) -> Self {
        let rust = if path.ends_with(".rs") {
            rust_text::lines(&text)
        } else {
            Vec::new()
        };
        Self {
            path: path.to_owned(),
            text,
            rust,
        }
    }

    /// Whether the file's extension is `extension`.
    pub fn is(&self, extension: &str) -> bool {
        Path::new(&self.path)
            .extension()
            .is_some_and(|own| own == extension)
    }

    /// The directory below `crates/` that the file lies in, or `xtask`.
    pub fn crate_directory(&self) -> Option<&str> {
        match self.path.split('/').collect::<Vec<_>>()[..] {
            ["crates", name, _, ..] => Some(name),
            ["xtask", ..] => Some("xtask"),
            _ => None,
        }
    }

    /// The lines with their numbers, from 1.
    pub fn numbered(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line))
    }

    /// The lines of Rust code with their numbers, from 1.
    pub fn numbered_rust(&self) -> impl Iterator<Item = (usize, &Line)> {
        self.rust
            .iter()
            .enumerate()
            .map(|(index, line)| (index + 1, line))
    }
}
