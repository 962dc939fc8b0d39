//! A client's program that makes random changes, and what of them has to outlive a loss of power.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, Timespec, Timestamps, UTIME_OMIT, XattrFlags,
};
use rustix::io::Errno;
use surmise_testkit::{Entry, Facets, Kind, TreeSnapshot, differences};

/// All that the server keeps. It tells neither inode numbers nor times of change that outlive it.
const KEPT: Facets = Facets {
    ctime: false,
    inode: false,
    ..Facets::EXACT
};

const PAGE: usize = 4096;

/// How deep directories are nested at most.
const DEPTH: usize = 3;

/// Works in a directory of its own, in one mount.
pub(super) struct Worker {
    /// Its directory, in the root of the export.
    pub(super) name: &'static str,
    /// The same directory in the mount.
    root: PathBuf,
    pub(super) random: fastrand::Rng,
    /// A file that may have lost its names meanwhile.
    held: Option<File>,
    /// What the directory held before any change, and after each.
    history: Vec<TreeSnapshot>,
    promises: Vec<Promise>,
}

/// From some moment on, the first changes are durable.
struct Promise {
    /// How many flushes of the disk had returned by then.
    flushes: usize,
    changes: usize,
}

impl Worker {
    pub(super) fn new(name: &'static str, mount: &Path, seed: u64) -> Self {
        let root = mount.join(name);
        Self {
            name,
            history: vec![TreeSnapshot::of(&root)],
            root,
            random: fastrand::Rng::with_seed(seed),
            held: None,
            promises: Vec::new(),
        }
    }

    pub(super) fn changes(&self) -> usize {
        self.history.len() - 1
    }

    pub(super) fn promises(&self) -> usize {
        self.promises.len()
    }

    /// Closes what it has open.
    pub(super) fn let_go(&mut self) {
        self.held = None;
    }

    fn now(&self) -> &TreeSnapshot {
        self.history.last().expect("it begins with one")
    }

    /// Changes something with one call, and looks what came of it.
    pub(super) fn change(&mut self) {
        let paths = match self.random.u8(0..20) {
            0..=3 => self.create(),
            4..=6 => self.give_a_name(),
            7..=8 => self.remove(),
            9..=11 => self.rename(),
            _ => self.change_a_file(),
        };
        let mut now = self.now().clone();
        now.look_again(&self.root, &paths);
        self.history.push(now);
    }

    /// Makes all changes durable.
    pub(super) fn sync(&mut self, flushes: impl FnOnce() -> usize) {
        let entries = self.now().entries().iter();
        let open = entries.filter(|(_, entry)| !matches!(entry.kind, Kind::Symlink(_)));
        let open: Vec<_> = open.map(|(path, _)| path.clone()).collect();
        let path = self.random.choice(open).expect("the directory itself");
        let file = File::open(self.full(&path)).expect("open");
        file.sync_all().expect("sync");
        self.promise(flushes());
    }

    /// Another mount sees it all.
    pub(super) fn is_seen(&mut self, mount: &Path, flushes: impl FnOnce() -> usize) {
        let seen = TreeSnapshot::of(mount.join(self.name));
        let different = differences(self.now(), &seen, KEPT);
        assert!(different.is_empty(), "the other mount: {different:#?}");
        self.promise(flushes());
    }

    fn promise(&mut self, flushes: usize) {
        self.promises.push(Promise {
            flushes,
            changes: self.changes(),
        });
    }

    /// Whether what is there, after a loss of power when so many flushes had returned, is all that was done up to a
    /// moment, and to none before the last promise.
    pub(super) fn check(&self, found: &TreeSnapshot, flushes: usize) -> Result<(), String> {
        let promised = self.promises.iter().rev();
        let promised = promised
            .filter(|promise| promise.flushes <= flushes)
            .map(|promise| promise.changes)
            .next()
            .unwrap_or(0);
        let different = |changes: &usize| differences(&self.history[*changes], found, KEPT);
        let is_as_after = |changes: &usize| different(changes).is_empty();
        if (promised..self.history.len()).any(|changes| is_as_after(&changes)) {
            return Ok(());
        }
        Err(match (0..promised).rfind(is_as_after) {
            Some(there) => format!(
                "{}: {promised} changes were promised, and {there} are there",
                self.name
            ),
            None => {
                let all = 0..self.history.len();
                let nearest = all.min_by_key(|changes| different(changes).len());
                let nearest = nearest.expect("it begins with one");
                format!(
                    "{}: {promised} changes were promised, and nearest is what {nearest} left, but for\n  {}",
                    self.name,
                    different(&nearest).join("\n  ")
                )
            }
        })
    }

    fn full(&self, path: &Path) -> PathBuf {
        // A slash at the end would mean what a link leads to.
        match path.as_os_str().is_empty() {
            true => self.root.clone(),
            false => self.root.join(path),
        }
    }

    /// Where something is, or may come to be.
    fn some_path(&mut self) -> PathBuf {
        let is_parent = |(path, entry): &(&PathBuf, &Entry)| {
            entry.kind == Kind::Directory && path.components().count() < DEPTH
        };
        let parents = self.now().entries().iter().filter(is_parent);
        let parents: Vec<_> = parents.map(|(path, _)| path.clone()).collect();
        let parent = self.random.choice(parents).expect("the directory itself");
        let name = [b'a' + self.random.u8(0..5)];
        parent.join(std::ffi::OsStr::from_bytes(&name))
    }

    /// Something that is there.
    fn some_entry(&mut self, is_wanted: impl Fn(&Entry) -> bool) -> Option<PathBuf> {
        let below = self.now().entries().iter().skip(1);
        let wanted = below.filter(|(_, entry)| is_wanted(entry));
        let wanted: Vec<_> = wanted.map(|(path, _)| path.clone()).collect();
        self.random.choice(wanted)
    }

