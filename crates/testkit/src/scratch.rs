//! A temporary directory with a home, a state directory and a tree to work on.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, FileType, Mode, Timestamps, mknodat, utimensat};
use rustix::time::Timespec;
use tempfile::TempDir;

use crate::User;

/// A temporary directory that is removed when the value is dropped.
///
/// It holds `work/` (the tree under test, the directory commands start in), `home/` (`HOME`) and
/// `state/` (`XDG_STATE_HOME`). Paths given to the builder methods are relative to `work/`; missing
/// parents are made. The methods return `&Self`, so that a tree reads as one chain.
pub struct Scratch {
    root: TempDir,
    owner: Option<(u32, u32)>,
}

impl Scratch {
    /// A tree owned by the user that runs the test.
    pub fn new() -> Self {
        Self::with_owner(None, &std::env::temp_dir())
    }

    /// The same below `directory`, which may be on a file system of the test's own.
    pub fn below(directory: &Path) -> Self {
        Self::with_owner(None, directory)
    }

    /// A tree owned by `user`, who can reach it whatever the permissions of the temporary
    /// directory's creator are.
    pub fn owned_by(user: &User) -> Self {
        Self::with_owner(Some((user.uid, user.gid)), &std::env::temp_dir())
    }

    fn with_owner(owner: Option<(u32, u32)>, directory: &Path) -> Self {
        let root = tempfile::Builder::new()
            .prefix("surmise-test-")
            .tempdir_in(directory)
            .expect("a temporary directory");
        let scratch = Self { root, owner };
        scratch.own(scratch.root());
        for part in ["work", "home", "state"] {
            let path = scratch.root().join(part);
            fs::create_dir(&path)
                .unwrap_or_else(|error| panic!("create {}: {error}", path.display()));
            scratch.own(&path);
        }
        scratch
    }

    /// The temporary directory itself.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// The tree under test.
    pub fn work(&self) -> PathBuf {
        self.root().join("work")
    }

    /// What commands see as `HOME`.
    pub fn home(&self) -> PathBuf {
        self.root().join("home")
    }

    /// What commands see as `XDG_STATE_HOME`.
    pub fn state(&self) -> PathBuf {
        self.root().join("state")
    }

    /// `path` below `work/`.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.work().join(path)
    }

    /// Makes a regular file, mode 0644.
    pub fn file(&self, path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> &Self {
        let path = self.place(path.as_ref());
        fs::write(&path, contents)
            .unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
        self.own(&path);
        set_mode(&path, 0o644);
        self
    }

    /// Makes an executable file, mode 0755.
    pub fn executable(&self, path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> &Self {
        self.file(&path, contents).mode(path, 0o755)
    }

    /// Makes a directory, mode 0755.
    pub fn directory(&self, path: impl AsRef<Path>) -> &Self {
        let path = self.place(path.as_ref());
        fs::create_dir_all(&path)
            .unwrap_or_else(|error| panic!("create {}: {error}", path.display()));
        self.own(&path);
        set_mode(&path, 0o755);
        self
    }

    /// Makes a symbolic link at `path` whose text is `target`.
    pub fn symlink(&self, target: impl AsRef<OsStr>, path: impl AsRef<Path>) -> &Self {
        let path = self.place(path.as_ref());
        symlink(target.as_ref(), &path)
            .unwrap_or_else(|error| panic!("link {}: {error}", path.display()));
        self.own(&path);
        self
    }

    /// Makes `path` a second name of the file at `existing`.
    pub fn hard_link(&self, existing: impl AsRef<Path>, path: impl AsRef<Path>) -> &Self {
        let path = self.place(path.as_ref());
        fs::hard_link(self.path(existing), &path)
            .unwrap_or_else(|error| panic!("link {}: {error}", path.display()));
        self
    }

    /// Makes a named pipe, mode 0644.
    pub fn fifo(&self, path: impl AsRef<Path>) -> &Self {
        let path = self.place(path.as_ref());
        mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o644), 0)
            .unwrap_or_else(|error| panic!("make pipe {}: {error}", path.display()));
        self.own(&path);
        self
    }

    /// Sets the permission bits of an existing file or directory.
    pub fn mode(&self, path: impl AsRef<Path>, mode: u32) -> &Self {
        set_mode(&self.path(path), mode);
        self
    }

    /// Sets the access and modification times of an existing entry to `age` before now, so that a later write
    /// cannot fall into the same clock tick.
    pub fn age(&self, path: impl AsRef<Path>, age: Duration) -> &Self {
        let path = self.path(path);
        let then = SystemTime::now() - age;
        let since_1970 = then
            .duration_since(SystemTime::UNIX_EPOCH)
            .expect("a time after 1970");
        let then = Timespec::try_from(since_1970).expect("a time that fits");
        let times = Timestamps {
            last_access: then,
            last_modification: then,
        };
        // By name: to open a pipe would wait for its writer.
        utimensat(CWD, &path, &times, AtFlags::SYMLINK_NOFOLLOW)
            .unwrap_or_else(|error| panic!("set times of {}: {error}", path.display()));
        self
    }

    fn place(&self, path: &Path) -> PathBuf {
        let full = self.path(path);
        let parent = path.parent().unwrap_or(Path::new(""));
        let mut made = self.work();
        for component in parent.components() {
            made.push(component);
            if !made.exists() {
                fs::create_dir(&made)
                    .unwrap_or_else(|error| panic!("create {}: {error}", made.display()));
                self.own(&made);
            }
        }
        full
    }

    fn own(&self, path: &Path) {
        if let Some((uid, gid)) = self.owner {
            lchown(path, Some(uid), Some(gid))
                .unwrap_or_else(|error| panic!("chown {}: {error}", path.display()));
        }
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode))
        .unwrap_or_else(|error| panic!("chmod {}: {error}", path.display()));
}
