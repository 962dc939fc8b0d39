//! Everything a test can see of a tree, captured at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::hash::{DefaultHasher, Hasher};
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// A tree captured at one moment: every entry below a directory, that directory included (as the
/// empty path). Symbolic links are not followed. Access times are left out, since reading the tree
/// changes them.
#[derive(Clone, Debug)]
pub struct TreeSnapshot {
    entries: BTreeMap<PathBuf, Entry>,
}

/// One entry of a [`TreeSnapshot`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What the entry is, with what it holds.
    pub kind: Kind,
    /// Permission bits, with set-uid, set-gid and sticky.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Modification time in nanoseconds since 1970.
    pub mtime_ns: i128,
    /// Change time in nanoseconds since 1970.
    pub ctime_ns: i128,
    /// The device that the inode is on.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Link count.
    pub links: u64,
    /// The first path, in order, that names the same inode: equal for all names of a hard link.
    pub first_name: PathBuf,
    /// Extended attributes that this user may read.
    pub xattrs: BTreeMap<OsString, Vec<u8>>,
}

/// The type of an entry, with what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file: its size in bytes and a hash of its contents, 0 where it may not be read.
    File {
        /// Bytes.
        size: u64,
        /// A 64-bit hash of the contents.
        hash: u64,
    },
    /// A directory.
    Directory,
    /// A symbolic link and its text.
    Symlink(PathBuf),
    /// A named pipe.
    Fifo,
    /// A bound socket.
    Socket,
    /// A character or block device, by its number.
    Device(u64),
}

impl TreeSnapshot {
    /// Captures the tree at `root`.
    pub fn of(root: impl AsRef<Path>) -> Self {
        let mut walk = Walk {
            root: root.as_ref(),
            entries: BTreeMap::new(),
        };
        walk.visit(Path::new(""));
        let mut entries = walk.entries;
        name_links(&mut entries);
        Self { entries }
    }

    /// Looks again at these paths below `root` and at all below them, at the directories that they
    /// are in, and at the other names of what they lead to and led to: at all that a call on these
    /// paths can change.
    pub fn look_again(&mut self, root: impl AsRef<Path>, paths: &[PathBuf]) {
        let mut inodes = BTreeSet::new();
        let mut walk = Walk {
            root: root.as_ref(),
            entries: std::mem::take(&mut self.entries),
        };
        for path in paths {
            inodes.extend(walk.entries.get(path).map(Entry::identity));
            walk.entries.retain(|known, _| !known.starts_with(path));
        }
        for path in paths {
            if fs::symlink_metadata(walk.full(path)).is_ok() {
                walk.visit(path);
                inodes.insert(walk.entries[path].identity());
            }
        }
        let others = walk.entries.iter();
        let others = others.filter(|(_, entry)| inodes.contains(&entry.identity()));
        let others: BTreeSet<_> = others.map(|(path, _)| path.clone()).collect();
        let parents = paths
            .iter()
            .filter_map(|path| Some(path.parent()?.to_owned()));
        for path in others.into_iter().chain(parents) {
            walk.look(&path);
        }
        self.entries = walk.entries;
        name_links(&mut self.entries);
    }

    /// The entries in order of their paths, relative to the root.
    pub fn entries(&self) -> &BTreeMap<PathBuf, Entry> {
        &self.entries
    }

    /// The entry at `path`, relative to the root; panics where there is none.
    pub fn entry(&self, path: impl AsRef<Path>) -> &Entry {
        let path = path.as_ref();
        self.entries
            .get(path)
            .unwrap_or_else(|| panic!("the tree has no entry {}", path.display()))
    }
}

impl Entry {
    fn identity(&self) -> (u64, u64) {
        (self.device, self.inode)
    }
}

struct Walk<'a> {
    root: &'a Path,
    entries: BTreeMap<PathBuf, Entry>,
}

impl Walk<'_> {
    fn full(&self, path: &Path) -> PathBuf {
        // `join("")` would add a slash, through which a link at the root would be followed.
        if path.as_os_str().is_empty() {
            self.root.to_owned()
        } else {
            self.root.join(path)
        }
    }

    /// Looks at one path; whether it leads to a directory.
    fn look(&mut self, path: &Path) -> bool {
        let full = self.full(path);
        let metadata = fs::symlink_metadata(&full)
            .unwrap_or_else(|error| panic!("look at {}: {error}", full.display()));
        self.entries
            .insert(path.to_owned(), entry(&full, &metadata));
        metadata.is_dir()
    }

    fn visit(&mut self, path: &Path) {
        if !self.look(path) {
            return;
        }
        let full = self.full(path);
        let list = match fs::read_dir(&full) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return,
            list => list.unwrap_or_else(|error| panic!("list {}: {error}", full.display())),
        };
        for child in list {
            let child = child.unwrap_or_else(|error| panic!("list {}: {error}", full.display()));
            self.visit(&path.join(child.file_name()));
        }
    }
}

fn entry(path: &Path, metadata: &Metadata) -> Entry {
    let nanoseconds =
        |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
    Entry {
        kind: kind(path, metadata),
        mode: metadata.mode() & 0o7777,
        uid: metadata.uid(),
        gid: metadata.gid(),
        mtime_ns: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
        ctime_ns: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
        device: metadata.dev(),
        inode: metadata.ino(),
        links: metadata.nlink(),
        first_name: PathBuf::new(),
        xattrs: xattrs(path),
    }
}

fn kind(path: &Path, metadata: &Metadata) -> Kind {
    let kind = metadata.file_type();
    if kind.is_file() {
        Kind::File {
            size: metadata.len(),
            hash: hash(path),
        }
    } else if kind.is_dir() {
        Kind::Directory
    } else if kind.is_symlink() {
        let target = fs::read_link(path)
            .unwrap_or_else(|error| panic!("read link {}: {error}", path.display()));
        Kind::Symlink(target)
    } else if kind.is_fifo() {
        Kind::Fifo
    } else if kind.is_socket() {
        Kind::Socket
    } else {
        Kind::Device(metadata.rdev())
    }
}

fn hash(path: &Path) -> u64 {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return 0,
        file => file.unwrap_or_else(|error| panic!("open {}: {error}", path.display())),
    };
    let mut hasher = DefaultHasher::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return hasher.finish(),
            Ok(length) => hasher.write(&buffer[..length]),
            Err(error) => panic!("read {}: {error}", path.display()),
        }
    }
}

fn xattrs(path: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let mut names = vec![0; 1 << 16];
    let length = match rustix::fs::llistxattr(path, &mut names) {
        Err(Errno::OPNOTSUPP | Errno::ACCESS) => return BTreeMap::new(),
        length => {
            length.unwrap_or_else(|error| panic!("attributes of {}: {error}", path.display()))
        }
    };
    names[..length]
        .split(|&byte| byte == 0)
        .filter(|name| !name.is_empty())
        .filter_map(|name| {
            let name = OsStr::from_bytes(name);
            let mut value = vec![0; 1 << 16];
            let length = rustix::fs::lgetxattr(path, name, &mut value).ok()?;
            value.truncate(length);
            Some((name.to_owned(), value))
        })
        .collect()
}

/// Gives every entry the first path that names its inode.
fn name_links(entries: &mut BTreeMap<PathBuf, Entry>) {
    let mut first_names = BTreeMap::new();
    for (path, entry) in entries {
        let first = first_names
            .entry(entry.identity())
            .or_insert_with(|| path.clone());
        entry.first_name.clone_from(first);
    }
}
