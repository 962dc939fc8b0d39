//! A directory tree as it is at one time, to be compared with another.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A tree: for each path in it, what is there.
pub struct Tree(BTreeMap<PathBuf, Entry>);

#[derive(PartialEq)]
struct Entry {
    content: Content,
    identity: Identity,
}

#[derive(PartialEq)]
struct Content {
    /// Type and permissions, as `st_mode`.
    mode: u32,
    /// A file's bytes, a link's target, nothing for others.
    bytes: Vec<u8>,
}

/// What tells a file from an equal one made later. Without the access time, which comparing sets.
#[derive(PartialEq)]
struct Identity {
    inode: u64,
    links: u64,
    owner: (u32, u32),
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    /// Seconds and nanoseconds. No program can set it, so no change of anything goes unseen.
    changed: (i64, i64),
}

impl Tree {
    /// The tree below and with `root`.
    pub fn of(root: &Path) -> io::Result<Self> {
        let mut tree = Self(BTreeMap::new());
        tree.add(root, PathBuf::from("."))?;
        Ok(tree)
    }

    fn add(&mut self, root: &Path, path: PathBuf) -> io::Result<()> {
        let found = root.join(&path);
        let metadata = fs::symlink_metadata(&found)?;
        if metadata.is_dir() {
            for child in fs::read_dir(&found)? {
                self.add(root, path.join(child?.file_name()))?;
            }
        }
        self.0.insert(path, Entry::read(&found, &metadata)?);
        Ok(())
    }

    /// How many files and directories it has.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// A path at which something, be it a timestamp, differs.
    pub fn differs_from<'a>(&'a self, other: &'a Self) -> Option<&'a Path> {
        self.differs(other, |a, b| a == b)
    }

    /// A path at which contents or permissions differ.
    pub fn content_differs_from<'a>(&'a self, other: &'a Self) -> Option<&'a Path> {
        self.differs(other, |a, b| a.content == b.content)
    }

    fn differs<'a>(
        &'a self,
        other: &'a Self,
        same: impl Fn(&Entry, &Entry) -> bool,
    ) -> Option<&'a Path> {
        let changed = self
            .0
            .iter()
            .find(|(path, entry)| !other.0.get(*path).is_some_and(|found| same(entry, found)));
        let (path, _) =
            changed.or_else(|| other.0.iter().find(|(path, _)| !self.0.contains_key(*path)))?;
        Some(path)
    }
}

impl Entry {
    fn read(path: &Path, metadata: &Metadata) -> io::Result<Self> {
        let bytes = if metadata.is_file() {
            fs::read(path)?
        } else if metadata.is_symlink() {
            fs::read_link(path)?.into_os_string().into_vec()
        } else {
            Vec::new()
        };
        Ok(Self {
            content: Content {
                mode: metadata.mode(),
                bytes,
            },
            identity: Identity {
                inode: metadata.ino(),
                links: metadata.nlink(),
                owner: (metadata.uid(), metadata.gid()),
                modified: (metadata.mtime(), metadata.mtime_nsec()),
                changed: (metadata.ctime(), metadata.ctime_nsec()),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let scratch = tempfile::tempdir().unwrap();
        let (a, b) = (scratch.path().join("a"), scratch.path().join("b"));
        for root in [&a, &b] {
            fs::create_dir(root).unwrap();
            fs::write(root.join("file"), "text").unwrap();
        }
        (scratch, a, b)
    }

    #[test]
    fn an_untouched_tree_equals_itself_and_a_copy_only_by_content() {
        let (_scratch, a, b) = pair();
        let tree = Tree::of(&a).unwrap();
        assert_eq!(tree.differs_from(&Tree::of(&a).unwrap()), None);
        assert!(tree.differs_from(&Tree::of(&b).unwrap()).is_some());
        assert_eq!(tree.content_differs_from(&Tree::of(&b).unwrap()), None);
    }

    #[test]
    fn a_rewrite_of_the_same_bytes_is_seen() {
        let (_scratch, a, _) = pair();
        let before = Tree::of(&a).unwrap();
        fs::remove_file(a.join("file")).unwrap();
        fs::write(a.join("file"), "text").unwrap();
        let after = Tree::of(&a).unwrap();
        assert!(before.differs_from(&after).is_some());
        assert_eq!(before.content_differs_from(&after), None);
    }

    #[test]
    fn a_path_that_only_one_side_has_differs() {
        let (_scratch, a, b) = pair();
        fs::write(b.join("more"), "").unwrap();
        let (a, b) = (Tree::of(&a).unwrap(), Tree::of(&b).unwrap());
        assert_eq!(a.content_differs_from(&b), Some(Path::new("./more")));
        assert_eq!(b.content_differs_from(&a), Some(Path::new("./more")));
    }
}