    fn some_mode(&mut self) -> Mode {
        Mode::from_raw_mode(self.random.u32(0..0o10000) | 0o700)
    }

    fn create(&mut self) -> Vec<PathBuf> {
        let path = self.some_path();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = self.some_mode();
        if let Some(made) = tried(rustix::fs::open(self.full(&path), flags, mode))
            && self.random.bool()
        {
            self.held = Some(made.into());
        }
        vec![path]
    }

    fn give_a_name(&mut self) -> Vec<PathBuf> {
        let path = self.some_path();
        let full = self.full(&path);
        let mode = self.some_mode();
        match self.some_entry(is_file) {
            Some(file) if self.random.u8(0..3) == 0 => {
                let file = self.full(&file);
                tried(rustix::fs::linkat(CWD, file, CWD, full, AtFlags::empty()));
            }
            _ if self.random.bool() => {
                tried(rustix::fs::symlink("../elsewhere", full));
            }
            _ => {
                tried(rustix::fs::mkdir(full, mode));
            }
        }
        vec![path]
    }

    fn remove(&mut self) -> Vec<PathBuf> {
        let Some(path) = self.some_entry(|_| true) else {
            return Vec::new();
        };
        let flags = match self.now().entry(&path).kind {
            Kind::Directory => AtFlags::REMOVEDIR,
            _ => AtFlags::empty(),
        };
        tried(rustix::fs::unlinkat(CWD, self.full(&path), flags));
        vec![path]
    }

    fn rename(&mut self) -> Vec<PathBuf> {
        let from = self.some_entry(|_| true);
        let (Some(from), to) = (from, self.some_path()) else {
            return Vec::new();
        };
        let flags = match self.random.u8(0..3) {
            0 => RenameFlags::EXCHANGE,
            _ => RenameFlags::empty(),
        };
        let (old, new) = (self.full(&from), self.full(&to));
        tried(rustix::fs::renameat_with(CWD, old, CWD, new, flags));
        vec![from, to]
    }

    fn change_a_file(&mut self) -> Vec<PathBuf> {
        if self.random.u8(0..6) == 0
            && let Some(held) = self.held.take()
        {
            let found = held.metadata().expect("it is open");
            self.write(&held, found.size());
            self.held = Some(held);
            let entries = self.now().entries().iter();
            let names = entries.filter(|(_, entry)| entry.inode == found.ino());
            return names.map(|(path, _)| path.clone()).collect();
        }
        if self.random.u8(0..3) == 0 {
            return self.change_attributes();
        }
        let Some(path) = self.some_entry(is_file) else {
            return self.create();
        };
        let is_appended = self.random.bool();
        let append = match is_appended {
            true => OFlags::APPEND,
            false => OFlags::empty(),
        };
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | append;
        let open = rustix::fs::open(self.full(&path), flags, Mode::empty());
        let open = File::from(open.expect("open a file"));
        let size = open.metadata().expect("it is open").size();
        match self.random.u8(0..5) {
            0 => {
                let size = self.random.u64(0..2 * size.max(10));
                open.set_len(size).expect("resize");
            }
            _ => self.write(&open, size),
        }
        vec![path]
    }

    /// Writes what was never written before, within one page: of a longer write the kernel may send a part first.
    fn write(&mut self, file: &File, size: u64) {
        let offset = self.random.u64(0..size + 100);
        let most = PAGE - offset as usize % PAGE;
        let length = match self.random.u8(0..3) {
            0 => self.random.usize(1..PAGE),
            _ => self.random.usize(1..100),
        };
        let length = length.min(most);
        let data: Vec<_> = std::iter::repeat_with(|| self.random.u8(..))
            .take(length)
            .collect();
        file.write_all_at(&data, offset).expect("write");
    }

    fn change_attributes(&mut self) -> Vec<PathBuf> {
        let Some(path) = self.some_entry(|entry| !matches!(entry.kind, Kind::Symlink(_))) else {
            return Vec::new();
        };
        let (full, mode) = (self.full(&path), self.some_mode());
        match self.random.u8(0..4) {
            0 => tried(rustix::fs::chmod(full, mode)),
            1 => {
                let times = Timestamps {
                    last_access: Timespec {
                        tv_sec: 0,
                        tv_nsec: UTIME_OMIT,
                    },
                    last_modification: Timespec {
                        tv_sec: self.random.i64(0..1 << 31),
                        tv_nsec: self.random.i64(0..1_000_000_000) as _,
                    },
                };
                tried(rustix::fs::utimensat(CWD, full, &times, AtFlags::empty()))
            }
            2 => tried(rustix::fs::removexattr(full, "user.x")),
            _ => {
                let value = self.random.u64(..).to_le_bytes();
                tried(rustix::fs::setxattr(
                    full,
                    "user.x",
                    &value,
                    XattrFlags::empty(),
                ))
            }
        };
        vec![path]
    }
}

fn is_file(entry: &Entry) -> bool {
    matches!(entry.kind, Kind::File { .. })
}

/// What came of a call that is allowed to be impossible.
fn tried<T>(outcome: Result<T, Errno>) -> Option<T> {
    match outcome {
        Ok(done) => Some(done),
        Err(
            Errno::EXIST
            | Errno::NOENT
            | Errno::NOTDIR
            | Errno::ISDIR
            | Errno::NOTEMPTY
            | Errno::INVAL
            | Errno::NODATA,
        ) => None,
        Err(errno) => panic!("a change: {errno}"),
    }
}
