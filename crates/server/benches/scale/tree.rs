//! An export of many files.

use std::fs;
use std::path::{Path, PathBuf};

/// How many bytes each file has.
pub const EACH: u64 = 100;

/// What clients make is in this directory.
pub const MADE: &str = "made";

/// How many files a directory has.
const WIDTH: usize = 1000;

pub struct Tree {
    root: tempfile::TempDir,
    files: usize,
}

impl Tree {
    pub fn new(files: usize) -> Self {
        let root = tempfile::tempdir().expect("a directory");
        let bytes = [b'x'; EACH as usize];
        for number in 0..files {
            let directory = root.path().join(Self::directory(number / WIDTH));
            if number % WIDTH == 0 {
                fs::create_dir(&directory).expect("mkdir");
            }
            fs::write(directory.join(format!("file{number}")), bytes).expect("write");
        }
        rustix::fs::sync();
        Self { root, files }
    }

    /// Where the files of this number are, below the root.
    pub fn directory(number: usize) -> PathBuf {
        format!("directory{number}").into()
    }

    pub fn path(&self) -> &Path {
        self.root.path()
    }

    pub fn files(&self) -> usize {
        self.files
    }

    pub fn remove_made(&self) {
        fs::remove_dir_all(self.path().join(MADE)).expect("remove it");
    }
}
